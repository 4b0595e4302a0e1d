"""Round exact values to oneDNN's data types: `round_to`."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from ..base.arguments import need_choice
from ..base.errors import InvalidArgumentsError

# `dtypes.numpy_dtype` knows only the data types of the linked oneDNN; these are all.
NUMPY_DTYPES: dict[str, np.dtype[Any]] = {
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "s64": np.dtype(np.int64),
    "s32": np.dtype(np.int32),
    "s8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "s4": np.dtype(ml_dtypes.int4),
    "u4": np.dtype(ml_dtypes.uint4),
    "boolean": np.dtype(np.bool_),
}
"""NumPy's dtype for each of oneDNN's data types; 4-bit integers take a byte each."""

_NAMES = {dtype: name for name, dtype in NUMPY_DTYPES.items()}


def dtype_name(dtype: npt.DTypeLike) -> str:
    """Return oneDNN's name for a NumPy dtype.

    - raises `InvalidArgumentsError`: oneDNN has no such data type
    """
    name = _NAMES.get(np.dtype(dtype))
    if name is None:
        raise InvalidArgumentsError(f"oneDNN Graph has no data type for NumPy's {np.dtype(dtype)}")
    return name


_LIMITS: dict[str, tuple[int, int]] = {
    name: (int(info.min), int(info.max))
    for name, dtype in NUMPY_DTYPES.items()
    if name[0] in "su"
    for info in [ml_dtypes.iinfo(dtype)]  # type: ignore[no-untyped-call]
}


def float_info(dtype: str) -> ml_dtypes.finfo:
    """Return the limits of a floating-point data type."""
    return ml_dtypes.finfo(NUMPY_DTYPES[dtype])  # type: ignore[no-untyped-call]


def integer_limits(dtype: str) -> tuple[int, int]:
    """Return the smallest and the largest number of an integer data type."""
    return _LIMITS[dtype]


def is_integer(dtype: str) -> bool:
    """Return whether a data type is an integer type."""
    return dtype in _LIMITS


def _to_bf16(values: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    # Rounding to float32 in between would round twice; so make that step leave a sticky last bit.
    single = np.atleast_1d(values.astype(np.float32))
    back = single.astype(np.float64)
    inexact = (back != values) & ~np.isnan(back)
    bits = single.view(np.uint32)
    bits -= (inexact & (np.abs(back) > np.abs(values))).astype(np.uint32)
    bits |= inexact.astype(np.uint32)
    return single.astype(ml_dtypes.bfloat16).reshape(values.shape)


def round_to(values: npt.ArrayLike, dtype: str) -> npt.NDArray[Any]:
    """Round to nearest, ties to even, as oneDNN does.

    Integers saturate. Floats beyond the range become infinite, except f8_e4m3, which has no
    infinity: there all numbers above 464 become NaN. 8-bit floats are rounded twice, as in oneDNN,
    which converts them from f16. oneDNN defines no integer for NaN; here it is 0.

    Parameters
    ----------
    values : array_like
        Numbers of any real dtype.
    dtype : str
        oneDNN's name of the data type, such as ``bf16``.

    Returns
    -------
    numpy.ndarray
        An array with NumPy's dtype for it, or ml_dtypes' if NumPy has none.

    Raises
    ------
    InvalidArgumentsError
        oneDNN has no such data type.

    Examples
    --------
    >>> round_to([2.5, 3.5, 300.0], "u8")
    array([  2,   4, 255], dtype=uint8)
    """
    need_choice("dtype", dtype, NUMPY_DTYPES)
    target = NUMPY_DTYPES[dtype]
    array = np.asarray(values)
    if array.dtype == target:
        return array
    if dtype == "boolean":
        return np.asarray(array != 0)
    if is_integer(dtype):
        low, high = _LIMITS[dtype]
        if array.dtype.kind not in "iub":
            # float64 can't represent the upper limit of s64, so we use the last number before it.
            wide = np.clip(np.rint(array.astype(np.float64)), low, min(high, 2.0**63 - 1024))
            array = np.nan_to_num(wide).astype(np.int64)
        return np.clip(array.astype(np.int64), low, high).astype(target)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        exact = array.astype(np.float64)
        if dtype == "bf16":
            return _to_bf16(exact)
        if dtype.startswith("f8"):
            return exact.astype(np.float16).astype(target)
        return exact.astype(target)
