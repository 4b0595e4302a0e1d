"""Which calls of a graph oneDNN takes, and the parts that follow from it."""

import math
import operator
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from ..base.errors import OneDNNError
from ..frontends.division import Division
from ..frontends.regions import Part
from ..model.building.builder import GraphBuilder
from ..model.building.value import Value
from .lowering import LOWERINGS, Lowering, NotLowered
from .lowering.table import HOST_READERS, Unknown, dims_of, dtype_of, has_type, hint, number_of
from .options import Options

PACKED_PRODUCTS = frozenset({"int8_linear", "int4_linear", "_weight_int4pack_mm_for_cpu"})
PRODUCTS = PACKED_PRODUCTS | {"linear", "mm", "bmm", "matmul", "addmm", "baddbmm"}
WORTH = PRODUCTS | {"rms_norm", "_transformer_encoder_layer_fwd"}
CONVOLUTIONS = ("conv1d", "conv2d", "conv3d", "conv_transpose", "convolution", "padded_conv")
WORTH_BEGINNINGS = (*CONVOLUTIONS, "scaled_dot_product", "quantize_per", "dequantize_per")
"""Names, and beginnings of names, of ops that are worth a region of their own."""

LOSES_NAN = {
    *("amax", "amin", "clamp", "clamp_max", "clamp_min", "exp", "hardsigmoid", "hardtanh"),
    *("max_pool1d", "max_pool2d", "max_pool3d", "maximum", "minimum", "relu", "relu6"),
    "_transformer_encoder_layer_fwd",
}


def divided(
    graph: fx.Graph, constants: Mapping[fx.Node, torch.Tensor], options: Options
) -> Division[fx.Node]:
    """Divide a graph; `constants` are weights, and what torch computed of them."""
    calls = [n for n in graph.nodes if n.op == "call_function" and n not in constants]
    # The results of a call with several are taken apart where they are made.
    calls = [n for n in calls if not is_size(n) and n.target is not operator.getitem]
    reasons = {node: why for node in calls if (why := reason(node, constants))}
    if options.nan == "torch":
        lost = [n for n in calls if op_name(n) in LOSES_NAN]
        reasons.update(dict.fromkeys(lost, "oneDNN may make a number of NaN"))
    among = set(calls)

    def reads(node: fx.Node) -> list[fx.Node]:
        inputs = node.all_input_nodes
        if node not in reasons:  # a lowering takes sizes from the shapes
            inputs = [n for n in inputs if is_tensor(n)]
        return [n for n in map(_maker, operands(inputs)) if n in among]

    def worth(nodes: Sequence[fx.Node]) -> bool:
        return any(map(is_worth, nodes)) or sum(not moves(n) for n in nodes) >= options.min_ops

    division = Division.of(calls, reads, reasons, worth)
    for i, part in enumerate(division.parts):
        nodes = [m for n in part.nodes for m in (n, *_items(n))]
        division.parts[i] = Part(tuple(nodes), part.is_region)
    return division


def is_worth(node: fx.Node) -> bool:
    """Return whether a call is worth a region of its own."""
    name = op_name(node)
    return name in WORTH or name.startswith(WORTH_BEGINNINGS)


def _maker(node: fx.Node) -> fx.Node:
    """Return the call that makes a tensor which is one of several results."""
    maker = node
    while maker.target is operator.getitem:
        maker = maker.all_input_nodes[0]
    return maker


def _items(node: fx.Node) -> list[fx.Node]:
    return [user for user in node.users if user.target is operator.getitem]


aten = torch.ops.aten


def moves(node: fx.Node) -> bool:
    """Return whether torch runs a call without computing; a region of nothing else is worthless."""
    return _is_view(node) or node.target in (aten._unsafe_view.default, aten.clone.default)


def is_tensor(node: fx.Node) -> bool:
    """Return whether a node is a tensor, or several."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) or (
        isinstance(value, (tuple, list)) and any(isinstance(m, torch.Tensor) for m in value)
    )


def viewed(node: fx.Node, among: Container[fx.Node] | None = None) -> fx.Node:
    """Return the node in whose memory a tensor lies, or the first one on the way not `among`."""
    while (among is None or node in among) and _is_view(node):
        node = node.all_input_nodes[0]
    return node


def _is_view(node: fx.Node) -> bool:
    """Return whether a node's result may lie in the memory of the first tensor that it reads."""
    if node.target is operator.getitem:
        return _is_view(node.all_input_nodes[0])
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(r.alias_info is not None for r in schema.returns)


