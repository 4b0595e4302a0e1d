"""Descriptions of tensors: `TensorSpec`, a shape and a data type."""

from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np

from ..base.dtypes import data_type_of
from ..base.errors import InvalidArgumentsError
from .terms import UNKNOWN, Shape, shape_text


@dataclass(frozen=True)
class TensorSpec:
    """The shape and data type of a tensor, as far as they are known.

    Parameters
    ----------
    shape : tuple of int, optional
        -1 for an unknown dim; None if even the rank is unknown.
    dtype : str, optional
        oneDNN's name, such as ``f32``; None if unknown.
    """

    shape: Shape = None
    dtype: str | None = None

    def __str__(self) -> str:
        return f"{self.dtype or 'unknown type'} {shape_text(self.shape)}"


SpecLike = Any  # a `TensorSpec`, a pair (shape, dtype), a logical tensor, or an array


def spec_of(value: SpecLike) -> TensorSpec:
    """Return the `TensorSpec` of an object with a shape and a data type."""
    if isinstance(value, TensorSpec):
        return value
    if hasattr(value, "get_data_type"):  # a logical tensor
        try:
            shape: Shape = tuple(UNKNOWN if d < 0 else d for d in value.get_dims())
        except InvalidArgumentsError:  # of unknown rank
            shape = None
        return TensorSpec(shape, value.get_data_type().name)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return TensorSpec(tuple(value.shape), data_type_of(np.dtype(value.dtype)).name)
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], (str, type(None))):
        dims, dtype = value
        return TensorSpec(None if dims is None else tuple(map(index, dims)), dtype)
    raise TypeError(
        "expected a TensorSpec, (shape, dtype), a logical_tensor or an array, got "
        f"{type(value).__name__}"
    )
