"""Tests of a drawn graph: as a model compiled by default, and in oneDNN's own partitions.

A test may crash its process, so another one runs it.
"""

import contextlib
import ctypes
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Literal

import numpy as np

from ...base.errors import OneDNNError
from ...machine.constant_cache import turn_on
from ...machine.pace import Pace
from ...machine.timing import time_calls
from ...model.building.builder import GraphBuilder
from ...model.checking.expected import Expected, reference_values
from ...model.planning import forms, work
from ...model.running.model import CompiledGraph
from ...ops.lookup import with_trait
from .draft import Arrays, Drawn
from .draws import Family

Verdict = Literal["right", "wrong", "refused", "crashed", "hung"]
"""The verdict on a graph; a refused one has no kernel, or no finite reference to compare with."""

SLOW = 1.2  # a graph is slow if it takes more than this many times as long as its separate ops

_SAMPLES = (1, 4, 64)
"""The samples of estimates of rounding errors: more where fewer find a graph wrong.

An error turns a sign in every second sample, or in none of four, once in 16 such graphs.
"""
_CUBES = {"GELU", "GELUBackward", "GroupNorm", "LayerNorm", "MishBackward"}
_ORDERING = with_trait("quantizes") | {
    *("AbsBackward", "Clamp", "Maximum", "MaxPool", "Minimum", "ReduceMax", "ReduceMin", "ReLU")
}
_HUGE = 1e12  # oneDNN cubes or squares what these read: beyond it their results say nothing
_LEAST = 1e-6  # oneDNN may make 0 of what is smaller, as of GELU's results, which has no sign
_PERTURB = -6  # M_PERTURB of glibc's malloc.h
_CHEAP = 2e-3  # seconds; models that take longer are not timed
_THREAD = ThreadPoolExecutor(1)  # starts its thread when it is first used


@dataclass(frozen=True)
class Answer:
    """The result of testing a graph.

    `steps` ran one after the other, and have the kinds of their ops. `ratio` is the time of the
    graph divided by that of its separate ops, if it was measured.
    """

    verdict: Verdict
    reason: str = ""
    steps: tuple[str, ...] = ()
    ratio: float | None = None
    seconds: float = 0.0


def _results(model: CompiledGraph, inputs: Sequence[Any]) -> Arrays:
    results = model(*inputs)
    return list(results) if isinstance(results, tuple) else [results]


def compared(drawn: Drawn, models: Sequence[CompiledGraph], seed: int) -> str | None:
    """Call models in turn with the inputs of all calls; return what is wrong, or None.

    Each is called once alone, and then in two threads at once. All results are kept, and compared
    with the reference when the calls are over. It raises OneDNNError if a model can't be called, or
    the reference is not finite, so there is nothing to compare.
    """
    builder, values = drawn.builder, drawn.builder.outputs
    names = {v.id: name for name, v in values.items()}
    kept = [
        (call, [_results(model, inputs), *_at_once(model, inputs)])
        for call, inputs in enumerate(drawn.calls)
        for model in models
    ]
    for call, inputs in enumerate(drawn.calls):
        seen: list[Arrays] = []
        for rounds in (r for k, r in kept if k == call):
            if not all(map(_same, rounds, rounds[:1] * len(rounds))):
                return "calls in two threads give another result than the first call"
            if not any(_same(rounds[0], s) for s in seen):
                seen.append(rounds[0])
        wrong = _differences(
            builder, inputs, [dict(zip(names, s, strict=True)) for s in seen], names, seed
        )
        if wrong is not None:
            return wrong
    return None


def _at_once(model: CompiledGraph, inputs: Arrays) -> Iterator[Arrays]:
    """Call a model in this thread and in another, which did not compile it."""
    other = _THREAD.submit(_results, model, inputs)
    yield _results(model, inputs)
    yield other.result()


def _same(one: Arrays, other: Arrays) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


def _differences(
    builder: GraphBuilder,
    inputs: Arrays,
    results: Sequence[Mapping[int, Any]],
    names: Mapping[int, str],
    seed: int,
) -> str | None:
    """Compare results with the reference; most are right without an estimate of rounding errors."""
    values = reference_values(builder, inputs)
    if not all(np.isfinite(values[i].astype(np.float64)).any() for i in names if values[i].size):
        raise OneDNNError("the reference is not finite")
    cubed = [n.inputs[0].id for n in builder.nodes if n.kind in _CUBES]
    if any(np.abs(values[i]).max(initial=0) > _HUGE for i in cubed):
        raise OneDNNError("cubes of the reference's numbers overflow")
    for kind, i in {(n.kind, v.id) for n in builder.nodes if n.kind in _ORDERING for v in n.inputs}:
        size = np.abs(values[i].astype(np.float64))
        lost = kind == "AbsBackward" and ((size > 0) & (size < _LEAST)).any()
        if lost or np.isnan(size).any():
            raise OneDNNError("the reference orders or quantizes NaN, or what oneDNN makes 0")
    for samples in _SAMPLES:
        results = [r for r in results if not all(_near(a, values[i]) for i, a in r.items())]
        if not results:
            return None
        expected = Expected(builder, inputs, seed, samples)
        checked = [expected.compare(r, names) for r in results]
        results = [r for r, c in zip(results, checked, strict=True) if not c.ok]
    wrong = [c for c in checked if not c.ok]
    return "; ".join(str(o) for o in wrong[0].outputs if not o.ok) if wrong else None


