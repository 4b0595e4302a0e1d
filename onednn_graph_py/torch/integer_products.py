"""Products by weights of 8 bits, as torchao writes them, as one call each: `int8_linear`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from .lowering.quantization import int8_linear
from .options import Activations

__all__ = ["integer_products"]

aten = torch.ops.aten
decomposed = torch.ops.quantized_decomposed

SAME = (aten.view.default, aten.reshape.default, aten._unsafe_view.default)
NUMBERS = (*SAME, aten._to_copy.default)
"""Calls whose results have the numbers of what they read, up to rounding."""


def integer_products(graph: fx.Graph, activations: Activations) -> None:
    """Replace products by `int8_linear`, where what is multiplied is rounded.

    Parameters
    ----------
    graph : fx.Graph
    activations : str
        ``int8`` rounds what products by weights of 8 bits read, where they do not say so.
    """
    for node in list(graph.nodes):
        if _is(node, aten._int_mm.default):
            found = _rounded_by_rows(node)
        elif _is(node, aten.linear.default):
            found = _rounded_whole(node)
        elif _is(node, aten.mm.default) and activations == "int8":
            found = _weight_only(node)
        else:
            continue
        if found is None:
            continue
        last, arguments = found
        with graph.inserting_before(last):
            made = graph.call_function(int8_linear, arguments)
        made.meta = dict(last.meta)
        last.replace_all_uses_with(made)


def _is(node: Any, *targets: Any) -> bool:
    return isinstance(node, fx.Node) and node.op == "call_function" and node.target in targets


def _before(node: Any, *targets: Any) -> Any:
    """Return what calls of these targets read first."""
    while _is(node, *targets):
        node = node.args[0]
    return node


def _only_user(node: fx.Node) -> fx.Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _factors(node: fx.Node) -> Iterator[tuple[fx.Node, Any]]:
    """Yield the products of a result by something, and by what, each by the one before it."""
    user = _only_user(node)
    while user is not None and _is(user, aten.mul.Tensor, *NUMBERS):
        if _is(user, aten.mul.Tensor):
            yield user, user.args[1] if user.args[0] is node else user.args[0]
        node, user = user, _only_user(user)


def _weight(node: Any) -> fx.Node | None:
    """Return the (outputs, inputs) of 8 bits that a node transposes."""
    transposed = _before(node, aten._to_copy.default)
    weight = transposed.args[0] if _is(transposed, aten.t.default) else None
    return weight if weight is not None and weight.meta["val"].dtype == torch.int8 else None


def _is_scale(node: Any, weight: fx.Node) -> bool:
    """Return whether a node may be the scales of all outputs of weights."""
    scale = node.meta["val"] if isinstance(node, fx.Node) else None
    return scale is not None and scale.numel() in (1, weight.meta["val"].shape[0])


def _weight_only(node: fx.Node) -> tuple[fx.Node, tuple[Any, ...]] | None:
    """Return ``mm(x, weight) * scale``."""
    weight = _weight(node.args[1])
    last, factor = next(_factors(node), (node, None))
    scale = _before(factor, *SAME)
    if weight is None or not _is_scale(scale, weight):
        return None
    return last, (node.args[0], weight, scale)


def _rounded_by_rows(node: fx.Node) -> tuple[fx.Node, tuple[Any, ...]] | None:
    """Return ``_int_mm(round(x / step), weight) * step * scale``, where x may be shifted to u8."""
    weight = _weight(node.args[1])
    integers = _before(node.args[0], *NUMBERS)
    shifted = _is(integers, aten.add.Tensor) and integers.args[1] == 128
    if shifted:
        integers = _before(integers.args[0], *NUMBERS)
    point = _before(integers, aten.clamp.default)
    if _is(point, aten.add.Tensor):
        zero = _before(point.args[1], *NUMBERS)
        if not _is(zero, aten.full_like.default) or zero.args[1] != 0:
            return None
        point = point.args[0]
    shared = point.args[0] if _is(point, aten.round.default) else None
    if weight is None or not _is(shared, aten.mul.Tensor):
        return None
    inverse = shared.args[1]
    if _is(inverse, aten.mul.Tensor) and inverse.args[1] == 1:
        inverse = inverse.args[0]
    if not _is(inverse, aten.reciprocal.default):
        return None
    product: fx.Node | None = node
    if shifted:
        product = _only_user(node)
        if product is None or not _is(product, aten.sub.Tensor) or product.args[0] is not node:
            return None
        times = product.args[1]
        if not _is(times, aten.mul.Tensor) or times.args[1] != 128:
            return None
        if not _is(times.args[0], aten.sum.dim_IntList) or _weight(times.args[0].args[0]) is not weight:
            return None
    assert product is not None
    factors = list(_factors(product))[:2]
    if len(factors) < 2 or _before(factors[0][1], *SAME) is not _before(inverse.args[0], *SAME):
        return None
    last, scale = factors[1][0], _before(factors[1][1], *SAME)
    return (last, (shared.args[0], weight, scale)) if _is_scale(scale, weight) else None


def _rounded_whole(node: fx.Node) -> tuple[fx.Node, tuple[Any, ...]] | None:
    """Return a linear layer of PT2E whose input has a scale of each call."""
    x, weight, *bias = node.args
    rounded = x.args[0] if _is(x, decomposed.dequantize_per_tensor.tensor) else None
    if not _is(rounded, decomposed.quantize_per_tensor.tensor):
        return None
    if not _is(weight, decomposed.dequantize_per_channel.default):
        return None
    integers, scale, _, axis = weight.args[:4]
    return (node, (rounded.args[0], integers, scale, *bias)) if axis == 0 else None
