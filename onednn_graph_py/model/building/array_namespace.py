"""The Array API's names for values: what ``x.__array_namespace__()`` returns."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...base.dtypes import NUMPY_NAMES, array_dtype, dtype_name
from ...base.errors import InvalidArgumentsError
from .array_functions import TABLE, called
from .value import Value

_KINDS = {"bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu"} | {
    "real floating": "fV",
    "complex floating": "",
    "numeric": "iufV",
}
_NAMES = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
    "atan2": "arctan2", "atanh": "arctanh", "bitwise_invert": "invert",
    "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift",
}  # fmt: skip
_CREATION = ("arange", "empty", "eye", "full", "linspace", "ones", "zeros")


class ArrayNamespace:
    """NumPy's functions under the names of the Array API, for values and arrays alike.

    Functions that create arrays return NumPy's, of f32 where no data type is given; next to values
    they are constants.
    """

    __name__ = __name__
    __array_api_version__ = "2024.12"
    pi, e, inf, nan, newaxis = math.pi, math.e, math.inf, math.nan, None

    def __getattr__(self, name: str) -> Any:
        if name in NUMPY_NAMES:
            return NUMPY_NAMES[name]
        if name == "linalg":
            return self
        for known in (_NAMES.get(name, name), f"linalg.{name}", f"special.{name}"):
            if known in TABLE:
                return functools.partial(called, known)
        if name in _CREATION:
            return functools.partial(_created, name)
        raise AttributeError(f"values have no function {name!r} of the Array API")

    def __dir__(self) -> list[str]:
        return sorted({*NUMPY_NAMES, *_NAMES, *_CREATION, *TABLE, *vars(ArrayNamespace)})

    def asarray(self, obj: Any, *, dtype: Any = None, device: Any = None, copy: Any = None) -> Any:
        """Return a value as it is, and anything else as an array."""
        if isinstance(obj, Value):
            return obj if dtype is None else called("astype", obj, dtype)
        array = np.asarray(obj)
        if dtype is None and array.dtype == np.float64 and not isinstance(obj, np.ndarray):
            dtype = "f32"
        return array if dtype is None else array.astype(array_dtype(dtype_name(dtype)))

    def isdtype(self, dtype: Any, kind: Any) -> bool:
        """Whether a data type is one, or of a kind, or of one of several."""
        if isinstance(kind, tuple):
            return any(self.isdtype(dtype, k) for k in kind)
        own = dtype_name(dtype)
        if kind in _KINDS:
            return array_dtype(own).kind in _KINDS[kind]
        return own == dtype_name(kind)

    def finfo(self, dtype: Any, /) -> Any:
        """Return the limits of a floating-point data type."""
        return np.finfo(array_dtype(dtype_name(getattr(dtype, "dtype", dtype))))

    def iinfo(self, dtype: Any, /) -> Any:
        """Return the limits of an integer data type."""
        return np.iinfo(array_dtype(dtype_name(getattr(dtype, "dtype", dtype))))

    def result_type(self, *given: Any) -> str:
        """Return the data type of a result."""
        parts = [getattr(g, "dtype", g) for g in given]
        arrays = [array_dtype(dtype_name(p)) if isinstance(p, str) else p for p in parts]
        return dtype_name(np.result_type(*arrays))

    def can_cast(self, from_: Any, to: Any, /) -> bool:
        """Whether a data type holds all numbers of another."""
        source, target = (array_dtype(dtype_name(getattr(d, "dtype", d))) for d in (from_, to))
        return np.can_cast(source, target)

    def broadcast_arrays(self, *arrays: Any) -> list[Any]:
        """Repeat arrays to one shape."""
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        return [called("broadcast_to", a, shape) for a in arrays]

    def __array_namespace_info__(self) -> _Info:
        return _Info()


class _Info:
    """What the namespace can do, as the Array API asks."""

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 12}

    def default_device(self) -> str:
        return "cpu"

    def devices(self) -> list[str]:
        return ["cpu"]

    def default_dtypes(self, *, device: Any = None) -> dict[str, str]:
        names = {"real floating": "float32", "integral": "int64", "indexing": "int64"}
        return {kind: NUMPY_NAMES[name] for kind, name in names.items()}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, str]:
        kinds = tuple(_KINDS) if kind is None else kind
        known = {n: d for n, d in NUMPY_NAMES.items() if hasattr(np, n) and d not in ("f16", "f64")}
        return {n: d for n, d in known.items() if NAMESPACE.isdtype(d, kinds)}


def _created(name: str, *args: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> Any:
    """Create a constant array, of f32 where NumPy would choose f64."""
    array = getattr(np, name)(*args, **kwargs)
    if dtype is None and array.dtype != np.float64:
        return array
    return array.astype(array_dtype("f32" if dtype is None else dtype_name(dtype)))


NAMESPACE = ArrayNamespace()


def namespace_of(value: Value, *, api_version: str | None = None) -> ArrayNamespace:
    """Return the namespace of values.

    - raises `InvalidArgumentsError`: it has another version of the Array API
    """
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise InvalidArgumentsError(f"the Array API of values is 2024.12, got {api_version!r}")
    return NAMESPACE
