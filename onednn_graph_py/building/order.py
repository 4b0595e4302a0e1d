"""An order in which ops can run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from graphlib import TopologicalSorter

__all__ = ["run_order"]


def run_order(before: Sequence[Collection[int]]) -> list[int]:
    """Indices into `before`, each after those that it holds for it, otherwise in order.

    Raises
    ------
    graphlib.CycleError
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
