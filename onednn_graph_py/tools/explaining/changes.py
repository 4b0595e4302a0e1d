"""Changes around an op that may make it fuse: `Change`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from ...model.building.builder import GraphBuilder
from ...model.building.value import Node, Value
from ...model.rewriting.rebuild import Edit, rebuild
from ...ops.lookup import with_attribute


def called(node: Node) -> str:
    """Return an op's kind and name, such as ``MatMul 'fc'``, or the kind alone."""
    return f"{node.kind} {node.name!r}" if node.name else node.kind


@dataclass(frozen=True)
class Change:
    """One change of a graph, and its effect on fusion."""

    description: str  # an instruction, such as ``set auto_broadcast of Add 'sum' to none``
    edit: Edit = field(repr=False, compare=False)
    exact: bool = True  # whether the changed graph computes the same, except for rounding
    # the effect, such as ``fuses with ReLU 'act'`` or ``supported``; empty if it was not tried
    result: str = ""

    def apply(self, builder: GraphBuilder) -> GraphBuilder:
        """Make the change in a copy of the graph, the one that `reasons` got or an equal one."""
        return rebuild(builder, self.edit).builder


@dataclass(frozen=True)
class Around:
    """A node and its surroundings in the graph.

    `patterns` has the ops with which it fuses by the documents, by id, and the title of a pattern;
    `readers` the ops that read each value, by the value's id; `numbers` those that an `Edit` uses
    for values; `positions` those of ops among the builder's. `group` is what the library puts into
    one partition with it, and itself; for the ops of `unsupported` it has no kernel.
    """

    builder: GraphBuilder
    node: Node
    patterns: Mapping[int, tuple[Node, str]]
    readers: Mapping[int, list[Node]]
    numbers: Mapping[int, int]
    positions: Mapping[int, int]
    group: tuple[Node, ...]
    unsupported: frozenset[int] = frozenset()

    @property
    def position(self) -> int:
        """The op's position among the builder's."""
        return self.positions[self.node.id]

    @property
    def neighbours(self) -> tuple[Node, ...]:
        """The ops with which it could fuse by the documents."""
        return tuple(n for n, _ in self.patterns.values())

    @property
    def concerned(self) -> tuple[Node, ...]:
        """The op, then those of its group, then its neighbours."""
        every = {n.id: n for n in (self.node, *self.group, *self.neighbours)}
        return tuple(every.values())

    @property
    def quantizing(self) -> tuple[Node, ...]:
        """The Quantize and Dequantize ops among those concerned, and beside them."""
        nodes: dict[int, Node] = {}
        for node in self.concerned:
            beside = [v.producer for v in node.inputs]
            beside += [r for v in node.outputs for r in self.readers.get(v.id, [])]
            for n in (node, *beside):
                if n is not None and n.kind in with_attribute("zps"):
                    nodes[n.id] = n
        return tuple(nodes.values())

    def is_output(self, value: Value) -> bool:
        """Whether a call returns the value."""
        return any(v.id == value.id for v in self.builder.outputs.values())

    def written(self, node: Node, writer: object, *more: tuple[Node, object]) -> Edit:
        """Make an edit that replaces some ops, each by its writer."""
        nodes = {self.positions[n.id]: w for n, w in ((node, writer), *more)}
        kinds = {self.positions[n.id]: n.kind for n, _ in ((node, writer), *more)}
        return Edit(nodes=nodes, kinds=kinds)  # type: ignore[arg-type]

    def checked(self, edit: Edit) -> Edit:
        """Bind the edit to graphs that have an op of this kind at this position."""
        kinds = {self.position: self.node.kind, **edit.kinds}
        return replace(edit, kinds=kinds)


Family = Callable[[Around], Iterator[Change]]
"""A function that yields changes of one family, the likeliest first."""