def memory_order(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """Return the dims from the largest stride to the smallest; None for row-major tensors."""
    strides = [hint(s) for s in tensor.stride()]
    order = sorted(range(tensor.ndim), key=lambda i: (-strides[i], i))
    rows = [i for i in order if hint(tensor.shape[i]) != 1]
    return None if rows == sorted(rows) else tuple(order)


def is_size(node: fx.Node) -> bool:
    """Return whether a node is a number: a size, or computed from sizes."""
    return isinstance(
        node.meta.get("val"), (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)
    )


def operands(nodes: Iterable[fx.Node], inside: set[fx.Node] | None = None) -> list[fx.Node]:
    """Return the nodes with sizes replaced by the tensors that they are sizes of.

    If calls inside a region are given, other sizes than theirs stay.
    """
    read = []
    for node in nodes:
        of = operands(node.all_input_nodes, inside) if is_size(node) else []
        replaced = is_size(node) if inside is None else not inside.isdisjoint(of)
        read += of if replaced else [node]
    return read


def reason(node: fx.Node, constants: Mapping[fx.Node, torch.Tensor]) -> str | None:
    """Say why oneDNN can't take a call, or None if it can."""
    if node.target not in LOWERINGS:
        return "oneDNN has no op for it"
    b = GraphBuilder()
    try:
        values = {
            n: constant_without_type(constants[n])
            if n in constants and not has_type(constants[n])
            else _placeholder(b, n, host=node.target in HOST_READERS)
            for n in node.all_input_nodes
            if is_tensor(n)
        }
        for tensor in _read(node):
            dtype_of(tensor)
            if 0 in dims_of(tensor):
                raise NotLowered("the result has no elements")
        lowered(b, node, values, constants)
    except NotLowered as e:
        return str(e)
    except OneDNNError as e:
        return f"oneDNN refuses it: {e}"
    except TypeError as e:
        return f"its lowering does not know these arguments: {e}"
    return None


def constant_without_type(tensor: torch.Tensor) -> Unknown:
    """Return what stands for a constant of a type that oneDNN lacks; its numbers can be read."""
    return Unknown(f"oneDNN has no {str(tensor.dtype).removeprefix('torch.')}")


def _tensors(node: fx.Node) -> list[torch.Tensor]:
    value = node.meta["val"]
    several = [value] if isinstance(value, torch.Tensor) else value
    return [m for m in several if isinstance(m, torch.Tensor)]


def _read(node: fx.Node) -> list[torch.Tensor]:
    """Return the results of a call that something reads."""
    if isinstance(node.meta["val"], torch.Tensor):
        return _tensors(node)
    return [node.meta["val"][user.args[1]] for user in _items(node)]


def _placeholder(b: GraphBuilder, node: fx.Node, *, host: bool) -> Any:
    value = node.meta["val"]
    for tensor in _tensors(node):
        if tensor.layout is not torch.strided or tensor.device.type != "cpu":
            raise NotLowered(f"a tensor is {tensor.layout} on {tensor.device}")
        if 0 in dims_of(tensor) and tensor.ndim != 1:
            raise NotLowered("a tensor has no elements")
    if isinstance(value, torch.Tensor):
        return b.input(dims_of(value), dtype_of(value, host=host))
    return [
        b.input(dims_of(m), dtype_of(m)) if isinstance(m, torch.Tensor) else number_of(m)
        for m in value
    ]


def lowered(
    b: GraphBuilder,
    node: fx.Node,
    values: Mapping[fx.Node, Any],
    constants: Mapping[fx.Node, torch.Tensor],
    *,
    host: bool = False,
) -> Any:
    """Add a call to a builder, and check that it gives the shapes and data types of torch.

    `host` allows those that only host steps and views read.
    """

    def argument(given: Any) -> Any:
        if isinstance(given, fx.Node):
            return values[given] if is_tensor(given) else number_of(given.meta.get("val"))
        if isinstance(given, (list, tuple)):
            return [argument(g) for g in given]
        return number_of(given)

    placed, named = _arguments(node)
    args = [argument(a) for a in placed]
    kwargs = {k: argument(a) for k, a in named.items()}
    with b.scope(node.name):
        result = LOWERINGS[node.target](Lowering(b, node, constants), *args, **kwargs)
    results = [result] if isinstance(result, Value) else list(result)
    for value, wanted in zip(results, _tensors(node), strict=False):
        _check(value, wanted, host)
    return result


def _arguments(node: fx.Node) -> tuple[list[Any], dict[str, Any]]:
    """Return all arguments of a call, those left out as torch's schema has them."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return list(node.args), dict(node.kwargs)
    placed: list[Any] = []
    named: dict[str, Any] = {}
    for i, argument in enumerate(schema.arguments):
        default = node.kwargs.get(argument.name, argument.default_value)
        given = node.args[i] if i < len(node.args) else default
        if argument.kwarg_only:
            named[argument.name] = given
        else:
            placed.append(given)
    return placed, named


def _check(value: Value, wanted: torch.Tensor, host: bool) -> None:
    """Raise `NotLowered` if a lowering does not give what torch gives."""
    shape = value.shape
    dims = dims_of(wanted)
    same = shape is not None and len(shape) == len(dims)
    same = same and all(
        -1 in pair or pair[0] == pair[1] for pair in zip(shape or (), dims, strict=True)
    )
    dtype = dtype_of(wanted, host=host)
    if not same or value.dtype != dtype:
        raise NotLowered(f"it would give {value.dtype} {shape} instead of {dtype} {dims}")


def operations(node: fx.Node) -> float:
    """Estimate the arithmetic of a call: multiplications and additions, or elements."""
    operands = [n.meta.get("val") for n in node.args if isinstance(n, fx.Node)]
    tensors = [t for t in operands if isinstance(t, torch.Tensor)]
    results = _tensors(node) if is_tensor(node) else []
    elements = float(sum(_count(t) for t in results))
    name = op_name(node)
    if not results or moves(node) or node.target is operator.getitem:
        return 0.0
    if name in PRODUCTS:
        left = tensors[1] if name in ("addmm", "baddbmm") else tensors[0]
        return 2 * elements * hint(left.shape[-1])
    if name.startswith(CONVOLUTIONS):
        weight = tensors[1]
        inner = _count(weight) / max(hint(weight.shape[0]), 1)
        return 2 * elements * inner
    if name == "_transformer_encoder_layer_fwd":
        weights = sum(_count(t) for t in tensors if t.ndim == 2)
        x = tensors[0]
        attended = 4 * _count(x) * hint(x.shape[-2])
        return 2 * weights * _count(x) / max(hint(x.shape[-1]), 1) + attended
    if name.startswith("scaled_dot_product"):
        query, key = tensors[:2]
        return 4 * _count(query) * hint(key.shape[-2])
    return elements


def op_name(node: fx.Node) -> str:
    """Return the name of a call's op, without its overload."""
    return str(getattr(node.target, "_opname", getattr(node.target, "__name__", node.target)))


def _count(tensor: torch.Tensor) -> int:
    return math.prod(hint(s) for s in tensor.shape)


def source(node: fx.Node) -> str:
    """Return the line of the program that makes a call, with its file; empty if unknown."""
    trace = (node.meta.get("stack_trace") or "").strip().splitlines()
    starts = [i for i, line in enumerate(trace) if line.lstrip().startswith("File ")]
    if not starts:
        return ""
    place = trace[starts[-1]].strip()
    text = trace[starts[-1] + 1].strip() if starts[-1] + 1 < len(trace) else ""
    return f"{place}: {text}" if text else place


def function_of(graph: fx.Graph) -> str:
    """Return the file and the name of the function that a graph is of; its parts have the same."""
    traces = (n.meta.get("stack_trace") for n in graph.nodes)
    place = re.search(r'File ("[^"]*"), line \d+, in (.*)', next(filter(None, traces), ""))
    if place is None:
        return ""
    return re.sub(r"torch_dynamo_resume_in_(.*)_at_\d+", r"\1", " ".join(place.groups()))
