"""NumPy's protocols and methods for values; `methods.py` attaches them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .array_functions import called
from .host_functions import host_step
from .operands import leaves
from .value import Value, caller

__all__ = ["function_called", "method", "taken", "ufunc_called"]

_REDUCED = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"} | {
    "logical_and": "all",
    "logical_or": "any",
}
_SCIPY = ("erf", "expit")
_OTHERS = (np.ma.MaskedArray, np.matrix)


def ufunc_called(value: Value, ufunc: np.ufunc, method: str, /, *inputs: Any, **kwargs: Any) -> Any:
    """Call a NumPy ufunc on values: ``__array_ufunc__``."""
    name = ufunc.__name__
    for given in inputs:
        if not isinstance(given, Value) and hasattr(given, "__array_ufunc__"):
            if type(given).__array_ufunc__ is not np.ndarray.__array_ufunc__:
                return NotImplemented
    if any(given is None or isinstance(given, str) for given in inputs):
        return NotImplemented
    if method == "reduce" and name in _REDUCED:
        return called(_REDUCED[name], *inputs, **{"axis": 0} | kwargs)
    if method != "__call__":
        raise TypeError(f"np.{name}.{method} at {caller()} can't be traced; write it with others")
    return called(f"special.{name}" if name in _SCIPY else name, *inputs, **kwargs)


def function_called(
    value: Value, function: Callable[..., Any], types: Any, args: Any, kwargs: Any
) -> Any:
    """Call a NumPy function on values: ``__array_function__``."""
    if not all(issubclass(t, (Value, np.ndarray)) for t in types):
        return NotImplemented
    module = function.__module__.removeprefix("numpy").removeprefix(".")
    return called(f"{module}.{function.__name__}".removeprefix("."), *args, **kwargs)


def taken(value: Value, index: Any) -> Value:
    """Take elements by arrays or values of integers, as a host step."""
    if any(isinstance(i, Value) and i.dtype == "boolean" for i in leaves(index)):
        raise TypeError(
            f"at {caller()}: how many elements a mask takes is not known before the graph runs; "
            "write np.where(mask, x, other)"
        )
    made: Value = host_step("getitem", (value, index), {})
    return made


def rounded(value: Value, decimals: int) -> Value:
    """Round to so many decimals."""
    made: Value = called("round", value, decimals)
    return made


def instead(value: Value, name: str) -> str:
    """Return what to write instead of a method of torch or NumPy that values lack."""
    return f": write {_INSTEAD[name]}" if name in _INSTEAD else ""


_INSTEAD = {
    "unsqueeze": "np.expand_dims(x, axis)",
    "permute": "x.transpose(0, 2, 1)",
    "view": "x.reshape(...)",
    "size": "x.shape",
    "dim": "x.ndim",
    "item": "the value itself: it has no elements before the graph runs",
    "tolist": "the value itself: it has no elements before the graph runs",
    "numpy": "the value itself: functions of NumPy take it",
    "contiguous": "the value itself",
    "detach": "the value itself",
    "float": "x.astype('float32')",
    "half": "x.astype('float16')",
    "to": "x.astype(dtype)",
    "type": "x.astype(dtype)",
    "masked_fill": "np.where(mask, new, x)",
    "chunk": "x.split(parts, axis)",
    "silu": "x * x.sigmoid()",
    "norm": "np.linalg.norm(x)",
    "sort": "np.sort(x, axis)",
    "fill": "np.full_like(x, number)",
}


def _method(name: str) -> Callable[..., Any]:
    def method(value: Value, *args: Any, **kwargs: Any) -> Any:
        if name == "reshape" and len(args) > 1:
            args = (args,)
        return called(name, value, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"Call ``numpy.{name}`` on the value."
    return method


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _method(name)
