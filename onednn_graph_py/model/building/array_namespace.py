"""The Array API's names for values: what ``x.__array_namespace__()`` returns."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

from ...base.dtypes import NUMPY_NAMES, DataType, array_dtype, dtype_name
from ...base.errors import InvalidArgumentsError
from .array_functions import TABLE, called
from .host_functions import function_of, is_ufunc, leaves
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
_FINFO: Any = ml_dtypes.finfo
_OF_DTYPES: dict[str, Any] = {
    "can_cast": np.can_cast,
    "iinfo": ml_dtypes.iinfo,
    "result_type": np.result_type,
}


class ArrayNamespace:
    """NumPy's functions under the names of the Array API, for values and arrays alike.

    Functions that create arrays return NumPy's, of f32 where no data type is given; next to values
    they are constants.
    """

    __name__ = __name__
    __array_api_version__ = "2024.12"
    pi, e, inf, nan, newaxis = math.pi, math.e, math.inf, math.nan, None

    # - `builder`: returns the values' builder as long as that is there, as SciPy keeps namespaces
    def __init__(self, builder: Callable[[], Any] = lambda: None) -> None:
        self._builder = builder

    # Arrays of NumPy are taken next to values: scikit-learn asks whether namespaces are equal.
    def __eq__(self, other: object) -> bool:
        name: str = getattr(other, "__name__", "")
        return name in (__name__, "numpy") or name.endswith("array_api_compat.numpy")

    def __hash__(self) -> int:
        return hash(__name__)

    def __getattr__(self, name: str) -> Any:
        if name in NUMPY_NAMES:
            return NUMPY_NAMES[name]
        if name in ("linalg", "special"):
            return self
        if name in _CREATION:
            return _Function(name, _created)
        if name in _OF_DTYPES:
            return _Function(name, _of_dtypes)
        for known in (_NAMES.get(name, name), f"linalg.{name}", f"special.{name}"):
            if known in TABLE or is_ufunc(known):
                return _Function(known, called)
        raise AttributeError(f"values have no function {name!r} of the Array API")

    def __dir__(self) -> list[str]:
        names = {*NUMPY_NAMES, *_NAMES, *_CREATION, *_OF_DTYPES, *TABLE}
        return sorted(names | {*vars(ArrayNamespace)})

    def asarray(self, obj: Any, *, dtype: Any = None, device: Any = None, copy: Any = None) -> Any:
        """Return a value as it is, a list of values stacked, and anything else as an array."""
        if isinstance(obj, (list, tuple)) and any(isinstance(v, Value) for v in leaves(obj)):
            obj = called("stack", [self.asarray(part) for part in obj])
        if isinstance(obj, Value):
            return obj if dtype is None else called("astype", obj, dtype)
        array = np.asarray(obj)
        if dtype is None and array.dtype == np.float64 and not isinstance(obj, np.ndarray):
            dtype = "f32"
        return array if dtype is None else array.astype(array_dtype(dtype_name(dtype)))

    def from_dlpack(self, x: Any, /, *, device: Any = None, copy: Any = None) -> Any:
        """Return an array as a constant next to the value that the namespace is of."""
        array = np.from_dlpack(x, device=device, copy=copy)
        builder = self._builder()
        return array if builder is None else builder.constant(array)

    def astype(self, x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
        """Return a value or an array in another data type."""
        is_value = isinstance(x, Value)
        return called("astype", x, dtype) if is_value else self.asarray(x, dtype=dtype, copy=copy)

    def isdtype(self, dtype: Any, kind: Any) -> bool:
        """Whether a data type is one, or of a kind, or of one of several."""
        if isinstance(kind, tuple):
            return any(self.isdtype(dtype, k) for k in kind)
        own = dtype_name(dtype)
        if kind in _KINDS:
            return array_dtype(own).kind in _KINDS[kind]
        return own == dtype_name(kind)

    def finfo(self, type: Any, /) -> Any:
        """Return the limits of a floating-point data type, as Python's numbers."""
        name = dtype_name(getattr(type, "dtype", type))
        limits = _FINFO(array_dtype(name))
        numbers = {n: float(getattr(limits, n)) for n in ("eps", "max", "min", "smallest_normal")}
        return SimpleNamespace(bits=limits.bits, dtype=DataType(name), **numbers)

    def sort(
        self, x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True
    ) -> Any:
        """Return elements in order."""
        rising = called("sort", x, axis=axis)
        return called("flip", rising, axis) if descending else rising

    def argsort(
        self, x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True
    ) -> Any:
        """Return the places of elements in order; of equal ones the first place comes first."""
        if not descending:
            return called("argsort", x, axis=axis, kind="stable")
        falling = called("argsort", called("flip", x, axis), axis=axis, kind="stable")
        return x.shape[axis] - 1 - called("flip", falling, axis)

    def clip(self, x: Any, /, min: Any = None, max: Any = None) -> Any:
        """Return elements within limits."""
        return called("clip", x, min, max)

    def meshgrid(self, *arrays: Any, indexing: str = "xy") -> list[Any]:
        """Return the coordinates of a grid."""
        return list(called("meshgrid", *arrays, indexing=indexing))

    def broadcast_arrays(self, *arrays: Any) -> list[Any]:
        """Repeat arrays to one shape."""
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        return [called("broadcast_to", a, shape) for a in arrays]

    def __array_namespace_info__(self) -> _Info:
        return _Info()


class _Info:
    """The abilities of the namespace, as the Array API asks."""

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
    array = function_of(name)(*args, **kwargs)
    if dtype is None and array.dtype != np.float64:
        return array
    return array.astype(array_dtype("f32" if dtype is None else dtype_name(dtype)))


def _of_dtypes(name: str, *given: Any) -> Any:
    """Ask NumPy about data types, and those of arrays and values."""
    parts = [getattr(g, "dtype", g) for g in given]
    result = _OF_DTYPES[name](
        *(array_dtype(dtype_name(p)) if isinstance(p, str) else p for p in parts)
    )
    return DataType(dtype_name(result)) if isinstance(result, np.dtype) else result


class _Function:
    """A function with NumPy's name and signature."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.__name__ = name
        self._function = function

    @property
    def __signature__(self) -> inspect.Signature:
        try:
            return inspect.signature(function_of(self.__name__))
        except (AttributeError, ImportError):  # without SciPy
            return inspect.signature(self._function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(self.__name__, *args, **kwargs)


NAMESPACE = ArrayNamespace()


def namespace_of(value: Value, *, api_version: str | None = None) -> ArrayNamespace:
    """Return the namespace of values; raise if it has another version of the Array API."""
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise InvalidArgumentsError(f"the Array API of values is 2024.12, got {api_version!r}")
    return ArrayNamespace(value._builder)
