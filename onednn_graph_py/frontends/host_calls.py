"""NumPy functions for calls of torch that oneDNN has no ops for: host steps that need no torch."""

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from ..base.dtypes import array_dtype
from ..model.building.host_functions import HostFunction

Array = npt.NDArray[Any]


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which torch adds numbers of a type up: f32 for those of 16 bits."""
    return np.dtype(np.float32) if dtype.name in ("bfloat16", "float16") else dtype


def _quotient(x: Any, y: Any, *, rounding_mode: str | None = None) -> Any:
    if rounding_mode == "floor":
        return np.floor_divide(x, y)
    if rounding_mode == "trunc" and np.issubdtype(np.result_type(x, y), np.integer):
        return (x - np.fmod(x, y)) // y  # f64 does not hold all of them
    made = np.true_divide(x, y)
    return made if rounding_mode is None else np.trunc(made)


def _over(function: Callable[..., Any], x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """Reduce by a function of NumPy."""
    axis = None if dim is None or not x.ndim else tuple(np.atleast_1d(dim)) or None
    return np.asarray(function(x, axis=axis, keepdims=keepdim))


def _concatenate(arrays: Any, dim: int = 0) -> Array:
    # torch lets empty arrays of one dim pass, whatever the others are.
    return np.concatenate([a for a in arrays if a.shape != (0,)] or arrays, axis=dim)


def _split(x: Array, size: Any, dim: int = 0) -> list[Array]:
    """Cut a dim into parts of a size, or of sizes."""
    n = x.shape[dim]
    ends = np.arange(size, n + size, size) if np.ndim(size) == 0 else np.cumsum(size)
    if np.ndim(size) and ends[-1] != n:
        raise ValueError(f"sizes {list(size)} must add up to {n}")
    return np.split(x, ends[:-1], dim)


def _gated(x: Array, dim: int = -1) -> Array:
    half, gate = np.split(x, 2, dim)
    made: Array = half / (1 + np.exp(-gate))
    return made


def from_zero(op: str, index: Array) -> Array:
    """Return indices; raise IndexError if one is negative, which NumPy counts from the end."""
    if index.size and index.min() < 0:
        raise IndexError(f"{op}: indices must not be negative, got {index.min()}")
    return index


def _along(dim: int, index: Array) -> tuple[Any, ...]:
    """Return the places of elements that an index tells along a dim, all from 0."""
    places = list(np.ogrid[tuple(map(slice, index.shape))])
    places[dim] = index
    return tuple(places)


def _gather(x: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> Array:
    at = np.atleast_1d(from_zero("gather", index))
    if not at.size:  # whose dims may be others
        return np.zeros(index.shape, x.dtype)
    made: Array = np.atleast_1d(x)[_along(dim, at)]
    return made.reshape(index.shape)


def _places(indices: Any) -> tuple[Any, ...]:
    return tuple(slice(None) if i is None else i for i in indices)


def _written(x: Array, values: Array, dim: int, where: Any) -> Array:
    made = x.copy()
    part = made[(*(slice(None),) * (dim % x.ndim), where, ...)]
    if part.shape != values.shape:  # which NumPy may broadcast
        raise ValueError(f"expected the shape {part.shape}, got {values.shape}")
    part[...] = values
    return made


REDUCTIONS = {"": None, "add": np.add, "multiply": np.multiply}


def _scattered(x: Array, dim: int, index: Array, source: Any, *, reduce: str = "") -> Array:
    """Write elements at places along a dim, or add or multiply them to what is there."""
    made, at = np.atleast_1d(x.copy()), np.atleast_1d(from_zero("scatter", index))
    # The source may have more elements than the index.
    values = source[np.ix_(*map(range, at.shape))] if np.ndim(source) else source
    return _put(made, _along(dim, at), values, REDUCTIONS[reduce]).reshape(x.shape)


def _put(x: Array, places: tuple[Any, ...], values: Any, ufunc: np.ufunc | None) -> Array:
    """Write values, or combine them one by one with what is there."""
    if ufunc is None:
        x[places] = values
        return x
    made = x.astype(_wide(x.dtype), copy=False)
    ufunc.at(made, places, np.asarray(values).astype(made.dtype))
    return made.astype(x.dtype, copy=False)


def _filled(x: Array, mask: Array, source: Array) -> Array:
    """Write the first elements of a source, one by one, where a mask says so."""
    x, mask = np.broadcast_arrays(x, mask)
    return _put(x.copy(), (mask,), source.take(np.arange(np.count_nonzero(mask))), None)


def _grouped(x: Array, weights: Array, ends: Array) -> Array:
    """Multiply the rows up to each end by a matrix of their own, as transformers' experts do."""
    made, start = np.zeros((len(x), weights.shape[2]), x.dtype), 0
    for weight, end in zip(weights, ends, strict=True):
        made[start:end] = np.matmul(x[start:end], weight, dtype=_wide(x.dtype))
        start = end
    return made


