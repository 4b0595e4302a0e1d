"""Measure whether a partition is slower than its separate ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy.typing as npt

from ... import _core
from ...base.errors import OneDNNError
from ...machine.pace import Pace
from .running import GuardedMemory, Ops, plain_engine, with_threads
from .subject import Subject

Array = npt.NDArray[Any]


def _calls(
    subject: Subject, ops: Ops, arrays: Mapping[int, Array], policy: str
) -> Callable[[], None] | None:
    """Make a function that runs a subject in one partition, or in one for each op.

    Return None if oneDNN can't run it like this.
    """
    engine = plain_engine()
    stream = _core.stream(engine)
    parts = [subject.ops] if policy == "fusion" else [(op,) for op in subject.ops]
    lts = {t: ops.plain(t) for t in subject.inputs}
    memory = {}
    for t in subject.inputs:
        memory[t] = GuardedMemory(lts[t], subject.tensors[t].dtype, engine)
        memory[t].fill(arrays[t])
    free = dict(zip(subject.outputs, subject.free, strict=True))
    keep: list[GuardedMemory] = []
    bound = []
    for members in parts:
        outside = {t for op in subject.ops if op not in members for t in op.inputs}
        read = outside | set(subject.outputs)
        partition = ops.partition(members, read, policy)
        if partition is None:
            return None
        wanted = {lt.get_id() for lt in partition.get_input_ports()}
        inputs = [t for t in lts if ops.ids[t] in wanted]
        outputs = [ops.number[lt.get_id()] for lt in partition.get_output_ports()]
        try:
            compiled = ops.compiled(
                partition,
                [lts[t] for t in inputs],
                outputs,
                [free.get(t, bool(subject.tensors[t].shape)) for t in outputs],
                engine,
            )
        except OneDNNError:
            return None
        for t, lt in zip(outputs, compiled.outputs, strict=True):
            lts[t] = lt
            memory[t] = GuardedMemory(lt, subject.tensors[t].dtype, engine)
        scratchpad = None
        if compiled.scratchpad is not None and compiled.scratchpad.get_mem_size():
            keep.append(GuardedMemory(compiled.scratchpad, "u8", engine))
            scratchpad = keep[-1].tensor
        bound.append(
            compiled.compiled.bind(
                stream,
                [memory[t].tensor for t in inputs],
                [memory[t].tensor for t in outputs],
                scratchpad,
                wait=False,
            )
        )

    def call(alive: object = (keep, memory)) -> None:
        for each in bound:
            each()
        stream.wait()

    return call


def slowness(
    subject: Subject, ops: Ops, arrays: Mapping[int, Array], seconds: float
) -> tuple[str, float | None]:
    """Measure how much slower a subject is than its separate ops.

    - `ops`: the subject's ops
    - `arrays`: the arrays of its inputs
    - `seconds`: the time for measuring; slow calls may take longer, since each must run a few times
    - returns: a message; empty if it is not slower
    - returns: its time divided by that of its separate ops; None if one of the two does not run
    """
    with with_threads(subject.threads):
        fused = _calls(subject, ops, arrays, "fusion")
        apart = _calls(subject, ops, arrays, "debug")
        if fused is None or apart is None:
            return "", None
        pace = Pace.measured(fused, apart, seconds)
    if pace is None or pace.slow is None:
        return "", None if pace is None else pace.ratio
    return (
        f"{pace.ratio:.1f} times as slow as its separate ops: {pace.fused * 1e6:.0f} against "
        f"{pace.apart * 1e6:.0f} us",
        pace.ratio,
    )
