"""Calling a compiled graph: `CompiledGraph`."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from inspect import getdoc, signature
from typing import Any, NamedTuple, SupportsIndex

from ... import _core
from ...base import _dpctl
from ...base.arguments import need_choice, need_instance, need_integers, need_whole
from ...base.dtypes import HOST_DTYPES
from ...base.errors import InvalidArgumentsError, InvalidShapeError, UnimplementedError
from ...base.processes.forked import renew_in_forks, warn_of_one_thread
from ...machine.constant_cache import count_dropped
from ...ops.terms import shape_text
from ..building.attached_methods import ModelMethods
from ..building.builder import GraphBuilder
from ..building.infer import require_fit
from ..building.sizes import fulfils, text_of
from ..building.value import Value, is_whole
from ..planning import (
    Check,
    CompileOptions,
    Fallback,
    Keep,
    KnownDefects,
    Layout,
    Plan,
    Policy,
    SlowFusions,
    Tune,
    engine_of,
    make_plan,
)
from ..planning.pace import Paces, remember
from ..planning.shared import Shared
from .arrays import Converter, by_name
from .memory_limit import MemoryLimit
from .on_queue import QueueBound, QueueExecutor
from .queue import ModelQueue, device_of
from .releasing import plain_bytes, release, require_plain, rest


class Stats(NamedTuple):
    """Counters and memory use of a model.

    Parameters
    ----------
    calls : int
    seconds : float
        Time inside all calls together, without the conversion of arguments.
    copies : int
        Inputs that the model copied because of their strides or alignment.
    memory_bytes : int
        Bytes of constants and intermediate memory, without oneDNN's own memory, which is unknown.
    shapes : int
        Sets of input shapes for which the model is compiled at present.
    hits, misses, evictions : int
        Calls that found their shapes compiled; calls that had to compile; sets of shapes that were
        dropped for newer ones.
    reordered_again : int
        Bytes of constants that oneDNN had to reorder once more, because its cache was emptied of
        what models that are gone had left there, or by `clear_caches`. Each byte that such a model
        leaves costs at most eight, all living models together.
    """

    calls: int
    seconds: float
    copies: int
    memory_bytes: int
    shapes: int
    hits: int
    misses: int
    evictions: int
    reordered_again: int


class Step(NamedTuple):
    """One step of a model: a partition, host steps, a NumPy fallback, a view, a folded constant.

    Parameters
    ----------
    ops : tuple of str
        The op kinds.
    names : tuple of str
        The ops' names.
    implementation : str
        ``oneDNN`` for a partition; ``host`` for functions of `GraphBuilder.call`; ``reference`` for
        ops that NumPy computes; ``view`` for a slice, reshape or transpose that is not run, because
        its readers read its input's memory; ``constant`` for ops that were computed from constants
        when the model was compiled.
    why : str
        The reason why its ops do not run fused, or not as the graph has them: a known defect of
        oneDNN, a fusion that is slower than its separate ops, or the error from compiling them
        together. Empty if there is no such reason.
    verified : str
        The verdict of ``check="verify"``: ``right`` or ``unverified``, with the reason; it says if
        only a part of the results was compared. Empty without that option, and for
        steps that oneDNN does not compute.
    measured : str
        The times of its group as written and in other forms, where they were measured.
    """

    ops: tuple[str, ...]
    names: tuple[str, ...]
    implementation: str
    why: str = ""
    verified: str = ""
    measured: str = ""


class Specialization:
    """A model compiled for one set of input shapes."""

    def __init__(self, model: CompiledGraph, plan: Plan) -> None:
        if model.options["threads"] != 1:
            warn_of_one_thread()
        self.plan = plan
        # Not the model itself, which keeps its specializations alive.
        may_copy = model.options["copy"] is not False
        convert = Converter(model.name, plan, may_copy, model._counters.copied)
        self.run: _core._executor | QueueExecutor
        if model._queue is not None:
            self.run = QueueExecutor(model._queue, model._uploaded(plan), convert)
            return
        self.run = _core._executor(
            model.name,
            plan.engine,
            [(lt, v.name, HOST_DTYPES.get(v.dtype), v.updated) for v, lt in plan.inputs],
            [
                (lt, name, HOST_DTYPES.get(dtype), False)
                for (name, lt), dtype in zip(plan.outputs, plan.output_dtypes, strict=True)
            ],
            plan.constants,
            [
                (
                    step.label,
                    step.compiled if step.compiled is not None else step.function,
                    *plan.arguments(step),
                    step.scratchpad,
                    step.why,
                    step.implementation,
                )
                for step in plan.running
            ],
            plan.arena_bytes,
            plan.threads,
            convert.input,
            convert.output,
        )


class _Counters:
    """Counters that all threads share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.copies = 0
        self.hits = 0
        self.misses = 0
        self.evictions = 0
        self.calls = 0
        self.seconds = 0.0

    def dropped(self, calls: int, seconds: float) -> None:
        """Count a set of shapes that is dropped, and keep its calls."""
        with self.lock:
            self.evictions += 1
            self.calls += calls
            self.seconds += seconds

    def copied(self) -> None:
        """Count a copied input."""
        with self.lock:
            self.copies += 1


