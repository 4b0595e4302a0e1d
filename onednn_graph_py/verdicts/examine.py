"""A partition compiled and run as a plan would run it, and compared with the reference.

To be called where a crash does no harm.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..builder import GraphBuilder
from ..dtypes import pack_int4, unpack_int4
from ..errors import OneDNNError
from ..filling import Fill, filled, fills_of
from ..reference.rounding import NUMPY_DTYPES, integer_limits, round_to
from ..value import Value, new_id
from ..verify import Expected
from .portion import Picks, part_of, picks_for, seconds_of, shapes_of
from .subject import Operation, Subject
from .verdict import Limits, Outcome, Verdict

__all__ = ["AIM", "examine"]

Array = npt.NDArray[Any]

AIM = 0.05
"""Seconds that the reference may take before indices are left out of what it compares."""

_PACKED = ("s4", "u4")
_GUARD = 4096
"""Bytes on either side of an output that must stay as they are."""
_NOTHING = 0xA5
"""What they are filled with."""
_DIRT = (0xFF, 0xAA, 0x7F)
"""What memory holds before a call; the first is NaN in every type of floating point."""
_PERIOD = 65537
"""Elements after which large tensors repeat: a prime number, so that no two rows are alike."""
_SLOWER = 1.2
_NOTICEABLE = 3e-6  # seconds


class _Ended(Exception):
    """There is nothing more to do for a partition."""

    def __init__(self, outcome: Outcome, detail: str) -> None:
        super().__init__(outcome, detail)
        self.outcome, self.detail = outcome, detail


# -- numbers


def _written(
    subject: Subject,
    shapes: Mapping[int, tuple[int, ...]],
    constants: Mapping[int, Array],
) -> tuple[GraphBuilder, dict[int, Value]]:
    """The ops in a builder, for tensors of these shapes, and its values by their number."""
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
    for op in subject.ops:
        outputs = [(shapes[t], subject.tensors[t].dtype) for t in op.outputs]
        inputs = [values[t] for t in op.inputs]
        made = builder.op(op.kind, *inputs, outputs=outputs, **part_of(op, shapes))
        values.update(zip(op.outputs, made if isinstance(made, tuple) else (made,), strict=True))
    builder.output(**{str(t): values[t] for t in subject.outputs})
    return builder, values


def _numbers(fill: Fill, shape: tuple[int, ...], dtype: str, number: int) -> Array:
    count = math.prod(shape)
    if count <= _PERIOD or fill.kind == "mask":
        return filled(fill, shape, dtype, seed=0, number=number)
    some = filled(fill, (_PERIOD,), dtype, seed=0, number=number)
    made = np.resize(some, count).reshape(shape)
    if fill.kind == "mostly true":
        made[..., 0] = True
    return made


def _arrays(subject: Subject) -> dict[int, Array]:
    """Numbers for all inputs and constants, that make results mean something."""
    every = {t: tensor.shape for t, tensor in enumerate(subject.tensors)}
    known: dict[int, Array] = {}
    for t in subject.inputs:
        tensor = subject.tensors[t]
        if tensor.value is not None:
            known[t] = round_to(np.full(tensor.shape, tensor.value), tensor.dtype)
        elif tensor.limits is not None:
            # As large as the constant's own, whatever would make the others fit.
            least, most = integer_limits(tensor.dtype)
            low, high = max(tensor.limits[0], least), min(tensor.limits[1], most)
            known[t] = _numbers(Fill("whole", low, high), tensor.shape, tensor.dtype, t)
    builder, values = _written(subject, every, known)
    fills = fills_of(builder)
    made = dict(known)
    for t in subject.inputs:
        if t not in known:
            fill = fills[values[t].id]
            if (fill.low, fill.high) == (-63, 63):
                # Weights that need not saturate; but what is not known here may do so.
                fill = Fill(fill.kind, *integer_limits(subject.tensors[t].dtype))
            made[t] = _numbers(fill, subject.tensors[t].shape, subject.tensors[t].dtype, t)
    return made


def _part(array: Array, tensor: int, picks: Picks) -> Array:
    """The elements that are compared."""
    for axis in range(array.ndim):
        if (tensor, axis) in picks:
            array = np.take(array, picks[tensor, axis], axis)
    return array


# -- memory


class _Memory:
    """Memory of a tensor, with a guard on either side.

    Parameters
    ----------
    lt : logical_tensor
        Strided.
    dtype : str
    """

    def __init__(self, lt: _core.logical_tensor, dtype: str, engine: _core.engine) -> None:
        self.shape, self.dtype = tuple(lt.get_dims()), dtype
        self.strides = tuple(lt.get_strides()) if self.shape else ()
        self.bytes = lt.get_mem_size()
        self._all = np.full(self.bytes + 2 * _GUARD + 64, _NOTHING, np.uint8)
        self._begin = _GUARD + -(self._all.ctypes.data + _GUARD) % 64
        self.own = self._all[self._begin : self._begin + self.bytes]
        self.tensor = _core.tensor(lt, engine, self.own.ctypes.data)

    def elements(self) -> Array:
        """A view of them; of 4-bit integers a copy."""
        if self.dtype in _PACKED:
            return unpack_int4(self.own, self.shape, self.dtype)
        target = np.dtype(NUMPY_DTYPES[self.dtype])
        count = self.bytes // target.itemsize
        flat = self.own[: count * target.itemsize].view(target)
        if 0 in self.shape:
            return np.empty(self.shape, target)
        strides = [s * target.itemsize for s in self.strides]
        return np.lib.stride_tricks.as_strided(flat, self.shape, strides)

    def fill(self, array: Array) -> None:
        """Put elements there."""
        if self.dtype in _PACKED:
            packed = pack_int4(array, self.dtype).reshape(-1).view(np.uint8)
            self.own[: packed.size] = packed
        elif array.size:
            self.elements()[...] = array

    @property
    def touched(self) -> bool:
        """Whether something was written beside it."""
        before, after = self._all[: self._begin], self._all[self._begin + self.bytes :]
        return bool((before != _NOTHING).any() or (after != _NOTHING).any())


class _Dirty:
    """Memory for oneDNN's own use that holds what others left there."""

    def __init__(self) -> None:
        self.pattern = _DIRT[0]
        self._taken: dict[int, Array] = {}

    def allocate(self, size: int, alignment: int) -> int:
        memory = np.full(size + alignment, self.pattern, np.uint8)
        address = -(-memory.ctypes.data // alignment) * alignment
        self._taken[address] = memory
        return address

    def free(self, address: int) -> None:
        self._taken.pop(address, None)


_dirty = _Dirty()
_engines: list[_core.engine] = []


def _engine_with_dirt() -> _core.engine:
    """The engine that all judging runs on; where it takes no allocator, scratchpads are given."""
    if not _engines:
        try:
            allocator = _core.allocator(_dirty.allocate, _dirty.free)
            _engines.append(_core.make_engine_with_allocator("cpu", 0, allocator))
        except OneDNNError:
            _engines.append(_core.engine("cpu", 0))
        _engines.append(_core.engine("cpu", 0))
    return _engines[0]


def _engine() -> _core.engine:
    """One that time is measured on: its memory comes from where it always does."""
    _engine_with_dirt()
    return _engines[1]


# -- compiling


@dataclass
class _Compiled:
    compiled: _core.compiled_partition
    inputs: list[_core.logical_tensor]
    outputs: list[_core.logical_tensor]
    scratchpad: _core.logical_tensor | None


class _Graph:
    """Ops of a subject in the mirror's terms."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.ids = [new_id() for _ in subject.tensors]
        self.number = {i: t for t, i in enumerate(self.ids)}

    def plain(self, t: int) -> _core.logical_tensor:
        """As the graph says that it is."""
        tensor = self.subject.tensors[t]
        kind = _core.logical_tensor.property_type
        of = kind.constant if tensor.constant else kind.variable
        if tensor.strides is not None:
            return _core.logical_tensor(self.ids[t], tensor.dtype, tensor.shape, tensor.strides, of)
        layout = _core.logical_tensor.layout_type.strided
        return _core.logical_tensor(self.ids[t], tensor.dtype, tensor.shape, layout, of)

    def partition(self, ops: Sequence[Operation], read: set[int], policy: str) -> Any:
        """The one partition of some ops, of whose results others read some."""
        subject = self.subject
        g = _core.graph(subject.engine_kind)
        g.set_fpmath_mode(subject.fpmath_mode, subject.apply_to_int)
        for op in ops:
            o = _core.op(new_id(), op.kind, op.kind.lower())
            o.add_inputs([self.plain(t) for t in op.inputs])
            o.add_outputs([self.plain(t) for t in op.outputs])
            for name, value in op.attrs:
                o.set_attr(name, list(value) if isinstance(value, tuple) else value)
            g.add_op(o)
        inside = {t for op in ops for t in op.inputs}
        for t in (t for op in ops for t in op.outputs if t in read and t in inside):
            end = _core.op(new_id(), "End", "end")
            end.add_input(self.plain(t))
            g.add_op(end)
        g.finalize()
        made = [p for p in g.get_partitions(policy) if self._computes(p)]
        if len(made) != 1 or not made[0].is_supported():
            return None
        return made[0]

    def _computes(self, partition: _core.partition) -> bool:
        return bool(partition.get_output_ports())

    def compiled(
        self,
        partition: _core.partition,
        inputs: Sequence[_core.logical_tensor],
        outputs: Sequence[int],
        free: Sequence[bool],
        engine: _core.engine,
    ) -> _Compiled:
        """Compile as a planner does: with layouts of oneDNN's choice, or plain ones."""
        plain = [self.plain(t) for t in outputs]
        wanted = [
            _core.logical_tensor(lt.get_id(), lt.get_data_type(), lt.get_dims(), "any") if f else lt
            for lt, f in zip(plain, free, strict=True)
        ]
        try:
            compiled = partition.compile(list(inputs), wanted, engine)
            made = [compiled.query_logical_tensor(self.ids[t]) for t in outputs]
            chosen = all(lt.get_layout_type() != _core.logical_tensor.any for lt in made)
        except OneDNNError:
            if not any(free):
                raise
            chosen = False
        if not chosen:
            compiled = partition.compile(list(inputs), plain, engine)
            made = [compiled.query_logical_tensor(self.ids[t]) for t in outputs]
        scratchpad = None
        if hasattr(_core.compiled_partition, "get_scratchpad_logical_tensor"):
            try:
                scratchpad = compiled.get_scratchpad_logical_tensor()
            except OneDNNError:  # 3.7 has no such function
                scratchpad = None
        return _Compiled(compiled, list(inputs), made, scratchpad)


# -- running


class _Run:
    """A compiled partition with memory for its tensors."""

    def __init__(
        self,
        of: _Compiled,
        arrays: Mapping[int, Array],
        subject: Subject,
        engine: _core.engine,
    ) -> None:
        self.subject = subject
        self.compiled = of.compiled
        self.stream = _core.stream(engine)
        self.inputs = [
            _Memory(lt, subject.tensors[t].dtype, engine)
            for lt, t in zip(of.inputs, subject.inputs, strict=True)
        ]
        for memory, t in zip(self.inputs, subject.inputs, strict=True):
            memory.fill(arrays[t])
        self.outputs = [
            _Memory(lt, subject.tensors[t].dtype, engine)
            for lt, t in zip(of.outputs, subject.outputs, strict=True)
        ]
        self.scratchpad = None
        if of.scratchpad is not None and of.scratchpad.get_mem_size():
            self.scratchpad = _Memory(of.scratchpad, "u8", engine)

    def __call__(self, pattern: int) -> list[Array]:
        """The outputs, where memory held a pattern before."""
        _dirty.pattern = pattern
        for memory in (*self.outputs, *([self.scratchpad] if self.scratchpad else [])):
            memory.own[...] = pattern
        given = [m.tensor for m in self.inputs]
        made = [m.tensor for m in self.outputs]
        scratchpad = self.scratchpad.tensor if self.scratchpad is not None else None
        self.compiled.execute(self.stream, given, made, scratchpad)
        self.stream.wait()
        for t, memory in zip(self.subject.outputs, self.outputs, strict=True):
            if memory.touched:
                port = self.subject.outputs.index(t)
                raise _Ended(Outcome.WRONG, f"it writes beside its output {port}")
        if self.scratchpad is not None and self.scratchpad.touched:
            raise _Ended(Outcome.WRONG, "it writes beside its scratchpad")
        return [np.array(m.elements()) for m in self.outputs]

    def check_inputs(self, arrays: Mapping[int, Array]) -> None:
        """Inputs are as they were."""
        for port, (t, memory) in enumerate(zip(self.subject.inputs, self.inputs, strict=True)):
            if memory.touched or not _same(memory.elements(), arrays[t]):
                raise _Ended(Outcome.WRONG, f"it writes to its input {port}")


def _bits(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _same(one: Array, other: Array) -> bool:
    """Equal in every bit."""
    return bool(np.array_equal(_bits(one), _bits(other)))


def _differing(one: Array, other: Array) -> int:
    size = max(one.dtype.itemsize, 1)
    different = (_bits(one) != _bits(other)).reshape(-1, size).any(1)
    return int(np.count_nonzero(different))


def _check_equal(first: Sequence[Array], again: Sequence[Array], when: str) -> None:
    for port, (a, b) in enumerate(zip(first, again, strict=True)):
        if not _same(a, b):
            raise _Ended(
                Outcome.WRONG,
                f"output {port} differs {when}: {_differing(a, b)} of {a.size} elements",
            )


class _Comparison:
    """What the reference makes of a part of the results, or of all."""

    def __init__(self, subject: Subject, arrays: Mapping[int, Array], seconds: float) -> None:
        self.subject = subject
        self.picks = picks_for(subject, min(AIM, seconds))
        shapes = shapes_of(subject, self.picks)
        needed = seconds_of(subject, shapes)
        if needed > seconds:
            raise _Ended(
                Outcome.UNVERIFIED,
                f"the reference would take about {needed:.1f} s, and no part of it less than "
                f"{seconds:g} s",
            )
        parts = {t: _part(arrays[t], t, self.picks) for t in subject.inputs}
        builder, self.values = _written(subject, shapes, {})
        self.expected = Expected(builder, [parts[t] for t in subject.inputs])
        count = sum(subject.tensors[t].count for t in subject.outputs)
        compared = sum(math.prod(shapes[t]) for t in subject.outputs)
        self.share = compared / count if count else 1.0

    def check(self, outputs: Sequence[Array], when: str) -> None:
        """Raise if these are not right."""
        made = {
            self.values[t].id: _part(array, t, self.picks)
            for t, array in zip(self.subject.outputs, outputs, strict=True)
        }
        names = {self.values[t].id: f"output {i}" for i, t in enumerate(self.subject.outputs)}
        found = self.expected.compare(made, names)
        wrong = [str(o) for o in found.outputs if not o.ok]
        if wrong:
            raise _Ended(Outcome.WRONG, "; ".join(wrong) + when)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    with _core._compiling_with(count):
        yield


def _threads_can_be_set() -> bool:
    return str(_core.version()["cpu_runtime"]) == "OMP"


def _results(
    subject: Subject, graph: _Graph, arrays: Mapping[int, Array], threads: int
) -> tuple[list[Array], float]:
    """What it makes, compiled and run with so many threads; and the seconds of a call."""
    engine = _engine_with_dirt()
    with _threads(threads):
        partition = graph.partition(subject.ops, set(subject.outputs), "fusion")
        if partition is None:
            raise _Ended(Outcome.UNVERIFIED, "by itself it is not one partition")
        try:
            compiled = graph.compiled(
                partition,
                [graph.plain(t) for t in subject.inputs],
                subject.outputs,
                subject.free,
                engine,
            )
        except OneDNNError as e:
            raise _Ended(Outcome.UNVERIFIED, f"it does not compile: {e}") from None
        if any(
            lt.get_layout_type() != _core.logical_tensor.strided
            for lt, t in zip(compiled.outputs, subject.outputs, strict=True)
            if subject.tensors[t].shape
        ):
            raise _Ended(Outcome.UNVERIFIED, "nobody can read the layout of its output")
        run = _Run(compiled, arrays, subject, engine)
        first = run(_DIRT[0])
        spent, calls, seconds = 0.0, 0, 0.0
        while calls < 2 or (spent < 0.01 and calls < 6):
            start = time.perf_counter()
            again = run(_DIRT[(calls + 1) % len(_DIRT)])
            seconds = time.perf_counter() - start
            calls, spent = calls + 1, spent + seconds
            _check_equal(first, again, "from call to call")
            if seconds > 1.0:
                break
        run.check_inputs(arrays)
    return first, seconds


# -- speed


def _median(times: Sequence[float]) -> float:
    return sorted(times)[len(times) // 2]


def _calls(
    subject: Subject, graph: _Graph, arrays: Mapping[int, Array], policy: str
) -> Callable[[], None] | None:
    """What runs it, in one partition or in one for each op; None where that can't be."""
    engine = _engine()
    stream = _core.stream(engine)
    parts = [subject.ops] if policy == "fusion" else [(op,) for op in subject.ops]
    lts = {t: graph.plain(t) for t in subject.inputs}
    memory = {}
    for t in subject.inputs:
        memory[t] = _Memory(lts[t], subject.tensors[t].dtype, engine)
        memory[t].fill(arrays[t])
    free = dict(zip(subject.outputs, subject.free, strict=True))
    keep: list[_Memory] = []
    bound = []
    for ops in parts:
        made = {t for op in ops for t in op.outputs}
        outside = {t for op in subject.ops if op not in ops for t in op.inputs}
        read = outside | set(subject.outputs)
        partition = graph.partition(ops, read, policy)
        if partition is None:
            return None
        wanted = {lt.get_id() for lt in partition.get_input_ports()}
        inputs = [t for t in lts if graph.ids[t] in wanted]
        outputs = [graph.number[lt.get_id()] for lt in partition.get_output_ports()]
        try:
            compiled = graph.compiled(
                partition,
                [lts[t] for t in inputs],
                outputs,
                [free.get(t, t in made and bool(subject.tensors[t].shape)) for t in outputs],
                engine,
            )
        except OneDNNError:
            return None
        for t, lt in zip(outputs, compiled.outputs, strict=True):
            lts[t] = lt
            memory[t] = _Memory(lt, subject.tensors[t].dtype, engine)
        scratchpad = None
        if compiled.scratchpad is not None and compiled.scratchpad.get_mem_size():
            keep.append(_Memory(compiled.scratchpad, "u8", engine))
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


def _ratio(
    subject: Subject, graph: _Graph, arrays: Mapping[int, Array], seconds: float
) -> tuple[float, float, float] | None:
    """Its time, that of its ops apart, and the one in the other; None if not measured."""
    with _threads(subject.threads):
        fused = _calls(subject, graph, arrays, "fusion")
        apart = _calls(subject, graph, arrays, "debug")
        if fused is None or apart is None:
            return None
        for warm in (fused, apart):
            warm()
        times: tuple[list[float], list[float]] = ([], [])
        spent = 0.0
        # As often as makes a clock's tick not matter, and then in turns: others want the CPU too.
        start = time.perf_counter()
        fused()
        apart()
        once = time.perf_counter() - start
        repeat = max(1, min(20, int(5e-5 / max(once, 1e-7))))
        while len(times[0]) < 3 or (spent < seconds and len(times[0]) < 15):
            for call, into in zip((fused, apart), times, strict=True):
                start = time.perf_counter()
                for _ in range(repeat):
                    call()
                into.append((time.perf_counter() - start) / repeat)
                spent += into[-1] * repeat
            if spent > seconds and _median(times[0]) > 2 * _median(times[1]):
                break
    one, many = _median(times[0]), _median(times[1])
    return one, many, one / max(many, 1e-9)


def _slowness(
    subject: Subject, graph: _Graph, arrays: Mapping[int, Array], seconds: float
) -> tuple[str, float | None]:
    """Say how much slower it is than its ops apart, if it is; and the ratio of times."""
    measured = None
    for _ in range(2):  # what is slow has to be so twice
        measured = _ratio(subject, graph, arrays, seconds)
        if measured is None:
            return "", None
        one, many, ratio = measured
        if ratio <= _SLOWER or one - many < _NOTICEABLE:
            return "", ratio
    one, many, ratio = measured
    return (
        f"{ratio:.1f} times as slow as its ops apart: {one * 1e6:.0f} against {many * 1e6:.0f} us",
        ratio,
    )


# -- all of it


def _free_bytes() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def _check_memory(subject: Subject, share: float) -> None:
    needed = sum(t.count * np.dtype(NUMPY_DTYPES[t.dtype]).itemsize for t in subject.tensors)
    free = _free_bytes()
    if free is not None and needed > free * share:
        raise _Ended(
            Outcome.UNVERIFIED,
            f"its tensors take {needed / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB are free",
        )


def examine(subject: Subject, limits: Limits) -> Verdict:
    """Judge a partition, in this process.

    Parameters
    ----------
    subject : Subject
    limits : Limits

    Returns
    -------
    Verdict
        It can't be one of a crash or a hang.
    """
    start = time.perf_counter()
    detail, reduced, ratio = "", False, None
    outcome = Outcome.RIGHT
    try:
        if any(t.opaque for t in subject.tensors):
            raise _Ended(Outcome.UNVERIFIED, "an input's layout is oneDNN's own")
        _check_memory(subject, limits.memory)
        graph = _Graph(subject)
        arrays = _arrays(subject)
        outputs, _ = _results(subject, graph, arrays, subject.threads)
        comparison = _Comparison(subject, arrays, limits.reference)
        reduced = comparison.share < 1
        comparison.check(outputs, "")
        if subject.threads > 1 and _threads_can_be_set():
            alone, _ = _results(subject, graph, arrays, 1)
            comparison.check(alone, " with one thread")
        if limits.speed and len(subject.ops) > 1:
            slow, ratio = _slowness(subject, graph, arrays, limits.speed)
            if slow:
                outcome, detail = Outcome.SLOW, slow
    except _Ended as e:
        outcome, detail = e.outcome, e.detail
    if reduced:
        said = f"{100 * comparison.share:.2g} % of its elements were compared"
        detail = f"{detail}; {said}" if detail else said
    return Verdict(outcome, detail, reduced, ratio, time.perf_counter() - start)
