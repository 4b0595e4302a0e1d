"""The families of random graphs, by name."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from ..building.builder import GraphBuilder
from ..filling import fill_inputs
from ..linked import linked_version
from ..machine.cpu import lacks
from ..patterns import PATTERNS, Case, Pattern
from . import attention, chains, convolutions, graphs, pools, products, single_ops
from .draft import Arrays

__all__ = ["FAMILIES", "Draw", "Family", "shapes_of"]

Draw = Callable[[int], tuple[GraphBuilder, Arrays]]
"""A function that draws a graph, and arrays for its inputs, from a seed."""


@dataclass(frozen=True)
class Family:
    """Graphs of one kind.

    Parameters
    ----------
    name : str
    draw : callable
        A module's function, as other processes call it; a seed always gives the same graph.
    count : callable, optional
        Returns the number of different graphs; without it each seed gives another one.
    """

    name: str
    draw: Draw
    count: Callable[[], int] | None = None


@cache
def _gallery() -> tuple[tuple[Pattern, Case], ...]:
    """Return the documented patterns' cases that this oneDNN and CPU can run, shuffled."""
    found = [
        (pattern, case)
        for pattern in PATTERNS.values()
        for case in pattern.cases
        if case.partitions is not None
        and linked_version() >= case.needs
        and not any(lacks(d) for d in case.kernels)
    ]
    random.Random("patterns").shuffle(found)
    return tuple(found)


def shapes_of(builder: GraphBuilder) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a graph's inputs by name; unknown dims become 4."""
    return {v.name: tuple(4 if d < 0 else d for d in v.shape or ()) for v in builder.inputs}


def pattern_case(seed: int) -> tuple[GraphBuilder, Arrays]:
    """Draw a case of a documented pattern."""
    pattern, case = _gallery()[seed % len(_gallery())]
    b = pattern.graph(case)
    return b, fill_inputs(b, seed, shapes_of(b))


def _pattern_count() -> int:
    return len(_gallery())


FAMILIES = {
    family.name: family
    for family in (
        Family("patterns", pattern_case, _pattern_count),
        Family("ops", single_ops.case),
        Family("graphs", graphs.case),
        Family("products", products.case),
        Family("convolutions", convolutions.case),
        Family("attention", attention.case),
        Family("pools", pools.case),
        Family("chains", chains.case),
    )
}
"""All families by name."""
