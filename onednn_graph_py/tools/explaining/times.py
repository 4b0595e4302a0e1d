"""Measure the times of a model's steps, and compute their speeds."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...machine.memory import last_cache_bytes
from ...machine.timing import time_calls
from ...model.checking.filling import fill_inputs
from ...model.planning import Plan
from ...model.running.model import CompiledGraph
from ..inspect.profile import profile
from .facts import StepFacts, Work
from .peaks import Machine

# The smallest number of timed calls.
_CALLS = 5

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
    made = [next(left) if s.runs else 0.0 for s in plan.steps]
    return list(made), sum(made), mine[0].count


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
