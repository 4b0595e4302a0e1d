"""Compile a subject like a planner, and run it in memory that shows stray reads and writes."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import _core
from ...base.dtypes import pack_int4, unpack_int4
from ...base.errors import OneDNNError
from ...reference.rounding import NUMPY_DTYPES
from ..building.builder import GraphBuilder
from ..building.value import Value
from .subject import Subject
from .verdict import Outcome

Array = npt.NDArray[Any]

DIRT = (0xFF, 0xAA, 0x7F)
"""Bytes that fill memory before a call; the first makes NaNs in all floating-point types."""

_PACKED = ("s4", "u4")
_GUARD = 4096  # the number of bytes on either side of a tensor that must not change
_NOTHING = 0xA5  # the value that fills those bytes


class Ended(Exception):
    """Raised when the outcome for a partition is known."""

    def __init__(self, outcome: Outcome, detail: str, *, passing: bool = False) -> None:
        super().__init__(outcome, detail)
        self.outcome, self.detail, self.passing = outcome, detail, passing


# -- memory


class GuardedMemory:
    """Memory of a strided tensor, with a guard on either side."""

    def __init__(self, lt: _core.logical_tensor, dtype: str, engine: _core.engine) -> None:
        self.shape, self.dtype = tuple(lt.get_dims()), dtype
        self.strides = tuple(lt.get_strides()) if self.shape else ()
        self.bytes = lt.get_mem_size()
        self._all = np.full(self.bytes + 2 * _GUARD + 64, _NOTHING, np.uint8)
        self._begin = _GUARD + -(self._all.ctypes.data + _GUARD) % 64
        self.own = self._all[self._begin : self._begin + self.bytes]
        self.tensor = _core.tensor(lt, engine, self.own.ctypes.data)

    def elements(self) -> Array:
        """Return the tensor's elements, as a view; a copy for 4-bit integers."""
        return self._strided(self._unpacked() if self.dtype in _PACKED else self.own)

    def _strided(self, memory: Array) -> Array:
        item = np.dtype(np.int8 if self.dtype in _PACKED else NUMPY_DTYPES[self.dtype])
        if 0 in self.shape:
            return np.empty(self.shape, item)
        strides = [s * item.itemsize for s in self.strides]
        view: Array = np.ndarray(self.shape, item, memory, strides=strides)
        return view

    def _unpacked(self) -> Array:
        """Return the 4-bit integers from the first element to the last, gaps between too."""
        last = sum((d - 1) * s for d, s in zip(self.shape, self.strides, strict=True))
        count = 0 if 0 in self.shape else 1 + last
        return unpack_int4(self.own[: -(-count // 2)], (count,), self.dtype)

    def fill(self, array: Array) -> None:
        """Write an array's elements into the memory."""
        if self.dtype in _PACKED:
            every = self._unpacked()
            self._strided(every)[...] = array.astype(np.int8)
            packed = pack_int4(every, self.dtype).reshape(-1).view(np.uint8)
            self.own[: packed.size] = packed
        elif array.size:
            self.elements()[...] = array
        self._filled = self.own.copy()

    @property
    def changed(self) -> bool:
        """Whether the tensor or a guard changed since it was filled."""
        return self.touched or not np.array_equal(self.own, self._filled)

    @property
    def touched(self) -> bool:
        """Whether a guard changed."""
        before, after = self._all[: self._begin], self._all[self._begin + self.bytes :]
        return bool((before != _NOTHING).any() or (after != _NOTHING).any())


class _Dirt:
    """An allocator whose memory is filled with a pattern, as if it had been used before."""

    def __init__(self) -> None:
        self.pattern = DIRT[0]
        self._taken: dict[int, Array] = {}

    def allocate(self, size: int, alignment: int) -> int:
        memory = np.full(size + alignment, self.pattern, np.uint8)
        address = -(-memory.ctypes.data // alignment) * alignment
        self._taken[address] = memory
        return address

    def free(self, address: int) -> None:
        self._taken.pop(address, None)


dirt = _Dirt()
_engines: list[_core.engine] = []


def engine_with_dirt() -> _core.engine:
    """Return the engine for judging results; it allocates from `dirt` if possible."""
    if not _engines:
        try:
            allocator = _core.allocator(dirt.allocate, dirt.free)
            _engines.append(_core.make_engine_with_allocator("cpu", 0, allocator))
        except OneDNNError:
            _engines.append(_core.engine("cpu", 0))
    return _engines[0]


# -- compiling


@dataclass
class Compiled:
    """A compiled partition, with the layouts of its inputs, outputs and scratchpad."""

    compiled: _core.compiled_partition
    inputs: list[_core.logical_tensor]
    outputs: list[_core.logical_tensor]
    scratchpad: _core.logical_tensor | None


def partition_of(builder: GraphBuilder) -> _core.partition | None:
    """Partition a graph; return its one supported partition, or None."""
    every = [p for p in builder.graph.get_partitions() if p.get_output_ports()]
    return every[0] if len(every) == 1 and every[0].is_supported() else None


def compiled(
    partition: _core.partition,
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    free: Sequence[bool],
    engine: _core.engine,
) -> Compiled:
    """Compile like a planner: with layouts of oneDNN's choice, or else plain ones."""
    read = [v.logical_tensor for v in inputs]
    plain = [v.logical_tensor for v in outputs]
    wanted = [
        _core.logical_tensor(lt.get_id(), lt.get_data_type(), lt.get_dims(), "any") if f else lt
        for lt, f in zip(plain, free, strict=True)
    ]
    try:
        result = partition.compile(read, wanted, engine)
        written = [result.query_logical_tensor(v.id) for v in outputs]
        chosen = all(lt.get_layout_type() != _core.logical_tensor.any for lt in written)
    except OneDNNError:
        if not any(free):
            raise
        chosen = False
    if not chosen:
        result = partition.compile(read, plain, engine)
        written = [result.query_logical_tensor(v.id) for v in outputs]
    scratchpad = None
    with suppress(AttributeError, OneDNNError):  # 3.7 has no such function
        scratchpad = result.get_scratchpad_logical_tensor()
    return Compiled(result, read, written, scratchpad)


# -- running


class Run:
    """A compiled partition with memory for its tensors."""

    def __init__(
        self, of: Compiled, arrays: Mapping[int, Array], subject: Subject, engine: _core.engine
    ) -> None:
        self.subject = subject
        self.compiled = of.compiled
        self.stream = _core.stream(engine)
        self.inputs = [
            GuardedMemory(lt, subject.tensors[t].dtype, engine)
            for lt, t in zip(of.inputs, subject.inputs, strict=True)
        ]
        for memory, t in zip(self.inputs, subject.inputs, strict=True):
            memory.fill(arrays[t])
        self.outputs = [
            GuardedMemory(lt, subject.tensors[t].dtype, engine)
            for lt, t in zip(of.outputs, subject.outputs, strict=True)
        ]
        self.scratchpad = None
        if of.scratchpad is not None and of.scratchpad.get_mem_size():
            self.scratchpad = GuardedMemory(of.scratchpad, "u8", engine)

    def __call__(self, pattern: int) -> list[Array]:
        """Fill memory with a pattern, run, and return the outputs."""
        dirt.pattern = pattern
        for memory in (*self.outputs, *([self.scratchpad] if self.scratchpad else [])):
            memory.own[...] = pattern
        inputs = [m.tensor for m in self.inputs]
        outputs = [m.tensor for m in self.outputs]
        scratchpad = self.scratchpad.tensor if self.scratchpad is not None else None
        self.compiled.execute(self.stream, inputs, outputs, scratchpad)
        self.stream.wait()
        self.check_outputs()
        return [np.array(m.elements()) for m in self.outputs]

    def check_outputs(self) -> None:
        """Raise `Ended` if the call wrote outside the outputs or the scratchpad."""
        for port, memory in enumerate(self.outputs):
            if memory.touched:
                raise Ended(Outcome.WRONG, f"it writes outside its output {port}")
        if self.scratchpad is not None and self.scratchpad.touched:
            raise Ended(Outcome.WRONG, "it writes outside its scratchpad")

    def check_inputs(self) -> None:
        """Raise `Ended` if a call wrote to the inputs."""
        for port, memory in enumerate(self.inputs):
            if memory.changed:
                raise Ended(Outcome.WRONG, f"it writes to its input {port}")


def bits(array: Array) -> Array:
    """Return the bytes of an array's elements."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def same(one: Array, other: Array) -> bool:
    """Return whether two arrays are equal in every bit."""
    return bool(np.array_equal(bits(one), bits(other)))
