"""Graphs from Python functions: `trace` and `jit`."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import itertools
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, overload

import numpy as np

from ...base.arguments import need_callable, need_choice, need_whole
from ...base.dtypes import dtype_name
from ...base.errors import InvalidDataTypeError
from ...base.processes.forked import renew_in_forks
from ...ops.tensor_spec import spec_of
from ..building.builder import GraphBuilder
from ..building.host_functions import NO_F64
from ..building.value import Node, Value, row_major
from .model import CompiledGraph


def _parts(result: Any) -> list[tuple[str, Any]] | None:
    """Return the parts of a structure with their names, which are empty in plain sequences."""
    if isinstance(result, dict):
        return [(str(key), part) for key, part in result.items()]
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return [(f.name, getattr(result, f.name)) for f in dataclasses.fields(result)]
    if isinstance(result, (tuple, list)):
        return list(zip(getattr(result, "_fields", [""] * len(result)), result, strict=True))
    return None


def named_values(result: Any, function: str, name: str = "") -> Iterator[tuple[str, Value]]:
    """Yield the values of a structure with their names, such as ``cache/keys``."""
    parts = _parts(result)
    if isinstance(result, Value):
        yield name, result
    elif parts is None:
        raise TypeError(
            f"{function} must return a Value, a sequence or a dict of them, got "
            f"{type(result).__name__}"
        )
    else:
        for i, (key, part) in enumerate(parts):
            inner = f"{name}/{key or i}" if name else key
            yield from named_values(part, function, inner)


def rebuilt(result: Any, arrays: Iterator[Any]) -> Any:
    """Return a structure with arrays in the place of its leaves."""
    parts = _parts(result)
    if parts is None:
        return next(arrays)
    if isinstance(result, dict):
        return {key: rebuilt(part, arrays) for key, part in result.items()}
    filled = [rebuilt(part, arrays) for _, part in parts]
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        other = copy.copy(result)  # its __post_init__ has run
        for name in [n for n, v in getattr(other, "__dict__", {}).items() if isinstance(v, Value)]:
            del other.__dict__[name]  # a cached property is computed again, of arrays
        for (name, _), array in zip(parts, filled, strict=True):
            object.__setattr__(other, name, array)
        return other
    return type(result)(*filled) if hasattr(result, "_fields") else type(result)(filled)


def trace(
    function: Callable[..., Any],
    *specs: Any,
    engine_kind: Any = "cpu",
    fpmath_mode: Any = "strict",
    apply_to_int: bool = False,
    dtype: str | None = None,
) -> GraphBuilder:
    """Build a graph by calling a Python function with values (`Value`).

    Parameters
    ----------
    function : callable
        It takes values, and returns a value, or a sequence, a dict or a dataclass of values or of
        such structures. It may be written with NumPy's functions.
    *specs : TensorSpec, (shape, dtype), logical_tensor or array
        Shape and data type of each argument.
    engine_kind, fpmath_mode, apply_to_int
        As in `GraphBuilder`.
    dtype : "f32", optional
        Takes all arrays of f64 as f32, also those that the function reads. By default they are
        refused, as oneDNN has no f64.

    Returns
    -------
    GraphBuilder
        The traced graph, which `GraphBuilder.compile` compiles.

    Raises
    ------
    TypeError
        `function` can't be called, or returns something else.
    OneDNNError
        An op is invalid; the traceback shows the function's line.

    Examples
    --------
    >>> b = trace(lambda x, y: (x @ y).relu(), ((2, 3), "f32"), ((3, 4), "f32"))
    >>> b.outputs
    {'output0': <Value f32 2x4>}
    """
    need_callable("trace: function", function)
    builder = GraphBuilder(engine_kind, fpmath_mode, apply_to_int=apply_to_int)
    _traced(builder, function, specs, dtype)
    return builder


def _traced(
    builder: GraphBuilder, function: Callable[..., Any], specs: Sequence[Any], dtype: str | None
) -> Any:
    """Call a function with inputs of a builder; return its result, which gives the outputs."""
    need_choice("trace: dtype", dtype, ("f32", None))
    builder.narrow = dtype is not None
    names = _parameter_names(function, len(specs))
    values = []
    for i, (given, name) in enumerate(zip(specs, names, strict=True)):
        try:
            spec = spec_of(_narrowed(given) if builder.narrow else given)
        except TypeError as e:
            raise TypeError(f"trace of {_name_of(function)}: argument {name or i}: {e}") from None
        values.append(
            builder.input(spec.shape, spec.dtype or "f32", name=name, strides=_strides_of(given))
        )
    result = function(*values)
    for name, value in named_values(result, _name_of(function)):
        if not name and value.name in builder.outputs:  # two host steps of one function
            name = f"output{len(builder.outputs)}"
        builder.output(**{name: value}) if name else builder.output(value)
    _read_past_copies(builder.contents.nodes)
    return result


def _read_past_copies(nodes: list[Node]) -> None:
    """Let ops read what NumPy's copies copy: nothing is written in place any more."""
    sources: dict[int, Value] = {}
    for i, node in enumerate(nodes):
        inputs = tuple(sources.get(v.id, v) for v in node.inputs)
        nodes[i] = replace(node, inputs=inputs)
        for value in node.outputs:
            value.producer = nodes[i]
            if node.kind == "Reorder" and value.strides is None:
                sources[value.id] = inputs[0]


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _strides_of(given: Any) -> tuple[int, ...] | None:
    """Return a logical tensor's strides, in elements, if they are not row-major."""
    if not hasattr(given, "get_strides") or given.get_layout_type().name != "strided":
        return None
    dims = given.get_dims()
    strides = tuple(given.get_strides())
    known = all(d >= 0 for d in dims) and strides != row_major(dims)
    return strides if known and dims else None


