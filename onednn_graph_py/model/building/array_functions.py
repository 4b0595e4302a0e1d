"""NumPy's functions of values, in one table: ops where oneDNN has them, host steps elsewhere."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.dtypes import array_dtype, dtype_name
from ...base.errors import (
    InvalidArgumentsError,
    InvalidShapeError,
    OneDNNError,
    UnimplementedError,
    reworded,
)
from ...ops.lookup import with_trait
from .einsum import einsum
from .host_functions import function_of, host_step
from .operands import FLOATS, cast, combined, is_number, leaves, result_type, selected
from .value import Value, caller

HOST = [
    "ceil", "floor", "trunc", "sign", "signbit", "isnan", "isinf", "isfinite", "log1p", "expm1",
    "exp2", "log2", "log10", "cbrt", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh",
    "cosh", "arcsinh", "arccosh", "arctanh", "deg2rad", "rad2deg", "arctan2", "hypot",
    "logaddexp", "copysign", "nextafter", "fmod", "fmax", "fmin", "floor_divide", "remainder",
    "bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift",
    "logical_and", "logical_or", "logical_xor", "logical_not", "special.erf", "all", "any",
    "argmax", "argmin", "count_nonzero", "cumsum", "cumprod", "cumulative_sum",
    "cumulative_prod", "sort", "argsort", "median", "nan_to_num", "searchsorted", "take",
    "take_along_axis", "flip", "roll", "repeat", "tile", "pad", "tril", "triu", "diff",
    "diagonal", "trace", "linalg.inv", "linalg.solve", "linalg.det", "linalg.cholesky",
    "linalg.norm", "cross", "kron",
]  # fmt: skip
"""The functions that NumPy computes as host steps; those of the table do so for integers."""


@dataclass(frozen=True)
class Row:
    """A function of NumPy."""

    name: str  # its name below `numpy`, or `special.erf` for one of SciPy
    becomes: str = ""  # the ops that it adds, for people; empty for a host step
    # adds them; it returns None where no ops compute what NumPy does
    ops: Callable[..., Any] | None = None


TABLE: dict[str, Row] = {name: Row(name) for name in HOST}
"""The functions by NumPy's names and those of the Array API."""

_Ops = Callable[..., Any]


def _row(becomes: str, *names: str) -> Callable[[_Ops], _Ops]:
    """Enter a function into the table; its first name is NumPy's, others are aliases."""

    def enter(ops: _Ops) -> _Ops:
        row = Row(names[0], becomes, ops)
        TABLE.update((name, row) for name in names)
        return ops

    return enter


def row_of(name: str) -> Row:
    """Return the row of a function.

    - raises `UnimplementedError`: there is none
    """
    if name not in TABLE:
        raise UnimplementedError(
            f"np.{name} at {caller()} can't be traced: it has no ops and is no host step; "
            "GraphBuilder.call runs any function as a host step"
        )
    return TABLE[name]


def called(name: str, *args: Any, **kwargs: Any) -> Any:
    """Call a function of the table: on arrays NumPy's own, on values ops or a host step."""
    row = row_of(name)
    out = kwargs.pop("out", None)
    parts = list(leaves((args, kwargs)))
    if not any(isinstance(p, Value) for p in (*parts, *leaves(out))):
        return function_of(row.name)(*args, **kwargs, **({} if out is None else {"out": out}))
    for part in parts:
        if isinstance(part, np.ndarray) and type(part) not in (np.ndarray, np.memmap):
            raise TypeError(f"np.{name} at {caller()}: {type(part).__name__} can't be traced")
    if kwargs.get("dtype", "") is None:
        del kwargs["dtype"]
    (target,) = out if isinstance(out, tuple) else (out,)
    if not isinstance(target, (Value, type(None))):
        raise TypeError(
            f"np.{name} at {caller()}: an array can't be written to before a model runs"
        )
    try:
        made = None if row.ops is None else _written(row.ops, args, kwargs)
        made = host_step(row.name, args, kwargs) if made is None else made
    except OneDNNError as e:
        raise reworded(e, f"np.{row.name} at {caller()}: {e}") from e
    return made if target is None else target.builder.overwritten(target, made)


