"""SYCL queues, memory and events: the mirror of ``dnnl::sycl_interop`` and its graph counterpart.

oneDNN pages: SYCL extensions of the Graph API, and DPC++ Interoperability. Devices, contexts,
queues and events are dpctl's, or addresses of the C++ objects; memory is any object with
``__sycl_usm_array_interface__`` (dpctl, dpnp). The module needs a oneDNN that runs on SYCL, as the
``onednn`` wheel does, and dpctl: ``pip install '.[sycl]'`` in a clone.

    queue = dpctl.SyclQueue("cpu", property="in_order")
    eng = sycl_interop.make_engine(queue)
    strm = sycl_interop.make_stream(eng, queue)
    x = sycl_interop.make_tensor(lt, eng, dpctl.memory.MemoryUSMShared(nbytes, queue=queue))
    event = sycl_interop.execute(compiled, strm, [x, w], [y], deps=[copied])
    event.wait()

Every function raises `UnimplementedError` if the linked oneDNN has no SYCL, and
``ModuleNotFoundError`` if it needs dpctl, which is missing.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from .._core import (
    _device_allocator,
    _sycl,
    compiled_partition,
    engine,
    logical_tensor,
    numpy_dtype,
    stream,
    tensor,
)
from . import _dpctl
from .arguments import need_choice, need_instance
from .errors import InvalidArgumentsError

__all__ = [
    "copy_to_host",
    "execute",
    "get_context",
    "get_device",
    "get_queue",
    "make_allocator",
    "make_engine",
    "make_engine_with_allocator",
    "make_stream",
    "make_tensor",
    "make_usm_allocator",
    "missing",
    "runtime",
    "usm_type",
]

# dpctl has no type annotations; an integer is the address of the C++ object.
Device: TypeAlias = Any
Context: TypeAlias = Any
Queue: TypeAlias = Any
Event: TypeAlias = Any


def missing() -> str | None:
    """Return why this module can't be used here: no SYCL in oneDNN, no dpctl. None if it can."""
    return _dpctl.missing()


def runtime() -> str:
    """Return the file of the SYCL runtime (libsycl.so) that oneDNN uses; empty without one."""
    return _sycl.runtime()


def make_allocator(
    malloc: Callable[[int, int, Device, Context], int] | None = None,
    free: Callable[[int, Device, Context, Event | None], None] | None = None,
) -> _device_allocator:
    """Make an allocator of USM memory. Mirrors ``dnnl::graph::sycl_interop::make_allocator``.

    Parameters
    ----------
    malloc : callable, optional
        ``malloc(size, alignment, device, context) -> int``: address of `size` bytes of USM memory
        of this device and context (dpctl objects), aligned to `alignment` bytes (0: any).
    free : callable, optional
        ``free(address, device, context, event)``: frees it after `event`; immediately if None.

    Returns
    -------
    allocator
        For `make_engine_with_allocator`. Without callables it is oneDNN's own, of shared memory.

    Notes
    -----
    oneDNN calls them from any thread. ``sys.unraisablehook`` reports their exceptions, and
    addresses that are not USM memory; the allocator then uses dpctl's shared memory instead, as
    oneDNN does not check the pointer before it writes.
    """
    if malloc is None or free is None:
        return _sycl.make_allocator(malloc, free, (None, None))
    what = "make_allocator"
    spare = _UsmMemory("shared")

    def objects(device: int, context: int) -> tuple[Device, Context]:
        return (
            _dpctl.object_at(device, "SyclDevice", what),
            _dpctl.object_at(context, "SyclContext", what),
        )

    def malloc_at(size: int, alignment: int, device: int, context: int) -> int:
        address = malloc(size, alignment, *objects(device, context))
        _dpctl.require_usm(address, context, "make_allocator: what malloc returned")
        return address

    def spare_at(size: int, alignment: int, device: int, context: int) -> int:
        return spare.malloc(size, alignment, *objects(device, context))

    def freed_by(
        function: Callable[[int, Device, Context, Event | None], None],
    ) -> Callable[[int, int, int, int], None]:
        def free_at(address: int, device: int, context: int, event: int) -> None:
            done = _dpctl.object_at(event, "SyclEvent", what) if event else None
            function(address, *objects(device, context), done)

        return free_at

    return _sycl.make_allocator(malloc_at, freed_by(free), (spare_at, freed_by(spare.free)))


def make_usm_allocator(usm_type: str = "shared") -> _device_allocator:
    """Make an allocator of dpctl's memory, on the device that oneDNN requests.

    Parameters
    ----------
    usm_type : {"shared", "host", "device"}

    Raises
    ------
    InvalidArgumentsError
        `usm_type` is another word.
    """
    _dpctl.load("make_usm_allocator")
    memory = _UsmMemory(usm_type)
    return make_allocator(memory.malloc, memory.free)


