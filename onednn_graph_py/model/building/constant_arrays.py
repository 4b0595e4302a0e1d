"""Convert and copy arrays that become constants, or use them where they lie."""

import ctypes
import math
import mmap
import os
import secrets
from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary, finalize

import numpy as np
import numpy.typing as npt

from ... import _core
from ...base.dtypes import HOST_DTYPES, pack_int4, unpack_int4
from ...base.errors import InvalidArgumentsError, InvalidDataTypeError
from ...reference.rounding import NUMPY_DTYPES, round_to

_PACKED = ("s4", "u4")
_ALIGNMENT = 64
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
_LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_FLOATS = ("f32", "bf16", "f16", "f8_e4m3", "f8_e5m2")
ARRAY_DTYPES = {**NUMPY_DTYPES, **HOST_DTYPES}


# The memory of copies, and of files that were mapped, by its address.
_apart: WeakValueDictionary[int, npt.NDArray[Any]] = WeakValueDictionary()


def converted(values: npt.NDArray[Any], dtype: str, name: str) -> npt.NDArray[Any]:
    """Convert an array to a data type of oneDNN; floats are rounded, integers must fit."""
    target = ARRAY_DTYPES[dtype]
    if values.dtype == target:
        return values
    if values.dtype.kind not in "biufV":
        raise InvalidDataTypeError(
            f"constant {name!r}: {dtype} can't hold values of NumPy's {values.dtype}"
        )
    if dtype in _FLOATS:
        return round_to(values, dtype)
    if target.kind == "f":
        return values.astype(target)
    with np.errstate(all="ignore"):
        made = values.astype(target)
    exact = np.asarray(values, np.float64)
    if not np.array_equal(np.asarray(made.astype(np.int64), np.float64), exact):
        raise InvalidDataTypeError(f"constant {name!r}: {dtype} can't hold all of its values")
    return made


def owned(values: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """Make a read-only, row-major, 64-byte aligned copy; two 4-bit integers are a byte."""
    return aligned_copy(pack_int4(values, dtype) if dtype in _PACKED else values)


def lies_apart(stored: npt.NDArray[Any]) -> bool:
    """Return whether a constant lies far from other constants, and is not the caller's array."""
    return stored.ctypes.data in _apart


def placed(values: npt.NDArray[Any], dtype: str, name: str, copy: bool | None) -> npt.NDArray[Any]:
    """Return a view of the caller's array, or a copy as `owned` makes it.

    Without `copy`, only an array that can't be used where it lies is copied; False raises then.
    """
    why = "4-bit integers, which must be packed" if dtype in _PACKED else _misfit(values)
    if copy is False and why is not None:
        raise InvalidArgumentsError(
            f"constant {name!r}: copy=False needs a read-only, row-major array of {dtype} at an "
            f"address that is a multiple of {_ALIGNMENT}, got {why}"
        )
    return owned(values, dtype) if copy or why is not None else values.view()


def pickled(stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a constant for pickling: NumPy keeps only its own data types out of band."""
    return stored if stored.dtype.isbuiltin == 1 else stored.view(f"u{stored.itemsize}")


def restored(stored: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """Return an unpickled constant; a copy, unless it can be used where it lies."""
    if dtype not in _PACKED:
        stored = stored.view(ARRAY_DTYPES[dtype])
    return stored if _misfit(stored) is None else aligned_copy(stored)


def _misfit(values: npt.NDArray[Any]) -> str | None:
    """Return why an array can't be used where it lies; None if it can."""
    if values.flags.writeable:
        return "a writable array"
    if not values.flags.c_contiguous:
        return f"an array with strides of {values.strides} bytes"
    past = values.ctypes.data % _ALIGNMENT
    return f"an address {past} bytes past one" if past else None


def unpacked(
    stored: Any, shape: Any, dtype: str, strides: Sequence[int] | None = None
) -> npt.NDArray[Any]:
    """Return the elements; 4-bit integers, packed as they lie in memory, as ml_dtypes' types."""
    array: npt.NDArray[Any] = np.asarray(stored)
    if dtype not in _PACKED:
        return array
    order = sorted(range(len(shape)), key=lambda i: -strides[i] if strides else 0)
    made = unpack_int4(array, [shape[i] for i in order], dtype).transpose(np.argsort(order))
    return round_to(made, dtype)


def aligned_copy(stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Make a read-only copy in separate memory, far from other constants."""
    copy = aligned(stored.shape, stored.dtype)
    copy[...] = stored
    copy.flags.writeable = False
    return copy


def aligned(shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Make zeros in separate memory, far from other constants, which a caller fills."""
    memory = _core._constant_memory(math.prod(shape) * np.dtype(dtype).itemsize)
    _apart[memory.ctypes.data] = memory
    return memory.view(dtype).reshape(shape)


def mapped(file: int, at: int, size: int) -> npt.NDArray[np.uint8]:
    """Map bytes of a file, which processes share, read-only and far from other constants."""
    if not size:
        return aligned_copy(np.zeros(0, np.uint8))
    before = at % mmap.PAGESIZE
    length = before + size
    # Between 8 GB and 64 TB, as `_constant_memory`; the kernel takes another place if one is taken.
    page = secrets.randbelow((1 << 46) - (1 << 33)) + (1 << 33) & -mmap.PAGESIZE
    begin = _LIBC.mmap(page, length, mmap.PROT_READ, mmap.MAP_SHARED, file, at - before)
    if begin == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    held = (ctypes.c_uint8 * size).from_address(begin + before)
    finalize(held, _LIBC.munmap, begin, length).atexit = False
    made = np.frombuffer(memoryview(held).toreadonly(), np.uint8)
    _apart[made.ctypes.data] = made
    return made
