"""Writes ops in the place of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..building.builder import GraphBuilder
from ..building.value import Node, Value, new_id
from ..ops.check import check
from ..reference import round_to

__all__ = ["Ops"]

Dims = tuple[int, ...]


class Ops:
    """Ops in the place of a node, the last of which makes the node's outputs.

    Parameters
    ----------
    builder : GraphBuilder
    node : Node
    shapes : dict of int to tuple of int
        The shapes of the values, by id, to which those of new values are added.
    """

    def __init__(self, builder: GraphBuilder, node: Node, shapes: dict[int, Dims]) -> None:
        self.builder = builder
        self.node = node
        self.shapes = shapes
        self.nodes: list[Node] = []

    def value(self, shape: Dims, dtype: str) -> Value:
        """Make a value that no op makes yet."""
        made = Value(self.builder, shape, dtype, self.node.name)
        self.shapes[made.id] = shape
        return made

    def scalar(self, number: float, like: Value) -> Value:
        """Make a constant that broadcasts with any tensor of a rank."""
        made = self.value((1,) * len(self.shapes[like.id]), like.dtype)
        made.data = round_to(np.full(made.shape or (), number), like.dtype)
        return made

    def op(self, kind: str, *inputs: Value, **attrs: Any) -> Value:
        """Add an op with one output, of the first input's data type."""
        specs = [(self.shapes[v.id], v.dtype) for v in inputs]
        shape = check(kind, specs, attrs)[0].shape
        made = self.value(shape or (), inputs[-1].dtype)
        self.add(kind, inputs, (made,), attrs)
        return made

    def reshape(self, source: Value, shape: Dims) -> Value:
        """Reshape a value that has another shape."""
        if self.shapes[source.id] == shape:
            return source
        made = self.value(shape, source.dtype)
        self.add("StaticReshape", (source,), (made,), {"shape": shape, "special_zero": False})
        return made

    def add(
        self, kind: str, inputs: Sequence[Value], outputs: Sequence[Value], attrs: dict[str, Any]
    ) -> None:
        """Add an op that makes these values."""
        of = self.node
        made = Node(new_id(), kind, of.name, tuple(inputs), tuple(outputs), attrs, of.where)
        self.nodes.append(made)

    def end(self) -> list[Node]:
        """Let the last op make the node's output."""
        last = self.nodes[-1]
        self.nodes[-1] = replace(last, id=self.node.id, outputs=self.node.outputs)
        return self.nodes