class _UsmMemory:
    """Blocks of dpctl's memory, by address."""

    def __init__(self, usm_type: str) -> None:
        need_choice("make_usm_allocator: usm_type", usm_type, _dpctl.USM_MEMORY)
        memory = importlib.import_module("dpctl.memory")
        self._make = getattr(memory, _dpctl.USM_MEMORY[usm_type])
        self._blocks: dict[int, object] = {}

    def malloc(self, size: int, alignment: int, device: Device, context: Context) -> int:
        queue = importlib.import_module("dpctl").SyclQueue(context, device)
        memory = self._make(max(size, 1), alignment=alignment, queue=queue)
        address: int = memory.__sycl_usm_array_interface__["data"][0]
        self._blocks[address] = memory
        return address

    def free(self, address: int, device: Device, context: Context, event: Event | None) -> None:
        if event is not None:
            event.wait()
        del self._blocks[address]


def make_engine(device: Device | Queue, context: Context | None = None) -> engine:
    """Make an engine of a SYCL device. Mirrors ``dnnl::sycl_interop::make_engine``.

    Parameters
    ----------
    device : dpctl.SyclDevice, dpctl.SyclQueue or int
        A queue stands for its device and context.
    context : dpctl.SyclContext or int, optional
        Only a queue makes it optional.

    Raises
    ------
    InvalidArgumentsError
        oneDNN can't use the device, or the context does not have it.
    TypeError
        An argument is of another type.
    """
    return _make_engine(device, context, None, "make_engine")


def make_engine_with_allocator(
    device: Device | Queue, context: Context | None, alloc: _device_allocator
) -> engine:
    """Make an engine that takes its memory from `alloc`, and keeps it alive.

    Mirrors ``dnnl::graph::sycl_interop::make_engine_with_allocator``; its errors are those of
    `make_engine`.

    Parameters
    ----------
    device, context
        As in `make_engine`; `context` is None with a queue.
    alloc : allocator
        An allocator of `make_allocator` or `make_usm_allocator`.
    """
    _sycl.require("make_engine_with_allocator")
    if not isinstance(alloc, _device_allocator):
        raise TypeError(
            "make_engine_with_allocator: alloc must be an allocator of sycl_interop.make_allocator,"
            f" got {type(alloc).__name__}"
        )
    return _make_engine(device, context, alloc, "make_engine_with_allocator")


def _make_engine(
    device: Device | Queue, context: Context | None, alloc: _device_allocator | None, what: str
) -> engine:
    _sycl.require(what)
    if context is None and hasattr(device, "sycl_device") and hasattr(device, "sycl_context"):
        device, context = device.sycl_device, device.sycl_context
    return _sycl.make_engine(
        _dpctl.address_of(device, "SyclDevice", what),
        _dpctl.address_of(context, "SyclContext", what),
        alloc,
    )


def make_stream(engine: engine, queue: Queue) -> stream:
    """Make a stream over a SYCL queue. Mirrors ``dnnl::sycl_interop::make_stream``.

    Parameters
    ----------
    engine : engine
    queue : dpctl.SyclQueue or int
        A queue of the engine's device and context; it need not be in order.

    Raises
    ------
    InvalidArgumentsError
        The queue has another device or context.
    TypeError
        An argument is of another type.
    """
    _sycl.require("make_stream")
    made = _sycl.make_stream(engine, _dpctl.address_of(queue, "SyclQueue", "make_stream"))
    if missing() is None:
        # oneDNN 3.13.2 accepts a queue of any context, although memory belongs to one context.
        given = get_queue(made)
        ours = (get_device(engine), get_context(engine))
        if (given.sycl_device, given.sycl_context) != ours:
            raise InvalidArgumentsError(
                f"make_stream of {engine!r}: the queue must be of the engine's device and context"
            )
    return made


def get_device(engine: engine) -> Device:
    """Get the engine's device (dpctl). Mirrors ``dnnl::sycl_interop::get_device``."""
    return _dpctl.object_at(_sycl.get_device(engine), "SyclDevice", "get_device")


def get_context(engine: engine) -> Context:
    """Get the engine's context (dpctl). Mirrors ``dnnl::sycl_interop::get_context``."""
    return _dpctl.object_at(_sycl.get_context(engine), "SyclContext", "get_context")


def get_queue(stream: stream) -> Queue:
    """Get the stream's queue (dpctl). Mirrors ``dnnl::sycl_interop::get_queue``."""
    return _dpctl.object_at(_sycl.get_queue(stream), "SyclQueue", "get_queue")


