"""Make of a loaded model what is walked for each set of dims: once for all of them."""

import contextlib
from collections.abc import Iterator

import onnx_ir as ir
import onnx_ir.passes.common as passes

from ..base.errors import GraphFormatError
from . import quantization
from .budget import Budget
from .composites import composed
from .evaluation import evaluated
from .inference import NodeFacts
from .loading import subgraphs
from .options import Most, Options
from .tensors import Tensor, dtype_of
from .widening import widened


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
    if quantization.rewrite(model, options):
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