def _counted(x: Array, bins: int = 100, low: float = 0, high: float = 0) -> Array:
    if low == high and x.size:
        low, high = x.min(), x.max()
    wide = low == high
    return np.histogram(x, bins, (low - wide, high + wide))[0]


def _difference(
    x: Array, n: int = 1, dim: int = -1, prepend: Array | None = None, append: Array | None = None
) -> Array:
    parts = [part for part in (prepend, x, append) if part is not None]
    return np.diff(np.concatenate(parts, dim), n, dim)


def _expand(x: Array, size: Sequence[int], *, implicit: bool = False) -> Array:
    before = (1,) * (len(size) - x.ndim) + x.shape
    return np.broadcast_to(x, [b if n == -1 else n for b, n in zip(before, size, strict=True)])


def _padded(x: Array, pad: Sequence[int], mode: str = "constant", value: Any = None) -> Array:
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2) + list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    inner = x[
        tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(x.shape, pairs, strict=True))
    ]
    wide = [(max(a, 0), max(b, 0)) for a, b in pairs]
    if mode == "constant":
        return np.pad(inner, wide, constant_values=value or 0)
    modes: dict[str, Any] = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    return np.pad(inner, wide, modes[mode])


def _vector_norm(x: Array, ord: Any = 2, dim: Any = None, keepdim: bool = False) -> Array:
    """Sum powers of all elements, or of some dims, in f64; matrices are no norm of their own."""
    axes = tuple(range(x.ndim)) if dim is None else tuple(np.atleast_1d(dim))
    size = np.abs(x.astype(np.float64))
    if ord in (np.inf, -np.inf):
        return np.asarray((np.max if ord > 0 else np.min)(size, axes, keepdims=keepdim))
    if ord == 0:
        return np.asarray(np.sum(size != 0, axes, keepdims=keepdim))
    return np.asarray(np.sum(size**ord, axes, keepdims=keepdim) ** (1 / ord))


def _upsampled(x: Array, size: Any, align: bool | None, *scales: Any) -> Array:
    """Resize the dims behind the channels, linearly; to the nearest element if `align` is None."""
    factors = scales[0] if scales and isinstance(scales[0], tuple) else scales
    for i, n in enumerate(x.shape[2:]):
        factor = factors[i] if any(factors) else None
        count = int(n * factor) if size is None else size[i]
        step = np.float32(1 / factor if factor else n / count)
        at = np.arange(count, dtype=np.float32)
        half = np.float32(0.0 if align is None else 0.5)
        even = at * np.float32((n - 1) / max(count - 1, 1))
        at = even if align else np.maximum((at + half) * step - half, 0)
        low = np.minimum(at.astype(np.int64), n - 1)
        if align is None:
            x = x.take(low, i + 2)
            continue
        part = (at - low).reshape(-1, *(1,) * (x.ndim - i - 3))
        high = x.take(np.minimum(low + 1, n - 1), i + 2)
        x = x.take(low, i + 2) * (1 - part) + high * part
    return x


def _extreme(name: str, x: Array, dim: Any = None, keepdim: bool = False) -> Any:
    """Return the largest or smallest elements along a dim, NaN if there is one, with places."""
    if not isinstance(dim, int):
        return getattr(np, name)(x) if dim is None else getattr(np, f"{name}imum")(x, dim)
    if not x.ndim:
        return x, np.zeros((), np.int64)
    places = getattr(np, f"arg{name}")(x, dim, keepdims=True)
    both = np.take_along_axis(x, places, dim), places
    return both if keepdim else tuple(a.squeeze(dim) for a in both)


def _top(
    x: Array, count: int | None, dim: int = -1, largest: bool = True, sort: bool = True
) -> Any:
    """Return the largest elements along a dim, the first of equal ones first, with their places."""
    if not x.ndim:
        return x, np.zeros((), np.int64)
    turned = np.flip(x, dim) if largest else x
    order = np.argsort(turned, dim, kind="stable")
    if largest:
        order = np.flip(x.shape[dim] - 1 - order, dim)
    places = order if count is None else order.take(range(count), dim)
    return np.take_along_axis(x, places, dim), places


