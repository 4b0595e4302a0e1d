"""Explain models and graphs: `explain`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...base.arguments import need_instance
from ...base.errors import InvalidArgumentsError, OneDNNError
from ...base.linked import version
from ...base.loading.openmp_waiting import loaded_before
from ...base.refusals import with_reason
from ...machine.cpu import threads_can_be_set
from ...model.building.builder import GraphBuilder
from ...model.building.foreign import ForeignNode
from ...model.building.infer import infer_shapes
from ...model.building.value import bytes_of, is_whole
from ...model.planning import Plan, SlowFusions
from ...model.running.model import CompiledGraph
from ...ops.lookup import row
from ...ops.terms import shape_text
from ..kernels import Kernels, job_of, kernels_of, step_keys
from .explanation import Explanation
from .facts import StepFacts
from .peaks import NO_PRIMITIVE, machine, raised, speed, timed
from .probe import chosen_shapes
from .steps import PASSED, steps_of_builder, steps_of_plan

Shape = tuple[int, ...]


@dataclass
class _Subject:
    """A graph, and the results of compiling it, which are None if it does not compile."""

    builder: GraphBuilder
    model: CompiledGraph | None
    plan: Plan | None
    shapes: tuple[Shape, ...]
    notes: list[str]


def _of_model(model: CompiledGraph, shapes: Sequence[Sequence[int]]) -> _Subject:
    builder = model.builder
    chosen = chosen_shapes(model.name, builder, shapes)
    if not shapes and not all(map(is_whole, chosen)):
        latest = model.latest_shapes
        if latest is None:
            raise InvalidArgumentsError(
                f"explain: {model.name} has unknown dims and was not called yet: give the shapes "
                f"of {', '.join(f'{v.name} ({shape_text(v.shape)})' for v in model.inputs)}"
            )
        chosen = latest
    plan = model.specialization(chosen).plan
    return _Subject(builder, model, plan, chosen, [])


def _of_builder(builder: GraphBuilder, shapes: Sequence[Sequence[int]]) -> _Subject:
    chosen = chosen_shapes("the graph", builder, shapes)
    subject = _Subject(builder, None, None, chosen, [])
    if not all(map(is_whole, chosen)):
        subject.notes.append("dims are unknown: give shapes to have it compiled and timed")
        return subject
    with warnings.catch_warnings():
        # The report shows it at each step that was split.
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            model = builder.compile()
            subject.plan = model.specialization(chosen).plan
            subject.model = model
        except OneDNNError as e:
            subject.notes.append(f"it does not compile: {with_reason(e)}")
    return subject


# -- all of it


def _weights(builder: GraphBuilder) -> set[str]:
    """Return the names of the graph's inputs that an op reads as weights."""
    names = set()
    for node in builder.nodes:
        if isinstance(node, ForeignNode):
            continue
        for i, value in enumerate(node.inputs):
            port = row(node.kind).port("inputs", i)
            if port is None or port.name != "weights":
                continue
            while value.producer is not None and value.producer.kind in PASSED:
                value = value.producer.inputs[0]
            if value.producer is None and value.data is None:
                names.add(value.name)
    return names


def _notes_on(builder: GraphBuilder, steps: Sequence[StepFacts]) -> list[str]:
    """Return notes on slow steps: weights packed at each call, reference implementations."""
    notes = []
    weights = _weights(builder)
    for number, step in enumerate(steps, 1):
        notes += [
            f"step {number} runs a reference implementation of oneDNN's, which is slow: "
            f"{k.kind} {k.implementation} {' '.join(k.memory)}"
            for k in step.kernels
            if k.when == "each call" and k.implementation.split(":")[0] == "ref"
        ]
        packed = {
            (k.problem, k.memory[0].split(":")[1])
            for k in step.kernels
            # A packed layout has blocks, written with capitals and sizes: BA16a64b.
            if k.kind == "reorder"
            and k.when == "each call"
            and k.memory[-1].lower() != k.memory[-1]
        }
        notes += [
            f"step {number} packs the input {t.name!r} at each call; as a constant it would be "
            "packed once"
            for t in step.inputs
            if t.role == "input"
            and t.name in weights
            and (shape_text(t.tensor.shape), t.tensor.dtype) in packed
        ]
    return notes


def _merged(step: StepFacts, key: Sequence[str], kernels: Kernels) -> StepFacts:
    if step.by != "oneDNN":
        return step
    own = kernels.of.get(tuple(key))
    if own is None:
        other = "the process that logs made other steps of the graph"
        return replace(step, kernels_unknown=kernels.unknown or other)
    return replace(
        step,
        partition=f"{own.partition.kind} {own.partition.implementation}".strip(),
        kernels=own.kernels,
        kernels_unknown="" if own.kernels else NO_PRIMITIVE,
    )


def _total(sizes: Sequence[int | None]) -> int | None:
    known = [s for s in sizes if s is not None]
    return sum(known) if len(known) == len(sizes) else None


def _partitions(subject: _Subject) -> list[StepFacts]:
    builder = subject.builder
    given = {v.id: s for v, s in zip(builder.inputs, subject.shapes, strict=True)}
    try:
        shapes = infer_shapes(builder, given) if all(map(is_whole, subject.shapes)) else given
    except OneDNNError:  # the note on compiling has the error
        shapes = given
    try:
        steps = steps_of_builder(builder, shapes)
        return [replace(s, kernels_unknown="it is not compiled") for s in steps]
    except OneDNNError as e:
        subject.notes.append(f"oneDNN makes no partitions: {with_reason(e)}")
        return []


