"""NumPy's functions of values, in one table: ops where oneDNN has them, host steps elsewhere."""

import inspect
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
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
from .host_functions import FLOATS, function_of, host_step, is_ufunc, leaves
from .operands import cast, combined, in_type, is_number, result_type, selected, type_of
from .value import UnknownDim, Value, caller


@dataclass(frozen=True)
class Row:
    """A function of NumPy."""

    name: str  # its name below `numpy`, or `special.erf` for one of SciPy
    becomes: str = ""  # the ops that it adds, for people; empty for a host step
    # adds them; it returns None where no ops compute what NumPy does
    ops: Callable[..., Any] | None = None


def row_of(name: str) -> Row:
    """Return the row of a function. Ufuncs that the table lacks are host steps."""
    if name not in TABLE and not is_ufunc(name):
        raise UnimplementedError(
            f"np.{name} at {caller()} can't be traced: it has no ops and is no host step; "
            "x.builder.call(function, x, outputs=...) runs any function as a host step"
        )
    return TABLE.get(name, Row(name))


def called(name: str, *args: Any, **kwargs: Any) -> Any:
    """Call a function of the table: on arrays NumPy's own, on values ops or a host step."""
    row = row_of(name)
    out = kwargs.pop("out", None)
    dtype = kwargs.pop("dtype", None)
    parts = list(leaves((args, kwargs)))
    b = next((p.builder for p in (*parts, *leaves(out)) if isinstance(p, Value)), None)
    if dtype is not None:
        kwargs["dtype"] = array_dtype(type_of(dtype, b) if b is not None else dtype_name(dtype))
    if b is None:
        return function_of(row.name)(*args, **kwargs, **({} if out is None else {"out": out}))
    for part in parts:
        if isinstance(part, np.ndarray) and type(part) not in (np.ndarray, np.memmap):
            raise TypeError(f"np.{name} at {caller()}: {type(part).__name__} can't be traced")
    if UnknownDim in map(type, parts) and name not in ("reshape", "broadcast_to"):
        raise InvalidShapeError(f"np.{name} at {caller()}: a dim is unknown")
    target, *others = out if isinstance(out, tuple) else (out,)
    if others or not isinstance(target, (Value, type(None))):
        raise TypeError(f"np.{name} at {caller()}: only one value can be written to, and no array")
    where = kwargs.pop("where", True) if target is not None and is_ufunc(name) else True
    try:
        result = None if row.ops is None else _written(row.ops, args, kwargs)
        result = host_step(row.name, args, kwargs) if result is None else result
        shares = row.becomes in _SHARING or kwargs.get("copy") is False
        if name == "flatten" or (not shares and any(result is part for part in parts)):
            # The value or the copy may be written to; `trace` drops most copies.
            floats = result.dtype in FLOATS
            result = b.op("Reorder", result) if floats else host_step("copy", (result,), {})
    except OneDNNError as e:
        raise reworded(e, f"np.{row.name} at {caller()}: {e}") from e
    except (ValueError, IndexError) as e:  # of NumPy
        raise InvalidArgumentsError(f"np.{row.name} at {caller()}: {e}") from e
    if target is None:
        return result
    if where is not True:
        result = called("where", where, result, target)
    if target.shape and target.dtype in FLOATS and result.dtype in FLOATS:
        result = in_type(result, target.dtype)
    return target.builder.overwritten(target, result)


# What rows become whose result NumPy lets share the memory of their argument; else it is another.
_SHARING = ("the value itself", "a view", "views", "StaticReshape")