def _averaged(x: Array, size: Sequence[int | None]) -> Array:
    """Average windows of the last dims, so that there are so many; they may differ by one."""
    for axis, count in enumerate(size, -len(size)):
        n, count = x.shape[axis], count or x.shape[axis]
        edges = [(i * n // count, -(-(i + 1) * n // count)) for i in range(count)]
        means = [x.take(range(*window), axis).mean(axis) for window in edges]
        x = np.stack(means, axis)
    return x


def _sampled(x: Array, grid: Array, mode: int = 0, pad: int = 0, align: bool = False) -> Array:
    """Read between elements at places from -1 to 1; modes are linear, nearest and cubic."""
    taps: list[tuple[Any, Any]] = [(0, np.ones((), x.dtype))]  # places, weights
    for size, place in zip(x.shape[2:], np.moveaxis(grid, -1, 0)[::-1], strict=True):
        at = (place + 1) / 2 * (size - 1) if align else ((place + 1) * size - 1) / 2
        at = np.clip(np.nan_to_num(at, nan=-(2**30)), -(2**30), 2**30)
        if mode != 2:  # whose elements are folded one by one
            at = _folded(at, size, pad, align)
        low = np.rint(at) if mode == 1 else np.floor(at)
        part = at - low
        weights = {0: [1 - part, part], 1: [np.ones_like(at)], 2: _cubic(part)}[mode]
        rows = []
        for i, weight in enumerate(weights):
            index = _folded(low + i - (mode == 2), size, pad, align)
            inside = (index >= 0) & (index < size)
            rows.append((np.where(inside, index, 0).astype(np.int64), weight * inside))
        taps = [(n * size + index, w * weight) for n, w in taps for index, weight in rows]
    flat = x.reshape(*x.shape[:2], math.prod(x.shape[2:]))
    made = np.zeros((*x.shape[:2], math.prod(grid.shape[1:-1])), x.dtype)
    for index, weight in taps:
        each = np.take_along_axis(flat, index.reshape(len(x), 1, made.shape[2]), 2)
        weight = weight.reshape(len(x), 1, made.shape[2])
        made += np.where(weight == 0, 0, each) * weight
    return made.reshape(*x.shape[:2], *grid.shape[1:-1])


def _folded(at: Array, size: int, pad: int, align: bool) -> Array:
    """Return places as padding has them: 0 leaves them, 1 takes the border, 2 reflects at it."""
    if pad == 2:
        first, span = (0.0, size - 1) if align else (-0.5, size)
        turns, rest = np.divmod(np.abs(at - first), max(span, 1))
        at = np.where(turns % 2 == 0, rest, span - rest) + first
    return np.clip(at, 0, size - 1) if pad else at


def _cubic(part: Array) -> list[Array]:
    """Return the weights of four elements around a place, of which the second is before it."""
    a = -0.75
    near, far = (1 + part, 2 - part), (part, 1 - part)
    outer = [((a * t - 5 * a) * t + 8 * a) * t - 4 * a for t in near]
    inner = [((a + 2) * t - (a + 3)) * t * t + 1 for t in far]
    return [outer[0], *inner, outer[1]]


_ALIKE = """
abs arange bitwise_and bitwise_not bitwise_or bitwise_xor ceil cos exp expm1 flip floor fmod full
isnan log log1p log2 logical_and logical_not logical_or maximum minimum ones ones_like
remainder sin tril triu trunc where zeros zeros_like
"""

_OPERATORS = "__and__ __or__ eq ge gt le lt mul ne neg"

FOURIER = "fft ifft rfft irfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn"

HOST: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in _ALIKE.split()},
    **{name: getattr(operator, name) for name in _OPERATORS.split()},
    **{f"fft_{name}": getattr(np.fft, name) for name in FOURIER.split()},
    "view_as_real": lambda x: np.stack([x.real, x.imag], -1),
    "add": lambda x, y, alpha=1: x + y * alpha,
    "addcmul": lambda x, y, z, value=1: x + y * z * np.asarray(value).astype(x.dtype),
    "sub": lambda x, y, alpha=1: x - y * alpha,
    "full_like": lambda x, value: np.full(x.shape, value),
    "sign": lambda x: np.where(x < 0, -1, x > 0),  # 0 for NaN
    "pow": np.power,
    "repeat": np.tile,
    **dict.fromkeys(("view", "_unsafe_view"), np.reshape),
    "clamp": lambda x, low=None, high=None: np.clip(x, low, high),
    "cumsum": lambda x, dim: np.cumsum(x, dim).reshape(x.shape),
    "index": lambda x, indices: x[_places(indices)],
    "index_put": lambda x, indices, values, accumulate=False: _put(
        x.copy(), _places(indices), values, np.add if accumulate else None
    ),
    "scatter": _scattered,
    "scatter_add": partial(_scattered, reduce="add"),
    "histc": _counted,
    "bucketize": lambda x, ends, out_int32=False, right=False: np.searchsorted(
        ends, x, "right" if right else "left"
    ),
    "reciprocal": lambda x: 1 / x,
    "erf": np.vectorize(math.erf, [np.float64]),
    "roll": lambda x, shifts, dims=None: np.roll(x, shifts, dims or None),
    "gather": _gather,
    "index_select": lambda x, dim, index: x.take(
        np.atleast_1d(from_zero("index_select", index)), dim
    ),
    "masked_fill": lambda x, mask, value: np.where(mask, np.asarray(value).astype(x.dtype), x),
    "masked_scatter": _filled,
    "grouped_mm_fallback": _grouped,
    "_grouped_mm": lambda x, weights, offs, bias=None, out_dtype=None: _grouped(x, weights, offs),
    "embedding": lambda table, ids, *rest: table[from_zero("embedding", ids)],
    "cat": _concatenate,
    **dict.fromkeys(("split", "split_with_sizes"), _split),
    "glu": _gated,
    "stack": lambda arrays, dim=0: np.stack(arrays, dim),
    "argmax": lambda x, dim=None, keepdim=False: np.argmax(x, dim, keepdims=keepdim),
    **{name: partial(_extreme, name) for name in ("max", "min")},
    "topk": _top,
    "sort": lambda x, dim=-1, descending=False, **stable: _top(x, None, dim, descending),
    **{f"adaptive_avg_pool{n}d": _averaged for n in (1, 2, 3)},
    **{name: partial(_over, getattr(np, name)) for name in ("all", "amax", "amin", "any", "sum")},
    **dict.fromkeys(("_to_copy", "type_as"), lambda x, *rest: x),
    "scalar_tensor": np.asarray,
    "new_full": lambda x, size, value: np.full(size, value),
    "new_zeros": lambda x, size: np.zeros(size),
    "new_ones": lambda x, size: np.ones(size),
    "empty_permuted": lambda size, order: np.zeros(size),
    "slice": lambda x, dim=0, start=None, end=None, step=1: x[
        (slice(None),) * (dim % x.ndim) + (slice(start, end, step),)
    ],
    "select": lambda x, dim, index: x.take(index, dim),
    "expand": _expand,
    "copy": lambda x, values, non_blocking=False: np.broadcast_to(values, x.shape),
    "slice_scatter": lambda x, values, dim=0, start=None, end=None, step=1: _written(
        x, values, dim, slice(start, end, step)
    ),
    "select_scatter": _written,
    "pad": _padded,
    "linalg_vector_norm": _vector_norm,
    "diff": _difference,
    "unfold": lambda x, dim, size, step: sliding_window_view(x, size, dim).take(
        range(0, x.shape[dim] - size + 1, step), dim % x.ndim
    ),
    "rsub": lambda x, y, alpha=1: y - x * alpha,
    "div": _quotient,
    "upsample_nearest2d": lambda x, size, *scales: _upsampled(x, size, None, *scales),
    "upsample_bilinear2d": _upsampled,
    **dict.fromkeys(("grid_sampler_2d", "grid_sampler_3d"), _sampled),
}
"""The function of each op, by the name before the overload's."""

_COMPUTED = """
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d add addcmul cos cumsum erf exp expm1
glu grid_sampler_2d grid_sampler_3d log log1p log2 rsub sin sort sub sum topk
upsample_bilinear2d
"""

COMPUTED = frozenset(_COMPUTED.split())
"""Those that torch computes in the type of the result, and in f32 where that has 16 bits.

NumPy computes functions of small integers in f16, adds up in 16 bits, and sorts NaN of bf16 first.
"""


class HostCall(HostFunction):
    """A call of a function of `HOST`."""

    @property
    def function(self) -> Callable[..., Any]:
        """The function that a call runs."""
        return HOST[self.op]

    def __call__(self, *arrays: Array) -> Any:
        """Compute the results; as in torch, infinities and NaN are valid, integers by 0 are not."""
        dtype = _wide(array_dtype(self.results[0][1]))
        if self.op in COMPUTED:
            arrays = tuple(a.astype(dtype, copy=False) for a in arrays)
        whole = np.issubdtype(dtype, np.integer)
        with np.errstate(all="ignore", divide="raise" if whole else "ignore"):
            return super().__call__(*arrays)


def call(name: str, *args: Any) -> Any:
    """Call a function of `HOST`."""
    return HOST[name](*args)
