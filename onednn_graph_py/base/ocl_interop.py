"""OpenCL queues, memory and events: the mirror of ``dnnl::ocl_interop`` and its graph counterpart.

oneDNN pages: OpenCL extensions of the Graph API, and OpenCL Interoperability. Devices, contexts,
queues and events are pyopencl's, or their handles as integers. The module needs a oneDNN whose GPU
runtime is OpenCL; without it every function raises `UnimplementedError`. Functions that return
events need pyopencl: ``pip install '.[ocl]'`` in a clone.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from .._core import (
    _device_allocator,
    _ocl,
    compiled_partition,
    engine,
    logical_tensor,
    stream,
    tensor,
)
from .arguments import need_instance
from .errors import InvalidArgumentsError

__all__ = [
    "execute",
    "get_command_queue",
    "get_context",
    "get_device",
    "make_allocator",
    "make_engine",
    "make_engine_with_allocator",
    "make_stream",
    "make_tensor",
    "missing",
]

# pyopencl has no useful type annotations; an integer is a handle.
Device: TypeAlias = Any
Context: TypeAlias = Any
Queue: TypeAlias = Any
Event: TypeAlias = Any


def missing() -> str | None:
    """Return why this module can't be used here: no OpenCL in oneDNN. None if it can."""
    if _ocl.available():
        return None
    return "not in this build: the linked oneDNN was built without OpenCL for GPUs"


def make_allocator(
    malloc: Callable[[int, int, int, int], int], free: Callable[[int, int, int, int], None]
) -> _device_allocator:
    """Make an allocator of USM memory. Mirrors ``dnnl::graph::ocl_interop::make_allocator``.

    Parameters
    ----------
    malloc : callable
        ``malloc(size, alignment, device, context) -> int``: address of `size` bytes of unified
        shared memory; `device` and `context` are handles.
    free : callable
        ``free(address, device, context, event)``: frees the memory once the event (its handle, 0
        for none) is complete.

    Notes
    -----
    oneDNN calls them from any thread. ``sys.unraisablehook`` reports their exceptions. After one,
    `malloc` is called once more: oneDNN does not check the pointer before it writes, so a second
    failure ends the process.
    """
    _ocl.require("make_allocator")
    return _ocl.make_allocator(malloc, free, (malloc, free))


def make_engine(device: Device, context: Context) -> engine:
    """Make an engine of an OpenCL GPU. Mirrors ``dnnl::ocl_interop::make_engine``.

    Parameters
    ----------
    device : pyopencl.Device or int
    context : pyopencl.Context or int

    Raises
    ------
    InvalidArgumentsError
        oneDNN can't use the device, or the context does not have it.
    TypeError
        An argument is of another type.
    """
    what = "make_engine"
    _ocl.require(what)
    return _ocl.make_engine(
        _handle(device, "Device", what), _handle(context, "Context", what), None
    )


def make_engine_with_allocator(
    device: Device, context: Context, alloc: _device_allocator
) -> engine:
    """Make an engine that takes its memory from `alloc`, and keeps it alive.

    Mirrors ``dnnl::graph::ocl_interop::make_engine_with_allocator``; its errors are those of
    `make_engine`.

    Parameters
    ----------
    device : pyopencl.Device or int
    context : pyopencl.Context or int
    alloc : allocator
        An allocator of `make_allocator`.
    """
    what = "make_engine_with_allocator"
    _ocl.require(what)
    if not isinstance(alloc, _device_allocator):
        raise TypeError(
            f"{what}: alloc must be an allocator of ocl_interop.make_allocator, "
            f"got {type(alloc).__name__}"
        )
    return _ocl.make_engine(
        _handle(device, "Device", what), _handle(context, "Context", what), alloc
    )


