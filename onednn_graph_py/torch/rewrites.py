"""Calls that are replaced before a graph is divided, since oneDNN has an op for several of them."""

import math
from typing import Any

import torch
from torch import fx

from .integer_products import integer_products, is_call
from .lowering.products import padded_convolution
from .options import Activations

aten = torch.ops.aten


def rewritten(graph: fx.Graph, activations: Activations = "exact") -> fx.Graph:
    """Replace calls in a graph, and return it."""
    integer_products(graph, activations)
    for node in list(graph.nodes):
        _padding(graph, node)
        _repeated_heads(node)
    for node in reversed(list(graph.nodes)):
        _gelu(graph, node)
    graph.eliminate_dead_code()
    return graph


def _gelu(graph: fx.Graph, node: fx.Node) -> None:
    """Take a GELU that is written as x * (1 + erf(x / sqrt(2))) / 2, in any order, for the op."""
    if not is_call(node, aten.mul.Tensor, aten.div.Tensor):
        return
    number, factors = _factors(node)
    if len(factors) != 2 or math.isnan(number):
        return
    for x, other in (factors, factors[::-1]):
        if not is_call(other, aten.add.Tensor) or other.args[1] != 1 or other.kwargs:
            continue
        erf = other.args[0]
        if not is_call(erf, aten.erf.default):
            continue
        scale, inner = _factors(erf.args[0])
        is_gelu = inner == [x] and abs(scale - 0.5**0.5) <= 1e-6
        if not is_gelu or not x.meta["val"].is_floating_point():
            continue
        with graph.inserting_before(node):
            gelu = graph.call_function(aten.gelu.default, (x,))
            gelu.meta = dict(node.meta)
            if number != 0.5:
                gelu = graph.call_function(aten.mul.Tensor, (gelu, 2 * number))
                gelu.meta = dict(node.meta)
        node.replace_all_uses_with(gelu)
        return


def _factors(product: fx.Node) -> tuple[float, list[fx.Node]]:
    """Return the number and the tensors that a product which nothing else reads is of."""
    number, factors = 1.0, []
    rest: list[Any] = [product]
    while rest:
        factor = rest.pop()
        own = factor is product or (isinstance(factor, fx.Node) and len(factor.users) == 1)
        if isinstance(factor, (int, float)):
            number *= factor
        elif own and is_call(factor, aten.mul.Tensor):
            rest.extend(factor.args)
        elif own and is_call(factor, aten.div.Tensor) and isinstance(factor.args[1], (int, float)):
            number /= factor.args[1] or float("nan")
            rest.append(factor.args[0])
        else:
            factors.append(factor)
    return number, factors


def _padding(graph: fx.Graph, node: fx.Node) -> None:
    """Take zeros that are padded before a convolution into it."""
    spatial = {aten.conv1d.default: 1, aten.conv2d.default: 2, aten.conv3d.default: 3}
    if node.op != "call_function" or node.target not in spatial:
        return
    pad = node.args[0]
    if not is_call(pad, aten.constant_pad_nd.default) or node.kwargs or pad.kwargs:
        return
    value = pad.args[2] if len(pad.args) > 2 else 0
    if not isinstance(value, (int, float)) or value != 0:
        return
    if len(pad.meta["val"].shape) != spatial[node.target] + 2:
        return
    sizes, count = list(pad.args[1]), spatial[node.target]
    if len(sizes) > 2 * count or any(not isinstance(n, int) or n < 0 for n in sizes):
        return
    sizes += [0] * (2 * count - len(sizes))
    defaults = [None, None, None, [1] * count, [0] * count, [1] * count, 1]
    arguments: list[Any] = [*node.args, *defaults[len(node.args) :]]
    _, weight, bias, stride, padding, dilation, groups = arguments
    before, after = sizes[0::2][::-1], sizes[1::2][::-1]
    if any(len(given) != count for given in (stride, padding, dilation)):
        return
    with graph.inserting_before(node):
        made = graph.call_function(
            padded_convolution,
            (pad.args[0], weight, bias, stride, padding, dilation, groups, before, after),
        )
    made.meta = dict(node.meta)
    node.replace_all_uses_with(made)


def _repeated_heads(node: fx.Node) -> None:
    """Let attention read the key heads that a model repeats for several query heads."""
    if not is_call(node, aten.scaled_dot_product_attention.default):
        return
    once = [_before_repetition(given) for given in node.args[1:3]]
    if None in once or node.kwargs.get("enable_gqa") or len(node.args[0].meta["val"].shape) != 4:
        return
    if once[0].meta["val"].shape[1] != once[1].meta["val"].shape[1]:
        return
    query, _, _, *rest = node.args
    node.args = (query, *once, *rest)
    node.kwargs = {**node.kwargs, "enable_gqa": True}


def _before_repetition(node: Any) -> Any:
    """Return (batch, heads, ...) of which each head is repeated in the node, or None."""
    maker = node
    while is_call(maker, aten._unsafe_view.default, aten.view.default, aten.clone.default):
        maker = maker.args[0]
    if not is_call(maker, aten.expand.default):
        return None
    single = maker.args[0]
    if not is_call(single, aten.unsqueeze.default) or single.args[1] != 2:
        return None
    source = single.args[0]
    before, after = source.meta["val"].shape, node.meta["val"].shape
    wide = maker.meta["val"].shape
    if len(before) != 4 or len(after) != 4 or len(wide) != 5:
        return None
    same = [*wide[:2], *wide[3:], after[0], *after[2:]] == [*before, before[0], *before[2:]]
    return source if same else None
