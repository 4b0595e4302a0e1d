"""Models as bytes and arrays, for pickling and for other runtimes, and tensors of files."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.numpy_helper
import onnx_ir as ir

from ..base.errors import GraphFormatError
from ..model.building.constant_arrays import aligned_copy, mapped


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


def packed(model: ir.Model) -> tuple[bytes, dict[str, npt.NDArray[Any]]]:
    """Return a model without its weights, and the weights by name.

    The weights are NumPy's own, so that pickles can have them out of band.
    """
    skeleton = model.clone()
    weights = {}
    for name, value in skeleton.graph.initializers.items():
        array = numbers(value)
        own = array.dtype.kind in "biuf" and array.dtype.isbuiltin != 2  # not f8 of ml_dtypes
        # onnxruntime lets nobody give numbers that no node reads.
        if own and (value.uses() or value.is_graph_output()):
            plain = np.dtype(array.dtype.str)  # one of NumPy's own objects, not an equal one
            weights[name] = array.view(plain)
            value.const_value = ir.tensor(np.zeros((0,), array.dtype), name=name)
    return ir.to_proto(skeleton).SerializeToString(), weights


def put_into(model: ir.Model, weights: Mapping[str, npt.NDArray[Any]]) -> ir.Model:
    """Return the model that `packed` took apart, with its weights again."""
    for name, array in weights.items():
        value = model.graph.initializers[name]
        kept = array
        if array.flags.writeable or array.ctypes.data % 64:
            kept = aligned_copy(array) if array.size else array
        value.const_value = ir.tensor(kept, name=name)
        value.shape = ir.Shape(array.shape)
    return model


LARGE = 1024  # bytes of a weight that may stand outside of a model


def spread(
    serialized: bytes, weights: Mapping[str, npt.NDArray[Any]]
) -> tuple[onnx.ModelProto, dict[str, npt.NDArray[Any]]]:
    """Return what `packed` took apart as a model whose large weights stand outside of it."""
    proto = onnx.ModelProto.FromString(serialized)
    outside = {}
    for tensor in proto.graph.initializer:
        array = weights.get(tensor.name)
        if array is None:
            continue
        if array.nbytes < LARGE:
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
            continue
        tensor.ClearField("raw_data")
        tensor.dims[:] = array.shape
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, text in (("location", tensor.name), ("offset", 0), ("length", array.nbytes)):
            tensor.external_data.add(key=key, value=str(text))
        outside[tensor.name] = array
    return proto, outside


def proto_of(model: ir.Model) -> onnx.ModelProto:
    """Return a model with all weights in it."""
    whole = model.clone()
    for name, value in whole.graph.initializers.items():
        if isinstance(value.const_value, ir.ExternalTensor):
            value.const_value = ir.tensor(numbers(value), dtype=value.const_value.dtype, name=name)
    proto: onnx.ModelProto = ir.to_proto(whole)
    return proto


def numbers(value: ir.Value) -> npt.NDArray[Any]:
    """Return the numbers of a weight."""
    assert value.const_value is not None
    array: npt.NDArray[Any] = value.const_value.numpy()
    return array
