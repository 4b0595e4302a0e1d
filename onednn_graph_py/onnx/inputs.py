"""What the inputs of a model may be: `InputCheck`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ..errors import InvalidArgumentsError, InvalidDataTypeError, InvalidShapeError
from ..ops.terms import shape_text
from .tensors import Shape

__all__ = ["InputCheck"]


class InputCheck:
    """What an input may be.

    Parameters
    ----------
    value : onnx_ir.Value
    dtype : str
    """

    def __init__(self, value: ir.Value, dtype: str) -> None:
        self.name = value.name or ""
        self.dtype = dtype
        self.is_tensor = isinstance(value.type, ir.TensorType)
        self.numpy = value.dtype.numpy() if value.dtype is not None and self.is_tensor else None
        self.dims: list[Any] | None = None
        if value.shape is not None:
            self.dims = [d if isinstance(d, int) else d.value for d in value.shape]

    def __str__(self) -> str:
        if self.dims is None:
            return f"{self.name}: {self.dtype}"
        dims = " x ".join("?" if d is None else str(d) for d in self.dims)
        return f"{self.name}: {self.dtype} {dims or '()'}"

    @property
    def is_open(self) -> bool:
        """Whether a call determines a dim."""
        return self.dims is None or any(not isinstance(d, int) for d in self.dims)

    def array(self, model: str, given: Any) -> Any:
        """Return what a call gives as an array."""
        if not self.is_tensor:
            return given
        array = given if isinstance(given, np.ndarray) else np.asarray(given)
        if array.dtype != self.numpy:
            text = self.dtype == "string" and array.dtype.kind in "OUST"
            if not text:
                raise InvalidDataTypeError(
                    f"{model}: input {self.name!r} must have the type {self.numpy} ({self.dtype}), "
                    f"got {array.dtype}"
                )
        self.require(model, array.shape)
        return array

    def require(self, model: str, shape: Shape) -> None:
        """Raise unless a shape fits."""
        dims = self.dims
        if dims is None:
            return
        if len(dims) != len(shape) or any(
            isinstance(d, int) and d != s for d, s in zip(dims, shape, strict=True)
        ):
            wanted = " x ".join("?" if d is None else str(d) for d in dims)
            raise InvalidShapeError(
                f"{model}: input {self.name!r} must have the shape {wanted or '()'}, got "
                f"{shape_text(shape)}"
            )

    def shape_for(self, model: str, sizes: Mapping[str, int]) -> Shape:
        """Return the shape for sizes of named dims."""
        made = []
        for dim in self.dims or ():
            if isinstance(dim, int):
                made.append(dim)
            elif dim in sizes:
                made.append(int(sizes[dim]))
            else:
                raise InvalidArgumentsError(
                    f"{model}: input {self.name!r} needs a size for {dim or 'a dim without name'!r}"
                )
        return tuple(made)

    def random(self, generator: np.random.Generator, shape: Shape) -> npt.NDArray[Any]:
        """Return numbers that most models can take: floats around 0, and 0 or 1."""
        if self.numpy is None:
            raise InvalidArgumentsError(f"there are no random numbers for input {self.name!r}")
        if self.dtype in ("f32", "f64", "f16", "bf16"):
            return generator.standard_normal(shape).astype(self.numpy)
        return generator.integers(0, 2, shape).astype(self.numpy)
