"""The peak speed of this machine, measured through oneDNN itself, and that of steps: `machine`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ... import _core
from ...base.errors import OneDNNError
from ...base.linked import version
from ...machine.memory import last_cache_bytes
from ...machine.store import load, place, processor, save
from ...machine.timing import time_calls
from ...model.building.builder import GraphBuilder
from ...model.building.value import Value
from ...model.checking.filling import fill_inputs
from ...model.planning import Plan
from ...model.running.model import CompiledGraph
from ..inspect.profile import profile
from .facts import StepFacts, Work

PEAK_TYPES = ("f32", "bf16", "f16", "s8")
"""Data types of the measured products; the last one multiplies u8 by s8."""

# The time of one measurement in seconds, and its smallest number of calls.
_MEASURING = 0.15
_CALLS = 5
# The smallest size of each of the three tensors that Add moves; a larger cache needs more.
_LEAST_BYTES = 32 << 20


@dataclass(frozen=True)
class Machine:
    """The CPU and the speeds it reaches.

    Parameters
    ----------
    cpu, isa, runtime : str
        The processor, the instruction set that oneDNN uses, and the runtime of its threads.
    oneDNN : str
        The version of oneDNN.
    threads : int
        The number of threads.
    operations : mapping of str to float
        Operations per second, by data type of `PEAK_TYPES`; without types for which oneDNN has no
        kernel here.
    bandwidth : float
        Bytes per second.
    how : str
        The method of measurement.
    """

    cpu: str
    isa: str
    runtime: str
    oneDNN: str
    threads: int
    operations: Mapping[str, float]
    bandwidth: float
    how: str


def _product(dtype: str, size: int) -> GraphBuilder:
    """Build a square product with constant weights, which oneDNN may reorder beforehand."""
    b = GraphBuilder()
    weights = (np.arange(size * size, dtype=np.int32) % 13 - 6).reshape(size, size)
    if dtype != "s8":
        b.output(b.input((size, size), dtype) @ b.constant(weights / 64, dtype))
        return b

    def dequantized(value: Value) -> Value:
        return value.dequantize(scales=[0.125], zps=[0], qtype="per_tensor")

    x = dequantized(b.input((size, size), "u8"))
    b.output(x @ dequantized(b.constant(weights, "s8")))
    return b


def _fastest(builder: GraphBuilder, threads: int) -> float:
    """Return the seconds of the fastest call, which other processes disturbed least."""
    model = builder.compile(threads=threads, warn=False)
    call: Callable[[], Any] = model.bind(fill_inputs(builder))
    call()  # oneDNN makes kernels and reorders constants
    return min(time_calls(call, _MEASURING, least=_CALLS))


def _measured(threads: int) -> dict[str, Any]:
    size = 1024 if threads <= 8 else 2048 if threads <= 32 else 4096
    operations = {}
    for dtype in PEAK_TYPES:
        try:
            operations[dtype] = 2 * size**3 / _fastest(_product(dtype, size), threads)
        except OneDNNError:  # it has no kernels for this type here
            continue
    rows = max(_LEAST_BYTES, last_cache_bytes()) >> 16
    b = GraphBuilder()
    b.output(b.input((rows, 1 << 14), "f32") + b.input((rows, 1 << 14), "f32"))
    moved = 3 * (rows << 16)
    bandwidth = moved / _fastest(b, threads)
    how = (
        f"the fastest of several calls of oneDNN's MatMul of {size}x{size} by {size}x{size}, and "
        f"of an Add that moves {moved >> 20} MiB"
    )
    return {"operations": operations, "bandwidth": bandwidth, "how": how}


def _kept(file: Path) -> dict[str, Any] | None:
    try:
        stored = load(file)
        rates = {k: float(stored["operations"][k]) for k in PEAK_TYPES if k in stored["operations"]}
        measured = {
            "operations": rates,
            "bandwidth": float(stored["bandwidth"]),
            "how": stored["how"],
        }
    except (ArithmeticError, ValueError, TypeError, KeyError):
        return None
    fine = all(0 < rate < math.inf for rate in [*rates.values(), measured["bandwidth"]])
    return measured if fine and rates and isinstance(measured["how"], str) else None


@cache
def _machine(threads: int, file: Path) -> Machine:
    linked = version()
    rates = _kept(file)
    if rates is None:
        rates = _measured(threads)
        save(file, rates)
    return Machine(
        processor(),
        _core.get_effective_cpu_isa().name,
        linked.cpu_runtime,
        linked.release,
        threads,
        **rates,
    )


def machine(threads: int | None = None, *, refresh: bool = False) -> Machine:
    """Measure this machine's peak speed once; later calls read the stored result.

    Measuring takes a second or two; the result is stored by CPU, oneDNN and number of threads.

    Parameters
    ----------
    threads : int, optional
        The number of threads; `num_threads()` by default.
    refresh : bool
        Whether to measure again, as after a measurement on a busy machine.
    """
    threads = threads or _core.num_threads()
    file = place("machine", threads)
    if refresh:
        file.unlink(missing_ok=True)
        _machine.cache_clear()
    return _machine(threads, file)


NO_PRIMITIVE = "oneDNN logs no primitive of it"
"""The reason why a step that only changes its input's strides has no kernels."""


