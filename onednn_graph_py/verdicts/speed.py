"""Measure whether a partition is slower than its ops apart."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy.typing as npt

from .. import _core
from ..errors import OneDNNError
from .running import GuardedMemory, Ops, plain_engine, with_threads
from .subject import Subject

__all__ = ["slowness"]

Array = npt.NDArray[Any]

_SLOWER = 1.2
_NOTICEABLE = 3e-6  # seconds
_QUIET = 0.8  # the share of the time that a process computes if no other uses the CPU


def _calls(
    subject: Subject, ops: Ops, arrays: Mapping[int, Array], policy: str
) -> Callable[[], None] | None:
    """Make a function that runs a subject, in one partition or one for each op.

    None if oneDNN can't run it so.
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


class _Times:
    """The measured times of one function: seconds a call, wall time and CPU time of all calls."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.spent = self.cpu = 0.0
        self.calls = 0

    def add(self, call: Callable[[], None], repeat: int) -> float:
        """Run a function so often; return the seconds that all calls took."""
        start, before = time.perf_counter(), time.process_time()
        for _ in range(repeat):
            call()
        spent = time.perf_counter() - start
        self.cpu += time.process_time() - before
        self.spent += spent
        self.calls += repeat
        self.wall.append(spent / repeat)
        return spent

    @property
    def median(self) -> float:
        return sorted(self.wall)[len(self.wall) // 2]


def _measured(
    fused: Callable[[], None], apart: Callable[[], None], seconds: float
) -> tuple[_Times, _Times]:
    """Measure both in turn, as other processes may use the CPU too."""
    start = time.perf_counter()
    fused()
    apart()
    once = time.perf_counter() - start
    # Enough calls that a tick of the clock does not matter.
    repeat = max(1, min(20, int(1e-4 / max(once, 1e-7))))
    one, many = _Times(), _Times()
    spent = 0.0
    while len(one.wall) < 3 or (spent < seconds and len(one.wall) < 15):
        spent += one.add(fused, repeat) + many.add(apart, repeat)
        if spent > seconds and one.median > 4 * many.median:
            break
    return one, many


def _is_slower(one: _Times, many: _Times) -> bool:
    """Whether the first is slower by all measures, whatever else this machine does meanwhile."""
    pairs = [(one.median, many.median), (min(one.wall), min(many.wall))]
    if one.cpu + many.cpu < _QUIET * (one.spent + many.spent):  # other processes used the CPU
        pairs.append((one.cpu / one.calls, many.cpu / many.calls))
    return all(a > _SLOWER * b and a - b > _NOTICEABLE for a, b in pairs)


def slowness(
    subject: Subject, ops: Ops, arrays: Mapping[int, Array], seconds: float
) -> tuple[str, float | None]:
    """Measure how much slower a subject is than its ops apart.

    Parameters
    ----------
    subject : Subject
    ops : Ops
        The subject's ops.
    arrays : mapping of int to numpy.ndarray
        The arrays of its inputs.
    seconds : float
        The time for measuring; slow calls, of which each must run a few times, may take longer.

    Returns
    -------
    slow : str
        A message; empty if it is not slower.
    ratio : float or None
        Its time divided by that of its ops apart; None if one of the two does not run.
    """
    with with_threads(subject.threads):
        fused = _calls(subject, ops, arrays, "fusion")
        apart = _calls(subject, ops, arrays, "debug")
        if fused is None or apart is None:
            return "", None
        for warm in (fused, apart):
            warm()
        for _ in range(2):  # only a subject that is slower twice counts
            one, many = _measured(fused, apart, seconds)
            ratio = one.median / max(many.median, 1e-9)
            if not _is_slower(one, many):
                return "", ratio
    return (
        f"{ratio:.1f} times as slow as its ops apart: {one.median * 1e6:.0f} against "
        f"{many.median * 1e6:.0f} us",
        ratio,
    )
