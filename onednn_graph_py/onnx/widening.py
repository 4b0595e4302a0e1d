"""Files in data types that the CPU can't compute in, computed in f32: `widened`."""

import numpy as np
import onnx_ir as ir

from ..machine.cpu import lacks
from .inference import TYPES
from .loading import subgraphs

_FLOAT = ir.DataType.FLOAT


def widened(model: ir.Model) -> None:
    """Compute in f32 what a model has in f16 or bf16, where the CPU lacks them.

    Weights are converted once; inputs and outputs keep their data types.
    """
    narrow = {TYPES[name] for name in ("f16", "bf16") if lacks(name)}
    graph = model.graph
    edges = (*graph.inputs, *graph.outputs)
    if any(v.dtype in narrow and not isinstance(v.type, ir.TensorType) for v in edges):
        return  # sequences
    if any(n.op_type == "BitCast" for n in graph) or any(v.dtype is None for v in graph.outputs):
        return  # it reads bits, or does not say what its outputs are
    given = [(v, v.dtype) for v in graph.inputs if v.dtype in narrow]
    wanted = [(i, v, v.dtype) for i, v in enumerate(graph.outputs) if v.dtype in narrow]
    _widen(graph, narrow)
    for value, dtype in given:
        made = ir.node("Cast", [value], {"to": _FLOAT})
        value.replace_all_uses_with(made.outputs[0], replace_graph_outputs=True)
        made.replace_input_with(0, value)
        value.dtype = dtype
        graph.insert_before(graph[0], made) if len(graph) else graph.append(made)
    for i, value, dtype in wanted:
        made = ir.node("Cast", [graph.outputs[i]], {"to": dtype})
        result = made.outputs[0]
        result.dtype, result.shape = dtype, value.shape
        if graph.outputs[i] is value:
            result.name, value.name = value.name, f"{value.name}.wide"
        graph.append(made)
        graph.outputs[i] = result


def _rounds(node: ir.Node, narrow: set[ir.DataType]) -> bool:
    """Return whether a Cast and one behind it only round, as files do that imitate f16."""
    to = node.attributes.get("to")
    if node.op_type != "Cast" or to is None or to.value not in narrow:
        return False
    (result,) = node.outputs
    readers = [reader.op_type for reader, _ in result.uses()]
    return bool(readers) and set(readers) == {"Cast"} and not result.is_graph_output()


def _widen(graph: ir.Graph, narrow: set[ir.DataType]) -> None:
    weights = graph.initializers.values()
    nodes = [node for node in graph if not _rounds(node, narrow)]
    for value in (*graph.inputs, *weights, *(v for node in nodes for v in node.outputs)):
        if value.dtype in narrow:
            value.type = ir.TensorType(_FLOAT)
            if value.const_value is not None:
                value.const_value = _wide(value.const_value)
    for node in nodes:
        for name, attribute in node.attributes.items():
            if attribute.type == ir.AttributeType.TENSOR and attribute.value.dtype in narrow:
                node.attributes[name] = ir.AttrTensor(name, _wide(attribute.value))
            elif name in ("to", "dtype", "output_dtype") and attribute.value in narrow:
                node.attributes[name] = ir.AttrInt64(name, _FLOAT)
        for inner in subgraphs(node):
            _widen(inner, narrow)


def _wide(tensor: ir.TensorProtocol) -> ir.Tensor:
    return ir.tensor(tensor.numpy().astype(np.float32))
