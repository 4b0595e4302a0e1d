"""Regions of a graph that oneDNN takes, and islands between them that it does not.

A front end, of a framework or of a file format, meets ops that this package does not have. `split`
divides its graph into parts that run one after the other: regions, which become models, and
islands, which the front end runs itself. Every part costs a call, so there are as few as possible.

**Levels.** Islands have even levels and regions odd ones. A node gets the lowest level that is of
its kind and not below those of the nodes that it reads; the nodes of a level are a part. The levels
start from 0 or from 1, whichever gives fewer parts, and from 0 if both give as many.

- A node reads only from its own level and from lower ones. So the parts run in the order of their
  levels, and no value that leaves a part comes back to it: the parts are convex.
- No split has fewer parts, nor fewer regions: number the parts of another one from 0 on if it
  starts with an island, else from 1 on; no node has a number below its level from the same start.
- A part need not be connected. A model runs all its partitions in one call, so all that can run at
  the same time belongs into one model.

This is typed loop fusion with two types (Kennedy and McKinley, Rice University TR94-221, 1994).
Merging neighbours while no cycle appears, as frameworks do, may end with more parts.

**Moves to readers.** An op that reads only a weight has the first level, but oneDNN fuses it with
the op that reads its result. So each connected piece of a region moves to the level of its first
reader if that is in a region, too; the last levels are looked at first. All that a piece reads
comes from other parts before and after the move, so no part gets more inputs and outputs. No level
loses all its nodes, as that would be a split with fewer parts.

**Worth.** A connected piece that is not worth a region is let go: its nodes run on either side, so
that they never cause a part, and all levels are computed anew. They end in a region where one takes
them without a further part, else in an island. They are not taken back, even where levels meet so
that they are connected with more.

A pass through all this takes time that is almost linear in nodes and edges (it has a union-find
and a sort by level). Passes are repeated until nothing is let go: one to three as a rule, and never
more than `MOST_PASSES`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from graphlib import CycleError
from itertools import count, groupby
from reprlib import Repr
from typing import Generic, TypeVar

from ..base.errors import InvalidGraphError
from ..model.building.order import named_ring, run_order

__all__ = ["MOST_PASSES", "Part", "split"]

Node = TypeVar("Node", bound=Hashable)
Edges = Sequence[Sequence[int]]

MOST_PASSES = 16
"""The most passes of `split` over levels; then pieces that are too small stay in their regions.

