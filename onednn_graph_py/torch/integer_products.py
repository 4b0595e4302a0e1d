"""Products by weights of 8 bits, as torchao writes them, as one call each: `int8_linear`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeGuard

import torch
from torch import fx

from .lowering.quantization import int4_linear, int8_linear
from .options import Activations

aten = torch.ops.aten
decomposed = torch.ops.quantized_decomposed

SAME = (aten.view.default, aten.reshape.default, aten._unsafe_view.default)
NUMBERS = (*SAME, aten._to_copy.default)
"""Calls whose results have the numbers of what they read, up to rounding."""


def integer_products(graph: fx.Graph, activations: Activations) -> None:
    """Replace products by those of integers, where what is multiplied is rounded."""
    for node in list(graph.nodes):
        if is_call(node, aten._weight_int4pack_mm_for_cpu.default) and activations == "int8":
            node.target = int4_linear
            continue
        if is_call(node, aten._int_mm.default):
            found = _rounded_by_rows(node)
        elif is_call(node, aten.linear.default):
            found = _rounded_whole(node)
        elif is_call(node, aten.mm.default) and activations == "int8":
            found = _weight_only(node)
        else:
            continue
        if found is None:
            continue
        last, (given, *others) = found
        added = _added_row(last) if len(others) == 2 else None
        if added is not None:
            last = added[0]
            others.append(added[1])
        while is_call(given, *SAME) and _dims(given.args[0])[-1:] == _dims(given)[-1:]:
            given = given.args[0]  # it has the same rows, in other dims
        _replace(graph, last, given, others)


def _replace(graph: fx.Graph, last: fx.Node, x: fx.Node, others: Sequence[Any]) -> None:
    """Let `int8_linear` make what a call makes, or what is a view of it with the dims of `x`."""
    of_x, result = x.meta["val"], last.meta["val"]
    with graph.inserting_before(last):
        product = graph.call_function(int8_linear, (x, *others))
        product.meta = dict(last.meta)
        product.meta["val"] = result.new_empty((*of_x.shape[:-1], result.shape[-1]))
        for view in (views := [last]):
            views += [user for user in view.users if is_call(user, *SAME)]
            if _dims(view) == _dims(product):
                view.replace_all_uses_with(product)
        if last.users and _dims(last) != _dims(product):
            flat = graph.call_function(aten.view.default, (product, [-1, result.shape[-1]]))
            flat.meta = dict(last.meta)
            last.replace_all_uses_with(flat)


def _added_row(last: fx.Node) -> tuple[fx.Node, fx.Node] | None:
    """Return the call that adds a row to a product, and the row."""
    width, user = _dims(last)[-1:], _only_user(last)
    while user is not None and is_call(user, *SAME) and _dims(user)[-1:] == width:
        last, user = user, _only_user(user)
    if user is None or not is_call(user, aten.add.Tensor) or user.kwargs:
        return None
    row = user.args[1] if user.args[0] is last else user.args[0]
    return (user, row) if isinstance(row, fx.Node) and _dims(row) == width else None


def _dims(node: fx.Node) -> list[str]:
    return [str(d) for d in node.meta["val"].shape]


def is_call(node: Any, *targets: Any) -> TypeGuard[fx.Node]:
    """Return whether a node calls one of these."""
    return isinstance(node, fx.Node) and node.op == "call_function" and node.target in targets


def _before(node: Any, *targets: Any) -> Any:
    """Return what calls of these targets read first."""
    while is_call(node, *targets):
        node = node.args[0]
    return node


def _only_user(node: fx.Node) -> fx.Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _factors(node: fx.Node) -> Iterator[tuple[fx.Node, Any]]:
    """Yield the products of a result by something, and by what, each by the one before it."""
    user = _only_user(node)
    while user is not None and is_call(user, aten.mul.Tensor, *NUMBERS):
        if is_call(user, aten.mul.Tensor):
            yield user, user.args[1] if user.args[0] is node else user.args[0]
        node, user = user, _only_user(user)


def _weight(node: Any) -> fx.Node | None:
    """Return the (outputs, inputs) of 8 bits that a node transposes."""
    transposed = _before(node, aten._to_copy.default)
    weight = transposed.args[0] if is_call(transposed, aten.t.default) else None
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
    integers, product = _before(node.args[0], *NUMBERS), _only_user(node)
    if is_call(integers, aten.add.Tensor) and integers.args[1] == 128:
        integers = _before(integers.args[0], *NUMBERS)
        if weight is None or product is None or not _takes_shift_back(product, node, weight):
            return None
    else:
        product = node
    rounded = _before(integers, aten.clamp.default)
    if is_call(rounded, aten.add.Tensor):  # a zero point
        point = _before(rounded.args[1], *NUMBERS)
        if not is_call(point, aten.full_like.default) or point.args[1] != 0:
            return None
        rounded = rounded.args[0]
    shared = rounded.args[0] if is_call(rounded, aten.round.default) else None
    if weight is None or not is_call(shared, aten.mul.Tensor):
        return None
    x, inverse = shared.args
    if is_call(inverse, aten.mul.Tensor) and inverse.args[1] == 1:
        inverse = inverse.args[0]
    factors = list(_factors(product))[:2]
    if not is_call(inverse, aten.reciprocal.default) or len(factors) < 2:
        return None
    (_, step), (last, factor) = factors
    scale = _before(factor, *SAME)
    if _before(step, *SAME) is not _before(inverse.args[0], *SAME) or not _is_scale(scale, weight):
        return None
    return last, (x, weight, scale)


def _takes_shift_back(node: fx.Node, product: fx.Node, weight: fx.Node) -> bool:
    """Return whether a node subtracts 128 times the sums of weights from a product."""
    if not is_call(node, aten.sub.Tensor) or node.args[0] is not product:
        return False
    share = node.args[1]
    if not is_call(share, aten.mul.Tensor) or share.args[1] != 128:
        return False
    total = share.args[0]
    return is_call(total, aten.sum.dim_IntList) and _weight(total.args[0]) is weight


def _rounded_whole(node: fx.Node) -> tuple[fx.Node, tuple[Any, ...]] | None:
    """Return a linear layer of PT2E whose input has a scale of each call."""
    x, weight, *bias = node.args
    rounded = x.args[0] if is_call(x, decomposed.dequantize_per_tensor.tensor) else None
    if not is_call(rounded, decomposed.quantize_per_tensor.tensor):
        return None
    if not is_call(weight, decomposed.dequantize_per_channel.default):
        return None
    integers, scale, _, axis = weight.args[:4]
    return (node, (rounded.args[0], integers, scale, *bias)) if axis == 0 else None
