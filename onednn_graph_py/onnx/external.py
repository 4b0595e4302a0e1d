"""Files of weights, which are mapped, and must stay as long as they were: `require_files`."""

import os
from collections.abc import Iterable, Mapping

import onnx_ir as ir

from ..base.errors import GraphFormatError


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
