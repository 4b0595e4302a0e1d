"""NumPy functions for calls that oneDNN has no ops for: host steps of exported models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["HOST", "HostCall"]

Array = npt.NDArray[Any]


def _index(x: Array, indices: Any) -> Array:
    made: Array = x[tuple(slice(None) if i is None else i for i in indices)]
    return made


def _clamp(x: Array, low: Any = None, high: Any = None) -> Array:
    return np.clip(x, low, high)


def _cast(x: Array, **options: Any) -> Array:
    return x


def _scaled_sum(x: Any, y: Any, *, alpha: Any = 1) -> Any:
    return x + y * alpha


def _scaled_difference(x: Any, y: Any, *, alpha: Any = 1) -> Any:
    return x - y * alpha


def _cumsum(x: Array, dim: int, **options: Any) -> Array:
    return np.cumsum(x, axis=dim)


def _masked_fill(x: Array, mask: Array, value: Any) -> Array:
    return np.where(mask, np.asarray(value, x.dtype), x)


def _embedding(table: Array, ids: Array, *rest: Any) -> Array:
    made: Array = table[ids]
    return made


def _concatenate(arrays: Any, dim: int = 0) -> Array:
    return np.concatenate(arrays, axis=dim)


def _gather(x: Array, dim: int, index: Array, **options: Any) -> Array:
    return np.take_along_axis(x, index, axis=dim)


def _argmax(x: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    return np.asarray(np.argmax(x, axis=dim, keepdims=keepdim))


def _any(x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    return np.asarray(
        np.any(x, axis=dim if dim is None else tuple(np.atleast_1d(dim)), keepdims=keepdim)
    )


def _all(x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    return np.asarray(
        np.all(x, axis=dim if dim is None else tuple(np.atleast_1d(dim)), keepdims=keepdim)
    )


HOST: dict[str, Callable[..., Any]] = {
    "add": _scaled_sum,
    "sub": _scaled_difference,
    "mul": np.multiply,
    "neg": np.negative,
    "abs": np.abs,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "logical_not": np.logical_not,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "bitwise_not": np.bitwise_not,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "__and__": np.bitwise_and,
    "__or__": np.bitwise_or,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "where": np.where,
    "sin": np.sin,
    "cos": np.cos,
    "log": np.log,
    "remainder": np.remainder,
    "isnan": np.isnan,
    "clamp": _clamp,
    "cumsum": _cumsum,
    "index": _index,
    "gather": _gather,
    "masked_fill": _masked_fill,
    "embedding": _embedding,
    "cat": _concatenate,
    "argmax": _argmax,
    "any": _any,
    "all": _all,
    "_to_copy": _cast,
}
"""The function of each op, by the name before the overload's."""


@dataclass(frozen=True)
class Slot:
    """The place of an array among a call's arguments."""

    index: int


@dataclass(frozen=True)
class HostCall:
    """A call of a NumPy function, which pickles.

    Parameters
    ----------
    op : str
        A key of `HOST`.
    args : tuple
        The arguments, with a `Slot` for each array.
    kwargs : dict
    shape : tuple of int
        The result's shape, -1 for dims that only a call determines.
    dtype : numpy.dtype
        The result's data type.
    """

    op: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __call__(self, *arrays: Array) -> Array:
        """Compute the result."""

        def filled(given: Any) -> Any:
            if isinstance(given, Slot):
                return arrays[given.index]
            if isinstance(given, (list, tuple)):
                return [filled(g) for g in given]
            return given

        args = [filled(a) for a in self.args]
        made = HOST[self.op](*args, **{k: filled(a) for k, a in self.kwargs.items()})
        return np.asarray(made).astype(self.dtype, copy=False)