def make_tensor(lt: logical_tensor, engine: engine, data: object) -> tensor:
    """Make a tensor over USM memory, which it uses in place and keeps alive.

    Parameters
    ----------
    lt : logical_tensor
        It has known dims and is strided or opaque.
    engine : engine
        An engine of the memory's context.
    data : object with ``__sycl_usm_array_interface__``, or DLPack producer on a SYCL device
        A dpnp array of the same dtype, shape and strides, or a dpctl memory object of at least as
        many bytes as `lt` needs.

    Returns
    -------
    tensor
        If it is in device memory, only its address is available: reading it on the host raises
        `InvalidArgumentsError`, and `copy_to_host` copies it. DLPack sees it on a SYCL device
        (type 14, oneAPI) if its context is the device's default one.

    Raises
    ------
    TypeError
        `data` is not described by SYCL, such as a NumPy array.
    InvalidArgumentsError
        The memory belongs to another context, is device memory of another device, or is misaligned.
    InvalidShapeError, InvalidDataTypeError
        The elements differ from those of `lt`.
    """
    what = f"make_tensor of {lt!r}"
    _sycl.require(what)
    interface = getattr(data, "__sycl_usm_array_interface__", None)
    source: object
    sycl_object: Any = None
    if interface is None and _dpctl.is_on_sycl_device(data):
        source = data
    else:
        source = _dpctl.array_of(data, what)
        sycl_object = (interface or {}).get("syclobj")

    def describe(address: int) -> tuple[str, object, int]:
        usm_type = _dpctl.require_usm(address, _sycl.get_context(engine), f"{what}: its memory")
        device = get_device(engine)
        theirs: Any = getattr(sycl_object, "sycl_device", device)
        if usm_type == "device" and _dpctl.root_of(theirs) != _dpctl.root_of(device):
            raise InvalidArgumentsError(
                f"{what}: its memory is of another device than {engine!r}: {theirs.name.strip()}"
            )
        made_with = get_context(engine) if sycl_object is None else sycl_object
        return usm_type, made_with, _dlpack_number(engine)

    return _sycl.make_tensor(lt, engine, source, describe)


_dlpack_numbers: WeakKeyDictionary[engine, int] = WeakKeyDictionary()


def _dlpack_number(of: engine) -> int:
    """Return DLPack's number of the device; -1 for other contexts than the default one."""
    if of not in _dlpack_numbers:
        _dlpack_numbers[of] = _dpctl.dlpack_number(get_device(of), get_context(of))
    return _dlpack_numbers[of]


def usm_type(tensor: tensor) -> str | None:
    """Return the kind of memory that a tensor uses.

    Returns
    -------
    str or None
        ``shared`` (moves between host and device), ``host``, ``device`` (only the device reads
        it); None for memory that SYCL does not know, such as a NumPy array's.
    """
    return _sycl.usm_kind(tensor) or None


def copy_to_host(tensor: tensor) -> npt.NDArray[Any]:
    """Copy a tensor in any memory into a new NumPy array, after waiting for all writes to it.

    Returns
    -------
    numpy.ndarray
        The array, with data type and shape as of ``tensor.numpy()``.
    """
    if _sycl.usm_kind(tensor) != "device":
        return np.array(tensor.numpy())
    _sycl.wait_for_writer(tensor)
    lt = tensor.get_logical_tensor()
    host = np.empty(lt.get_mem_size(), np.uint8)
    of = tensor.get_engine()
    queue = _dpctl.load("copy_to_host").SyclQueue(get_context(of), get_device(of))
    _dpctl.memory_at(tensor.get_data_handle(), host.nbytes, queue).copy_to_host(host)
    if lt.get_layout_type().name == "opaque" or lt.get_data_type().name in ("s4", "u4"):
        return host
    dtype = numpy_dtype(lt.get_data_type())
    strides = [dtype.itemsize * s for s in lt.get_strides()] if lt.get_dims() else []
    return np.ndarray(lt.get_dims(), dtype, host, strides=strides)


def execute(
    compiled_partition: compiled_partition,
    stream: stream,
    inputs: list[tensor] | tuple[tensor, ...],
    outputs: list[tensor] | tuple[tensor, ...],
    deps: Sequence[Event] = (),
    *,
    scratchpad: tensor | None = None,
    wait: bool = True,
) -> Event:
    """Submit a compiled partition. Mirrors ``dnnl::graph::sycl_interop::execute``.

    C++'s function never waits. With `wait`, this one waits if reads could come too early.

    Parameters
    ----------
    compiled_partition : compiled_partition
    stream : stream
        A stream of the engine that it was compiled for.
    inputs, outputs : list or tuple of tensor
        In the order given to ``compile``. Their memory stays alive until the event is complete.
    deps : list or tuple of dpctl.SyclEvent or int
        Events that must be complete before it starts.
    scratchpad : tensor, optional
        Working memory (oneDNN 3.13).
    wait : bool
        Wait for the end if callers can read an output without its tensor: if the memory comes from
        the caller (USM memory, a NumPy array), or ``numpy()`` or DLPack made views. If False, the
        caller must wait for the event before reading such memory other than by the tensor.

    Returns
    -------
    dpctl.SyclEvent
        It is complete when the outputs are written. ``tensor.numpy()`` of an output waits for it.

    Raises
    ------
    OneDNNError
        As in ``compiled_partition.execute``.
    TypeError
        `deps` has something other than events.
    """
    _sycl.require("execute")
    need_instance("execute: deps", deps, list, tuple)
    dpctl = _dpctl.load("execute")
    addresses = [_dpctl.address_of(one, "SyclEvent", "execute: deps") for one in deps]
    event = dpctl.SyclEvent()
    complete = dpctl.event_status_type.complete
    _sycl.execute(
        compiled_partition,
        stream,
        inputs,
        outputs,
        scratchpad,
        addresses,
        event.addressof_ref(),
        lambda: bool(event.execution_status == complete),
        wait,
    )
    return event