def make_stream(engine: engine, queue: Queue) -> stream:
    """Make a stream over an OpenCL queue. Mirrors ``dnnl::ocl_interop::make_stream``.

    Parameters
    ----------
    engine : engine
    queue : pyopencl.CommandQueue or int
        A queue of the engine's device and context.

    Raises
    ------
    InvalidArgumentsError
        The queue has another device or context.
    TypeError
        An argument is of another type.
    """
    _ocl.require("make_stream")
    return _ocl.make_stream(engine, _handle(queue, "CommandQueue", "make_stream"))


def get_device(engine: engine) -> int:
    """Get the handle of the engine's device. Mirrors ``dnnl::ocl_interop::get_device``."""
    return _ocl.get_device(engine)


def get_context(engine: engine) -> int:
    """Get the handle of the engine's context. Mirrors ``dnnl::ocl_interop::get_context``."""
    return _ocl.get_context(engine)


def get_command_queue(stream: stream) -> int:
    """Get the handle of the stream's queue. Mirrors ``dnnl::ocl_interop::get_command_queue``."""
    return _ocl.get_command_queue(stream)


def make_tensor(lt: logical_tensor, engine: engine, address: int, owner: object = None) -> tensor:
    """Make a tensor over unified shared memory, which it uses in place.

    Parameters
    ----------
    lt : logical_tensor
        It has known dims and is strided or opaque.
    engine : engine
        An engine of the memory's context. Neither this nor the memory's size can be checked.
    address : int
    owner : object, optional
        An object that the tensor keeps alive.

    Returns
    -------
    tensor
        Reading it on the host raises `InvalidArgumentsError`.
    """
    what = f"make_tensor of {lt!r}"
    _ocl.require(what)
    return _ocl.make_tensor(lt, engine, _integer(address, what), owner)


def execute(
    compiled_partition: compiled_partition,
    stream: stream,
    inputs: list[tensor] | tuple[tensor, ...],
    outputs: list[tensor] | tuple[tensor, ...],
    deps: Sequence[Event] = (),
    *,
    scratchpad: tensor | None = None,
) -> Event:
    """Submit a compiled partition. Mirrors ``dnnl::graph::ocl_interop::execute``.

    Parameters
    ----------
    compiled_partition : compiled_partition
    stream : stream
        A stream of the engine that it was compiled for.
    inputs, outputs : list or tuple of tensor
        In the order given to ``compile``. Their memory stays alive until the event is complete.
    deps : list or tuple of pyopencl.Event or int
        Events that must be complete before it starts.
    scratchpad : tensor, optional
        Working memory (oneDNN 3.13).

    Returns
    -------
    pyopencl.Event
        It is complete when the outputs are written. None if oneDNN had nothing to submit.

    Raises
    ------
    OneDNNError
        As in ``compiled_partition.execute``.
    TypeError
        `deps` has something other than events.
    """
    _ocl.require("execute")
    need_instance("execute: deps", deps, list, tuple)
    pyopencl = importlib.import_module("pyopencl")
    done: list[Any] = []
    complete = pyopencl.command_execution_status.COMPLETE

    def is_complete() -> bool:
        return bool(done) and bool(done[0].command_execution_status == complete)

    handle = _ocl.execute(
        compiled_partition,
        stream,
        inputs,
        outputs,
        scratchpad,
        [_handle(one, "Event", "execute: deps") for one in deps],
        is_complete,
    )
    if not handle:
        return None
    # We own the event: oneDNN has retained it for us.
    done.append(pyopencl.Event.from_int_ptr(handle, retain=False))
    return done[0]


def _handle(value: object, kind: str, what: str) -> int:
    if isinstance(getattr(value, "int_ptr", None), int) and type(value).__name__.endswith(kind):
        return _integer(value.int_ptr, what)  # type: ignore[attr-defined]
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return _integer(value, what)
    raise TypeError(
        f"{what}: expected a pyopencl.{kind} or its handle as an int, "
        f"got {type(value).__module__}.{type(value).__qualname__}"
    )


def _integer(value: object, what: str) -> int:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise TypeError(f"{what}: expected an address as an int, got {type(value).__name__}")
    if not 0 <= value < 2**63:
        raise InvalidArgumentsError(f"{what}: {value} is not an address")
    return int(value)