def _parameter_names(function: Callable[..., Any], count: int) -> list[str | None]:
    """Return the function's names of its arguments; None for arguments without a name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some builtins have no signature
        return [None] * count
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [named[i] if i < len(named) else None for i in range(count)]


class JitInfo(NamedTuple):
    """Cache statistics: those of `functools.lru_cache`, and evictions."""

    hits: int
    misses: int
    evictions: int
    maxsize: int
    currsize: int


class Jitted:
    """A function that is traced and compiled for each new set of shapes and data types.

    If it is a method, each instance has its own models. They keep the attributes that the method
    read from its instance: call `cache_clear` after changing them.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        maxsize: int,
        graph_options: dict[str, Any],
        options: dict[str, Any],
        dtype: str | None = None,
    ) -> None:
        need_callable("jit: function", function)
        maxsize = need_whole("jit: maxsize", maxsize)
        functools.update_wrapper(self, function)
        self._function = function
        self._attribute = _name_of(function)
        self._maxsize = maxsize
        self._graph_options = graph_options
        self._options = options
        self._dtype = dtype
        self._lock = threading.RLock()
        renew_in_forks(self)
        # Each with the structure of the function's result.
        self._models: OrderedDict[tuple[Any, ...], tuple[CompiledGraph, Any]] = OrderedDict()
        self._hits = self._misses = self._evictions = 0

    def _after_fork(self) -> None:
        self._lock = threading.RLock()

    def __set_name__(self, owner: type, name: str) -> None:
        self._attribute = name

    def __get__(self, instance: object | None, owner: type) -> Jitted:
        """Return the method of one instance, and store it there for later lookups."""
        if instance is None:
            return self
        try:
            attributes = vars(instance)
            # Weak, as otherwise the instance and its models would form a reference cycle.
            weak = weakref.ref(instance)
        except TypeError:
            raise TypeError(
                f"jit of {_name_of(self._function)}: instances of {owner.__name__} have no "
                "__dict__ that could hold their models, or no __weakref__"
            ) from None

        @functools.wraps(self._function)
        def method(*values: Any) -> Any:
            return self._function(weak(), *values)

        own = inspect.signature(self._function)
        bound = own.replace(parameters=list(own.parameters.values())[1:])
        vars(method)["__signature__"] = bound
        made = Jitted(method, self._maxsize, self._graph_options, self._options, self._dtype)
        kept: Jitted = attributes.setdefault(self._attribute, made)
        return kept

    def __repr__(self) -> str:
        return f"<jit of {_name_of(self._function)}: {self.cache_info()}>"

    def model(self, *arrays: Any) -> CompiledGraph:
        """Return the compiled model for arguments of these shapes and data types."""
        return self._model(arrays)[0]

    def _model(self, arrays: Sequence[Any]) -> tuple[CompiledGraph, Any]:
        key = tuple(_key_of(a, i, _name_of(self._function)) for i, a in enumerate(arrays))
        with self._lock:
            ready = self._models.get(key)
            if ready is not None:
                self._hits += 1
                self._models.move_to_end(key)
                return ready
            self._misses += 1
            builder = GraphBuilder(**self._graph_options)
            result = _traced(builder, self._function, key, self._dtype)
            model = builder.compile(name=_name_of(self._function), **self._options)
            entry = self._models[key] = model, rebuilt(result, itertools.count())
            while len(self._models) > self._maxsize:
                self._models.popitem(last=False)
                self._evictions += 1
            return entry

    def __call__(self, *arrays: Any, out: Any = None) -> Any:
        """Run the function on arrays; see `CompiledGraph`. The result has its structure."""
        if self._dtype is not None:
            arrays = tuple(map(_narrowed, arrays))
        model, structure = self._model(arrays)
        results = model(*arrays, out=out)
        return rebuilt(structure, iter(results if isinstance(results, tuple) else (results,)))

    def cache_info(self) -> JitInfo:
        """Return the numbers of hits, misses, evictions and models."""
        with self._lock:
            return JitInfo(
                self._hits, self._misses, self._evictions, self._maxsize, len(self._models)
            )

    def cache_clear(self) -> None:
        """Drop all models, and reset the counters."""
        with self._lock:
            self._models.clear()
            self._hits = self._misses = self._evictions = 0


