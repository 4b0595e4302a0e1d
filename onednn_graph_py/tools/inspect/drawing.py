"""The contents of a diagram in any form: ops, groups, terminals, edges."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ...model.building.value import row_major
from ...ops.terms import Shape, shape_text

Status = Literal["oneDNN", "unsupported", "host", "reference", "view", "constant"]
"""A group's implementation: oneDNN, none (no kernel), Python or NumPy; the others don't run."""

WORDS: Mapping[Status, tuple[str, str, str]] = {
    "oneDNN": ("", "", "oneDNN"),
    "unsupported": (": no kernel in oneDNN", "unsupported", "NO KERNEL"),
    "host": (": host, in Python", "Python", "Python"),
    "reference": (": reference, in NumPy", "NumPy", "NumPy"),
    "view": (": view, not run", "not run", "not run (view)"),
    "constant": (": computed once, when compiled", "once", "once (constant)"),
}
"""Words for each status: after a group's title, in an op's box, and in a table of steps."""


def layout_text(shape: Sequence[int], strides: Sequence[int]) -> str:
    """Return the strides, in elements, as text; empty if they are row-major.

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
    """A tensor at an edge."""

    dtype: str
    shape: Shape  # -1 for an unknown dim; None if the rank is unknown
    layout: str = ""  # empty for row-major

    def __str__(self) -> str:
        text = f"{self.dtype} {shape_text(self.shape)}"
        return f"{text} {self.layout}" if self.layout else text


@dataclass(frozen=True)
class OpNode:
    """One op, or several that are drawn as one."""

    key: str  # the node's name in edges
    members: tuple[int, ...]  # the ops that it stands for, by their number in the graph
    kinds: tuple[str, ...]  # the members' kinds, in order
    name: str  # that of the first member
    group: int | None  # index into `Drawing.groups`; None if it is in no partition
    # constants, constant_bytes: the number of constants that it reads, and their bytes
    constants: int = 0
    constant_bytes: int = 0
    last: str = ""  # the name of the last member, if there are several
    # the title of ops that may be in several groups: a scope of names, or a slice of a large graph
    scope: str = ""
    groups: int = 1  # the number of groups that these ops are in


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


# Diagrams set all fill and text colours, so that they are equally legible on dark and light pages;
# no information is shown by colour alone. This is Paul Tol's qualitative scheme "light" with 40 %
# white, so that grey lines are visible on it, in the order in which neighbours differ most for
# colour-blind readers.
FILLS = (
    "#ADCCEB", "#F5EBB8", "#8FD6C2", "#CCCC66", "#C2EBFF", "#F5B8A3", "#D6E085", "#FFCCD6",
)  # fmt: skip
_NOT_ONEDNN = "#DDDDDD"

TEXT = "#000000"
PAGE = "#FFFFFF"
NODE_FILL = "#FFFFFF"
TERMINAL_FILL = "#F2F2F2"
# A medium grey, for lines on a page of unknown colour.
EDGE = "#6A6A6A"


def fill_of(index: int, group: Group) -> str:
    """Return a group's fill colour: grey if oneDNN does not compute the group."""
    return FILLS[index % len(FILLS)] if group.status == "oneDNN" else _NOT_ONEDNN
