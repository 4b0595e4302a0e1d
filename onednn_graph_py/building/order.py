"""An order in which ops can run."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from typing import Any

__all__ = ["least_first", "run_order"]


def run_order(before: Sequence[Collection[int]]) -> list[int]:
    """Return indices in order, but each after those in its entry of `before`.

    Raises
    ------
    graphlib.CycleError
        The entries form a cycle.
    """
    TopologicalSorter(dict(enumerate(before))).prepare()
    placed: dict[int, None] = {}
    stack = list(reversed(range(len(before))))
    while stack:
        waiting = [i for i in before[stack[-1]] if i not in placed]
        if waiting:
            stack += reversed(waiting)
        else:
            placed[stack.pop()] = None
    return list(placed)


def least_first(before: Sequence[Collection[int]], keys: Sequence[Any]) -> list[int]:
    """Return `run_order` with ties broken by the smallest key, and without indices in cycles."""
    sorter = TopologicalSorter(dict(enumerate(before)))
    with suppress(CycleError):
        sorter.prepare()
    ready: list[tuple[Any, int]] = []
    order: list[int] = []
    while sorter.is_active():
        for i in sorter.get_ready():
            heapq.heappush(ready, (keys[i], i))
        order.append(heapq.heappop(ready)[1])
        sorter.done(order[-1])
    return order