def _finish(
    subject: _Subject, kernels: Kernels | None, seconds: float, what_if: bool
) -> Explanation:
    builder, model, plan = subject.builder, subject.model, subject.plan
    linked = version()
    peaks, whole, calls = None, None, 0
    if model is None or plan is None:
        steps = _partitions(subject)
    else:
        steps = steps_of_plan(model, plan)
        known = kernels or Kernels(unknown="it was not run")
        keys = step_keys(builder, plan)
        steps = [_merged(s, key, known) for s, key in zip(steps, keys, strict=True)]
        subject.notes += _notes_on(builder, steps)
        if seconds > 0:
            try:
                times, whole, calls = timed(model, plan, subject.shapes, seconds)
                total = sum(t for t in times if t is not None)
                steps = [
                    replace(s, seconds=t, share=None if t is None or not total else t / total)
                    for s, t in zip(steps, times, strict=True)
                ]
                peaks = raised(machine(model.threads), steps)
            except (OneDNNError, MemoryError) as e:
                subject.notes.append(f"not timed: {e}")
    steps = [replace(s, work=speed(s, peaks)) for s in steps]
    if model is not None and model.options["policy"] == "debug":
        subject.notes.append("policy='debug' runs each op in a partition of its own")
        what_if = False
    if threads_can_be_set() and (library := loaded_before()):
        subject.notes.append(
            f"OpenMP's threads wait as another library has them wait, which has loaded {library} "
            "before: with other busy processes, calls can take many times as long. Import "
            "onednn_graph_py first, or set GOMP_SPINCOUNT=1000"
        )
    return Explanation(
        "graph" if model is None else model.name,
        builder.engine_kind.name,
        linked.release,
        tuple((v.name, s) for v, s in zip(builder.inputs, subject.shapes, strict=True)),
        model is not None,
        tuple(steps),
        _total([bytes_of(v.dtype, s) for v, s in zip(builder.inputs, subject.shapes, strict=True)]),
        _outputs(subject, steps),
        sum(a.nbytes for a in plan.constants)
        if plan is not None
        else sum(v.data.nbytes for v in builder.constants if v.data is not None),
        None if plan is None else plan.arena_bytes,
        whole,
        calls,
        peaks,
        tuple(subject.notes),
        _reasons(subject) if what_if else (),
    )


def _outputs(subject: _Subject, steps: Sequence[StepFacts]) -> int | None:
    if subject.plan is not None:
        return sum(lt.get_mem_size() for _, lt in subject.plan.outputs)
    return _total([t.bytes for s in steps for t in s.outputs if t.role == "output"])


def _reasons(subject: _Subject) -> tuple[Any, ...]:
    from .reasons import reasons

    if not all(map(is_whole, subject.shapes)):
        return ()
    model = subject.model
    slow_fusions: SlowFusions = "avoid" if model is None else model.options["slow_fusions"]
    try:
        return reasons(subject.builder, shapes=subject.shapes, slow_fusions=slow_fusions)
    except OneDNNError as e:
        subject.notes.append(f"the reasons why ops did not fuse are not known: {e}")
        return ()


def explain(
    model: CompiledGraph | GraphBuilder,
    *shapes: Sequence[int],
    seconds: float = 0.2,
    what_if: bool = True,
    timeout: float = 120.0,
) -> Explanation:
    """Report what runs, how fast, and why ops were not fused.

    The report gives for each step its ops, the kernels that oneDNN chose, layouts, memory, time,
    and the share of this machine's peak that it reaches. For ops that stayed unfused or have no
    kernel, it gives the reason, and single changes that help. Another process finds the kernels: it
    runs the model with oneDNN's verbose log on.

    Parameters
    ----------
    model : CompiledGraph or GraphBuilder
        A builder need not compile: ops without a kernel are reported rather than raised.
    *shapes : sequence of int
        Shapes of the inputs, if dims are unknown; by default those of the model's last call.
    seconds : float
        How long to time calls, at least five of them if they take no longer than 10 s; 0 does not
        time them.
    what_if : bool
        Try changes to the graph that would fuse ops that stayed unfused.
    timeout : float
        Time limit for finding kernel names, in seconds.

    Raises
    ------
    TypeError
        `model` is neither a compiled graph nor a builder.
    InvalidArgumentsError, InvalidShapeError
        `shapes` do not fit the inputs, or are missing for a model with unknown dims that was not
        called.

    Examples
    --------
    >>> import numpy as np, onednn_graph_py as og
    >>> b = og.GraphBuilder()
    >>> x = b.input((8, 16), name="x")
    >>> b.output((x @ np.ones((16, 4), np.float32)).relu())
    >>> e = og.explain(b.compile(), seconds=0, what_if=False)
    >>> e.steps[0].label, e.steps[0].kernels[0].kind, e.steps[0].work.operations
    ('MatMul + ReLU', 'matmul', 1056)
    """
    need_instance("explain: model", model, CompiledGraph, GraphBuilder)
    if isinstance(model, GraphBuilder):
        subject = _of_builder(model, shapes)
    else:
        subject = _of_model(model, shapes)
    kernels = None
    if subject.model is not None:
        (kernels,) = kernels_of([job_of(subject.model, subject.shapes)], timeout=timeout)
    return _finish(subject, kernels, seconds, what_if)