def _written(ops: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Add ops; return None if they don't take such arguments, as NumPy may."""
    try:
        bound = inspect.signature(ops).bind(*args, **kwargs)
    except TypeError:
        return None
    return ops(*bound.args, **bound.kwargs)


# -- each element


def _round(x: Any, decimals: int = 0) -> Any:
    if decimals or x.dtype not in FLOATS:
        return None
    return cast(cast(x, "f32").round(), x.dtype)  # type: ignore[union-attr]


def _power(x: Any, y: Any) -> Any:
    if not isinstance(x, Value) or x.dtype not in FLOATS or not is_number(y):
        return None
    exponent = float(y)
    if exponent in (0.5, 1, 2):
        return {0.5: x.sqrt, 1: lambda: x, 2: x.square}[exponent]()
    return x.pow(beta=exponent)


def _clip(x: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    low, high = (a if a is not None else b for a, b in ((a_min, min), (a_max, max)))
    if not isinstance(x, Value) or x.dtype not in FLOATS:
        return host_step("clip", (x, low, high), {})
    if all(limit is None or is_number(limit) for limit in (low, high)):
        most = math.inf if high is None else float(high)
        least = -math.inf if low is None else float(low)
        return x.clamp(min=most if least > most else least, max=most)
    for kind, limit in (("Maximum", low), ("Minimum", high)):
        x = x if limit is None or x is None else combined(kind, x, limit)
    return x


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
    plain = [np.atleast_1d(a) if mask.ndim and not isinstance(a, Value) else a for a in (x, y)]
    result = selected(mask, *_converted(b, plain, dtype))
    return None if isinstance(result, str) else result


def _is_score(x: Any) -> bool:
    """Return whether a value is a product, perhaps times or plus other values."""
    node = x.producer if isinstance(x, Value) else None
    while node is not None and node.kind in with_trait("binary"):
        node = node.inputs[0].producer
    return node is not None and node.kind in with_trait("product")


def _astype(x: Any, dtype: Any, copy: bool = True, device: Any = None) -> Any:
    return in_type(x, type_of(dtype, x.builder))


# -- reductions


def _axes(x: Value, axis: Any) -> list[int]:
    axes = range(x.ndim) if axis is None else [axis] if not np.iterable(axis) else axis
    return sorted(x.axis_of(a) for a in axes if x.ndim or a not in (0, -1))  # as NumPy's ufuncs


def _reduced(kind: str, x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """Reduce over axes; sums of small types are computed in f32, and rounded once."""
    name = x.dtype if dtype is None else dtype_name(dtype)
    if x.dtype not in FLOATS or name not in FLOATS or 0 in (x.shape or ()):
        return None
    axes = _axes(x, axis)
    if not axes:
        return cast(x, name)
    whole = len(axes) == x.ndim
    result = x.builder.op(kind, cast(x, "f32"), axes=axes, keep_dims=keepdims or whole)
    return cast(result.squeeze(axes) if whole and not keepdims else result, name)


def _extreme(kind: str, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    # oneDNN makes the largest finite number of infinity, but not of halves.
    wide: Any = cast(x, "f32") if x.dtype in FLOATS else None
    half = None if wide is None else _reduced(kind, wide * 0.5, axis, keepdims=keepdims)
    return None if half is None else cast(half * 2.0, x.dtype)


def _var(
    x: Any, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False,
    *, correction: float | None = None,
) -> Any:  # fmt: skip
    if x.dtype not in FLOATS:
        return None
    axes = tuple(_axes(x, axis))
    wide: Any = cast(x, "f32")
    squares = (wide - called("mean", wide, axes, keepdims=True)).square()
    result = called("mean", squares, axes, keepdims=keepdims)
    less = ddof if correction is None else correction
    if less:
        sizes = [(x.shape or ())[a] for a in axes]
        count = math.prod(sizes)
        if -1 in sizes:
            raise InvalidShapeError("with ddof: a dim is unknown")
        result = result * (count / (count - less) if count > less else math.nan)
    return cast(result, x.dtype if dtype is None else dtype_name(dtype))


def _std(x: Any, *args: Any, **kwargs: Any) -> Any:
    variance = _var(x, *args, **kwargs)
    return None if variance is None else variance.sqrt()


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Add the norm of vectors; without an order, that of all elements."""
    kind = {None: "ReduceL2", 2: "ReduceL2", 1: "ReduceL1"}.get(ord)
    if kind is None or (ord is not None and not isinstance(axis, int)):
        return None
    return _reduced(kind, x, axis, keepdims=keepdims)


def _along(kind: str, x: Value, axis: Any = None) -> Any:
    """Add an op along an axis, or over all elements."""
    if x.dtype not in FLOATS or isinstance(axis, tuple):
        return None
    if axis is not None:
        return x.builder.op(kind, x, axis=axis)
    return _reshape(_along(kind, _reshape(x, -1), 0), x.shape or ())


# -- products


def _dot(x: Any, y: Any) -> Any:
    first, second = np.ndim(x), np.ndim(y)
    if not first or not second:
        return combined("Multiply", x, y)
    if second <= 2:
        return combined("MatMul", x, y)
    return _tensordot(x, y, ([first - 1], [second - 2]))


def _inner(x: Any, y: Any) -> Any:
    return _tensordot(x, y, ([-1], [-1])) if np.ndim(x) and np.ndim(y) else _dot(x, y)


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


def _outer(x: Any, y: Any) -> Any:
    return combined("Multiply", _reshape(x, (-1, 1)), _reshape(y, (1, -1)))


def _vecdot(x: Any, y: Any, axis: int = -1) -> Any:
    if min(np.ndim(x), np.ndim(y)) < 1 or np.shape(x)[axis] != np.shape(y)[axis]:
        return None
    products = combined("Multiply", x, y)
    return None if products is None else called("sum", products, axis)


def _einsum(equation: Any, *operands: Any) -> Any:
    dtype = result_type(*operands)
    if dtype not in FLOATS:
        return None
    b = next(v.builder for v in operands if isinstance(v, Value))
    return einsum(equation, _converted(b, operands, dtype))


def _converted(b: Any, given: Sequence[Any], dtype: str) -> list[Value]:
    """Return operands as values of a data type."""
    return [
        in_type(v, dtype) if isinstance(v, Value) else b.constant(np.asarray(v), dtype)
        for v in given
    ]


# -- shapes


def _reshape(
    x: Any, shape: Any = None, order: str = "C", *, copy: Any = None, newshape: Any = None
) -> Any:
    sizes = shape if shape is not None else newshape
    sizes = [operator.index(n) for n in (sizes if isinstance(sizes, Sequence) else [sizes])]
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
    return x.static_reshape(shape=sizes, special_zero=several)


def _reordered(name: str, x: Any, *args: Any, **kwargs: Any) -> Any:
    """Reorder dims as NumPy does those of an array in which no two are alike."""
    dims = function_of(name)(np.broadcast_to(0, range(1, x.ndim + 1)), *args, **kwargs).shape
    return x.transpose([n - 1 for n in dims])


def _expand_dims(x: Any, axis: Any) -> Any:
    dims = np.expand_dims(np.broadcast_to(0, (2,) * x.ndim), axis).shape
    return x[tuple(None if n == 1 else slice(None) for n in dims)]


def _concatenate(arrays: Any, axis: int | None = 0) -> Any:
    if axis is None:
        arrays, axis = [called("reshape", a, (-1,)) for a in arrays], 0
    dtype = result_type(*arrays)
    if dtype not in FLOATS or len(arrays) > 64 or any(0 in np.shape(a) for a in arrays):
        return None
    b = next(v.builder for v in arrays if isinstance(v, Value))
    values = _converted(b, arrays, dtype)
    return b.concat(values, axis=axis) if len(values) > 1 else values[0]


def _stack(arrays: Any, axis: int = 0) -> Any:
    return called("concatenate", [called("expand_dims", a, axis) for a in arrays], axis)


def _hstack(arrays: Any) -> Any:
    rows = [_of_dims(a, 1) for a in arrays]
    return called("concatenate", rows, min(np.ndim(rows[0]) - 1, 1))


def _of_dims(x: Any, least: int) -> Any:
    """Return an operand of so many dims at least, with dims of 1 in front."""
    return called("expand_dims", x, tuple(range(least - np.ndim(x)))) if np.ndim(x) < least else x


# -- what a shape says


def _like(name: str, x: Any, *args: Any, shape: Any = None, **kwargs: Any) -> Any:
    """Return a constant of NumPy's function with the shape and data type of a value."""
    dims = x.shape if shape is None else shape
    if -1 in np.atleast_1d(dims):
        raise InvalidShapeError("a dim is unknown")
    like = np.empty((), array_dtype(x.dtype))
    array = function_of(name)(like, *args, shape=dims, **kwargs)
    return x.builder.constant(array, dtype_name(array.dtype))


def _floating(kind: str, *operands: Any) -> Any:
    """Add an op to a floating-point value and others."""
    has_float = any(isinstance(v, Value) and v.dtype in FLOATS for v in operands)
    return combined(kind, *operands) if has_float else None


_HOST = """
all allclose any append argmax argmin argpartition argsort array_equal array_split atleast_1d
atleast_2d atleast_3d average block column_stack convolve corrcoef correlate count_nonzero cov cross
cumprod cumsum cumulative_prod cumulative_sum diagonal diff digitize dsplit dstack flip fliplr
flipud gradient hsplit interp isclose isin kron lib.stride_tricks.sliding_window_view
linalg.cholesky linalg.det linalg.eigh linalg.eigvalsh linalg.inv linalg.lstsq linalg.matrix_norm
linalg.matrix_power linalg.matrix_rank linalg.multi_dot linalg.pinv linalg.qr linalg.slogdet
linalg.solve linalg.svd linalg.svdvals median meshgrid nan_to_num nanmax nanmean nanmin nanstd
nansum nanvar pad partition percentile polyval ptp quantile repeat roll rot90 searchsorted select
sinc sort take take_along_axis tile trace trapezoid tril triu unwrap vander vdot vsplit
"""

_ROWS: list[tuple[str, str, Callable[..., Any]]] = [
    *(
        (kind, names, partial(combined, kind))
        for kind, names in {
            "Abs": "absolute abs fabs",
            "Add": "add",
            "Exp": "exp",
            "GreaterEqual": "greater_equal",
            "Log": "log",
            "MatMul": "matmul linalg.matmul",
            "Maximum": "maximum",
            "Minimum": "minimum",
            "Multiply": "multiply",
            "Sigmoid": "special.expit",
            "Sqrt": "sqrt",
            "Square": "square",
            "Subtract": "subtract",
            "Tanh": "tanh",
        }.items()
    ),
    ("ReduceL2", "linalg.vector_norm", partial(_reduced, "ReduceL2")),
    ("ReduceMean", "mean", partial(_reduced, "ReduceMean")),
    ("ReduceProd", "prod", partial(_reduced, "ReduceProd")),
    ("ReduceSum", "sum", partial(_reduced, "ReduceSum")),
    ("a view", "matrix_transpose linalg.matrix_transpose", partial(_reordered, "matrix_transpose")),
    ("a view", "moveaxis", partial(_reordered, "moveaxis")),
    ("a view", "rollaxis", partial(_reordered, "rollaxis")),
    ("a view", "swapaxes", partial(_reordered, "swapaxes")),
    ("a view", "transpose permute_dims", partial(_reordered, "transpose")),
    *(
        ("a constant", name, partial(_like, name))
        for name in ("empty_like", "full_like", "ones_like", "zeros_like")
    ),
    ("ReduceMax", "max amax", partial(_extreme, "ReduceMax")),
    ("ReduceMin", "min amin", partial(_extreme, "ReduceMin")),
    ("its dims", "shape", lambda x: x.shape),
    ("its number of dims", "ndim", lambda x: x.ndim),
    (
        "its number of elements",
        "size",
        lambda x, axis=None: x.size if axis is None else x.shape[axis],
    ),
    ("the value itself", "ascontiguousarray", lambda x: x),
    ("the value itself", "real", lambda x: None if x.dtype == "c64" else x),
    ("a copy", "positive copy", lambda x: x),
    ("a copy", "conjugate conj", lambda x: None if x.dtype == "c64" else x),
    ("Divide", "divide true_divide", partial(_floating, "Divide")),
    ("Divide", "reciprocal", partial(_floating, "Divide", 1.0)),
    ("Multiply", "negative", partial(_floating, "Multiply", -1.0)),
    ("Round", "round around", _round),
    ("Round", "rint", _round),
    ("Pow, Square or Sqrt by a number", "power pow", _power),
    ("Clamp, or Maximum and Minimum", "clip", _clip),
    ("Select", "where", _where),
    ("TypeCast, Dequantize of 8 bits, Select of booleans", "astype", _astype),
    ("ReduceMean of squares", "var", _var),
    ("Sqrt of the variance", "std", _std),
    ("ReduceL1 or ReduceL2 of vectors", "linalg.norm", _norm),
    ("SoftMax", "special.softmax", partial(_along, "SoftMax")),
    ("LogSoftmax", "special.log_softmax", partial(_along, "LogSoftmax")),
    ("MatMul and views", "dot", _dot),
    ("MatMul and views", "tensordot linalg.tensordot", _tensordot),
    ("MatMul and views", "inner", _inner),
    ("Multiply", "outer linalg.outer", _outer),
    ("Multiply and ReduceSum", "vecdot linalg.vecdot", _vecdot),
    ("MatMul, Multiply, ReduceSum and views", "einsum", _einsum),
    ("StaticReshape", "reshape", _reshape),
    ("StaticReshape", "ravel flatten", lambda x, order="C": _reshape(x, (-1,), order)),
    ("a view", "expand_dims", _expand_dims),
    ("a view", "squeeze", lambda x, axis=None: x.squeeze(axis)),
    ("a view", "broadcast_to", lambda x, shape: x.expand(shape if np.iterable(shape) else [shape])),
    ("Concat", "concatenate concat", _concatenate),
    ("Concat", "hstack", _hstack),
    ("Concat", "vstack", lambda x: called("concatenate", [_of_dims(a, 2) for a in x], 0)),
    ("Concat of views", "stack", _stack),
    ("views", "split", lambda x, sections, axis=0: list(x.split(sections, axis))),
    ("views", "unstack", lambda x, axis=0: tuple(_reordered("moveaxis", x, axis, 0))),
]

TABLE = {name: Row(name) for name in _HOST.split()} | {
    name: Row(names.split()[0], becomes, ops)
    for becomes, names, ops in _ROWS
    for name in names.split()
}
"""The functions by NumPy's names and those of the Array API."""
