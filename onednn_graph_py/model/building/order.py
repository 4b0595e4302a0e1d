"""An order in which ops can run."""

import heapq
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from typing import Any


def run_order(before: Sequence[Collection[int]]) -> list[int]:
    """Return indices in order, but each after those in its entry of `before`; raise in a circle."""
    TopologicalSorter(dict(enumerate(before))).prepare()
    placed: dict[int, None] = {}
    stack = list(reversed(range(len(before))))
    while stack:
        top = stack.pop()
        if top in placed:
            continue
        waiting = [i for i in before[top] if i not in placed]
        if waiting:
            stack += (top, *reversed(waiting))
        else:
            placed[top] = None
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


def named_ring(error: CycleError, name: Callable[[int], str]) -> list[str]:
    """Name the indices of a cycle, each before one that it comes after, and the first once more."""
    ring = error.args[1][:0:-1]
    start = ring.index(min(ring))
    names = [name(i) for i in (*ring[start:], *ring[: start + 1])]
    if len(names) > 7:
        names[3:-3] = ["..."]
    return names
