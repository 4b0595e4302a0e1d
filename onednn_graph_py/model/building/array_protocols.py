"""NumPy's protocols and methods for values; `methods.py` attaches them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .array_functions import TABLE, called
from .host_functions import FLOATS, host_step, leaves
from .op_methods import method_name
from .operands import type_of
from .value import Value, caller

_REDUCED = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"} | {
    "logical_and": "all",
    "logical_or": "any",
}


def ufunc_called(value: Value, ufunc: Any, method: str, /, *inputs: Any, **kwargs: Any) -> Any:
    """Call a NumPy ufunc on values: ``__array_ufunc__``."""
    name = ufunc.__name__
    own = (None, np.ndarray.__array_ufunc__, Value.__array_ufunc__)
    if any(
        given is None
        or isinstance(given, str)
        or getattr(type(given), "__array_ufunc__", None) not in own
        for given in inputs
    ):
        return NotImplemented
    if method == "reduce" and name in _REDUCED:
        return called(_REDUCED[name], *inputs, **{"axis": 0} | kwargs)
    if method == "at":
        raise TypeError(f"np.{name}.at at {caller()} writes in place, which can't be traced")
    dtype = kwargs.get("dtype")
    if dtype is not None and type_of(dtype, value.builder) in FLOATS:
        inputs = tuple(called("astype", i, dtype) if isinstance(i, Value) else i for i in inputs)
        del kwargs["dtype"]
    full = name if getattr(np, name, None) is ufunc else f"special.{name}"
    return called(full if method == "__call__" else f"{full}.{method}", *inputs, **kwargs)


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


def op_called(
    value: Value, kind: str, inputs: Sequence[Any], attrs: dict[str, Any], *, dtype: Any, name: Any
) -> Any:
    """Call the NumPy function with an op's name, which takes further arguments by position."""
    function = method_name(kind)
    known = next((n for n in (function, f"special.{function}") if n in TABLE), None)
    if known is None or any(isinstance(i, Value) for i in inputs):
        return value.add_op(kind, inputs, attrs, dtype=dtype, name=name)
    return called(known, value, *inputs, **attrs, **({} if dtype is None else {"dtype": dtype}))


def instead(value: Value, name: str) -> str:
    """Return what to write instead of a method of torch or NumPy that values lack."""
    return f": write {INSTEAD[name]}" if name in INSTEAD else ""


INSTEAD = {
    "unsqueeze": "np.expand_dims(x, axis)",
    "permute": "x.transpose(0, 2, 1)",
    "view": "x.reshape(shape)",
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
    def method(value: Value, *args: Any, **kwargs: Any) -> Value:
        if name == "reshape" and len(args) > 1:
            args = (args,)
        result: Value = called(name, value, *args, **kwargs)
        return result

    method.__name__ = name
    method.__doc__ = f"Call ``numpy.{name}`` on the value."
    return method


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _method(name)
