"""Ops that are whole layers: torch makes them of its own modules in inference."""

from typing import Any

import torch
from torch import fx

from ...blocks.attention import sdpa
from ...model.building.value import Value
from .table import Lowering, NotLowered, lowers

aten = torch.ops.aten

SAME_NUMBERS = (aten.view.default, aten.expand.default, aten.unsqueeze.default, aten.triu.default)


def _only_hides(at: Lowering, node: fx.Node) -> bool:
    """Return whether all numbers of a mask are 0 or -inf."""
    known = at.known(node)
    if known is not None:
        return bool(((known == 0) | (known == -torch.inf)).all())
    if node.target is aten.full.default:
        return node.args[1] in (0, -torch.inf)
    if node.target in SAME_NUMBERS:
        return _only_hides(at, node.all_input_nodes[0])
    if node.target is aten.add.Tensor and not node.kwargs:
        return all(isinstance(n, fx.Node) and _only_hides(at, n) for n in node.args)
    if node.target is aten.masked_fill.Scalar:
        zeros, _, number = node.args
        return number == -torch.inf and zeros.target is aten.zeros_like.default
    return False


@lowers(aten._transformer_encoder_layer_fwd.default)
def _encoder_layer(at: Lowering, x: Value, width: int, count: int, *more: Any) -> Value:
    """Lower what ``torch.nn.TransformerEncoderLayer`` calls."""
    *projections, use_gelu, norm_first, eps = more[:7]
    *parameters, mask, mask_type = more[7:]
    inner, outer = projections[:2], projections[2:]
    first, second, up, down = (parameters[i : i + 2] for i in range(0, 8, 2))
    at.need_float(x)
    if x.ndim != 3:
        raise NotLowered("there is no batch")
    if mask is not None:
        # torch hides every key whose number is not 0; added numbers do the same if they are -inf.
        if not _only_hides(at, at.node.args[18]):
            raise NotLowered("its mask may have other numbers than 0 and -inf")
        if mask_type == 1:  # of the keys
            mask = mask[:, None, None]
    b = at.b

    def normalized(y: Value, weight: Value, bias: Value) -> Value:
        made: Value = b.layer_norm(
            y, at.cast(weight, "f32"), at.cast(bias, "f32"), keep_stats=False, epsilon=eps
        )
        return made

    def linear(y: Value, weight: Value, bias: Value) -> Value:
        return b.matmul(y, weight, bias, transpose_b=True)

    def attention(y: Value) -> Value:
        packed = linear(y, *inner)
        shape = [0, 0, 3, count, width // count]
        heads = b.static_reshape(packed, shape=shape, special_zero=True)
        query, key, value = (heads[:, :, i].transpose((0, 2, 1, 3)) for i in range(3))
        attended = sdpa(query, key, value, mask=mask, masked_rows="nan")
        seen = b.static_transpose(attended, order=[0, 2, 1, 3])
        merged = b.static_reshape(seen, shape=[0, 0, width], special_zero=True)
        return linear(merged, *outer)

    def wide(y: Value) -> Value:
        hidden = linear(y, *up)
        active = b.gelu(hidden) if use_gelu else b.relu(hidden)
        return linear(active, *down)

    if norm_first:
        x = x + attention(normalized(x, *first))
        return x + wide(normalized(x, *second))
    x = normalized(x + attention(x), *first)
    return normalized(x + wide(x), *second)
