"""Conditions of a row beside those in which it was measured: `report`, and a proposal."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import get_args

from onednn_graph_py.machine import Conditions
from onednn_graph_py.ops.terms import OLDEST
from onednn_graph_py.safety.defect import Feature, Where
from onednn_graph_py.safety.table import DEFECTS

from .page import is_bad, own_outcomes
from .results import load_all

__all__ = ["measured", "proposed", "report"]


def measured(name: str) -> dict[Conditions, bool]:
    """Return whether a row showed, by the conditions in which its graphs ran."""
    found = {}
    for result in load_all():
        outcomes = [o for o in own_outcomes(name, result) if o != "refused"]
        if outcomes:
            found[result.conditions] = any(map(is_bad, outcomes))
    return found


def _boxes(versions: list[tuple[int, int]]) -> Iterator[Where]:
    """Yield boxes of versions, with one feature of a CPU at most, the largest ones first."""
    spans = [
        (since, until)
        for since in (OLDEST, *versions[1:])
        for until in (None, *reversed(versions))
        if until is None or since < until
    ]
    features = get_args(Feature)
    cpus = [((), ()), *(((f,), ()) for f in features), *(((), (f,)) for f in features)]
    for (has, lacks), sycl, span in itertools.product(cpus, (None, False, True), spans):
        yield Where(*span, has, lacks, sycl)


def proposed(cells: dict[Conditions, bool]) -> tuple[Where, ...]:
    """Return boxes with all conditions that showed a row, and none that did not, if there are such.

    Parameters
    ----------
    cells : dict of Conditions to bool
        What `measured` returns.
    """
    boxes = {}
    for box in _boxes(sorted({c.version for c in cells})):
        held = {c for c in cells if box.holds(c)}
        if all(cells[c] for c in held):
            boxes[box] = held
    left = {c for c, shown in cells.items() if shown}
    chosen = []
    while left and boxes:
        best = max(boxes, key=lambda box: len(boxes[box] & left))  # the first of several
        if not boxes[best] & left:
            break
        chosen.append(best)
        left -= boxes[best]
    return tuple(chosen)


def report(name: str) -> str:
    """Return a row's conditions, in which measurements they err, and those that fit these."""
    row, cells = DEFECTS[name], measured(name)
    lines = [name, *(f"  table:    {where}" for where in row.where)]
    for where in proposed(cells):
        lines.append(f"  proposed: {where}")
    for c, shown in cells.items():
        if shown != row.is_in(c):
            said = "shown, and not in the table" if shown else "right, but in the table"
            lines.append(f"  {said}: {'.'.join(map(str, c.version))} {c.runtime} {c.isa}")
    return "\n".join(lines)
