"""Tests of a drawn graph: as a model compiled by default, and in oneDNN's own partitions.

A test may crash its process, so another one runs it.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..building.builder import GraphBuilder
from ..checking.expected import Expected
from ..errors import OneDNNError
from ..machine.pace import Pace
from ..machine.timing import time_calls
from .draft import Arrays
from .families import Draw

if TYPE_CHECKING:
    from ..planning import KnownDefects
    from ..running.model import CompiledGraph

__all__ = [
    "SLOW",
    "Answer",
    "Verdict",
    "as_it_is",
    "by_default",
    "compared",
    "compiled",
    "several_as_they_are",
    "several_by_default",
]

Verdict = Literal["right", "wrong", "refused", "crashed", "hung"]
"""The verdict on a graph; a refused one has no kernel, or no finite reference to compare with."""

SLOW = 1.2
"""A graph is slow if it takes more than this many times as long as its separate ops."""

_CALLS = 2  # calls of a model that are compared with the reference
_CHEAP = 2e-3  # seconds; models that take longer are not timed


@dataclass(frozen=True)
class Answer:
    """The result of testing a graph.

    Parameters
    ----------
    verdict : Verdict
    reason : str
        Why the graph is not right; empty if it is.
    steps : tuple of str
        The steps that ran one after the other, by the kinds of their ops.
    ratio : float, optional
        The time of the graph divided by that of its separate ops; None if it was not measured.
    seconds : float
    """

    verdict: Verdict
    reason: str = ""
    steps: tuple[str, ...] = ()
    ratio: float | None = None
    seconds: float = 0.0


def compared(builder: GraphBuilder, inputs: Arrays, model: CompiledGraph, seed: int) -> str | None:
    """Call a model several times; return which outputs differ from the reference, or None.

    Raises
    ------
    OneDNNError
        The model can't be called, or the reference is not finite, so there is nothing to compare.
    """
    expected = Expected(builder, inputs, seed)
    values = builder.outputs
    names = {v.id: name for name, v in values.items()}
    given: list[Any] = list(inputs)
    first: list[bytes] = []
    for _ in range(_CALLS):
        made = model(*given)
        outputs = list(made) if isinstance(made, tuple) else [made]
        bits = [np.asarray(o).tobytes() for o in outputs]
        if bits == first:
            continue
        first = first or bits
        actual = {v.id: o for v, o in zip(values.values(), outputs, strict=True)}
        found = expected.compare(actual, names)
        if not all(math.isfinite(o.largest) for o in found.outputs):
            raise OneDNNError("the reference is not finite")
        if not found.ok:
            return "; ".join(str(o) for o in found.outputs if not o.ok)
    return None


def compiled(
    builder: GraphBuilder, threads: int | None, known_defects: KnownDefects
) -> CompiledGraph:
    """Compile a graph without warnings; the model's steps show the defects that it avoids."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return builder.compile(threads=threads, known_defects=known_defects)


def _steps(model: CompiledGraph, inputs: Arrays) -> tuple[str, ...]:
    steps = model.steps(*(a.shape for a in inputs))
    return tuple(f"{s.implementation} {' + '.join(s.ops)}" for s in steps)


def by_default(draw: Draw, seed: int, threads: int | None = None) -> Answer:
    """Compile a graph by default, run it, compare it with the reference, and time it.

    Parameters
    ----------
    draw : callable
        The function of a `Family`.
    seed : int
    threads : int, optional
        Threads per call.
    """
    began = time.monotonic()
    ratio: float | None = None
    steps: tuple[str, ...] = ()
    try:
        builder, inputs = draw(seed)
        model = compiled(builder, threads, "avoid")
        wrong = compared(builder, inputs, model, seed)
        steps = _steps(model, inputs)
        if wrong is None:
            ratio = _ratio(builder, inputs, model, threads)
    except OneDNNError as e:
        return Answer("refused", str(e), steps, seconds=time.monotonic() - began)
    verdict: Verdict = "right" if wrong is None else "wrong"
    return Answer(verdict, wrong or "", steps, ratio, time.monotonic() - began)


def as_it_is(draw: Draw, seed: int, threads: int | None, known: Sequence[str]) -> Answer:
    """Test oneDNN's own partitions, unless they are the steps that were tested already."""
    began = time.monotonic()
    try:
        builder, inputs = draw(seed)
        model = compiled(builder, threads, "run")
        steps = _steps(model, inputs)
        wrong = None if steps == tuple(known) else compared(builder, inputs, model, seed)
    except OneDNNError as e:
        return Answer("refused", str(e), seconds=time.monotonic() - began)
    verdict: Verdict = "right" if wrong is None else "wrong"
    return Answer(verdict, wrong or "", steps, seconds=time.monotonic() - began)


def several_by_default(draw: Draw, seeds: Sequence[int], threads: int | None) -> list[Answer]:
    """Call `by_default` for each seed."""
    return [by_default(draw, seed, threads) for seed in seeds]


def several_as_they_are(
    draw: Draw, seeds: Sequence[int], threads: int | None, known: Sequence[Sequence[str]]
) -> list[Answer]:
    """Call `as_it_is` for each seed."""
    return [as_it_is(draw, s, threads, k) for s, k in zip(seeds, known, strict=True)]


# -- time


def _ratio(
    builder: GraphBuilder, inputs: Arrays, model: CompiledGraph, threads: int | None
) -> float | None:
    """Divide a model's time by that of its separate ops; None if it is not worth timing."""
    if all(" + " not in step for step in _steps(model, inputs)):
        return None
    call = model.bind(list(inputs))
    if min(time_calls(call, 0, least=2)) > _CHEAP:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            apart = builder.compile(policy="debug", fallback="error", threads=threads)
        pace = Pace.measured(call, apart.bind(list(inputs)))
    except OneDNNError:  # an op does not run alone
        return None
    # A few microseconds more are not worth reporting, however many times as long it takes.
    return None if pace is None or (pace.ratio > SLOW and pace.slow is None) else pace.ratio
