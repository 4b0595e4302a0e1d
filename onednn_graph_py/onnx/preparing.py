"""Make of a loaded model what is walked for each set of dims: once for all of them."""

import contextlib
import warnings
from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
import onnx_ir.passes.common as passes

from ..base.errors import GraphFormatError
from ..machine.cpu import lacks
from . import quantized_weights
from .composites import composed
from .edits import Edits
from .evaluation import Budget, evaluated
from .inference import TYPES, NodeFacts
from .integer_ops import compute_in_floats, merged, move, spell_out
from .loading import subgraphs
from .options import Most, Options
from .tensors import Tensor, dtype_of

QUANTIZED = frozenset({
    "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger",
    "MatMulNBits", "DynamicQuantizeMatMul", "MatMulIntegerToFloat",
})  # fmt: skip


def rewrite(model: ir.Model, options: Options) -> bool:
    """Rewrite a model in place, and return whether it changed something."""
    if not any(n.op_type in QUANTIZED or n.op_type.startswith("Q") for n in model.graph):
        return False
    before = _weight_bytes(model)
    edits = Edits(model, options.activations)
    edits.each(spell_out)
    if options.dynamic_quantization == "f32":
        edits.each(compute_in_floats)
    edits.each(move)
    if options.requantize == "merge":
        merged(edits)
    edits.each(quantized_weights.prepare)
    after = _weight_bytes(model)
    if after - before > max(before, 1 << 20):
        warnings.warn(
            f"weights of {before >> 20} MiB take {after >> 20} MiB, as activations are exact; with "
            "activations='int8' they stay in 8 bits",
            RuntimeWarning,
            stacklevel=2,
        )
    return True


def _weight_bytes(model: ir.Model) -> int:
    """Return the bytes of all weights that a node reads."""
    every = (v.const_value for v in model.graph.initializers.values() if v.uses())
    return sum(w.nbytes for w in every if w is not None)


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


def _names(attribute: ir.Attr, types: set[ir.DataType]) -> bool:
    """Return whether an attribute is the number of one of these types."""
    return attribute.type == ir.AttributeType.INT and attribute.value in types


def _rounds(node: ir.Node, narrow: set[ir.DataType]) -> bool:
    """Return whether a Cast and one behind it only round, as files do that imitate f16."""
    to = node.attributes.get("to")
    if node.op_type != "Cast" or to is None or not _names(to, narrow):
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
            elif name in ("to", "dtype", "output_dtype") and _names(attribute, narrow):
                node.attributes[name] = ir.AttrInt64(name, _FLOAT)
        for inner in subgraphs(node):
            _widen(inner, narrow)


def _wide(tensor: ir.TensorProtocol) -> ir.Tensor:
    return ir.tensor(tensor.numpy().astype(np.float32))


def prepare(model: ir.Model, options: Options) -> None:
    """Simplify a model in place; dims that are unknown stay so.

    Functions are inlined, what weights alone determine is computed, equal nodes become one, and
    groups of nodes become the ops that they stand for.
    """
    try:
        passes.InlinePass()(model)
        passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
        passes.LiftSubgraphInitializersToMainGraphPass()(model)
    except Exception as e:  # passes raise what they meet
        raise GraphFormatError(f"its functions or constants are not valid: {e}") from e
    widened(model)
    _without_dropout(model.graph)
    _without_identities(model.graph)
    _fold(model, options.most)
    with contextlib.suppress(TypeError):  # it can hash no attribute that is a type
        passes.CommonSubexpressionEliminationPass()(model)
    composed(model)
    if rewrite(model, options):
        _fold(model, options.most)
    for node in model.graph:
        _results_apart(node)
    passes.RemoveUnusedNodesPass()(model)
    passes.NameFixPass()(model)
    model.graph.sort()


def _results_apart(node: ir.Node) -> None:
    """Let subgraphs make each of their results by a node of its own.

    Without identities one value may be returned twice, of which onnxruntime computes garbage.
    """
    for graph in subgraphs(node):
        for inner in graph:
            _results_apart(inner)
        own = {v for inner in graph for v in inner.outputs}
        for i, value in enumerate(graph.outputs):
            if value in own:
                own.remove(value)
                continue
            made = ir.node("Identity", [value])
            graph.append(made)
            result = made.outputs[0]
            result.name = f"{value.name}/{i}"
            result.type, result.shape = value.type, value.shape
            graph.outputs[i] = result


def _without_dropout(graph: ir.Graph) -> None:
    """Make identities of dropouts, which do nothing where a model is not trained."""
    for node in graph:
        mode = node.inputs[2] if len(node.inputs) > 2 else None
        trains = mode is not None and not (
            mode.const_value is not None and not mode.const_value.numpy().any()
        )
        mask_is_read = len(node.outputs) > 1 and (
            node.outputs[1].uses() or node.outputs[1].is_graph_output()
        )
        if node.op_type == "Dropout" and node.domain == "" and not trains and not mask_is_read:
            made = ir.node("Identity", [node.inputs[0]], name=node.name)
            ir.convenience.replace_nodes_and_values(
                graph, node, [node], [made], [node.outputs[0]], [made.outputs[0]]
            )


def _without_identities(graph: ir.Graph) -> None:
    """Let what reads copies read what they copy.

    Results of graphs keep their nodes: onnx-ir's own pass fails for a branch of an If that returns
    a value of the graph around it.
    """
    for node in graph:
        if node.op_type != "Identity" or node.domain != "":
            continue
        given, result = node.inputs[0], node.outputs[0]
        if given is None or result.is_graph_output():
            continue
        if given.shape is None:
            given.shape = result.shape
        if given.type is None:
            given.type = result.type
        result.replace_all_uses_with(given)
        graph.remove(node, safe=True)


def _fold(model: ir.Model, most: Most) -> None:
    """Compute what follows from weights."""
    graph = model.graph
    inputs = set(graph.inputs)
    known: dict[ir.Value, Tensor] = {}
    sizes: dict[ir.Value, int] = {}
    weights = (v.const_value.nbytes for v in graph.initializers.values() if v.const_value)
    budget = Budget(weights, most)

    def operands(node: ir.Node) -> Iterator[Tensor | None]:
        for value in node.inputs:
            if value is None:
                yield None
                continue
            weight = value.const_value if value.is_initializer() and value not in inputs else None
            if value not in known and weight is not None:
                array = weight.numpy()
                known[value] = Tensor.of_arrays((array,), dtype_of(array))
            yield known.get(value) or _UNKNOWN

    for node in graph:
        given = list(operands(node))
        if not given or any(o is _UNKNOWN for o in given):
            continue
        results = evaluated(NodeFacts(node, model.opset_imports), given, 1, budget)
        if results is None:
            continue
        for old, tensor in zip(node.outputs, results, strict=False):
            assert tensor.arrays is not None
            array = tensor.arrays[0]
            array.flags.writeable = False
            made = ir.Value(
                name=old.name,
                type=old.type,
                shape=ir.Shape(array.shape),
                const_value=ir.tensor(array, name=old.name),
            )
            made.type = ir.TensorType(made.const_value.dtype)
            old.name = None
            graph.register_initializer(made)
            known[made] = tensor
            sizes[made] = array.nbytes
            old.replace_all_uses_with(made, replace_graph_outputs=True)
        read = dict.fromkeys(node.inputs)
        graph.remove(node, safe=True)
        for value in read:
            if value in sizes and not value.uses() and not value.is_graph_output():
                budget.bytes += sizes.pop(value)
                del known[value], graph.initializers[value.name]


_UNKNOWN = Tensor("", ((),))
