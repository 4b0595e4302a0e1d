"""The contents of a diagram in any form: ops, groups, terminals, edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ...model.building.value import row_major
from ...ops.terms import Shape, shape_text

Status = Literal["oneDNN", "unsupported", "host", "reference", "view", "constant"]
"""A group's implementation: oneDNN, none (no kernel), Python or NumPy; the others don't run."""


def layout_text(shape: Sequence[int], strides: Sequence[int]) -> str:
    """Return the strides, in elements, as text; empty if they are row-major.

    Examples
    --------
    >>> layout_text((2, 3), (3, 1)), layout_text((2, 3), (1, 2))
    ('', 'strides 1x2')
    """
    if len(strides) != len(shape) or any(d < 0 for d in shape) or 0 in shape:
        return ""
    dense = row_major(shape)
    if all(n == 1 or s == d for n, s, d in zip(shape, strides, dense, strict=True)):
        return ""
    return "strides " + "x".join(map(str, strides))


@dataclass(frozen=True)
class Tensor:
    """A tensor at an edge.

    Parameters
    ----------
    dtype : str
    shape : tuple of int or None
        -1 for an unknown dim; None if the rank is unknown.
    layout : str
        Empty for row-major.
    """

    dtype: str
    shape: Shape
    layout: str = ""

    def __str__(self) -> str:
        text = f"{self.dtype} {shape_text(self.shape)}"
        return f"{text} {self.layout}" if self.layout else text


@dataclass(frozen=True)
class OpNode:
    """One op, or several that are drawn as one.

    Parameters
    ----------
    key : str
        The node's name in edges.
    members : tuple of int
        The ops that it stands for, by their number in the graph.
    kinds : tuple of str
        The members' kinds, in order.
    name, last : str
        The names of the first member and, if there are several, of the last one.
    group : int or None
        Index into `Drawing.groups`; None if it is in no partition.
    constants, constant_bytes : int
        The number of constants that it reads, and their bytes.
    scope : str
        The title of ops that may be in several groups: a scope of names, or a slice of a large
        graph; else empty.
    groups : int
        The number of groups that these ops are in.
    """

    key: str
    members: tuple[int, ...]
    kinds: tuple[str, ...]
    name: str
    group: int | None
    constants: int = 0
    constant_bytes: int = 0
    last: str = ""
    scope: str = ""
    groups: int = 1


@dataclass(frozen=True)
class Terminal:
    """A place where a tensor enters or leaves the graph."""

    key: str
    role: Literal["input", "output", "constant"]
    name: str
    tensor: Tensor


@dataclass(frozen=True)
class Group:
    """Ops that run together."""

    title: str
    status: Status


@dataclass(frozen=True)
class Edge:
    """The tensors that one node or terminal makes and another reads."""

    # source, target: their keys
    source: str
    target: str
    tensors: tuple[Tensor, ...]  # each tensor once
    links: int  # the number of ports of ops, and of outputs, that read them along this edge
    # whether the target is drawn before the source: a scope that is left and entered again
    back: bool = False


@dataclass(frozen=True)
class Drawing:
    """A graph, ready to be drawn."""

    title: str
    nodes: tuple[OpNode, ...]
    terminals: tuple[Terminal, ...]
    groups: tuple[Group, ...]  # in an order in which they can run
    edges: tuple[Edge, ...]
    notes: tuple[str, ...] = ()  # remarks for the reader

    def status_of(self, node: OpNode) -> Status | None:
        """Return the implementation that computes a node; None if unknown."""
        return None if node.group is None else self.groups[node.group].status
