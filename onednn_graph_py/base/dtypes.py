"""Data types between oneDNN and NumPy, and the packing of 4-bit integers.

oneDNN keeps ``s4`` and ``u4`` two to a byte, the first element in the low half. NumPy has no such
dtype (ml_dtypes' int4 and uint4 take a byte each), so tensors of these types wrap flat uint8
arrays, made by `pack_int4` and read by `unpack_int4`.
"""

import contextlib
import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core import data_type_of, logical_tensor, numpy_dtype
from .arguments import need_integers
from .errors import InvalidArgumentsError, InvalidDataTypeError, InvalidShapeError, OneDNNError

__all__ = [
    "HOST_DTYPES",
    "NUMPY_NAMES",
    "DataType",
    "array_dtype",
    "data_type_of",
    "dtype_name",
    "numpy_dtype",
    "pack_int4",
    "unpack_int4",
]

HOST_DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(dtype)
    for name, dtype in {
        "s16": np.int16,
        "s64": np.int64,
        "u16": np.uint16,
        "u32": np.uint32,
        "u64": np.uint64,
        "f64": np.float64,
        "c64": np.complex64,
    }.items()
    if name not in logical_tensor.data_type.__members__
}
"""The data types that the linked oneDNN lacks, which only host steps and views read.

oneDNN has ``s64`` from 3.12 on.
"""


class DataType(str):
    """A data type by oneDNN's name, which equals NumPy's dtype and types, too."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return str.__eq__(self, other) or str.__eq__(self, NUMPY_NAMES.get(other, ""))
        try:
            return other is not None and str.__eq__(self, dtype_name(other))
        except (OneDNNError, TypeError, ValueError):  # it is no data type
            return False

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __getattr__(self, name: str) -> Any:
        """NumPy's attributes, such as ``kind`` and ``itemsize``."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(array_dtype(self), name)


NUMPY_NAMES = {
    numpy_dtype(name).name: DataType(name)
    for name in logical_tensor.data_type.__members__
    if name != "undef"
} | {dtype.name: DataType(name) for name, dtype in HOST_DTYPES.items()}
"""The data types by the names that NumPy and ml_dtypes give them, such as ``float32``."""

# NumPy takes them by oneDNN's names, too, as those of ml_dtypes: ``np.eye(3, dtype=x.dtype)``.
# Its own codes ``f16`` and ``u8`` mean other types, and stay.
for _numpy_name, _type in NUMPY_NAMES.items():
    np.sctypeDict.setdefault(str(_type), np.dtype(_numpy_name).type)

_RANGE = {"s4": (-8, 7), "u4": (0, 15)}


@cache
def array_dtype(name: str) -> np.dtype[Any]:
    """Return NumPy's dtype of a data type: oneDNN's or one of `HOST_DTYPES`.

    Raise InvalidDataTypeError if there is no such data type.
    """
    host = HOST_DTYPES.get(name)
    if host is not None:
        return host
    try:
        return numpy_dtype(name)
    except (TypeError, ValueError) as e:
        raise InvalidDataTypeError(f"there is no data type {name!r}: {e}") from None


def dtype_name(dtype: Any) -> str:
    """Return oneDNN's name of a data type, given by its or NumPy's name, dtype or enumerator.

    Of ``u4`` and ``u8``, which are NumPy's codes too, oneDNN's meaning counts. Raise
    InvalidArgumentsError if there is no such data type.
    """
    if dtype is None:  # which NumPy takes for f64
        raise TypeError("a data type is needed, got None")
    if isinstance(dtype, str):
        name = NUMPY_NAMES.get(dtype, dtype)
        if name in HOST_DTYPES:
            return name
        if name not in logical_tensor.data_type.__members__:
            with contextlib.suppress(TypeError):
                return dtype_name(np.dtype(dtype))
        name = logical_tensor(0, name, [1], "strided").get_data_type().name
    elif hasattr(dtype, "name") and hasattr(dtype, "value"):
        name = str(dtype.name)
    else:
        found = [name for name, d in HOST_DTYPES.items() if d == np.dtype(dtype)]
        name = found[0] if found else data_type_of(np.dtype(dtype)).name
    if name == "undef":
        raise InvalidArgumentsError("a tensor needs a data type, got undef")
    return name


