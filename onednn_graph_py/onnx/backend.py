"""The interface of ``onnx.backend.base``, by which onnx's own tests run against this package.

>>> import numpy as np, onnx.helper
>>> from onednn_graph_py.onnx import backend
>>> backend.run_node(onnx.helper.make_node("Relu", ["x"], ["y"]), [np.float32([-1, 2])])
(array([0., 2.], dtype=float32),)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnx.helper
import onnx.shape_inference
from onnx.backend.base import Backend, BackendRep

from ..base.errors import InvalidArgumentsError
from .file_model import load
from .model import OnnxModel

__all__ = [
    "OnnxBackend",
    "Representation",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]


class Representation(BackendRep):  # type: ignore[misc,unused-ignore]
    """A prepared model, which `prepare` returns."""

    def __init__(self, model: OnnxModel) -> None:
        self.model = model

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run the model.

        Parameters
        ----------
        inputs : sequence of arrays, mapping of str to array, or array
            In the model's order, by name, or the only one.

        Returns
        -------
        tuple
            The outputs.
        """
        if kwargs:
            raise InvalidArgumentsError(f"run has no option {next(iter(kwargs))!r}")
        if isinstance(inputs, Mapping):
            made = self.model(**inputs)
        else:
            made = self.model(*(inputs if isinstance(inputs, (list, tuple)) else [inputs]))
        return made if len(self.model.output_names) > 1 else (made,)


class OnnxBackend(Backend):  # type: ignore[misc,unused-ignore]
    """onnx's backend of this package; `onednn_graph_py.onnx.load` says what its options are."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Return whether a model can run: what oneDNN does not take runs in islands."""
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> Representation:
        """Load a model.

        Parameters
        ----------
        model : onnx.ModelProto
        device : str
        **kwargs
            Options of `onednn_graph_py.onnx.load`.

        Raises
        ------
        InvalidArgumentsError
            There is no such device.
        GraphFormatError
            The model is not valid.
        """
        if not cls.supports_device(device):
            raise InvalidArgumentsError(f"the device must be CPU, got {device!r}")
        return Representation(load(model, **kwargs))

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Any, ...]:
        """Load a model and run it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run a single node.

        Parameters
        ----------
        node : onnx.NodeProto
        inputs : sequence of arrays, or mapping of str to array
        device : str
        outputs_info : sequence of (dtype, shape), optional
            Types of the outputs; by default onnx infers them.
        **kwargs
            Options of `onednn_graph_py.onnx.load`, and ``opset_version``: the newest by default.
        """
        version = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        names = [n for n in node.input if n]
        given = inputs if isinstance(inputs, Mapping) else dict(zip(names, inputs, strict=True))
        arrays = {n: np.asarray(given[n]) for n in names}
        outputs = [onnx.ValueInfoProto(name=n) for n in node.output if n]
        for info, (dtype, shape) in zip(outputs, outputs_info or (), strict=False):
            info.CopyFrom(_described(info.name, np.dtype(dtype), shape))
        graph = onnx.helper.make_graph(
            [node], "node", [_described(n, a.dtype, a.shape) for n, a in arrays.items()], outputs
        )
        opsets = [onnx.helper.make_opsetid(node.domain, version)]
        model = onnx.helper.make_model(graph, opset_imports=opsets)
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        return cls.run_model(inferred, arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether there is such a device: ``CPU``."""
        return device.split(":")[0] == "CPU"


def _described(name: str, dtype: np.dtype[Any], shape: Sequence[int]) -> onnx.ValueInfoProto:
    elem = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    return onnx.helper.make_tensor_value_info(name, elem, shape)


is_compatible = OnnxBackend.is_compatible
prepare = OnnxBackend.prepare
run_model = OnnxBackend.run_model
run_node = OnnxBackend.run_node
supports_device = OnnxBackend.supports_device
