"""Host steps of lowered ops in NumPy, which files of models name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base.errors import InvalidArgumentsError, InvalidIndexError
from .tensors import Shape

Array = npt.NDArray[Any]
Padding = Mapping[int, Sequence[int]]  # before and behind each axis that is padded


def elements(name: str, axis: int, data: Array, places: Array) -> Array:
    """Take an element along an axis, which is not negative, for each place."""
    size = data.shape[axis]
    if places.size and not -size <= places.min() <= places.max() < size:
        raise InvalidIndexError(f"{name}: indices must be from {-size} to {size - 1}")
    # Along other axes, indices may have fewer elements than the data.
    kept = tuple(slice(None if d == axis else n) for d, n in enumerate(places.shape))
    wide = places.astype(np.int64, copy=False)
    return np.take_along_axis(data[kept], np.where(wide < 0, wide + size, wide), axis)


def taken(name: str, axis: int, data: Array, places: Array) -> Array:
    """Take slices along an axis at places, which may be negative."""
    try:
        made: Array = np.take(data, places, axis)
    except IndexError as e:
        raise InvalidIndexError(f"{name}: {e}") from None
    return made


def taken_shape(dtype: str, axis: int, data: Shape, places: Shape) -> list[tuple[Shape, str]]:
    """Return the dims and the data type of what `taken` takes."""
    return [((*data[:axis], *places, *data[axis + 1 :]), dtype)]


def as_places(dtype: str, axis: int, data: Shape, places: Shape) -> list[tuple[Shape, str]]:
    """Return the dims and the data type of what `elements` takes."""
    return [(places, dtype)]


def seen_keys(
    queries: int,
    keys: int,
    causal: bool,
    left: int,
    right: int,
    before: Array,
    lengths: Array | None = None,
) -> npt.NDArray[np.float32]:
    """Return what is added to the scores: 0 for keys that a query sees, -inf for others.

    - `before`: how many keys come before the first query, for each of the batch or for all
    - `lengths`: how many keys there are
    """
    place = np.arange(keys)
    ahead = np.arange(queries)[:, None] + before.reshape(-1, 1, 1, 1) - place
    seen = np.ones(ahead.shape, bool)
    if causal:
        seen &= ahead >= 0
    if left >= 0:
        seen &= ahead <= left
    if right >= 0:
        seen &= -ahead <= right
    if lengths is not None:
        seen &= place < lengths.reshape(-1, 1, 1, 1)
    return np.where(seen, np.float32(0), np.float32(-np.inf))


def seen_of(
    seen: Callable[[Array, Array], npt.NDArray[np.float32]], queries: int, lengths: Array
) -> npt.NDArray[np.float32]:
    """Return the mask of keys whose numbers a call has."""
    return seen(lengths - queries, lengths)


def new_places(lengths: Array, query: Array, past: Array | None = None) -> Array:
    """Return the positions of the tokens of queries, (1, tokens)."""
    before = 0 if past is None else past.shape[2]
    keys = before + query.shape[2]
    if int(lengths.reshape(-1)[0]) + 1 != keys:
        raise InvalidArgumentsError(
            f"GroupQueryAttention: seqlens_k must be {keys - 1}, the number of cached and new keys "
            f"minus 1, got {int(lengths.reshape(-1)[0])}: padding and caches with room for more "
            "tokens are not supported"
        )
    return np.arange(before, keys)[None]


def places_outputs(lengths: Any, query: Shape, *past: Shape) -> Any:
    """Return the dims and the data type of `new_places`."""
    return [((1, query[2]), "s64")]


def hidden(filler: float, mask: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return what is added to scores, for a mask of (batch, keys)."""
    return np.where(mask > 0, 0, filler).astype(np.float32)[:, None, None]


def padded(wide: Padding, mode: str, number: float, x: Array) -> Array:
    """Pad as NumPy does; its own function takes longer than most tensors are worth."""
    if mode != "constant":
        for axis, pair in wide.items():
            x = x.take(_sources(x.shape[axis], *pair, mode), axis)
        return x
    made = np.full(padded_shape(wide, "", x.shape)[0][0], number, x.dtype)
    inner = [slice(wide.get(i, [0])[0], None) for i in range(x.ndim)]
    made[tuple(inner)][tuple(map(slice, x.shape))] = x
    return made


