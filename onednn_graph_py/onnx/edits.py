"""Read and change the graph of a model, for rewrites that follow several nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ..blocks.compressed import Matrix
from ..frontends.lowering import FLOATS
from ..machine.cpu import lacks
from .inference import name_of
from .options import Activations

Array = npt.NDArray[Any]

EIGHT_BITS = (np.dtype(np.int8), np.dtype(np.uint8))

OWN = "onednn_graph_py"  # the domain of ops that rewrites make and ONNX lacks

VERSION = 21  # the opset of QuantizeLinear and DequantizeLinear that are made


def is_op(node: ir.Node | None, *types: str, domain: str = "") -> TypeGuard[ir.Node]:
    """Return whether a node is there and is one of these ops."""
    return node is not None and node.op_type in types and node.domain == domain


@dataclass(frozen=True)
class Parameters:
    """The scale and the zero point of a QuantizeLinear or DequantizeLinear with one of each."""

    scale: float
    point: int
    dtype: np.dtype[Any]  # of the integers

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest number that can be written."""
        info = np.iinfo(self.dtype)
        return (info.min - self.point) * self.scale, (info.max - self.point) * self.scale


def integer(node: ir.Node, name: str, default: int = 0) -> int:
    """Return an attribute that is a whole number."""
    found = node.attributes.get(name)
    return default if found is None else found.as_int()


def only_reader(value: ir.Value) -> ir.Node | None:
    """Return the only reader of a value."""
    uses = value.uses()
    return uses[0].node if len(uses) == 1 and not value.is_graph_output() else None


class Edits:
    """Changes to the graph of a model."""

    def __init__(self, model: ir.Model, activations: Activations = "exact") -> None:
        self.model = model
        self.activations = activations
        self.graph = model.graph
        self._inputs = set(model.graph.inputs)
        self._made = 0

    def each(self, rewrite: Callable[[Edits, ir.Node], object]) -> None:
        """Call a function with each node that is still there.

        Files are not trusted: what it meets in one that is not valid leaves the node as it is, and
        what runs the node tells what is wrong with it.
        """
        for node in list(self.graph):
            if node.graph is not None:
                with contextlib.suppress(Exception):
                    rewrite(self, node)

    def weight(self, value: ir.Value | None) -> Array | None:
        """Return the numbers of a value that no call changes."""
        if value is None or value.const_value is None or value in self._inputs:
            return None
        return value.const_value.numpy() if value.is_initializer() else None

    def of(self, node: ir.Node, i: int) -> ir.Value | None:
        """Return an input of a node, None where it is left out."""
        return node.inputs[i] if i < len(node.inputs) else None

    def constant(self, array: Array, name: str) -> ir.Value:
        """Add a weight."""
        made = ir.Value(name=self._name(name), const_value=ir.tensor(array))
        assert made.const_value is not None
        made.type, made.shape = ir.TensorType(made.const_value.dtype), ir.Shape(array.shape)
        self.graph.register_initializer(made)
        return made

    def before(
        self,
        place: ir.Node,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
        version: int | None = None,
        domain: str = "",
    ) -> ir.Value:
        """Add a node before another one, and return its result."""
        made = ir.node(op_type, inputs, attributes, domain=domain, version=version)
        made.name = made.outputs[0].name = self._name(f"{place.name}.{op_type}")
        self.graph.insert_before(place, made)
        return made.outputs[0]

    def replace(self, node: ir.Node, made: ir.Value) -> None:
        """Let all that reads a node's first result read another value, and remove the node."""
        self.instead(node.outputs[0], made)
        self.graph.remove(node, safe=True)

    def instead(self, value: ir.Value, made: ir.Value) -> None:
        """Let all that reads a value read another one."""
        name = value.name
        if value.is_graph_output():
            value.name = None
            if made.producer() is None or made.is_graph_output():
                producer = value.producer()
                assert producer is not None
                made = self.before(producer, "Identity", [made])
            made.name = name
        if made.type is None:
            made.type = value.type
        if made.shape is None:
            made.shape = value.shape
        value.replace_all_uses_with(made, replace_graph_outputs=True)

    def dequantized(
        self,
        place: ir.Node,
        x: ir.Value | None,
        scale: ir.Value | None,
        point: ir.Value | None,
        axis: int | None = None,
    ) -> ir.Value:
        """Add a DequantizeLinear."""
        attributes = {} if axis is None else {"axis": axis}
        return self.before(place, "DequantizeLinear", [x, scale, point], attributes, VERSION)

    def parameters(self, node: ir.Node) -> Parameters | None:
        """Return what quantizes or dequantizes a whole tensor, if it is known."""
        scale, point = self.weight(self.of(node, 1)), self.weight(self.of(node, 2))
        if scale is None or scale.size != 1 or "block_size" in node.attributes:
            return None
        if self.of(node, 2) is None:
            if is_op(node, "DequantizeLinear") or "output_dtype" in node.attributes:
                return None
            point = np.zeros((), np.uint8)
        if point is None or point.size != 1 or point.dtype.kind not in "iu":
            return None
        return Parameters(float(scale.reshape(-1)[0]), int(point.reshape(-1)[0]), point.dtype)

    def rounds(self, node: ir.Node, scale: Array) -> bool:
        """Return whether a product by weights with this scale rounds activations to 8 bits.

        These have the data type of the scale, which the file says in any case.
        """
        asked = self.activations == "int8" or (
            self.activations == "file" and integer(node, "accuracy_level") == 4
        )
        name = name_of(ir.DataType.from_numpy(scale.dtype))
        return asked and name in FLOATS and not lacks(name)

    def product(
        self,
        node: ir.Node,
        x: ir.Value | None,
        weights: Array | Matrix,
        bias: ir.Value | None = None,
    ) -> None:
        """Replace a node by a value times weights, plus a bias if there is one."""
        inputs, name = [x], f"{node.name}.weight"
        if isinstance(weights, Matrix):
            inputs.append(self.constant(weights.integers, name))
            inputs.append(self.constant(weights.scales, f"{name}.scales"))
            made = self.before(node, "Int8Linear", inputs, None, 1, OWN)
        else:
            inputs.append(self.constant(weights, name))
            made = self.before(node, "MatMul", inputs, None, 13)
        if bias is not None:
            made = self.before(node, "Add", [made, bias], version=14)
        self.replace(node, made)

    def scaled(self, node: ir.Node, first: int) -> tuple[Array, Array, Array | None] | None:
        """Return three inputs: weights, scales, zero points if there are any.

        None if one of them is no weight.
        """
        given, scale, point = (self.weight(self.of(node, first + i)) for i in range(3))
        if given is None or scale is None:
            return None
        if point is None and self.of(node, first + 2) is not None:
            return None
        return given, scale, point

    def _name(self, name: str) -> str:
        self._made += 1
        return f"{name}#{self._made}"