def _written(ops: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Add ops; return None if they don't take such arguments, as NumPy may."""
    try:
        bound = inspect.signature(ops).bind(*args, **kwargs)
    except TypeError:
        return None
    return ops(*bound.args, **bound.kwargs)


# -- each element


def _elementwise(kind: str, *names: str) -> None:
    @_row(kind, *names)
    def ops(x: Any) -> Any:
        return combined(kind, x) if x.dtype in FLOATS else None


for _kind, *_names in (
    ("Abs", "absolute", "abs", "fabs"),
    ("Exp", "exp"),
    ("Log", "log"),
    ("Sigmoid", "special.expit"),
    ("Sqrt", "sqrt"),
    ("Square", "square"),
    ("Tanh", "tanh"),
):
    _elementwise(_kind, *_names)


def _binary(kind: str, *names: str) -> None:
    @_row(kind, *names)
    def ops(x: Any, y: Any) -> Any:
        return combined(kind, x, y)


for _kind, *_names in (
    ("Add", "add"),
    ("Subtract", "subtract"),
    ("Multiply", "multiply"),
    ("Divide", "divide", "true_divide"),
    ("Maximum", "maximum"),
    ("Minimum", "minimum"),
):
    _binary(_kind, *_names)


_row("Multiply", "negative")(lambda x: combined("Multiply", x, -1.0) if x.dtype in FLOATS else None)
_row("the value itself", "positive", "ascontiguousarray", "copy", "real", "conjugate")(lambda x: x)
_row("Divide", "reciprocal")(lambda x: combined("Divide", 1.0, x) if x.dtype in FLOATS else None)


@_row("Round", "round", "around", "rint")
def _round(x: Any, decimals: int = 0) -> Any:
    if decimals or x.dtype not in FLOATS:
        return None
    return cast(cast(x, "f32").round(), x.dtype)  # type: ignore[union-attr]


@_row("Pow, Square or Sqrt by a number", "power", "pow")
def _power(x: Any, y: Any) -> Any:
    if not isinstance(x, Value) or x.dtype not in FLOATS or not is_number(y):
        return None
    exponent = float(y)
    if exponent in (0.5, 1, 2):
        return {0.5: x.sqrt, 1: lambda: x, 2: x.square}[exponent]()
    return x.pow(beta=exponent)


@_row("Clamp, or Maximum and Minimum", "clip")
def _clip(x: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    low, high = (a if a is not None else b for a, b in ((a_min, min), (a_max, max)))
    if not isinstance(x, Value) or x.dtype not in FLOATS:
        return None
    if all(limit is None or is_number(limit) for limit in (low, high)):
        most = math.inf if high is None else float(high)
        least = -math.inf if low is None else float(low)
        return x.clamp(min=most if least > most else least, max=most)
    for kind, limit in (("Maximum", low), ("Minimum", high)):
        x = x if limit is None or x is None else combined(kind, x, limit)
    return x


# -- comparisons


@_row("GreaterEqual", "greater_equal")
def _greater_equal(x: Any, y: Any) -> Any:
    return combined("GreaterEqual", x, y)


_row("GreaterEqual", "less_equal")(lambda x, y: _greater_equal(y, x))


@_row("GreaterEqual, next to a constant", "greater")
def _greater(x: Any, y: Any) -> Any:
    if result_type(x, y) != "f32":
        return None
    for a, b, limit in ((x, y, math.inf), (y, x, -math.inf)):
        if not isinstance(b, Value):
            beyond = np.asarray(b, np.float32)
            # Nothing lies beyond infinity, and no number compares with NaN.
            edge = np.float32(limit)
            beyond = np.where(beyond == edge, np.float32("nan"), np.nextafter(beyond, edge))
            return combined("GreaterEqual", *((a, beyond) if limit > 0 else (beyond, a)))
    return None


_row("GreaterEqual, next to a constant", "less")(lambda x, y: _greater(y, x))


for _name in ("equal", "not_equal"):
    TABLE[_name] = Row(_name)


@_row("Select", "where")
def _where(condition: Any, x: Any, y: Any) -> Any:
    dtype = result_type(x, y)
    if dtype not in FLOATS or result_type(condition) != "boolean":
        return None
    b = next(v.builder for v in (condition, x, y) if isinstance(v, Value))
    for kept, masked, other in ((True, y, x), (False, x, y)):
        # Attention fuses a mask that is added, which is the same for scores: they are finite.
        hides = not isinstance(condition, Value) and is_number(masked) and masked == -math.inf
        if hides and _is_score(other):
            added = np.where(np.equal(condition, kept), 0.0, -np.inf)
            return combined("Add", other, added.astype(array_dtype(dtype)))
    mask = condition if isinstance(condition, Value) else b.constant(np.asarray(condition))
    return _chosen(mask, x, y, dtype)


def _is_score(x: Any) -> bool:
    """Return whether a value is a product, perhaps times or plus other values."""
    node = x.producer if isinstance(x, Value) else None
    while node is not None and node.kind in with_trait("binary"):
        node = node.inputs[0].producer
    return node is not None and node.kind in with_trait("product")


def _chosen(mask: Value, x: Any, y: Any, dtype: str) -> Any:
    b, operands = mask.builder, []
    for given in (x, y):
        if isinstance(given, Value):
            given = cast(given, dtype)
        else:
            given = b.constant(np.atleast_1d(given) if mask.ndim else np.asarray(given), dtype)
        if given is None:
            return None
        operands.append(given)
    made = selected(mask, *operands)
    return None if isinstance(made, str) else made


@_row("TypeCast, Dequantize of 8 bits, Select of booleans", "astype")
def _astype(x: Any, dtype: Any, copy: bool = True) -> Any:
    name = dtype_name(dtype)
    made = cast(x, name)
    if made is None and x.dtype == "boolean" and name in FLOATS:
        made = _chosen(x, 1.0, 0.0, name)
    if made is not None:
        return made
    return host_step("astype", (x, array_dtype(name)), {})


# -- reductions


def _axes(x: Value, axis: Any) -> list[int]:
    axes = range(x.ndim) if axis is None else [axis] if not np.iterable(axis) else axis
    return sorted(x.axis_of(a) for a in axes)


def _reduced(
    kind: str, x: Value, axis: Any, dtype: Any, keepdims: bool, *, halved: bool = False
) -> Any:
    """Reduce over axes; sums of small types are computed in f32, and rounded once."""
    name = x.dtype if dtype is None else dtype_name(dtype)
    wide = cast(x, "f32") if x.dtype in FLOATS else None
    if wide is None or name not in FLOATS or 0 in (x.shape or ()):
        return None
    axes = _axes(x, axis)
    if not axes:
        return cast(x, name)
    if halved:
        wide = wide * 0.5  # oneDNN makes the largest finite number of infinity, but not of halves
    made = x.builder.op(kind, wide, axes=axes, keep_dims=keepdims or len(axes) == x.ndim)
    if not keepdims and len(axes) == x.ndim:
        made = made.squeeze(axes)
    return cast(made * 2.0 if halved else made, name)


def _reduction(kind: str, *names: str) -> None:
    @_row(kind, *names)
    def ops(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        return _reduced(kind, x, axis, dtype, keepdims)


for _kind, *_names in (
    ("ReduceSum", "sum"),
    ("ReduceMean", "mean"),
    ("ReduceProd", "prod"),
):
    _reduction(_kind, *_names)


def _extreme(kind: str, *names: str) -> None:
    @_row(kind, *names)
    def ops(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return _reduced(kind, x, axis, None, keepdims, halved=True)


_extreme("ReduceMax", "max", "amax")
_extreme("ReduceMin", "min", "amin")


@_row("ReduceMean of squares", "var")
def _var(
    x: Any, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False,
    *, correction: float | None = None,
) -> Any:  # fmt: skip
    if x.dtype not in FLOATS:
        return None
    axes = _axes(x, axis)
    sizes = [(x.shape or ())[a] for a in axes]
    less = ddof if correction is None else correction
    wide: Any = cast(x, "f32")
    squares = (wide - called("mean", wide, tuple(axes), keepdims=True)).square()
    made = called("mean", squares, tuple(axes), keepdims=keepdims)
    if less and -1 in sizes:
        raise InvalidShapeError("with ddof: a dim is unknown")
    if less:
        count = math.prod(sizes)
        made = made * (count / (count - less) if count > less else math.nan)
    return cast(made, x.dtype if dtype is None else dtype_name(dtype))


@_row("Sqrt of the variance", "std")
def _std(x: Any, *args: Any, **kwargs: Any) -> Any:
    variance = _var(x, *args, **kwargs)
    return None if variance is None else variance.sqrt()


_row("ReduceL2", "linalg.vector_norm", "vector_norm")(
    lambda x, *, axis=None, keepdims=False, ord=2: (
        _reduced("ReduceL2", x, axis, None, keepdims) if ord == 2 else None
    )
)
_row("SoftMax; next to SciPy's, which can't be traced", "special.softmax")(
    lambda x, axis=None: _along(x, axis, lambda v, a: v.softmax(axis=a))
)
_row("LogSoftmax; next to SciPy's, which can't be traced", "special.log_softmax")(
    lambda x, axis=None: _along(x, axis, lambda v, a: v.log_softmax(axis=a))
)


def _along(x: Value, axis: Any, add: Callable[[Value, int], Value]) -> Any:
    """Add an op along an axis, or over all elements."""
    if x.dtype not in FLOATS or isinstance(axis, tuple):
        return None
    if axis is not None:
        return add(x, axis)
    return _reshape(add(_reshape(x, -1), 0), x.shape or ())


# -- products


_row("MatMul", "matmul", "linalg.matmul")(lambda x, y: combined("MatMul", x, y))


@_row("MatMul and views", "dot")
def _dot(x: Any, y: Any) -> Any:
    first, second = np.ndim(x), np.ndim(y)
    if not first or not second:
        return combined("Multiply", x, y)
    if second <= 2:
        return combined("MatMul", x, y)
    return _tensordot(x, y, ([first - 1], [second - 2]))


@_row("MatMul and views", "tensordot", "linalg.tensordot")
def _tensordot(x: Any, y: Any, axes: Any = 2) -> Any:
    first, second = np.ndim(x), np.ndim(y)
    if isinstance(axes, int):
        axes = (range(first - axes, first), range(axes))
    pairs = [[a] if isinstance(a, int) else a for a in axes]
    left = [chr(97 + i) for i in range(first)]
    right = [chr(65 + i) for i in range(second)]
    for i, k in zip(*pairs, strict=True):
        right[k % second] = left[i % first]
    kept = [*(c for c in left if c not in right), *(c for c in right if c not in left)]
    return _einsum(f"{''.join(left)},{''.join(right)}->{''.join(kept)}", x, y)


_row("MatMul and views", "inner")(lambda x, y: _tensordot(x, y, ([-1], [-1])))
_row("Multiply", "outer", "linalg.outer")(
    lambda x, y: combined("Multiply", _reshape(x, (-1, 1)), _reshape(y, (1, -1)))
)


@_row("Multiply and ReduceSum", "vecdot", "linalg.vecdot")
def _vecdot(x: Any, y: Any, axis: int = -1) -> Any:
    made = combined("Multiply", x, y)
    return None if made is None else called("sum", made, axis)


@_row("MatMul, Multiply, ReduceSum and views", "einsum")
def _einsum(equation: Any, *operands: Any) -> Any:
    dtype = result_type(*operands)
    if dtype not in FLOATS:
        return None
    b = next(v.builder for v in operands if isinstance(v, Value))
    values = _converted(b, operands, dtype)
    return None if values is None else einsum(equation, values)


def _converted(b: Any, given: Sequence[Any], dtype: str) -> list[Value] | None:
    """Return operands as values of a data type; None if no op converts one."""
    values = [
        cast(v, dtype) if isinstance(v, Value) else b.constant(np.asarray(v), dtype) for v in given
    ]
    known = [v for v in values if v is not None]
    return known if len(known) == len(values) else None


# -- shapes


@_row("StaticReshape", "reshape")
def _reshape(
    x: Any, shape: Any = None, order: str = "C", *, copy: Any = None, newshape: Any = None
) -> Any:
    sizes = shape if shape is not None else newshape
    sizes = [sizes] if not np.iterable(sizes) else list(sizes)
    if not isinstance(x, Value):
        return np.reshape(x, sizes)
    have = x.shape or ()
    if tuple(sizes) == have and -1 not in have:
        return x
    if not sizes:
        return x.squeeze(range(x.ndim))
    several = sizes.count(-1) > 1
    if several:
        # A dim that is unknown stays that of the same place, but for the last of them.
        places = [i for i, n in enumerate(sizes) if n == -1]
        same = [i for i in places if i < len(have) and have[i] == -1]
        same = same if len(same) < len(places) else places
        if len(places) - len(same) > 1:
            raise InvalidShapeError("more than one dim is unknown")
        sizes = [0 if i in same else n for i, n in enumerate(sizes)]
    if order != "C" or x.dtype not in FLOATS or 0 in have:
        if several:
            raise InvalidShapeError("more than one dim is unknown")
        return host_step("reshape", (x, tuple(sizes)), {"order": order})
    return x.static_reshape(shape=[int(n) for n in sizes], special_zero=several)


_row("StaticReshape", "ravel", "flatten")(lambda x, order="C": _reshape(x, (-1,), order))
_row("a view", "transpose", "permute_dims")(lambda x, axes=None: x.transpose(axes))
_row("a view", "matrix_transpose", "linalg.matrix_transpose")(
    lambda x: x.transpose([*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])
)


@_row("a view", "swapaxes")
def _swapaxes(x: Any, axis1: int, axis2: int) -> Any:
    order = list(range(x.ndim))
    a, b = x.axis_of(axis1), x.axis_of(axis2)
    order[a], order[b] = b, a
    return x.transpose(order)


@_row("a view", "moveaxis")
def _moveaxis(x: Any, source: Any, destination: Any) -> Any:
    pairs = [[x.axis_of(a) for a in np.atleast_1d(given)] for given in (source, destination)]
    order = [i for i in range(x.ndim) if i not in pairs[0]]
    for place, axis in sorted(zip(*reversed(pairs), strict=True)):
        order.insert(place, axis)
    return x.transpose(order)


@_row("a view", "expand_dims")
def _expand_dims(x: Any, axis: Any) -> Any:
    axes = list(np.atleast_1d(axis))
    rank = x.ndim + len(axes)
    if any(not -rank <= a < rank for a in axes):
        raise InvalidArgumentsError(f"axis {axis} is out of range")
    new = {int(a) % rank for a in axes}
    return x[tuple(None if i in new else slice(None) for i in range(rank))]


@_row("a view", "squeeze")
def _squeeze(x: Any, axis: Any = None) -> Any:
    ones = [i for i, n in enumerate(x.shape or ()) if n == 1] if axis is None else axis
    return x.squeeze(ones)


_row("a view", "broadcast_to")(
    lambda x, shape: x.expand([shape] if isinstance(shape, int) else shape)
)


@_row("Concat", "concatenate", "concat")
def _concatenate(arrays: Any, axis: int | None = 0) -> Any:
    dtype = result_type(*arrays)
    if axis is None:
        arrays, axis = [called("reshape", a, (-1,)) for a in arrays], 0
    b = next(v.builder for v in arrays if isinstance(v, Value))
    values = _converted(b, arrays, dtype) if dtype in FLOATS and len(arrays) <= 64 else None
    if values is None or any(0 in (v.shape or ()) for v in values):
        return None
    return b.concat(values, axis=axis) if len(values) > 1 else values[0]


_row("Concat of views", "stack")(
    lambda arrays, axis=0: called(
        "concatenate", [called("expand_dims", a, axis) for a in arrays], axis
    )
)
_row("Concat", "hstack")(
    lambda arrays: called("concatenate", arrays, min(np.ndim(arrays[0]) - 1, 1))
)


@_row("Concat", "vstack")
def _vstack(arrays: Any) -> Any:
    wide = [called("expand_dims", a, 0) if np.ndim(a) < 2 else a for a in arrays]
    return called("concatenate", wide, 0)


_row("views", "split")(
    lambda x, indices_or_sections, axis=0: list(x.split(indices_or_sections, axis))
)


@_row("views", "array_split")
def _array_split(x: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    if isinstance(indices_or_sections, int):
        size = (x.shape or ())[axis]
        edges = np.cumsum([len(p) for p in np.array_split(np.arange(size), indices_or_sections)])
        indices_or_sections = [int(e) for e in edges[:-1]]
    return list(x.split(indices_or_sections, axis))


_row("views", "unstack")(lambda x, axis=0: tuple(_moveaxis(x, axis, 0)))


# -- what a shape says


_row("its dims", "shape")(lambda x: x.shape)
_row("its number of dims", "ndim")(lambda x: x.ndim)
_row("its number of elements", "size")(
    lambda x, axis=None: x.size if axis is None else x.shape[axis]
)


@_row("a constant", "full_like")
def _full_like(x: Any, fill_value: Any, dtype: Any = None, shape: Any = None) -> Any:
    name = x.dtype if dtype is None else dtype_name(dtype)
    dims = x.shape if shape is None else shape
    if -1 in dims:
        raise InvalidShapeError("a dim is unknown")
    return x.builder.constant(np.full(dims, fill_value, array_dtype(name)))


_row("a constant", "zeros_like", "empty_like")(
    lambda x, dtype=None, shape=None: _full_like(x, 0, dtype, shape)
)


@_row("a constant", "ones_like")
def _ones_like(x: Any, dtype: Any = None, shape: Any = None) -> Any:
    return _full_like(x, 1, dtype, shape)