def padded_shape(wide: Padding, dtype: str, shape: Shape) -> list[tuple[Shape, str]]:
    """Return the dims and the data type of what `padded` pads."""
    made = (d if d < 0 else d + sum(wide.get(i, ())) for i, d in enumerate(shape))
    return [(tuple(made), dtype)]


def _padded_by(
    x: Array, pads: Array, number: Array | None = None, axes: Array | None = None
) -> Array:
    pairs = pads.reshape(2, -1).T.tolist()
    wide = dict(
        zip(range(x.ndim) if axes is None else (axes % x.ndim).tolist(), pairs, strict=True)
    )
    kept = (wide.get(i, (0, 0)) for i in range(x.ndim))
    index = (slice(max(-b, 0), n - max(-e, 0)) for n, (b, e) in zip(x.shape, kept, strict=True))
    grown = {axis: [max(n, 0) for n in pair] for axis, pair in wide.items()}
    return padded(grown, "constant", 0 if number is None else number.item(), x[tuple(index)])


def _reshaped(x: Array, target: Array, *, allowzero: int) -> Array:
    sizes = enumerate(target.tolist())
    return x.reshape([n if n or allowzero else x.shape[i] for i, n in sizes])


def _sliced(
    x: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None
) -> Array:
    index = [slice(None)] * x.ndim
    places = range(len(starts)) if axes is None else axes.tolist()
    jumps = [1] * len(starts) if steps is None else steps.tolist()
    for place, *ends_and_step in zip(places, starts.tolist(), ends.tolist(), jumps, strict=True):
        index[place] = slice(*ends_and_step)
    return x[tuple(index)]


def _split(x: Array, sizes: Array, *, axis: int) -> tuple[Array, ...]:
    before = (slice(None),) * (axis % x.ndim)
    ends = np.cumsum(sizes).tolist()
    if ends[-1:] != [x.shape[axis]] or sizes.min() < 0:
        raise ValueError(f"the sizes {sizes.tolist()} must add up to {x.shape[axis]}")
    return tuple(x[(*before, slice(b, e))] for b, e in zip([0, *ends], ends, strict=False))


def _expanded(x: Array, target: Array) -> Array:
    return np.ascontiguousarray(np.broadcast_to(x, np.broadcast_shapes(x.shape, target.tolist())))


MOVED: dict[str, tuple[Callable[..., Any], Mapping[str, Any]]] = {
    "Expand": (_expanded, {}),
    "Pad": (_padded_by, {}),
    "Reshape": (_reshaped, {"allowzero": 0}),
    "Slice": (_sliced, {}),
    "Split": (_split, {"axis": 0}),
    "Tile": (np.tile, {}),
}
"""Functions that move elements by numbers that follow from sizes, with their attributes."""


@lru_cache
def _sources(size: int, before: int, after: int, mode: Any) -> Array:
    return np.pad(np.arange(size), (before, after), mode)


_ALIKE = "ArgMax ArgMin Ceil Cos Cosh Equal Floor Greater IsNaN Less Sign Sin Sinh Tan"

HOSTED = {
    **{name: name.lower() for name in _ALIKE.split()},
    **{f"A{name}": f"arc{name}" for name in ("cos", "cosh", "sin", "sinh", "tan", "tanh")},
    **{name: f"logical_{name.lower()}" for name in ("And", "Not", "Or", "Xor")},
    "GreaterOrEqual": "greater_equal",
    "LessOrEqual": "less_equal",
}
"""NumPy's function for ops that oneDNN lacks."""


def hosted(name: str, *arrays: Array, **options: Any) -> Array:
    """Compute what one of the functions of `HOSTED`, or ``where``, does."""
    if name not in HOSTED.values() and name != "where":  # files are not trusted
        raise InvalidArgumentsError(f"no op is computed by {name!r}")
    with np.errstate(all="ignore"):  # NaN and infinities are numbers of ONNX
        return np.asarray(getattr(np, name)(*arrays, **options))


def as_type(dtype: np.dtype[Any], x: Array) -> Array:
    """Convert numbers as NumPy does."""
    with np.errstate(all="ignore"):
        return x.astype(dtype)
