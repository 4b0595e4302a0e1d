"""Calls of NumPy functions as host steps: `HostFunction`, and `host_step`, which adds one."""

import contextlib
import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.dtypes import NUMPY_NAMES, array_dtype
from ...base.errors import (
    InvalidArgumentsError,
    InvalidDataTypeError,
    InvalidShapeError,
    OneDNNError,
)
from .sizes import Slot, filled
from .value import Value

Array = npt.NDArray[Any]
Dims = tuple[int, ...]
FLOATS = ("f32", "bf16", "f16")

NO_F64 = (
    "oneDNN has no {0}; convert to 'float32' first: arrays by x.astype(\"float32\"), or all of a "
    'function by og.jit(dtype="f32")'
)


def leaves(structure: Any) -> Iterator[Any]:
    """Yield what lists, tuples and dicts hold."""
    if isinstance(structure, dict):
        structure = list(structure.values())
    if isinstance(structure, (list, tuple)):
        for part in structure:
            yield from leaves(part)
    else:
        yield structure


def function_of(name: str) -> Callable[..., Any]:
    """Return a function by its name below ``numpy``; ``getitem``, or ``special.erf`` of SciPy."""
    if name == "getitem":
        return operator.getitem
    if name.startswith("special."):
        module = import_module("scipy.special")
        function = operator.attrgetter(name.removeprefix("special."))(module)
        return getattr(function, "__wrapped__", function)  # type: ignore[no-any-return]
    return operator.attrgetter(name)(np)  # type: ignore[no-any-return]


def is_ufunc(name: str) -> bool:
    """Whether a name below ``numpy`` or ``special`` is a ufunc's, or that of a ufunc's method."""
    try:
        function = function_of(name)
        return isinstance(getattr(function, "__self__", function), np.ufunc)
    except (AttributeError, ImportError):
        return False


@dataclass(frozen=True)
class HostFunction:
    """A call of a NumPy function, which pickles."""

    op: str  # the function's name; see `function_of`
    # the arguments, with a `Slot` for each array, and an `Extent` or a `Size` for each number that
    # only a call determines
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    read: tuple[str, ...]  # the data types of the arrays
    # tuple of (tuple of int, str), the results' shapes, -1 for dims that only a call determines,
    # and their data types
    results: tuple[tuple[Dims, str], ...]
    # the arrays and results, by their places, that share memory, as NumPy's views do
    shares: tuple[tuple[int, int], ...] = ()

    @property
    def function(self) -> Callable[..., Any]:
        """The function that a call runs."""
        return function_of(self.op)

    def computed(self, *arrays: Array) -> Any:
        """Compute what the function returns."""
        shapes = [a.shape for a in arrays]
        args = [filled(a, shapes, arrays) for a in self.args]
        kwargs = {k: filled(a, shapes, arrays) for k, a in self.kwargs.items()}
        return self.function(*args, **kwargs)

    def __call__(self, *arrays: Array) -> Any:
        """Compute the results in the declared data types."""
        return tuple(
            m.astype(array_dtype(dtype), copy=False)
            for m, (_, dtype) in zip(parts_of(self.computed(*arrays)), self.results, strict=False)
        )

    def outputs(self, *shapes: Dims) -> Sequence[tuple[Dims, str]]:
        """Return the results' shapes and data types for arrays of these shapes, by a trial."""
        if all(-1 not in dims for dims, _ in self.results) or any(-1 in s for s in shapes):
            return self.results
        found = parts_of(self.tried(shapes)[1])
        return [(m.shape, t) for m, (_, t) in zip(found, self.results, strict=True)]

    def tried(self, shapes: Sequence[Dims], number: int = 0) -> tuple[list[Array], Any]:
        """Return arrays of a number, or unit matrices, which have an inverse, and the results."""
        arrays = []
        for dims, name in zip(shapes, self.read, strict=True):
            dtype = array_dtype(name)
            is_matrix = len(dims) > 1 and name in ("f32", "f64")
            unit = np.eye(*dims[-2:], dtype=dtype) if is_matrix else np.full((), number, dtype)
            arrays.append(np.broadcast_to(unit, dims))
        with np.errstate(all="ignore"):
            return arrays, self.computed(*arrays)


def parts_of(result: Any) -> tuple[Array, ...]:
    """Return the arrays that a function of NumPy returns, one or several."""
    return tuple(map(np.asarray, result if isinstance(result, (tuple, list)) else (result,)))


def _dim(few: int, many: int, one: int) -> int:
    """Return a dim of a result, unknown if it differs with other unknown dims or may do so.

    What is empty for a few elements, such as x[9:], is not for many.
    """
    return few if few == many == one > 0 else -1


def host_step(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Add a call of a NumPy function to the graph of the values among its arguments."""
    values: list[Value] = []
    has_float = any(isinstance(v, Value) and v.dtype in FLOATS for v in leaves((args, kwargs)))

    def slot(given: Any) -> Any:
        if isinstance(given, Value):
            values.append(given)
            return Slot(len(values) - 1)
        if isinstance(given, (list, tuple)):
            return type(given)(map(slot, given))
        if isinstance(given, np.generic) and given.dtype.kind in ("iuf" if has_float else "f"):
            return given.item()  # as `result_type` takes it
        return given

    args = tuple(map(slot, args))
    call = HostFunction(
        name, args, {k: slot(v) for k, v in kwargs.items()}, tuple(v.dtype for v in values), ()
    )
    shapes = [v.shape or () for v in values]
    try:
        small, large, least = (
            [tuple(n if d < 0 else d for d in dims) for dims in shapes] for n in (2, 3, 1)
        )
        arrays, result = call.tried(small)
        few, many = parts_of(result), parts_of(call.tried(large)[1])
    except OneDNNError:
        raise
    except (ValueError, TypeError, IndexError, ArithmeticError, np.linalg.LinAlgError) as e:
        raise InvalidArgumentsError(str(e)) from e
    ones, fewest = few, few
    with contextlib.suppress(ValueError, IndexError):  # ones may be out of bounds, and one too few
        ones = parts_of(call.tried(small, 1)[1])
        tried = parts_of(call.tried(least)[1])
        fewest = tried if [t.ndim for t in tried] == [f.ndim for f in few] else few
    if [f.shape for f in few] != [o.shape for o in ones]:
        raise InvalidShapeError("the result's shape depends on elements, which a call determines")
    dtypes = []
    for array in few:
        dtype = NUMPY_NAMES.get(array.dtype.name)
        if dtype == "f64" and not values[0].builder.narrow:
            raise InvalidDataTypeError(NO_F64.format(array.dtype.name))
        if dtype is None:
            raise InvalidDataTypeError(f"no value can be {array.dtype}")
        dtypes.append("f32" if dtype == "f64" else dtype)
    made = tuple(
        (tuple(map(_dim, f.shape, m.shape, o.shape)) if small != large else f.shape, dtype)
        for f, m, o, dtype in zip(few, many, fewest, dtypes, strict=True)
    )
    pairs = itertools.product(enumerate(arrays), enumerate(few))
    shares = tuple((i, k) for (i, a), (k, f) in pairs if np.may_share_memory(a, f))
    call = replace(call, results=made, shares=shares)
    label = f"np.{name}" if name != "getitem" else "x[...]"
    steps = values[0].builder.call(call, *values, outputs=call.outputs, name=label)
    if not isinstance(result, (tuple, list)):
        return steps
    steps = steps if len(few) > 1 else (steps,)
    return type(result)(*steps) if hasattr(result, "_fields") else type(result)(steps)