class _Compiling:
    """A compilation that one thread does, and for which others wait."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.done = threading.Event()


class CompiledGraph(_core._model_base, ModelMethods):
    """A graph that can be called with arrays; `GraphBuilder.compile` makes it.

    ``model(*inputs, out=None, **named)`` takes NumPy arrays, or objects that support DLPack, by
    position or by name, with 4-bit integers packed as by `dtypes`. It writes
    to the array or arrays `out` if they are given, and returns an array for each output. Before it
    writes anything, it raises `InvalidArgumentsError` (inputs are missing, unknown or too many;
    `out` is read-only or overlaps), `InvalidShapeError` or `InvalidDataTypeError` (an array is not
    as declared) or ``TypeError`` (it is not an array). It raises `ExecutionError` if oneDNN fails.

    Parameters
    ----------
    builder : GraphBuilder
        The graph to compile; later changes to the builder do not affect the model.
    layout : str
        ``auto`` lets oneDNN choose the memory layouts of tensors between partitions, ``plain``
        keeps them in row-major order. Inputs and outputs are always plain.
    fallback : str
        What becomes of ops for which oneDNN has no kernel: ``reference`` writes them in another way
        that it has kernels for, or computes them in NumPy, with a warning; ``error`` raises.
    policy : str
        ``fusion``, or ``debug`` for partitions of one op each.
    known_defects : str
        ``avoid`` splits fused partitions that oneDNN is known to compute wrongly, and refuses
        single ops that it computes wrongly; ``run`` runs both as oneDNN makes them. Results are
        then wrong; use it only to study the defect. Partitions that would read or write out of
        bounds are split or refused with both options.
    slow_fusions : str
        ``avoid`` splits a fused partition if it is known, or measured while compiling, to take more
        than 1.1 times as long as its separate ops, and writes it in another form that is known to
        be faster; ``run`` runs it as oneDNN makes it. Measured are small partitions, and larger
        ones that have no products and convolutions, that have compressed weights, or that read
        strided tensors. If other processes disturb all measurements, the fused partition runs.
    tune : str
        ``quick`` measures the forms of the groups that have most of the work, such as a product
        written as a convolution or attention in blocks of queries, for at most as long again as
        planning takes, and 2 s; a form runs if it is 1.1 times as fast. ``full`` measures all,
        however long that takes. ``off`` measures nothing: what is known of this machine, or of its
        kind, decides. What is measured is kept in the user's cache (`onednn_graph_py.tuning`), so
        that later compilations, and other processes, get the same plan without measuring.
    fold_constants : bool
        Compute ops that read only constants once, when compiling. This takes memory for the
        results: False keeps compressed weights small, and computes these ops at each call. If it
        makes constants more than twice as large, a warning says so.
    keep : str
        The constants that stay in memory once oneDNN has copies in a layout of its own. ``all``;
        ``compressed`` moves those of 1 MiB or more to nameless files in the user's cache, where new
        shapes, pickles and other readers find them; ``auto`` does that if some of them are integers
        of 8 or 4 bits.
    check : str, optional
        ``verify`` runs each partition once in another process and compares it with the reference;
        partitions that are wrong, crash or hang then run in parts. Verdicts are kept in the user's
        cache.
    warn : bool
        Warn about partitions that run in parts, or that could not be verified; `steps` has the
        reasons too.
    threads : int, optional
        Threads per call; `num_threads()` by default. A step that one thread runs in about 10 us
        runs on one.
    max_shapes : int
        Number of sets of input shapes for which a model with unknown dims stays compiled; it drops
        the least recently used set first.
    memory_limit : int, optional
        The most bytes of constants and intermediate memory, as `stats` counts them. Sets of shapes
        are dropped to make room for new ones. A set, or one more call at the same time, that needs
        more raises `OutOfMemoryError` before it is allocated.
    name : str
        Name of the model in messages.
    queue : dpctl.SyclQueue, optional
        Run on this queue's device, which must be of the builder's engine kind; see the notes. By
        default a graph for ``gpu`` runs on a queue of the default GPU.
    copy : bool, optional
        False raises `InvalidArgumentsError` if an input or output would have to be copied; None
        copies it and counts the copy (`copies`).

    Raises
    ------
    InvalidGraphError
        The graph has no output.
    UnimplementedError
        oneDNN has no kernel for an op, and `fallback` is ``error``.
    InvalidArgumentsError
        An option is invalid.
    NoDeviceError
        There is no device of the graph's engine kind.

    Notes
    -----
    Calls from several threads run at the same time, without the GIL and each with its own
    intermediate memory. Models pickle, with their constants; a model with a queue gets a new queue
    of the same device.

    A model with a queue also reads arrays in SYCL's unified shared memory in place: dpnp's arrays,
    dpctl's memory, tensors of `sycl_interop.make_tensor`, DLPack producers on a SYCL device. Memory
    of another context raises. If an input is such an array, the outputs are arrays of the same
    library in memory of the same kind (the most restricted of ``host``, ``shared`` and ``device``
    among the inputs), or tensors if that library lacks the data type. Otherwise they are NumPy
    arrays. A CPU reads NumPy arrays in place; for a GPU the model copies them once, and counts the
    copies. Constants are on the device.

    Calls of a model with a queue take two more arguments. ``wait=False`` returns a `Submission`,
    tensors and an event, while the call runs; readers of a tensor wait for it, and all memory stays
    alive until then. `deps` lists the events (dpctl) after which the call starts, by default all
    work submitted to the inputs' queues. Don't change inputs before the event is complete.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        *,
        layout: Layout = "auto",
        fallback: Fallback = "reference",
        policy: Policy = "fusion",
        known_defects: KnownDefects = "avoid",
        slow_fusions: SlowFusions = "avoid",
        tune: Tune = "quick",
        fold_constants: bool = True,
        keep: Keep = "auto",
        check: Check = None,
        warn: bool = True,
        threads: int | None = None,
        max_shapes: int = 32,
        memory_limit: int | None = None,
        name: str = "model",
        queue: Any = None,
        copy: bool | None = None,
    ) -> None:
        super().__init__()
        need_choice("copy", copy, (None, False))
        if threads is not None:
            threads = need_whole("threads", threads)
        max_shapes = need_whole("max_shapes", max_shapes)
        need_instance("name", name, str)
        self.name = name
        if queue is None:
            engine_of(builder.engine_kind)  # raises without a device, even if only calls compile
        self._queue: ModelQueue | None = device_of(builder.engine_kind, queue)
        if self._queue is not None:
            _require_edges_for_queue(name, builder)
        self._device_constants: dict[tuple[int, str], Any] = {}
        limit: Any = memory_limit  # or a `MemoryLimit` that models share
        if limit is not None and self._queue is not None:
            raise UnimplementedError(f"{name}: memory_limit is for models without a queue")
        if limit is not None and not isinstance(limit, MemoryLimit):
            limit = MemoryLimit(name, limit)
        self._memory_limit = limit
        self.builder = builder.snapshot()
        self._compile_options = CompileOptions(
            layout,
            fallback,
            policy,
            known_defects,
            slow_fusions,
            fold_constants,
            check,
            warn,
            tune,
            keep,
        )
        self.options: dict[str, Any] = {
            **asdict(self._compile_options),
            "threads": threads,
            "max_shapes": max_shapes,
            "memory_limit": None if limit is None else limit.nbytes,
            "name": name,
            "copy": copy,
        }
        only_one = _core._has_one_thread()
        self._threads = _core.num_threads() if threads is None or only_one else threads
        self._counters = _Counters()
        self._lock = threading.Lock()
        self._positions = {v.name: i for i, v in enumerate(self.builder.inputs)}
        self._made: OrderedDict[tuple[tuple[int, ...], ...], Specialization] = OrderedDict()
        self._shared = Shared(self.builder, self._compile_options)
        if limit is not None:
            limit.add(self)
        self._compiling: dict[tuple[tuple[int, ...], ...], _Compiling] = {}
        self._queue_run: QueueExecutor | None = None
        renew_in_forks(self)
        shapes = [v.shape or () for v in self.builder.inputs]
        self._shapes_are_fixed = all(is_whole(s) for s in shapes)
        if self._shapes_are_fixed:
            run = self.specialization(tuple(shapes)).run
            if isinstance(run, QueueExecutor):
                self._queue_run = run
            else:
                self._run = run

    def __repr__(self) -> str:
        inputs = ", ".join(f"{v.name}: {v.dtype} {shape_text(v.shape)}" for v in self.inputs)
        outputs = ", ".join(
            f"{n}: {v.dtype} {shape_text(v.shape)}" for n, v in self.builder.outputs.items()
        )
        return f"<CompiledGraph {self.name!r}: ({inputs}) -> ({outputs})>"

    # -- properties

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The inputs, in the order of a call."""
        return self.builder.inputs

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the inputs, in the order of a call."""
        return tuple(self._positions)

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of the outputs, in the order in which a call returns them."""
        return tuple(self.builder.outputs)

    @property
    def graph(self) -> _core.graph:
        """The mirror's graph, before partitioning."""
        return self.builder.graph

    @property
    def engine(self) -> _core.engine:
        """The engine, which all models of this kind, or on queues of this device, share."""
        if self._queue is not None:
            return self._queue.engine
        return engine_of(self.builder.engine_kind)

    @property
    def threads(self) -> int:
        """The number of threads that a call uses."""
        return self._threads

    @property
    def queue(self) -> Any:
        """The queue (dpctl) on which it runs, or None."""
        return None if self._queue is None else self._queue.queue

    @property
    def copies(self) -> int:
        """The number of arrays copied so far: for strides, alignment, or another device."""
        return self._counters.copies

    @property
    def sizes(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """The shapes of the inputs for which it is compiled, the least recently used first."""
        with self._lock:
            return tuple(self._made)

    @property
    def state(self) -> tuple[GraphBuilder, dict[str, Any], str | None, Paces]:
        """The arguments of `restored` for an equal model: for pickles and files."""
        device = None if self._queue is None else self._queue.queue.sycl_device.get_filter_string()
        return self.builder, self.options, device, dict(self._shared.measured)

    def steps(self, *shapes: Sequence[int]) -> tuple[Step, ...]:
        """List the model's steps, in order.

        Parameters
        ----------
        *shapes : sequence of int
            Shapes of the inputs, if the model has unknown dims.
        """
        sets = tuple(need_integers(f"{self.name}: a shape", s) for s in shapes)
        chosen = sets or tuple(v.shape or () for v in self.inputs)
        plan = self.specialization(chosen).plan
        return tuple(
            Step(
                tuple(n.kind for n in step.nodes),
                tuple(n.name for n in step.nodes),
                step.implementation,
                step.why,
                step.verified,
                step.measured,
            )
            for step in plan.steps
        )

    def stats(self) -> Stats:
        """Return the model's counters and memory use."""
        with self._lock:
            runs = [s.run for s in self._made.values()]
            memory = sum(s.run.contexts * s.plan.arena_bytes for s in self._made.values())
            executors = [r for r in runs if isinstance(r, _core._executor)]
            c = self._counters
            return Stats(
                c.calls + sum(r.calls for r in runs),
                c.seconds + sum(r.seconds for r in runs),
                c.copies,
                memory + sum(self.plain().values()),
                len(runs),
                c.hits,
                c.misses,
                c.evictions,
                _core._executor.reordered_again(executors),
            )

    def release_constants(self) -> int:
        """Give back the memory of constants that oneDNN has in a layout of its own.

        oneDNN reorders most weights and reads only the reordered copy, so the plain one is needed
        no more once the model is compiled for all of its shapes. What is read as it is stays:
        constants of ops other than products, weights that oneDNN does not reorder, and small ones.

        Returns
        -------
        int
            The bytes given back; 0 if there is nothing (more) to release.

        Raises
        ------
        InvalidArgumentsError
            The model is not compiled for any shape yet.
        UnimplementedError
            The model has a queue, or the system doesn't tell which memory is read.

        Notes
        -----
        Afterwards all that needs the elements raises `InvalidArgumentsError`, with the constant's
        name: to pickle or save the model, to verify or export it, to call it with new shapes, and
        to compile the builder again, which has the same constants. Do all that before.

        Constants stay that others use: another model of the same builder, or an array such as
        ``value.data`` that someone still has. While the model lives, oneDNN's cache can't be
        emptied: `set_constant_tensor_cache_capacity` raises, and `clear_caches` leaves the
        constants.

        Each step that reads a large constant runs twice, on inputs of ones. Other threads may call
        the model meanwhile.
        """
        if self._queue is not None:
            raise UnimplementedError(
                f"{self.name}: release_constants is only for models without a queue; those with "
                "one read their constants in the device's memory"
            )
        with self._lock:
            if not self._made:
                raise InvalidArgumentsError(
                    f"{self.name}: release_constants needs a compiled model; call it with inputs "
                    "of each shape first"
                )
            compiled = [
                (m.plan, m.run) for m in self._made.values() if not isinstance(m.run, QueueExecutor)
            ]
            return release(self.name, self.builder.constants, compiled, self._shared.folded)

    # -- for shapes

    @property
    def latest_shapes(self) -> tuple[tuple[int, ...], ...] | None:
        """The shapes of the inputs that it was called with or compiled for last; None before."""
        with self._lock:
            return next(reversed(self._made), None)

    def prepare(self, *shapes: Sequence[Any] | Mapping[str, Sequence[int]]) -> None:
        """Compile the model ahead for shapes of its inputs.

        Calls with shapes that are compiled go on meanwhile.

        Parameters
        ----------
        *shapes : mapping of str to shape, or sequence of shapes
            Sets of input shapes, by the inputs' names or in their order. If the model has one
            input, also its shape alone: ``model.prepare((1, 128), (1, 256))``.

        Raises
        ------
        InvalidArgumentsError
            There are more sets than `max_shapes`, or a set lacks an input or has another.
        InvalidShapeError
            A shape does not fit its input.
        """
        sets = list(dict.fromkeys(self._shapes_of(given) for given in shapes))
        if len(sets) > self.options["max_shapes"]:
            raise InvalidArgumentsError(
                f"{self.name}: prepare: expected at most max_shapes = "
                f"{self.options['max_shapes']} sets of shapes, got {len(sets)}"
            )
        for one in sets:
            self._require_fit(one)
        for one in sets:
            self.specialization(one)

    def with_threads(self, threads: int) -> CompiledGraph:
        """Compile the same model for calls with another number of threads.

        It shares the constants, and nothing that was compiled.

        Raises
        ------
        InvalidArgumentsError
            `threads` is less than 1, or the model released its constants (`release_constants`).
        """
        options = {**self.options, "threads": threads}
        return CompiledGraph(self.builder, **options, queue=self.queue)

    def _shapes_of(self, given: Any) -> tuple[tuple[int, ...], ...]:
        """Return a set of input shapes in the inputs' order."""
        need_instance(f"{self.name}: prepare: a set of shapes", given, Mapping, Iterable)
        if isinstance(given, Mapping):
            given = self.ordered((), given)
        else:
            given = tuple(given)
            if len(self.inputs) == 1 and all(isinstance(d, SupportsIndex) for d in given):
                given = [given]
        return tuple(need_integers(f"{self.name}: prepare: a shape", s) for s in given)

    def specialization(self, shapes: tuple[tuple[int, ...], ...]) -> Specialization:
        """Return the model for these shapes of its inputs; compile it for them if need be."""
        while True:
            with self._lock:
                ready = self._made.get(shapes)
                if ready is not None:
                    self._made.move_to_end(shapes)
                    self._counters.hits += 1
                    return ready
                compiling = self._compiling.get(shapes)
                if compiling is None or compiling.thread == threading.get_ident():
                    compiling = self._compiling[shapes] = _Compiling()
                    self._counters.misses += 1
                    break
            compiling.done.wait()
        try:
            made = self._specialized(shapes)
            with self._lock:
                self._made[shapes] = made
            self.drop_while(lambda: len(self._made) > self.options["max_shapes"])
            return made
        finally:
            with self._lock:
                self._compiling.pop(shapes, None)
            compiling.done.set()  # after a failure the threads that wait try for themselves

    def plain(self) -> dict[int, int]:
        """Return the bytes of its constants in memory, by their places."""
        return plain_bytes(self.builder.constants, self._shared.folded)

    def drop_while(self, is_too_much: Callable[[], bool]) -> None:
        """Drop sets of shapes, the least recently used first."""
        dropped = []
        with self._lock:
            while self._made and is_too_much():
                gone = self._made.popitem(last=False)[1]
                dropped += [s.compiled for s in gone.plan.running if s.compiled]
                self._counters.dropped(gone.run.calls, gone.run.seconds)
                if self._shapes_are_fixed:
                    self._run = None  # the next call compiles again
                del gone  # and so its memory, which `is_too_much` may count
        count_dropped(len({id(compiled) for compiled in dropped}))

    def _specialized(self, shapes: tuple[tuple[int, ...], ...]) -> Specialization:
        """Compile the model for these shapes."""
        self._require_fit(shapes)
        sizes = ", ".join(map(shape_text, shapes))
        require_plain(self.builder.constants, f"{self.name} for the new shapes {sizes}")
        plan = make_plan(
            self.builder,
            {v.id: s for v, s in zip(self.inputs, shapes, strict=True)},
            self._compile_options,
            threads=self._threads,
            shared=self._shared,
            engine=None if self._queue is None else self._queue.engine,
        )
        limit = self._memory_limit
        if limit is not None:
            limit.make_room(plan.arena_bytes, self)
            memory = limit.take(plan.arena_bytes, f"a call of {sizes}")
        made = Specialization(self, plan)
        if not isinstance(made.run, QueueExecutor):
            if limit is not None:
                made.run.ask_before_growing(memory)
            rest(self.builder.constants, plan, made.run, self._compile_options.keep)
        return made

    def _require_fit(self, shapes: tuple[tuple[int, ...], ...]) -> None:
        inputs = self.inputs
        if len(shapes) != len(inputs):
            raise InvalidArgumentsError(
                f"{self.name}: expected {len(inputs)} inputs, got {len(shapes)}"
            )
        for value, shape in zip(inputs, shapes, strict=True):
            require_fit(f"{self.name}: input {value.name!r}", value.shape or (), shape)
        for condition in self.builder.contents.conditions:
            if not fulfils(shapes, condition):
                wanted = text_of(condition, [v.name for v in inputs])
                given = ", ".join(
                    f"{v.name} {shape_text(s)}" for v, s in zip(inputs, shapes, strict=True)
                )
                raise InvalidShapeError(f"{self.name} is for {wanted}, got {given}")

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        self._counters.lock = threading.Lock()
        self._compiling.clear()
        if self._threads > 1 and _core._has_one_thread():
            self._threads = 1
            # Kept, as it still runs here if one of its steps, in Python, forked.
            self._run_of_parent, self._run = self._run, None
            self._made.clear()
            self._shared.paces.clear()

    def _uploaded(self, plan: Plan) -> list[Any]:
        """Return the plan's constants in the device's memory, which all shapes share."""
        assert self._queue is not None
        # Steps in NumPy read constants on the host.
        kind = "shared" if any(s.function is not None for s in plan.steps) else "device"
        with self._shared.folded.lock:
            for array in plan.constants:
                key = (id(array), kind)
                if key not in self._device_constants:
                    self._device_constants[key] = self._queue.upload(array, kind)
            return [self._device_constants[id(array), kind] for array in plan.constants]

    def ordered(self, positional: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """Return all inputs in order, of those given by position and by name."""
        names = list(self._positions)
        arrays = by_name(self.name, names, names, positional, named)
        return [arrays[n] for n in names]

    def _executor_for(self, arrays: Sequence[Any]) -> _core._executor | QueueExecutor:
        run = self._run or self._queue_run
        if run is not None:
            return run
        shapes: Any = tuple([getattr(a, "shape", None) for a in arrays])
        if shapes not in self._made:
            shapes = tuple(map(self._shape_of, self.builder.inputs, arrays))
        run = self.specialization(shapes).run
        if self._shapes_are_fixed and not isinstance(run, QueueExecutor):
            self._run = run  # a fork had dropped it
        return run

    def _shape_of(self, value: Value, array: Any) -> tuple[int, ...]:
        if self._queue is not None and isinstance(array, _core.tensor):
            return tuple(array.get_logical_tensor().get_dims())
        if not hasattr(array, "shape"):
            raise TypeError(
                f"{self.name}: input {value.name!r} must be a NumPy array or support DLPack, "
                f"got {type(array).__name__}"
            )
        return tuple(int(d) for d in array.shape)

    # -- calls

    def _call(self, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """Run calls that the base class can't run: inputs by name, unknown dims, a queue."""
        options = {}
        if self._queue is not None:
            options = {
                key: named.pop(key)
                for key in ("wait", "deps")
                if key in named and key not in self._positions
            }
        all_by_place = not named and len(inputs) == len(self._positions)
        arrays = inputs if all_by_place else self.ordered(inputs, named)
        run = self._executor_for(arrays)
        if isinstance(run, QueueExecutor):
            return run(*arrays, out=out, **options)
        return run(*arrays) if out is None else run(*arrays, out=out)

    def bind(
        self, inputs: Sequence[Any] | Mapping[str, Any], out: Any = None
    ) -> _core.bound_model | QueueBound:
        """Check arrays once for many calls.

        Parameters
        ----------
        inputs : sequence of arrays, or mapping of str to array
        out : array, or sequence of arrays, optional
            Output arrays; by default new ones, see ``bound.outputs``.

        Returns
        -------
        bound_model or QueueBound
            Callable without arguments. A call reads and writes the arrays' memory at that time.

        Raises
        ------
        OneDNNError, TypeError
            As in a call.
        """
        if isinstance(inputs, Mapping):
            arrays = self.ordered((), inputs)
        else:
            arrays = self.ordered(list(inputs), {})
        return self._executor_for(arrays).bind(arrays, out)

    def __reduce__(self) -> Any:
        return restored, self.state


def _require_edges_for_queue(name: str, builder: GraphBuilder) -> None:
    """Raise if a model with a queue has edges that only models without one can have."""
    for value in builder.inputs:
        if value.updated:
            raise UnimplementedError(
                f"{name}: input {value.name!r} is updated, which a model with a queue can't do"
            )
    for what, values in (("input", builder.inputs), ("output", builder.outputs.values())):
        for value in values:
            if value.dtype in HOST_DTYPES:
                raise UnimplementedError(
                    f"{name}: {what} {value.name!r} is {value.dtype}, which oneDNN lacks; a model "
                    "with a queue can't have such inputs and outputs"
                )


def restored(
    builder: GraphBuilder,
    options: Mapping[str, Any],
    device: str | None = None,
    measured: Paces | None = None,
    sizes: Iterable[tuple[tuple[int, ...], ...]] = (),
) -> CompiledGraph:
    """Compile a model again, on a queue of a SYCL device if it had one; see `CompiledGraph.state`.

    - `measured`: what decided between forms, so that the plan is the same
    - `sizes`: shapes of the inputs for which it is compiled
    """
    remember(measured or {})
    queue = None
    if device is not None:
        queue = _dpctl.load("a model on a SYCL queue").SyclQueue(device)
    model = CompiledGraph(builder, **options, queue=queue)
    for shapes in sizes:
        model.specialization(shapes)
    return model


def assert_fused(model: CompiledGraph, partitions: int = 1, *shapes: Sequence[int]) -> None:
    """Check that a model runs in this number of oneDNN partitions, and no op in NumPy.

    Parameters
    ----------
    model : CompiledGraph
    partitions : int
    *shapes : sequence of int
        Shapes of the inputs, if the model has unknown dims.

    Raises
    ------
    AssertionError
        It runs in more or fewer partitions, or partly in NumPy; the message lists its steps.
    InvalidArgumentsError, InvalidShapeError
        `partitions` is no number, or the shapes don't fit.
    """
    need_instance("assert_fused: model", model, CompiledGraph)
    need_whole("assert_fused: partitions", partitions, 0)
    steps = [s for s in model.steps(*shapes) if s.implementation != "constant"]
    if len(steps) == partitions and all(s.implementation == "oneDNN" for s in steps):
        return
    listed = "".join(
        f"\n  {s.implementation}: {', '.join(s.ops)}" + (f" ({s.why})" if s.why else "")
        for s in steps
    )
    raise AssertionError(
        f"{model.name} should run in {partitions} oneDNN partitions, but has {len(steps)} steps:"
        f"{listed}"
    )


def compile(builder: GraphBuilder, **options: Any) -> CompiledGraph:
    """Compile the graph into a model, a `CompiledGraph`, which is called with arrays."""
    return CompiledGraph(builder, **options)


vars(compile)["__signature__"] = signature(CompiledGraph).replace(return_annotation="CompiledGraph")
compile.__doc__ = f"{compile.__doc__}\n\n{(getdoc(CompiledGraph) or '').partition(chr(10) * 2)[2]}"
