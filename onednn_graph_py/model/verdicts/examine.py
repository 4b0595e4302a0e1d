"""Compile and run a partition as a plan would run it, and compare it with the reference.

Call it in a process whose crash does no harm.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import _core
from ...base.errors import OneDNNError
from ...base.text.numbers import gib_text
from ...machine.cpu import threads_can_be_set
from ...machine.memory import free_bytes
from ...machine.timing import timed
from ...reference.rounding import NUMPY_DTYPES, integer_limits, round_to
from ..building.builder import GraphBuilder
from ..building.value import Value
from ..checking.expected import Expected
from ..checking.filling import Fill, filled, fills_of
from ..checking.telling import telling
from .portion import Picks, part_of, picked, picks_for, seconds_of, shapes_of
from .running import DIRT, Ended, Run, bits, compiled, engine_with_dirt, partition_of, same
from .subject import Subject
from .verdict import Limits, Outcome, Verdict

Array = npt.NDArray[Any]

AIM = 0.05  # time limit of the reference in seconds, above which the comparison leaves out indices

_FEW, _MANY = 1, 4
"""Samples of stochastic arithmetic: with many elements, one sample is enough."""
_ELEMENTS = 1024


def _share_of_samples(count: int) -> float:
    """Return the share of `seconds_of` that this number of samples takes, with the exact run."""
    return (1 + 2 * count) / (1 + 2 * _MANY)


def _check_equal(first: Sequence[Array], again: Sequence[Array]) -> None:
    for port, (a, b) in enumerate(zip(first, again, strict=True)):
        if not same(a, b):
            different = (bits(a) != bits(b)).reshape(-1, a.dtype.itemsize).any(1).sum()
            raise Ended(
                Outcome.WRONG,
                f"output {port} differs from call to call: {different} of {a.size} elements",
            )


class Comparison:
    """The reference's values for all results, or for some of them."""

    def __init__(self, subject: Subject, arrays: Mapping[int, Array], seconds: float) -> None:
        self.subject = subject
        few, many = _share_of_samples(_FEW), _share_of_samples(_MANY)
        self.picks = picks_for(subject, min(AIM, seconds) / few)
        shapes = shapes_of(subject, self.picks)
        enough = all(math.prod(shapes[t]) >= _ELEMENTS for t in subject.outputs)
        needed = seconds_of(subject, shapes) * (few if enough else many)
        if needed > seconds:
            raise Ended(
                Outcome.UNVERIFIED,
                f"the reference would take about {needed:.1f} s, and no part of it less than "
                f"{seconds:g} s",
            )
        # Values refer to the op that makes them only while their builder exists.
        self.builder, self.values = written(subject, shapes, {}, self.picks)
        self.expected = Expected(
            self.builder,
            [picked(arrays[t], t, self.picks) for t in subject.inputs],
            samples=_FEW if enough else _MANY,
        )
        count = sum(subject.tensors[t].count for t in subject.outputs)
        compared = sum(math.prod(shapes[t]) for t in subject.outputs)
        self.share = compared / count if count else 1.0

    def check(self, outputs: Sequence[Array], when: str) -> None:
        """Raise `Ended` if outputs are wrong, or can't be compared because most are not finite."""
        actual = {
            self.values[t].id: picked(array, t, self.picks)
            for t, array in zip(self.subject.outputs, outputs, strict=True)
        }
        names = {self.values[t].id: f"output {i}" for i, t in enumerate(self.subject.outputs)}
        verification = self.expected.compare(actual, names)
        wrong = [str(o) for o in verification.outputs if not o.ok]
        if wrong:
            raise Ended(Outcome.WRONG, "; ".join(wrong) + when)
        for port, array in enumerate(actual.values()):
            if np.isfinite(array.astype(np.float64)).sum() < array.size / 2:
                raise Ended(
                    Outcome.UNVERIFIED, f"most of output {port} is not finite, so we can't compare"
                )


def _results(subject: Subject, arrays: Mapping[int, Array], threads: int) -> list[Array]:
    """Compile and run a subject with some threads; return its outputs."""
    engine = engine_with_dirt()
    constants = {t: arrays[t] for t in subject.inputs if subject.tensors[t].constant}
    builder, values = written(subject, shapes_of(subject, {}), constants, {})
    inputs, outputs = ([values[t] for t in side] for side in (subject.inputs, subject.outputs))
    with _core._compiling_with(threads):
        partition = partition_of(builder)
        if partition is None:
            raise Ended(Outcome.UNVERIFIED, "oneDNN does not make one partition of it alone")
        try:
            one = compiled(partition, inputs, outputs, subject.free, engine)
        except OneDNNError as e:
            raise Ended(Outcome.UNVERIFIED, f"it does not compile: {e}") from None
        if any(
            lt.get_layout_type() != _core.logical_tensor.strided
            for lt, t in zip(one.outputs, subject.outputs, strict=True)
            if subject.tensors[t].shape
        ):
            raise Ended(Outcome.UNVERIFIED, "the layout of its output can't be read")
        run = Run(one, arrays, subject, engine)
        first = run(DIRT[0])
        spent, calls = 0.0, 0
        while calls < 2 or (spent < 0.01 and calls < 6):
            seconds, again = timed(partial(run, DIRT[(calls + 1) % len(DIRT)]))
            calls, spent = calls + 1, spent + seconds
            _check_equal(first, again)
            if seconds > 1.0:
                break
        run.check_inputs()
    return first


