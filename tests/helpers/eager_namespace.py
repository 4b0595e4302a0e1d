r"""The Array API's namespace of values, run eagerly: each call is traced, compiled and run.

With it the Array API's own test suite tests what a jitted function sees. In a clone of
github.com/data-apis/array-api-tests with its submodule and requirements, with this folder and the
package on PYTHONPATH. Without complex numbers it needs one change::

    sed -i 's/for dt in complex_dtypes]/for dt in complex_dtypes or real_float_dtypes]/' \
        array_api_tests/dtype_helpers.py
    export ARRAY_API_TESTS_MODULE=eager_namespace
    export ARRAY_API_TESTS_SKIP_DTYPES=float64,complex64,complex128
    python -m pytest array_api_tests -p eager_namespace --max-examples 20 --disable-deadline

It prints how many tests of each file pass, are refused by a typed error, lack a name, fail, or are
skipped, as those of complex numbers are.
"""

import functools
import inspect
import sys
from collections import Counter
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

import onednn_graph_py as og
from onednn_graph_py.base.dtypes import DataType, dtype_name
from onednn_graph_py.model.building.array_namespace import NAMESPACE


@dataclass(frozen=True, eq=False)
class Type:
    """A data type; hypothesis takes those that are texts for names."""

    own: DataType

    def __eq__(self, other: object) -> bool:
        return bool(self.own == getattr(other, "own", other))

    def __hash__(self) -> int:
        return hash(self.own)


class Array:
    """An array whose methods and operators are those of a value."""

    def __init__(self, elements: Any) -> None:
        self.elements = np.asarray(elements)
        self.shape, self.ndim, self.size = (
            self.elements.shape,
            self.elements.ndim,
            self.elements.size,
        )
        self.dtype, self.device = wrapped(DataType(dtype_name(self.elements.dtype))), "cpu"

    def __repr__(self) -> str:
        return f"Array({self.elements!r})"

    def __getattr__(self, name: str) -> Any:
        found = getattr(og.Value, name)
        if callable(found):
            return functools.partial(run, found, self)
        return run(lambda v: getattr(v, name), self)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        run(lambda v: v.__array_namespace__(api_version=api_version) and v, self)
        return sys.modules[__name__]

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self.elements)))

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Any = None,
        dl_device: Any = None,
        copy: Any = None,
    ) -> Any:
        return self.elements.__dlpack__(
            stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )

    def __setitem__(self, index: Any, value: Any) -> None:
        run(og.Value.__setitem__, self, index, value)

    def __dlpack_device__(self) -> Any:
        return self.elements.__dlpack_device__()

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        return run(lambda v: v.to_device(device, stream=stream), self)


def _forwarded(name: str) -> Any:
    def method(self: Array, *args: Any) -> Any:
        return run(getattr(og.Value, name), self, *args)

    return method


_OPERATORS = [name for name, f in vars(NDArrayOperatorsMixin).items() if inspect.isfunction(f)]
for _name in (*_OPERATORS, "__getitem__"):
    setattr(Array, _name, _forwarded(_name))
for _name in ("bool", "int", "float", "complex", "index"):
    # After a call the elements are there.
    setattr(Array, f"__{_name}__", lambda a, n=_name: getattr(a.elements, f"__{n}__")())
Array.__hash__ = object.__hash__  # type: ignore[method-assign]


def run(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function of values through `og.jit`, or at once if there is no array."""
    arrays: list[Array] = []

    def replaced(given: Any, new: Any) -> Any:
        if isinstance(given, Array):
            return new(given)
        if isinstance(given, (list, tuple)):
            return type(given)(replaced(g, new) for g in given)
        return given.own if isinstance(given, Type) else given

    replaced((args, tuple(kwargs.values())), arrays.append)
    plain = []

    def traced(*values: Any) -> Any:
        left = iter(values)
        own = replaced(args, lambda _: next(left))
        named = {k: replaced(v, lambda _: next(left)) for k, v in kwargs.items()}
        result = function(*own, **named)
        parts = result if isinstance(result, (list, tuple)) else [result]
        if not values or (parts and all(isinstance(p, og.Value) for p in parts)):
            return result
        plain.append(result)
        return values[0]

    if not arrays:
        return wrapped(traced())
    result = og.jit(traced)(*(a.elements for a in arrays))
    return wrapped(plain[0] if plain else result)


def wrapped(result: Any) -> Any:
    """Return arrays and data types in a result as ours."""
    if isinstance(result, DataType):
        return Type(result)
    if isinstance(result, SimpleNamespace):
        return SimpleNamespace(**wrapped(vars(result)))
    if isinstance(result, dict):
        return {key: wrapped(part) for key, part in result.items()}
    if isinstance(result, (np.ndarray, np.generic)):
        return Array(result)
    if isinstance(result, (list, tuple)) and any(isinstance(r, np.ndarray) for r in result):
        parts = map(wrapped, result)
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    return result


class _Extension:
    """The functions of ``linalg`` or ``fft``."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    def __getattr__(self, name: str) -> Any:
        return _function(self._owner, name)


def _function(owner: Any, name: str) -> Any:
    found = getattr(owner, name)
    if not callable(found) or name.startswith("__array"):
        return wrapped(found)

    @functools.wraps(found)
    def function(*args: Any, **kwargs: Any) -> Any:
        return run(found, *args, **kwargs)

    function.__signature__ = inspect.signature(found)  # type: ignore[attr-defined]
    return function


def __array_namespace_info__() -> Any:
    return _Extension(NAMESPACE.__array_namespace_info__())


def __getattr__(name: str) -> Any:
    if name in ("linalg", "fft"):
        return _Extension(getattr(NAMESPACE, name))
    if name.startswith("pytest") or (name.startswith("__") and "__array" not in name):
        raise AttributeError(name)
    return _function(NAMESPACE, name)


# -- the table, if pytest has this module as a plugin

_OUTCOMES = ("passed", "refused", "lacking", "failed", "skipped")
_counts: dict[str, Counter[str]] = {}
_TYPED = (og.OneDNNError, TypeError, AttributeError)
_LACKING = ("is not defined in", "is missing the", "not found in array module", "have no function")


def pytest_runtest_makereport(item: Any, call: Any) -> None:
    """Count an outcome; the suite asserts that names are there."""
    counts = _counts.setdefault(item.path.name, Counter())
    if call.excinfo is None:
        counts["passed"] += call.when == "call"
        return
    error = call.excinfo.value
    if call.excinfo.typename == "Skipped" or "imag(x_i)" in item.name:  # of complex numbers
        outcome = "skipped"
    elif any(text in str(error) for text in _LACKING):
        outcome = "lacking"
    else:
        outcome = "refused" if isinstance(error, _TYPED) else "failed"
        print(outcome.upper(), type(error).__name__, error)
    counts[outcome] += 1


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the table."""
    terminalreporter.write_line("| tests | " + " | ".join(_OUTCOMES) + " |")
    for name, counts in sorted(_counts.items()):
        cells = " | ".join(str(counts[o]) for o in _OUTCOMES)
        terminalreporter.write_line(f"| {name} | {cells} |")
