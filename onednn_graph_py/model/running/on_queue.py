"""Run a compiled graph on a SYCL queue, on arrays in place."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ... import _core
from ...base import _dpctl, sycl_interop
from ...base.errors import InvalidArgumentsError, InvalidDataTypeError, InvalidShapeError, reworded
from .arrays import Converter, require_shape
from .queue import (
    Event,
    Family,
    ModelQueue,
    coerced_usm_type,
    family_of,
    is_usm,
    note_written,
    writer_of,
)

# The number of calls that run at the same time with their own intermediate memory. A further call
# waits on the device for the first of them to end.
_CONTEXTS = 4


class Submission(NamedTuple):
    """A call that may still be running."""

    # the outputs, as a waiting call returns them. Reading them through the tensor waits.
    outputs: Any
    event: Any  # it is complete when the outputs are written


@dataclass
class _Input:
    """An input of a call."""

    tensor: _core.tensor
    given: Any
    usm_type: str | None  # None if the caller's array is in host memory


@dataclass
class _Output:
    """An output of a call, and the form in which the caller gets it."""

    tensor: _core.tensor
    result: Callable[[], Any]
    copied_to: npt.NDArray[Any] | None = None


@dataclass
class _Call:
    """The checked arguments of a call."""

    inputs: list[_Input]
    outputs: list[_Output]

    def result(self) -> Any:
        """Return the value that the call returns."""
        results = tuple(o.result() for o in self.outputs)
        return results[0] if len(results) == 1 else results


class _Context:
    """Intermediate memory, which one call at a time uses."""

    def __init__(self, x: QueueExecutor) -> None:
        q = x.queue
        self.stream = q.stream()
        # Steps in NumPy read it on the host.
        kind = "shared" if x.has_python_steps else "device"
        arena = q.allocate(x.plan.arena_bytes + 1, kind) if x.plan.arena_bytes else None
        self.fixed: list[list[list[_core.tensor | None]]] = []
        self.scratchpads: list[_core.tensor | None] = []
        self.last: Event | None = None
        for i, step in enumerate(x.steps):
            self.fixed.append(
                [
                    [self._tensor(x, arena, *argument) for argument in arguments]
                    for arguments in x.arguments[i]
                ]
            )
            scratchpad = None
            if step.scratchpad is not None and step.compiled is not None:
                lt = step.compiled.get_scratchpad_logical_tensor()
                scratchpad = q.tensor(lt, arena, step.scratchpad, step.scratchpad_bytes)
            self.scratchpads.append(scratchpad)

    def _tensor(
        self,
        x: QueueExecutor,
        arena: Any,
        where: str,
        index: int,
        lt: _core.logical_tensor,
        offset: int,
    ) -> _core.tensor | None:
        if where == "constant":
            return x.queue.tensor(lt, x.constants[index], offset)
        if where == "arena":
            return x.queue.tensor(lt, arena, index) if arena is not None else x.nothing(lt)
        return None  # the caller's


class _Arguments:
    """Checks the arrays of a call, and makes tensors of them."""

    def __init__(self, queue: ModelQueue, convert: Converter) -> None:
        self.name = convert.name
        self.plan = convert.plan
        self.queue = queue
        self._convert = convert

    def check(self, inputs: Sequence[Any], out: Any, wait: bool) -> _Call:
        """Return the arguments of a call, or raise if they do not fit."""
        _core._sycl.require(self.name)
        if len(inputs) != len(self.plan.inputs):
            raise InvalidArgumentsError(
                f"{self.name}: expected {len(self.plan.inputs)} inputs, got {len(inputs)}"
            )
        ins = [self._input(i, arrays) for i, arrays in enumerate(inputs)]
        usm_type = coerced_usm_type(one.usm_type for one in ins)
        family = next((family_of(one.given) for one in ins if one.usm_type), Family.TENSOR)
        count = len(self.plan.outputs)
        if out is None:
            outs = [self._new_output(i, usm_type, family, wait) for i in range(count)]
            return _Call(ins, outs)
        arrays = list(out) if isinstance(out, (list, tuple)) else [out]
        if len(arrays) != count:
            raise InvalidArgumentsError(
                f"{self.name}: out must have {count} arrays, got {len(arrays)}"
            )
        outs = [self._given_output(i, one, wait) for i, one in enumerate(arrays)]
        self._require_apart(ins, outs)
        return _Call(ins, outs)

    def _input(self, i: int, given: Any) -> _Input:
        value, lt = self.plan.inputs[i]
        what = f"{self.name}: input {value.name!r}"
        if is_usm(given):
            tensor = self._usm_tensor(given, lt, what)
            return _Input(tensor, given, sycl_interop.usm_type(tensor))
        if isinstance(given, _core.tensor):
            given = given.numpy()
        array = self._convert.input(i, given)
        if self.queue.reads_host_memory:
            return _Input(_core.tensor(lt, self.queue.engine, array), array, None)
        self._convert.copied(f"{what} from the host to the device")
        return _Input(self.queue.tensor(lt, self.queue.upload(array)), array, None)

    def _usm_tensor(self, given: Any, lt: _core.logical_tensor, what: str) -> _core.tensor:
        """Check memory of SYCL, with errors that name what is wrong; return a tensor over it."""
        if isinstance(given, _core.tensor):
            own = given.get_logical_tensor()
            _require_same(what, lt, own.get_data_type().name, tuple(own.get_dims()))
            if own.get_dims() and list(own.get_strides()) != list(lt.get_strides()):
                raise InvalidShapeError(
                    f"{what}: memory of SYCL must have the strides {list(lt.get_strides())} "
                    f"(elements), got {list(own.get_strides())}"
                )
            self.queue.require_reachable(given.get_data_handle(), f"{what}: its memory")
            return _core._sycl.tensor_as(given, lt, self.queue.engine)
        if hasattr(given, "__sycl_usm_array_interface__"):
            array = np.asarray(_dpctl.array_of(given, what))
            packed = lt.get_data_type().name in ("s4", "u4")
            if not packed and not (array.dtype == np.uint8 and not hasattr(given, "dtype")):
                wanted = _core.numpy_dtype(lt.get_data_type())
                if array.dtype != wanted:
                    raise InvalidDataTypeError(
                        f"{what} must be {lt.get_data_type().name} (NumPy's {wanted}), got "
                        f"{array.dtype}"
                    )
                _require_same(what, lt, lt.get_data_type().name, array.shape)
            self.queue.require_reachable(array.ctypes.data, f"{what}: its memory")
        try:
            return sycl_interop.make_tensor(lt, self.queue.engine, given)
        except (InvalidArgumentsError, InvalidDataTypeError, InvalidShapeError) as error:
            raise reworded(error, f"{what}: {error}") from None

    def _new_output(self, i: int, usm_type: str | None, family: Family, wait: bool) -> _Output:
        _, lt = self.plan.outputs[i]
        if usm_type is None and wait:
            return self._new_host_output(lt)
        memory = self.queue.allocate(lt.get_mem_size(), usm_type or "shared")
        tensor = self.queue.tensor(lt, memory)
        if not wait:
            return _Output(tensor, lambda: tensor)
        return _Output(tensor, lambda: family.array(tensor, memory))

    def _new_host_output(self, lt: _core.logical_tensor) -> _Output:
        if self.queue.reads_host_memory:
            if lt.get_data_type().name in ("s4", "u4"):
                array: npt.NDArray[Any] = np.empty(lt.get_mem_size(), np.uint8)
            else:
                array = np.empty(tuple(lt.get_dims()), _core.numpy_dtype(lt.get_data_type()))
            tensor = _core.tensor(lt, self.queue.engine, array)
            return _Output(tensor, lambda: array)
        # The device writes to memory that the host can read.
        tensor = self.queue.tensor(lt, self.queue.allocate(lt.get_mem_size(), "host"))
        return _Output(tensor, tensor.numpy)

    def _given_output(self, i: int, given: Any, wait: bool) -> _Output:
        name, lt = self.plan.outputs[i]
        what = f"{self.name}: out {name!r}"
        if not wait and not isinstance(given, _core.tensor):
            raise InvalidArgumentsError(
                f"{what}: with wait=False it must be a tensor, whose readers wait; got "
                f"{type(given).__name__}, whose readers don't"
            )
        if is_usm(given):
            tensor = self._usm_tensor(given, lt, what)
            if not wait and _core._sycl.is_shown(tensor):
                raise InvalidArgumentsError(
                    f"{what}: wait=False does not accept an output whose memory has views (made by "
                    "numpy(), DLPack or __sycl_usm_array_interface__), whose readers don't wait"
                )
            return _Output(tensor, lambda: given)
        if not wait:
            raise InvalidArgumentsError(
                f"{what}: with wait=False it must be a tensor of SYCL's memory"
            )
        if isinstance(given, _core.tensor):
            given = given.numpy()
        array = self._convert.output(i, given)
        if self.queue.reads_host_memory:
            tensor = _core.tensor(lt, self.queue.engine, array)
            return _Output(tensor, lambda: given)
        self._convert.copied(f"{what} from the device to the host")
        tensor = self.queue.tensor(lt, self.queue.allocate(lt.get_mem_size(), "device"))
        return _Output(tensor, lambda: given, array)

    def _require_apart(self, ins: Sequence[_Input], outs: Sequence[_Output]) -> None:
        named = [
            (f"input {v.name!r}", one.tensor)
            for (v, _), one in zip(self.plan.inputs, ins, strict=True)
        ]
        for (name, _), one in zip(self.plan.outputs, outs, strict=True):
            for other, tensor in named:
                if _overlap(one.tensor, tensor):
                    raise InvalidArgumentsError(
                        f"{self.name}: out {name!r} overlaps the memory of {other}"
                    )
            named.append((f"out {name!r}", one.tensor))


class QueueExecutor:
    """All steps of a compiled graph on a queue: ``executor(*inputs, out=None)``."""

    def __init__(self, queue: ModelQueue, constants: list[Any], convert: Converter) -> None:
        self.name = convert.name
        self.plan = convert.plan
        self.queue = queue
        self.constants = constants
        self.steps = self.plan.running
        self.arguments = [self.plan.arguments(step) for step in self.steps]
        self.has_python_steps = any(s.compiled is None for s in self.steps)
        self.calls = 0
        self.seconds = 0.0
        self._convert = convert
        self._checked = _Arguments(queue, convert)
        self._lock = threading.Lock()
        self._contexts: list[_Context] = []
        self._idle: list[_Context] = []
        # oneDNN reorders constants in the first execution; later ones must wait for its end.
        self._first: Event | None = None

    @property
    def contexts(self) -> int:
        """The number of sets of intermediate memory in use."""
        return len(self._contexts)

    def nothing(self, lt: _core.logical_tensor) -> _core.tensor:
        """Return a tensor without elements."""
        return self.queue.tensor(lt, self.queue.allocate(1, "shared"), 0, 1)

    # -- calls

    def __call__(
        self, *inputs: Any, out: Any = None, wait: bool = True, deps: Sequence[Any] | None = None
    ) -> Any:
        """Run the model; see `CompiledGraph`."""
        call = self._checked.check(inputs, out, wait)
        event, stream = self._submit(call, deps)
        if not wait:
            outputs = call.result()
            note_written(outputs if isinstance(outputs, tuple) else (outputs,), event)
            return Submission(outputs, event)
        self._finish(call, event, stream)
        return call.result() if out is None else out

    def bind(self, inputs: Sequence[Any], out: Any = None) -> QueueBound:
        """Check arrays once; see `CompiledGraph.bind`."""
        return QueueBound(self, self._checked.check(inputs, out, True))

    def _finish(self, call: _Call, event: Event, stream: _core.stream) -> None:
        started = time.perf_counter()
        event.wait()
        for output in call.outputs:
            if output.copied_to is not None:
                output.copied_to[...] = sycl_interop.copy_to_host(output.tensor)
        _core._sycl.let_go(stream)
        self.seconds += time.perf_counter() - started

    # -- running

    def _context(self) -> _Context:
        with self._lock:
            ready = [c for c in self._idle if c.last is None or self.queue.is_complete(c.last)]
            if ready:
                self._idle.remove(ready[0])
                return ready[0]
            if self._idle and len(self._contexts) >= _CONTEXTS:
                return self._idle.pop(0)
        context = _Context(self)
        with self._lock:
            self._contexts.append(context)
        return context

    def _submit(self, call: _Call, deps: Sequence[Event] | None) -> tuple[Event, _core.stream]:
        started = time.perf_counter()
        if deps is None:
            before = self.queue.submitted_before(one.given for one in call.inputs if one.usm_type)
        else:
            before = self.queue.events(deps, self.name)
        for one in call.inputs:
            written = writer_of(one.given) if isinstance(one.given, _core.tensor) else None
            if written is not None and not self.queue.is_complete(written):
                before.append(written)
        context = self._context()
        try:
            for event in (self._first, context.last):
                if event is not None and not self.queue.is_complete(event):
                    before.append(event)
            event = self._run(call, context, before)
        except BaseException:
            # Some steps may be running already.
            context.stream.wait()
            context.last = None
            raise
        else:
            context.last = event
        finally:
            with self._lock:
                self._idle.append(context)
        with self._lock:
            self._first = self._first or event
            self.calls += 1
            self.seconds += time.perf_counter() - started
        return event, context.stream

    def _run(self, call: _Call, context: _Context, before: list[Event]) -> Event:
        done = before
        for i, step in enumerate(self.steps):
            inputs, outputs = (
                [
                    fixed if fixed is not None else self._callers(call, *argument)
                    for fixed, argument in zip(row, arguments, strict=True)
                ]
                for row, arguments in zip(context.fixed[i], self.arguments[i], strict=True)
            )
            if step.compiled is None:
                for event in done:
                    event.wait()
                done = []
                assert step.function is not None
                self._run_python(step.function, inputs, outputs)
            else:
                scratchpad = context.scratchpads[i]
                done = [
                    self.queue.execute(
                        context.stream, step.compiled, inputs, outputs, scratchpad, done
                    )
                ]
        return done[0] if len(done) == 1 else self.queue.barrier(done)

    def _callers(
        self, call: _Call, where: str, index: int, lt: _core.logical_tensor, offset: int
    ) -> _core.tensor:
        tensor = (call.inputs if where == "input" else call.outputs)[index].tensor
        if offset:  # the call holds the array
            return _core.tensor(lt, self.queue.engine, tensor.get_data_handle() + offset)
        if tensor.get_logical_tensor().get_id() == lt.get_id():
            return tensor
        return _core._sycl.tensor_as(tensor, lt, self.queue.engine)

    def _run_python(
        self,
        function: Callable[..., None],
        inputs: Sequence[_core.tensor],
        outputs: Sequence[_core.tensor],
    ) -> None:
        def on_host(tensor: _core.tensor) -> npt.NDArray[Any]:
            if sycl_interop.usm_type(tensor) != "device":
                return tensor.numpy()
            self._convert.copied("device memory that a step in NumPy uses")
            return sycl_interop.copy_to_host(tensor)

        results = [on_host(one) for one in outputs]
        function([on_host(one) for one in inputs], results)
        for tensor, array in zip(outputs, results, strict=True):
            if sycl_interop.usm_type(tensor) == "device":
                self.queue.copy_from_host(tensor, array)


class QueueBound:
    """A model on a queue with its inputs and outputs; `CompiledGraph.bind` makes it.

    Call it without arguments. It reads the arrays' contents at that time, and waits for the end.
    """

    def __init__(self, executor: QueueExecutor, call: _Call) -> None:
        self._executor = executor
        self._call = call
        self._lock = threading.Lock()
        self._outputs = tuple(o.result() for o in call.outputs)

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The arrays that it reads: the given ones, or copies of those that it can't use."""
        return tuple(one.given for one in self._call.inputs)

    @property
    def outputs(self) -> tuple[Any, ...]:
        """The arrays that it writes."""
        return self._outputs

    def __call__(self) -> None:
        """Run the model, and wait for the end."""
        _core._sycl.require(self._executor.name)  # before the lock, which a fork may leave locked
        with self._lock:
            self._executor._finish(self._call, *self._executor._submit(self._call, None))

    def __repr__(self) -> str:
        return f"QueueBound({self._executor.name})"


def _require_same(what: str, lt: _core.logical_tensor, dtype: str, shape: tuple[int, ...]) -> None:
    wanted = lt.get_data_type().name
    if dtype != wanted:
        raise InvalidDataTypeError(f"{what} must be {wanted}, got {dtype}")
    require_shape(what, shape, tuple(lt.get_dims()))


def _overlap(a: _core.tensor, b: _core.tensor) -> bool:
    p, q = a.get_data_handle(), b.get_data_handle()
    n, m = (t.get_logical_tensor().get_mem_size() for t in (a, b))
    return bool(n and m and p < q + m and q < p + n)