def _check_memory(subject: Subject, share: float) -> None:
    needed = sum(t.count * np.dtype(NUMPY_DTYPES[t.dtype]).itemsize for t in subject.tensors)
    free = free_bytes()
    if free is not None and needed > free * share:
        raise Ended(
            Outcome.UNVERIFIED,
            f"its tensors take {gib_text(needed)}, and {gib_text(free)} are free",
            passing=True,
        )


def examine(subject: Subject, limits: Limits) -> Verdict:
    """Judge a partition in this process, which crashes or hangs if the partition does."""
    start = time.monotonic()
    detail, reduced = "", False
    outcome, passing = Outcome.RIGHT, False
    try:
        if any(t.opaque for t in subject.tensors):
            raise Ended(Outcome.UNVERIFIED, "an input's layout is oneDNN's own")
        _check_memory(subject, limits.memory)
        for arrays in draws_of(subject):
            outputs = _results(subject, arrays, subject.threads)
            comparison = Comparison(subject, arrays, limits.reference)
            reduced = comparison.share < 1
            comparison.check(outputs, "")
            if reduced:
                break
        if subject.threads > 1 and threads_can_be_set():
            comparison.check(_results(subject, arrays, 1), " with one thread")
    except Ended as e:
        outcome, detail, passing = e.outcome, e.detail, e.passing
    if reduced:
        said = f"{100 * comparison.share:.2g} % of its elements were compared"
        detail = f"{detail}; {said}" if detail else said
    return Verdict(outcome, detail, reduced, time.monotonic() - start, passing)


_PERIOD = 65537
"""Number of elements after which large tensors repeat; it is prime, so that rows differ."""


def written(
    subject: Subject,
    shapes: Mapping[int, tuple[int, ...]],
    constants: Mapping[int, Array],
    picks: Picks,
) -> tuple[GraphBuilder, dict[int, Value]]:
    """Build the ops for tensors of these shapes; return the builder, and its values by number."""
    builder = GraphBuilder(
        subject.engine_kind, subject.fpmath_mode, apply_to_int=subject.apply_to_int
    )
    values: dict[int, Value] = {}
    for t in subject.inputs:
        tensor = subject.tensors[t]
        if t in constants:
            values[t] = builder.constant(constants[t], tensor.dtype)
        else:
            values[t] = builder.input(shapes[t], tensor.dtype)
        if not picks:
            values[t].strides = tensor.strides
    for op in subject.ops:
        outputs = [(shapes[t], subject.tensors[t].dtype) for t in op.outputs]
        inputs = [values[t] for t in op.inputs]
        results = builder.op(op.kind, *inputs, outputs=outputs, **part_of(op, shapes, picks))
        values.update(
            zip(op.outputs, results if isinstance(results, tuple) else (results,), strict=True)
        )
    builder.output(**{str(t): values[t] for t in subject.outputs})
    return builder, values


def _numbers(fill: Fill, shape: tuple[int, ...], dtype: str, number: int, seed: int = 0) -> Array:
    count = math.prod(shape)
    if count <= _PERIOD or fill.kind == "mask":
        return filled(fill, shape, dtype, seed=seed, number=number)
    some = filled(fill, (_PERIOD,), dtype, seed=seed, number=number)
    whole = np.resize(some, count).reshape(shape)
    if fill.kind == "mostly true":
        whole[..., 0] = True
    return whole


def draws_of(subject: Subject) -> Iterator[dict[int, Array]]:
    """Make arrays several times, until each scale and other entry of a channel shows."""
    known: dict[int, Array] = {}
    for t in subject.inputs:
        tensor = subject.tensors[t]
        if tensor.value is not None:
            known[t] = round_to(np.full(tensor.shape, tensor.value), tensor.dtype)
        elif tensor.limits is not None:
            # Numbers as large as the constant's own, whatever range the other inputs need.
            least, most = integer_limits(tensor.dtype)
            low, high = max(tensor.limits[0], least), min(tensor.limits[1], most)
            known[t] = _numbers(Fill("whole", low, high), tensor.shape, tensor.dtype, t)
    builder, values = written(subject, shapes_of(subject, {}), known, {})
    fills = fills_of(builder)
    drawn = [t for t in subject.inputs if t not in known]
    for t in drawn:
        fill = fills[values[t].id]
        if (fill.low, fill.high) == (-63, 63):
            # This range keeps products of weights from saturating; unknown weights may do so.
            fills[values[t].id] = Fill(fill.kind, *integer_limits(subject.tensors[t].dtype))

    def draw(seed: int) -> list[Array]:
        tensors = [(t, subject.tensors[t]) for t in drawn]
        return [_numbers(fills[values[t].id], of.shape, of.dtype, t, seed) for t, of in tensors]

    for arrays in telling(builder, draw):
        yield {**known, **dict(zip(drawn, arrays, strict=True))}
