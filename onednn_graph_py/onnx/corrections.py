"""Ops that onnx's reference evaluator computes wrong, or refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from onnx.reference.op_run import OpRun

from ..errors import InvalidIndexError

__all__ = ["CORRECTED", "elements"]

Array = npt.NDArray[Any]


def elements(name: str, axis: int, data: Array, places: Array) -> Array:
    """Take an element along an axis for each place.

    Parameters
    ----------
    name : str
        For messages.
    axis : int
        Not negative.
    data, places : numpy.ndarray

    Raises
    ------
    InvalidIndexError
        A place is not along the axis.
    """
    size = data.shape[axis]
    if places.size and not -size <= places.min() <= places.max() < size:
        raise InvalidIndexError(f"{name}: indices must be from {-size} to {size - 1}")
    # Along other axes, indices may have fewer elements than the data.
    kept = tuple(slice(None if d == axis else n) for d, n in enumerate(places.shape))
    wide = places.astype(np.int64, copy=False)
    return np.take_along_axis(data[kept], np.where(wide < 0, wide + size, wide), axis)


class GatherElements(OpRun):  # type: ignore[misc]
    """Onnx 1.23 fails where indices and data have different sizes, and 64 or more of them."""

    op_domain = ""

    def _run(self, data: Array, indices: Array, axis: int | None = None) -> tuple[Array]:
        return (elements("GatherElements", (axis or 0) % data.ndim, data, indices),)


CORRECTED = {"GatherElements": GatherElements}
"""The classes of these ops."""