Letting go of one piece can make others small, one after the other. Graphs that need more than 5
passes have to be made for it.
"""

_ISLAND, _REGION, _EITHER = 0, 1, 2
"""Where a node has to run; the first two are also the remainder of a level divided by 2."""


@dataclass(frozen=True)
class Part(Generic[Node]):
    """Nodes that run together.

    Parameters
    ----------
    nodes : tuple
        The nodes, each after those that it reads, otherwise in the order given to `split`.
    is_region : bool
        True for a region, whose nodes oneDNN takes; False for an island.
    """

    nodes: tuple[Node, ...]
    is_region: bool


def split(
    nodes: Iterable[Node],
    reads: Callable[[Node], Iterable[Node]],
    can: Callable[[Node], bool],
    worth: Callable[[tuple[Node, ...]], bool] | None = None,
    either: Callable[[Node], bool] = lambda node: False,
) -> list[Part[Node]]:
    """Split a graph into regions and islands, as few as possible.

    Parameters
    ----------
    nodes : iterable
        The graph's nodes, in any order; hashable and all different. Inputs and constants are none.
    reads : function of a node
        Returns the nodes whose results a node reads. For a node with side effects, return also the
        nodes that have to run before it.
    can : function of a node
        Tells whether oneDNN takes a node.
    worth : function of a tuple of nodes, optional
        Tells whether nodes, connected with each other, are worth a region by themselves; it should
        not become False as nodes are added. By default all are.
    either : function of a node, optional
        Tells whether a node that oneDNN takes runs as well in an island, so that it causes no part.

    Returns
    -------
    list of Part
        Every node is in one part, and every part reads only from itself and from those before it.
        Regions and islands alternate. Each region has a connected piece that is worth it, and
        possibly smaller ones, which cost no further part. Islands have all nodes that oneDNN does
        not take, and those that it takes but that were too small. No split has fewer parts or
        fewer regions, even where what was too small may run on either side.

        The result depends only on the graph and on the order of its nodes.

    Raises
    ------
    InvalidGraphError
        Nodes form a cycle, a node is given twice, or one reads a node that is not given.
    TypeError
        A node is not hashable.

    Examples
    --------
    >>> from onednn_graph_py.frontends import split
    >>> reads = {"linear": [], "relu": ["linear"], "sort": ["relu"], "scale": ["sort"]}
    >>> parts = split(reads, reads.__getitem__, can=lambda node: node != "sort")
    >>> [part.nodes for part in parts]
    [('linear', 'relu'), ('sort',), ('scale',)]

    A single op is not worth a region here:

    >>> split(reads, reads.__getitem__, lambda node: node != "sort", worth=lambda n: len(n) > 1)[1]
    Part(nodes=('sort', 'scale'), is_region=False)
    """
    ordered, before = _in_order(nodes, reads)
    after: list[list[int]] = [[] for _ in before]
    for i, needed in enumerate(before):
        for other in needed:
            after[other].append(i)
    side = [(_EITHER if either(n) else _REGION) if can(n) else _ISLAND for n in ordered]
    for passes in count(1):
        level = _levels(before, side)
        while _join_readers(level, before, after, side):
            pass
        small = [
            piece
            for piece in _pieces(level, before)
            if worth is not None
            and any(side[i] == _REGION for i in piece)
            and not worth(tuple(ordered[i] for i in piece))
        ]
        if not small or passes == MOST_PASSES:
            break
        for piece in small:
            for i in piece:
                side[i] = _EITHER
    by_level = sorted(range(len(level)), key=level.__getitem__)
    return [
        Part(tuple(ordered[i] for i in part), is_region=at % 2 == _REGION)
        for at, part in groupby(by_level, key=level.__getitem__)
    ]


_NAMES = Repr()
_NAMES.maxother = _NAMES.maxstring = 60


def _in_order(
    nodes: Iterable[Node], reads: Callable[[Node], Iterable[Node]]
) -> tuple[list[Node], list[list[int]]]:
    """Return nodes in an order in which they can run, and the places of those that each reads."""
    given: dict[Node, int] = {}
    for node in nodes:
        if node in given:
            raise InvalidGraphError(f"nodes must all be different, got {_NAMES.repr(node)} twice")
        given[node] = len(given)
    before = []
    for node in given:
        read = dict.fromkeys(reads(node))
        for other in read:
            if other not in given:
                raise InvalidGraphError(
                    f"reads({_NAMES.repr(node)}) must return only nodes of the graph, got "
                    f"{_NAMES.repr(other)}, which nodes does not have"
                )
        before.append([given[other] for other in read])
    named = list(given)
    try:
        order = run_order(before)
    except CycleError as e:
        ring = named_ring(e, lambda i: _NAMES.repr(named[i]))
        raise InvalidGraphError(
            "nodes form a cycle; each reads the next one's result: " + " -> ".join(ring)
        ) from None
    place = {i: at for at, i in enumerate(order)}
    return [named[i] for i in order], [[place[other] for other in before[i]] for i in order]


def _levels(before: Edges, side: Sequence[int]) -> list[int]:
    """Give each node its lowest level."""

    def from_lowest(lowest: int) -> list[int]:
        level: list[int] = []
        for needed, where in zip(before, side, strict=True):
            at = max((level[i] for i in needed), default=lowest)
            level.append(at + (where not in (_EITHER, at % 2)))
        return level

    zero, one = from_lowest(0), from_lowest(1)
    return one if max(one, default=0) - 1 < max(zero, default=0) else zero


def _pieces(level: Sequence[int], before: Edges) -> list[list[int]]:
    """Return the connected pieces of all regions, by union-find."""
    parent = list(range(len(level)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    pieces: dict[int, list[int]] = {}
    for i, needed in enumerate(before):
        for other in needed:
            if level[other] == level[i]:
                parent[root(other)] = root(i)
    for i, at in enumerate(level):
        if at % 2 == _REGION:
            pieces.setdefault(root(i), []).append(i)
    return list(pieces.values())


def _join_readers(level: list[int], before: Edges, after: Edges, side: Sequence[int]) -> bool:
    """Move pieces of regions, and nodes of islands that need not be there, to their first readers.

    They move only if that reader is in a region. Return whether any did: that may leave smaller
    pieces behind.
    """
    moved = False
    free = [i for i, where in enumerate(side) if where == _EITHER and level[i] % 2 == _ISLAND]
    movable = [*([i] for i in reversed(free)), *_pieces(level, before)]
    for piece in sorted(movable, key=lambda piece: level[piece[0]], reverse=True):
        at = level[piece[0]]
        # In a region, a piece's readers of the same level are its own nodes.
        readers = (level[r] for i in piece for r in after[i])
        first = min((to for to in readers if to > at or at % 2 == _ISLAND), default=at)
        if first % 2 == _REGION and first != at:
            moved = True
            for i in piece:
                level[i] = first
    return moved