def _range(data_type: logical_tensor.data_type | str) -> tuple[str, tuple[int, int]]:
    name = data_type if isinstance(data_type, str) else getattr(data_type, "name", data_type)
    if name not in _RANGE:
        raise InvalidArgumentsError(f"data_type must be s4 or u4, got {name}")
    return name, _RANGE[name]


def pack_int4(
    values: npt.ArrayLike, data_type: logical_tensor.data_type | str
) -> npt.NDArray[np.uint8]:
    """Pack integers two to a byte, in row-major order.

    Parameters
    ----------
    values : array_like of int
        Any shape; from -8 to 7 for ``s4``, from 0 to 15 for ``u4``.
    data_type : logical_tensor.data_type or str
        ``s4`` or ``u4``.

    Returns
    -------
    numpy.ndarray
        Flat uint8 array of half as many bytes, rounded up; an unused last half byte is 0.

    Raises
    ------
    InvalidArgumentsError
        A value is not an integer, or out of range.

    Examples
    --------
    >>> pack_int4([1, -1, 7], "s4")
    array([241,   7], dtype=uint8)
    """
    name, (low, high) = _range(data_type)
    flat = np.asarray(values).reshape(-1)
    try:
        # ml_dtypes' int4 is not an np.integer, but converts exactly; NaN and infinity do not.
        with np.errstate(invalid="ignore"):
            wide = flat.astype(np.int64)
        exact = flat.dtype.kind in "iub" or np.array_equal(wide.astype(flat.dtype), flat)
    except (TypeError, ValueError, OverflowError):  # texts and objects
        exact = False
    if not exact:
        raise InvalidArgumentsError(f"pack_int4: values must be integers, got dtype {flat.dtype}")
    if wide.size and (wide.min() < low or wide.max() > high):
        raise InvalidArgumentsError(
            f"pack_int4: {name} holds {low} to {high}, got {wide.min()} to {wide.max()}"
        )
    halves = (wide & 0xF).astype(np.uint8)
    if halves.size % 2:
        halves = np.append(halves, np.uint8(0))
    return (halves[0::2] | (halves[1::2] << 4)).astype(np.uint8)


def unpack_int4(
    packed: npt.NDArray[Any], shape: Sequence[int], data_type: logical_tensor.data_type | str
) -> npt.NDArray[np.int8]:
    """Unpack integers that were packed two to a byte.

    Parameters
    ----------
    packed : numpy.ndarray of uint8
        An array that `pack_int4` made.
    shape : sequence of int
        Shape of the result.
    data_type : logical_tensor.data_type or str
        ``s4`` or ``u4``.

    Returns
    -------
    numpy.ndarray
        An int8 array of this shape.

    Raises
    ------
    InvalidArgumentsError
        `packed` is not uint8.
    InvalidShapeError
        `packed` does not have as many bytes as `shape` needs, or a dim is negative.

    Examples
    --------
    >>> unpack_int4(pack_int4([1, -1, 7], "s4"), [3], "s4")
    array([ 1, -1,  7], dtype=int8)
    """
    _, (low, _) = _range(data_type)
    flat = np.asarray(packed).reshape(-1)
    if flat.dtype != np.uint8:
        raise InvalidArgumentsError(f"unpack_int4: packed must be uint8, got {flat.dtype}")
    shape = need_integers("unpack_int4: shape", shape)
    count = math.prod(shape)
    if flat.size != (count + 1) // 2 or min(shape, default=0) < 0:
        raise InvalidShapeError(
            f"unpack_int4: shape {shape} needs {(count + 1) // 2} bytes, got {flat.size}"
        )
    halves = np.stack([flat & 0xF, flat >> 4], axis=1).reshape(-1)[:count].astype(np.int8)
    if low < 0:
        halves = np.where(halves > 7, halves - 16, halves).astype(np.int8)
    return halves.reshape(shape)
