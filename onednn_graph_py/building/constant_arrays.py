"""Convert and copy arrays that become constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..dtypes import pack_int4, unpack_int4
from ..errors import InvalidDataTypeError
from ..reference.rounding import NUMPY_DTYPES, round_to

__all__ = ["aligned_copy", "converted", "owned", "unpacked"]

_PACKED = ("s4", "u4")
_FLOATS = ("f32", "bf16", "f16", "f8_e4m3", "f8_e5m2")


def converted(values: npt.NDArray[Any], dtype: str, name: str) -> npt.NDArray[Any]:
    """Convert an array to a data type of oneDNN; floats are rounded, integers must fit."""
    target = np.dtype(NUMPY_DTYPES[dtype])
    if values.dtype == target:
        return values
    if values.dtype.kind not in "biufV":
        raise InvalidDataTypeError(
            f"constant {name!r}: {dtype} can't hold values of NumPy's {values.dtype}"
        )
    if dtype in _FLOATS:
        return round_to(values, dtype)
    with np.errstate(all="ignore"):
        made = values.astype(target)
    exact = np.asarray(values, np.float64)
    if not np.array_equal(np.asarray(made.astype(np.int64), np.float64), exact):
        raise InvalidDataTypeError(f"constant {name!r}: {dtype} can't hold all of its values")
    return made


def owned(values: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """Make a read-only, row-major, 64-byte aligned copy; two 4-bit integers are a byte."""
    return aligned_copy(pack_int4(values, dtype) if dtype in _PACKED else values)


def unpacked(stored: Any, shape: Any, dtype: str) -> npt.NDArray[Any]:
    """Return a constant's elements; 4-bit integers as ml_dtypes' types, one per element."""
    array: npt.NDArray[Any] = np.asarray(stored)
    return round_to(unpack_int4(array, shape, dtype), dtype) if dtype in _PACKED else array


def aligned_copy(stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Make a read-only copy in separate memory, far from other constants."""
    memory = _core._constant_memory(stored.nbytes)
    copy = memory.view(stored.dtype).reshape(stored.shape)
    copy[...] = stored
    copy.flags.writeable = False
    return copy
