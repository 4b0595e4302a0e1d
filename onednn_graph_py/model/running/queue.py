"""The SYCL queue on which a model runs: its engine, stream and memory, and arrays in USM memory."""

import enum
import importlib
import sys
from collections.abc import Iterable, Sequence
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
import numpy.typing as npt

from ... import _core
from ...base import _dpctl, sycl_interop
from ...base.arguments import need_instance
from ...base.errors import InvalidArgumentsError, UnimplementedError

# If kinds of memory are mixed, the first one here wins, as in SYCL's array libraries.
_USM_TYPES = ("device", "shared", "host")

# Modules that have the class usm_ndarray: dpctl's up to 0.21, and dpnp's.
_USM_NDARRAY = ("dpnp.tensor", "dpctl.tensor")


class Family(enum.Enum):
    """The library whose arrays a model returns: that of its first input in USM memory."""

    TENSOR = "onednn_graph_py.tensor"
    USM_NDARRAY = "usm_ndarray"
    DPNP = "dpnp"

    def array(self, tensor: _core.tensor, memory: Any) -> Any:
        """Return the library's array over a tensor's memory (dpctl), or else the tensor itself."""
        lt = tensor.get_logical_tensor()
        cls = _usm_ndarray()
        if self is Family.TENSOR or cls is None:
            return tensor
        packed = lt.get_data_type().name in ("s4", "u4")
        dtype = "u1" if packed else _core.numpy_dtype(lt.get_data_type()).str
        shape = (lt.get_mem_size(),) if packed else tuple(lt.get_dims())
        if not packed and not hasattr(tensor, "__sycl_usm_array_interface__"):
            return tensor  # other libraries have no bf16 and 8-bit floats
        array = cls(shape, dtype=dtype, buffer=memory)
        return (
            array if self is Family.USM_NDARRAY else importlib.import_module("dpnp").asarray(array)
        )


def is_usm(argument: object) -> bool:
    """Return whether an object is USM memory rather than host memory."""
    if isinstance(argument, _core.tensor):
        return bool(_core._sycl.usm_kind(argument))
    return hasattr(argument, "__sycl_usm_array_interface__") or _dpctl.is_on_sycl_device(argument)


def coerced_usm_type(types: Iterable[str | None]) -> str | None:
    """Return the kind of memory for results of inputs of these kinds; None if all are None."""
    kinds = set(types)
    return next((one for one in _USM_TYPES if one in kinds), None)


def family_of(argument: object) -> Family:
    """Return the library of an array."""
    cls = _usm_ndarray()
    if cls is not None and isinstance(argument, cls):
        return Family.USM_NDARRAY
    dpnp = sys.modules.get("dpnp")
    if dpnp is not None and isinstance(argument, dpnp.ndarray):
        return Family.DPNP
    return Family.TENSOR


def _usm_ndarray() -> Any:
    for name in _USM_NDARRAY:
        if name in sys.modules:
            return sys.modules[name].usm_ndarray
    return None


# dpctl has no type annotations.
Queue = Any
Event = Any

_ALIGNMENT = 64

# One engine for each device and context, as long as a model uses it.
_engines: WeakValueDictionary[tuple[Any, Any], _core.engine] = WeakValueDictionary()

# The tensors that asynchronous calls write, with the event of each call.
_written: WeakKeyDictionary[_core.tensor, Event] = WeakKeyDictionary()