def _near(actual: Any, expected: Any) -> bool:
    """Return whether elements are equal, or differ by a rounding."""
    one, other = np.asarray(actual).astype(np.float64), expected.astype(np.float64)
    close = 2.0**-23 if expected.dtype == np.float32 else 0.0
    return bool(np.all(np.abs(one - other) <= close * np.abs(other)))


@contextlib.contextmanager
def _switched(module: ModuleType, name: str, on: bool) -> Iterator[None]:
    """Set a switch of a module, and set it back."""
    before = getattr(module, name)
    setattr(module, name, on)
    try:
        yield
    finally:
        setattr(module, name, before)


def compiled(drawn: Drawn, threads: int | None, **more: Any) -> list[CompiledGraph]:
    """Compile a graph without warnings, in each of its ways, with more options."""
    models = []
    for way in drawn.options:
        options = {"threads": threads, **way, **more}
        always = options.pop("forms", "") == "always"
        if always:
            options |= {"slow_fusions": "avoid", "tune": "off"}
        with warnings.catch_warnings(), _switched(forms, "always", always):
            warnings.simplefilter("ignore", RuntimeWarning)
            models.append(drawn.builder.compile(**options))
    return models


def _steps(model: CompiledGraph, inputs: Arrays) -> tuple[str, ...]:
    steps = model.steps(*(a.shape for a in inputs))
    return tuple(f"{s.implementation} {' + '.join(s.ops)}" for s in steps)


def tested(
    draw: Family,
    seed: int,
    threads: int | None = None,
    known: Sequence[str] | None = None,
    *,
    timed: bool = True,
) -> Answer:
    """Compile a graph, run it, compare it with the reference, and time it.

    Models of odd seeds run small steps on all threads too.

    With `known`, the steps that were tested already, oneDNN's own partitions are tested if they are
    others. Only if `timed`, models compiled by default are timed, and leave out fusions that are
    slow.
    """
    # The C library fills memory that it hands out and takes back, where it can.
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_PERTURB, 0xA5)
    warnings.simplefilter("ignore", RuntimeWarning)  # of graphs that run in parts, in a helper
    began = time.monotonic()
    ratio: float | None = None
    steps: tuple[str, ...] = ()
    try:
        with _switched(work, "brief_groups", seed % 2 == 0):
            drawn = draw(seed)
            if not drawn.calls:
                raise OneDNNError("no sizes of the inputs fit")
            # Constants of quantization are kept, too, as soon as any model has constants.
            turn_on(drawn.builder.engine_kind)
            more = {} if known is None else {"known_defects": "run"}
            # Without times, a slow fusion is tested too, and none is timed.
            models = compiled(drawn, threads, **more, **({} if timed else {"slow_fusions": "run"}))
            steps = _steps(models[0], drawn.calls[0])
            again = known is not None and steps == tuple(known)
            wrong = None if again else compared(drawn, models, seed)
            if wrong is None and known is None and timed:
                ratio = _ratio(drawn, models[0], threads)
    except OneDNNError as e:
        return Answer("refused", str(e), steps, seconds=time.monotonic() - began)
    verdict: Verdict = "right" if wrong is None else "wrong"
    return Answer(verdict, wrong or "", steps, ratio, time.monotonic() - began)


def several(
    draw: Family,
    seeds: Sequence[int],
    threads: int | None,
    known: Sequence[Sequence[str] | None],
    timed: bool,
) -> list[Answer]:
    """Call `tested` for each seed."""
    return [tested(draw, s, threads, k, timed=timed) for s, k in zip(seeds, known, strict=True)]


# -- time


def _ratio(drawn: Drawn, model: CompiledGraph, threads: int | None) -> float | None:
    """Divide a model's time by that of its separate ops; None if it is not worth timing."""
    inputs = drawn.calls[0]
    if all(" + " not in step for step in _steps(model, inputs)):
        return None
    call = model.bind(list(inputs))
    if min(time_calls(call, 0, least=2)) > _CHEAP:
        return None
    try:
        one = replace(drawn, options=drawn.options[:1])
        (apart,) = compiled(one, threads, policy="debug", fallback="error")
        pace = Pace.measured(call, apart.bind(list(inputs)))
    except OneDNNError:  # an op does not run alone
        return None
    # A few microseconds more are not worth reporting, however many times as long it takes.
    return None if pace is None or (pace.ratio > SLOW and pace.slow is None) else pace.ratio
