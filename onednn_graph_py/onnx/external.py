"""Files of weights, which are mapped, and must stay as long as they were: `require_files`."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy.typing as npt
import onnx_ir as ir

from ..base.errors import GraphFormatError
from ..model.building.constant_arrays import mapped


class MappedTensor(ir.ExternalTensor):  # type: ignore[misc]  # onnx_ir has no stubs here
    """A tensor of a file, of which onnx_ir would map all for each tensor."""

    _mapped: npt.NDArray[Any] | None = None

    def numpy(self) -> npt.NDArray[Any]:
        """Return its numbers in the memory of the file."""
        if self._mapped is None and self.dtype.bitwidth % 8:
            self._mapped = super().numpy()
        elif self._mapped is None:
            with open(self.path, "rb") as file:
                stored = mapped(file.fileno(), self.offset or 0, self.nbytes)
            self._mapped = stored.view(self.dtype.numpy()).reshape(self.shape.numpy())
        return self._mapped


def lengths_of(tensors: Iterable[object]) -> dict[str, int]:
    """Return how many bytes of each file tensors take."""
    made: dict[str, int] = {}
    for tensor in tensors:
        if isinstance(tensor, ir.ExternalTensor):
            path = os.fspath(tensor.path)
            made[path] = max(made.get(path, 0), (tensor.offset or 0) + tensor.nbytes)
    return made


def require_files(lengths: Mapping[str, int]) -> None:
    """Raise if a file was cut: the system ends a process that reads a map behind its end."""
    for path, length in lengths.items():
        try:
            size = os.stat(path).st_size
        except FileNotFoundError:  # its content stays mapped
            continue
        if size < length:
            raise GraphFormatError(
                f"the file {path} was cut: it has {size:,} bytes, and the model's weights take "
                f"{length:,}; load the model again"
            )