class ModelQueue:
    """A queue of dpctl, by default one of the default device of the engine's kind."""

    def __init__(self, queue: Queue | None, engine_kind: _core.engine.kind) -> None:
        what = "compile"
        _core._sycl.require(f"{what}(queue=...)")
        dpctl = _dpctl.load(f"{what}(queue=...)")
        kind = engine_kind.name
        if queue is None:
            try:
                queue = dpctl.SyclQueue(kind)
            except dpctl.SyclQueueCreationError as error:
                raise InvalidArgumentsError(
                    f"{what}: SYCL finds no {kind} device here: {error}"
                ) from None
        need_instance(f"{what}: queue", queue, dpctl.SyclQueue)
        device = queue.sycl_device
        if not {"cpu": device.is_cpu, "gpu": device.is_gpu}[kind]:
            raise InvalidArgumentsError(
                f"{what}: the graph is for engine kind {kind}, and queue is of a "
                f"{device.device_type.name} device, {device.name.strip()}; make the builder with "
                f"engine_kind={device.device_type.name!r}, or a queue of a {kind} device"
            )
        self._dpctl = dpctl
        self._memory = importlib.import_module("dpctl.memory")
        self._complete = dpctl.event_status_type.complete
        self.queue = queue
        # A CPU device reads all memory of the process. We don't use that some GPUs do too, as
        # their own memory is faster.
        self.reads_host_memory = bool(device.is_cpu)
        key = (device, queue.sycl_context)
        engine = _engines.get(key)
        if engine is None:
            engine = _engines.setdefault(key, sycl_interop.make_engine(queue))
        self.engine: _core.engine = engine

    # -- memory

    def allocate(self, nbytes: int, usm_type: str) -> Any:
        """Return uninitialised memory (dpctl) of the device."""
        return getattr(self._memory, _dpctl.USM_MEMORY[usm_type])(
            max(nbytes, 1), alignment=_ALIGNMENT, queue=self.queue
        )

    def upload(self, array: npt.NDArray[Any], usm_type: str = "device") -> Any:
        """Return memory (dpctl) with the bytes of a contiguous array, in memory order."""
        memory = self.allocate(array.nbytes, usm_type)
        if array.nbytes:
            memory.copy_from_host(bytes_of(array))
        return memory

    def tensor(
        self, lt: _core.logical_tensor, memory: Any, offset: int = 0, nbytes: int | None = None
    ) -> _core.tensor:
        """Return a tensor over dpctl memory, starting at a byte offset."""
        address = memory.__sycl_usm_array_interface__["data"][0]
        size = lt.get_mem_size() if nbytes is None else nbytes
        described = _dpctl.UsmBytes(address + offset, size, self.queue, memory)
        return sycl_interop.make_tensor(lt, self.engine, described)

    def require_reachable(self, address: int, what: str) -> str:
        """Return the kind of USM memory at an address in the queue's context; raise if none."""
        return _dpctl.require_usm(address, _core._sycl.get_context(self.engine), what)

    def copy_from_host(self, to: _core.tensor, array: npt.NDArray[Any]) -> None:
        """Fill a tensor of USM memory with the bytes of an array of the same layout."""
        memory = _dpctl.memory_at(to.get_data_handle(), array.nbytes, self.queue)
        memory.copy_from_host(bytes_of(array))

    # -- events

    def events(self, deps: Sequence[Event], what: str) -> list[Event]:
        """Return `deps` as a list, after checking that all are events."""
        for one in need_instance(f"{what}: deps", deps, list, tuple):
            need_instance(f"{what}: an entry of deps", one, self._dpctl.SyclEvent)
        return list(deps)

    def submitted_before(self, arrays: Iterable[object]) -> list[Event]:
        """Return events for all work submitted so far to the queues of arrays in USM memory."""
        events = []
        seen: list[Queue] = []
        for array in arrays:
            interface = getattr(array, "__sycl_usm_array_interface__", None) or {}
            queue = interface.get("syclobj")
            if not isinstance(queue, self._dpctl.SyclQueue) or queue in seen:
                continue
            seen.append(queue)
            if queue != self.queue or not queue.is_in_order:
                events.append(queue.submit_barrier())
        return events

    def barrier(self, deps: Sequence[Event]) -> Event:
        """Return an event that is complete when all others are."""
        return self.queue.submit_barrier(list(deps))

    def is_complete(self, event: Event) -> bool:
        """Return whether the event is complete."""
        return bool(event.execution_status == self._complete)

    def stream(self) -> _core.stream:
        """Return a stream over the queue; only one thread may use it at a time."""
        return sycl_interop.make_stream(self.engine, self.queue)

    def execute(
        self,
        stream: _core.stream,
        compiled: _core.compiled_partition,
        inputs: list[_core.tensor],
        outputs: list[_core.tensor],
        scratchpad: _core.tensor | None,
        deps: Sequence[Event],
    ) -> Event:
        """Submit a partition to run after events, and return its event."""
        return sycl_interop.execute(
            compiled, stream, inputs, outputs, deps, scratchpad=scratchpad, wait=False
        )


def note_written(tensors: Iterable[_core.tensor], event: Event) -> None:
    """Remember the tensors that an asynchronous call writes."""
    for one in tensors:
        _written[one] = event


def writer_of(tensor: _core.tensor) -> Event | None:
    """Return the event of the asynchronous call that writes a tensor, or None."""
    return _written.get(tensor)


def bytes_of(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return the bytes of an array in memory order; the array must have no gaps."""
    order = np.argsort([-s for s in array.strides], kind="stable")
    dense = array.transpose(order) if array.ndim else array
    if not dense.flags.c_contiguous:
        raise UnimplementedError("an array with gaps in its memory can't be copied to a device")
    return dense.reshape(-1).view(np.uint8)


def device_of(engine_kind: _core.engine.kind, queue: Queue | None) -> ModelQueue | None:
    """Return a queue for a model if one is given or the device is a GPU, else None."""
    if queue is None and (engine_kind.name == "cpu" or not _core._sycl.available()):
        return None
    return ModelQueue(queue, engine_kind)
