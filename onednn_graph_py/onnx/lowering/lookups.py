"""Lookups by numbers of a call: Gather and GatherElements as host steps."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.errors import InvalidIndexError
from ...model.building.value import Value
from ..tensors import Shape
from .table import Call, NotLowered, lowers

Array = npt.NDArray[Any]


def elements(name: str, axis: int, data: Array, places: Array) -> Array:
    """Take an element along an axis, which is not negative, for each place."""
    size = data.shape[axis]
    if places.size and not -size <= places.min() <= places.max() < size:
        raise InvalidIndexError(f"{name}: indices must be from {-size} to {size - 1}")
    # Along other axes, indices may have fewer elements than the data.
    kept = tuple(slice(None if d == axis else n) for d, n in enumerate(places.shape))
    wide = places.astype(np.int64, copy=False)
    return np.take_along_axis(data[kept], np.where(wide < 0, wide + size, wide), axis)


def looked_up(call: Call) -> Value:
    """Take slices of input 0 at the places that input 1 has, which a call determines."""
    return _step(call, _taken, _shape)


def _step(call: Call, taken: Callable[..., Array], shape: Callable[..., Any]) -> Value:
    rank = len(call.dims(0))
    if not rank:
        raise NotLowered("the tensor has no dims")
    if call.dtype(0) in ("s4", "u4"):
        raise NotLowered("4-bit integers are packed")
    axis = call.attribute("axis", 0) % rank
    made: Value = call.b.call(
        partial(taken, call.node.name or call.node.op_type, axis),
        call.value(0),
        call.value(1),
        outputs=partial(shape, call.dtype(0), axis),
    )
    return made


def _taken(name: str, axis: int, data: Array, places: Array) -> Array:
    try:
        made: Array = np.take(data, places, axis)
    except IndexError as e:
        raise InvalidIndexError(f"{name}: {e}") from None
    return made


def _shape(dtype: str, axis: int, data: Shape, places: Shape) -> list[tuple[Shape, str]]:
    return [((*data[:axis], *places, *data[axis + 1 :]), dtype)]


@lowers("GatherElements")
def _gather_elements(call: Call) -> Value:
    return _step(call, elements, _as_places)


def _as_places(dtype: str, axis: int, data: Shape, places: Shape) -> list[tuple[Shape, str]]:
    return [(places, dtype)]