def _key_of(array: Any, i: int, name: str) -> tuple[tuple[int, ...], str]:
    dtype = getattr(array, "dtype", None)
    subclass = isinstance(array, np.ndarray) and type(array) not in (np.ndarray, np.memmap)
    if dtype is None or not hasattr(array, "shape") or subclass:
        raise TypeError(
            f"{name}: argument {i} must be an array or support DLPack, got {type(array).__name__}"
        )
    shape = tuple(int(d) for d in array.shape)
    text = str(dtype)
    own = text.removeprefix("torch.")  # torch has its own dtypes: ``torch.bfloat16``
    if own == "float64":
        raise InvalidDataTypeError(f"{name}: argument {i}: {NO_F64.format(dtype)}")
    return shape, dtype_name(dtype if own == text else own)


def _narrowed(array: Any) -> Any:
    """Return an array of f64 as f32, and all else as it is."""
    is_wide = isinstance(array, (np.ndarray, np.generic)) and array.dtype == np.float64
    return array.astype(np.float32) if is_wide else array


@overload
def jit(function: Callable[..., Any], /) -> Jitted: ...


@overload
def jit(
    *,
    maxsize: int = ...,
    engine_kind: Any = ...,
    fpmath_mode: Any = ...,
    apply_to_int: bool = ...,
    dtype: str | None = ...,
    **options: Any,
) -> Callable[[Callable[..., Any]], Jitted]: ...


def jit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    maxsize: int = 32,
    engine_kind: Any = "cpu",
    fpmath_mode: Any = "strict",
    apply_to_int: bool = False,
    dtype: str | None = None,
    **options: Any,
) -> Any:
    """Trace and compile a function of values (`Value`) when it is called with arrays.

    Parameters
    ----------
    function : callable
        As in `trace`.
    maxsize : int
        Number of sets of shapes and data types that stay compiled, the most recently used ones.
    engine_kind, fpmath_mode, apply_to_int
        As in `GraphBuilder`.
    dtype : "f32", optional
        As in `trace`.
    **options
        As in `GraphBuilder.compile`.

    Returns
    -------
    Jitted
        Callable with arrays; ``cache_info()`` reports hits, misses and evictions.

    Examples
    --------
    >>> @jit
    ... def double_relu(x):
    ...     return (x + x).relu()
    >>> double_relu(np.float32([-1, 2]))
    array([0., 4.], dtype=float32)
    """
    graph = dict(engine_kind=engine_kind, fpmath_mode=fpmath_mode, apply_to_int=apply_to_int)
    others = maxsize, graph, options, dtype
    return (lambda f: Jitted(f, *others)) if function is None else Jitted(function, *others)
