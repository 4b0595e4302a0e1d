"""A group of ops in another form: `Written`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..building.builder import GraphBuilder
from ..building.foreign import ViewNode
from ..building.indexing import items_of
from ..building.value import Node, Value, new_id
from .rule import Dims

__all__ = ["Written"]


@dataclass
class Written:
    """The ops of a group in another form, and the shapes of the values that they add."""

    builder: GraphBuilder
    nodes: list[Node] = field(default_factory=list)
    # The shapes of values that do not depend on those of the group, by id.
    fixed: dict[int, Dims] = field(default_factory=dict)
    # For each value that is another one as a batch of one matrix, that one's id.
    batches: dict[int, int] = field(default_factory=dict)

    def shapes(self, known: Mapping[int, Dims]) -> dict[int, Dims]:
        """Return the shapes of the values that were added, given those of the group's."""
        return {**self.fixed, **{new: (1, *known[old]) for new, old in self.batches.items()}}

    def add(
        self,
        of: Node,
        kind: str,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        attrs: Mapping[str, Any],
    ) -> None:
        """Add an op in the place of a node."""
        made = Node(new_id(), kind, of.name, tuple(inputs), tuple(outputs), dict(attrs), of.where)
        self.nodes.append(made)

    def view(self, of: Node, source: Value, result: Value, index: Any) -> None:
        """Add a view of a value, by an index."""
        attrs = {"index": items_of(index, len(source.shape or ()))}
        made = ViewNode(new_id(), "Slice", of.name, (source,), (result,), attrs, of.where)
        self.nodes.append(made)

    def value(self, dims: Dims, like: Value) -> Value:
        """Return a new value of known dims."""
        value = Value(self.builder, dims, like.dtype, like.name)
        self.fixed[value.id] = dims
        return value

    def batch(self, matrix: Value) -> Value:
        """Return a value for a batch that holds one matrix."""
        value = Value(self.builder, (1, *(matrix.shape or ())), matrix.dtype, matrix.name)
        self.batches[value.id] = matrix.id
        return value