def timed(
    model: CompiledGraph, plan: Plan, shapes: tuple[tuple[int, ...], ...], seconds: float
) -> tuple[list[float | None], float | None, int]:
    """Call a model repeatedly, for so many seconds and at least five times, and measure its steps.

    Return the median of each step in seconds (0 for steps that do not run), their sum, and the
    number of timed calls; the times are None if no call was recorded.
    """
    named = {v.name: s for v, s in zip(model.inputs, shapes, strict=True)}
    run: Any = model.specialization(shapes).run.bind(fill_inputs(model.builder, shapes=named), None)
    run()  # oneDNN reorders constants in the first call
    with profile() as p:
        time_calls(run, seconds, least=_CALLS)
    labels = [s.label for s in plan.running]
    # Other models of this process may run meanwhile.
    alike = [s for s in p.steps if (s.model, s.shapes) == (model.name, shapes)]
    runs = (alike[i : i + len(labels)] for i in range(len(alike)))
    mine = next((steps for steps in runs if [s.step for s in steps] == labels), [])
    if not mine:
        return [None] * len(plan.steps), None, 0
    left = iter(s.median for s in mine)
    seconds_of = [next(left) if s.runs else 0.0 for s in plan.steps]
    return list(seconds_of), sum(seconds_of), mine[0].count


def raised(peaks: Machine, steps: Sequence[StepFacts]) -> Machine:
    """Return the peaks, none of them below what a kernel of these steps reached.

    Tensors that fit into the cache may be read faster than memory.
    """
    operations, bandwidth = dict(peaks.operations), peaks.bandwidth
    for step in steps:
        work = step.work
        if work is None or not step.seconds or step.kernels_unknown == NO_PRIMITIVE:
            continue
        dtype = work.dtype or "f32"
        if dtype in operations:
            operations[dtype] = max(operations[dtype], work.operations / step.seconds)
        if work.bytes > last_cache_bytes():
            bandwidth = max(bandwidth, work.bytes / step.seconds)
    return replace(peaks, operations=operations, bandwidth=bandwidth)


def speed(step: StepFacts, peaks: Machine | None) -> Work | None:
    """Return a step's work with its speed, if it was timed, and with the machine's peaks."""
    work, seconds = step.work, step.seconds
    # Without a primitive nothing is moved: the output is the input with other strides.
    if work is None or step.kernels_unknown == NO_PRIMITIVE:
        return work
    if seconds:
        work = replace(
            work,
            operations_per_second=work.operations / seconds,
            bytes_per_second=work.bytes / seconds,
        )
    if peaks is None or not peaks.operations:
        return work
    # Elementwise ops compute in f32, even on other data types.
    operations = peaks.operations.get(work.dtype or "f32")
    work = replace(work, peak_operations=operations, peak_bytes=peaks.bandwidth)
    if operations is None or not work.bytes:
        return work
    compute = work.operations / work.bytes > operations / peaks.bandwidth
    return replace(work, bound="compute" if compute else "memory")
