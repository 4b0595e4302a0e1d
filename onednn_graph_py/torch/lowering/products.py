"""Matrix products, convolutions, attention, and whole layers of torch's own modules."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import fx

from ...blocks.attention import sdpa
from ...frontends.windows import Windows, conv_transpose, convolution
from ...model.building.value import Value
from .table import Lowering, NotLowered, each, lowers

aten = torch.ops.aten


@lowers(aten.addmm.default, aten.baddbmm.default)
def _addmm(at: Lowering, bias: Value, x: Value, y: Value, *, beta: float, alpha: float) -> Value:
    if alpha == beta == 1 and x.ndim == 2 and bias.shape == (y.shape or ())[1:]:
        return _product(at, x, y, bias)
    if alpha == 0:
        raise NotLowered("alpha is 0")  # torch then ignores the product, even NaN
    product = at.times(_product(at, x, y), alpha)
    return product if beta == 0 else product + at.times(bias, beta)


def _product(
    at: Lowering, x: Value, y: Value, bias: Value | None = None, *, transpose_b: bool = False
) -> Value:
    at.need_float(x, y)
    if y.ndim == 1:
        if transpose_b:
            raise NotLowered("the weight is a vector")
        return _product(at, x, y[:, None]).squeeze(-1)
    if x.ndim == 1:
        return _product(at, x[None], y, bias, transpose_b=transpose_b).squeeze(-2)
    return at.b.matmul(x, y, bias, transpose_b=transpose_b)


lowers(aten.linear.default)(partial(_product, transpose_b=True))
lowers(aten.mm.default, aten.mv.default, aten.bmm.default, aten.matmul.default)(_product)


# -- convolutions


@lowers(aten.conv1d.default, aten.conv2d.default, aten.conv3d.default)
@lowers(aten.conv1d.padding, aten.conv2d.padding, aten.conv3d.padding)
def _conv(at: Lowering, x: Value, weight: Value, *more: Any) -> Value:
    spatial = weight.ndim - 2
    if x.ndim == spatial + 1:  # there is no batch
        return _conv(at, x[None], weight, *more).squeeze(0)
    bias, stride, padding, dilation, groups = more
    if padding == "same":
        kernel = (weight.shape or ())[2:]
        sums = [d * (k - 1) for d, k in zip(each(dilation, spatial), kernel, strict=True)]
        begin, end = [s // 2 for s in sums], [s - s // 2 for s in sums]
    else:
        begin = end = each(0 if padding == "valid" else padding, spatial)
    windows = _windows(x, weight, stride, begin, end, dilation)
    return convolution(at, x, weight, bias, windows, groups)


def _windows(
    x: Value, weight: Value, stride: Any, begin: Sequence[int], end: Sequence[int], dilation: Any
) -> Windows:
    spatial = weight.ndim - 2
    kernel = (weight.shape or ())[2:]
    return Windows(kernel, each(stride, spatial), each(dilation, spatial), begin, end)


@lowers(aten.convolution.default)
def _any_convolution(at: Lowering, *arguments: Any) -> Value:
    x, weight, bias, stride, padding, dilation, transposed, further, groups = arguments
    if transposed:
        return _conv_transpose(at, x, weight, bias, stride, padding, further, groups, dilation)
    return _conv(at, x, weight, bias, stride, padding, dilation, groups)


@lowers(aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input)
def _conv_transpose(at: Lowering, x: Value, weight: Value, *more: Any) -> Value:
    if x.ndim == weight.ndim - 1:  # there is no batch
        return _conv_transpose(at, x[None], weight, *more).squeeze(0)
    bias, stride, padding, output_padding, groups, dilation = more
    pads, further = (each(given, weight.ndim - 2) for given in (padding, output_padding))
    windows = _windows(x, weight, stride, pads, pads, dilation)
    return conv_transpose(at, x, weight, bias, windows, further, groups)


def padded_convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    before: Sequence[int],
    after: Sequence[int],
) -> torch.Tensor:
    """Pad each spatial dim with zeros, and convolve: what `rewrites` makes of two calls."""
    pairs = zip(reversed(before), reversed(after), strict=True)
    wide = torch.nn.functional.pad(x, [*itertools.chain(*pairs)])
    return aten.convolution(
        wide, weight, bias, stride, padding, dilation, False, [0] * len(before), groups
    )


@lowers(padded_convolution)
def _padded_convolution(at: Lowering, x: Value, weight: Value, *more: Any) -> Value:
    bias, stride, padding, dilation, groups, before, after = more
    pads = each(padding, weight.ndim - 2)
    begin = [p + n for p, n in zip(pads, before, strict=True)]
    end = [p + n for p, n in zip(pads, after, strict=True)]
    windows = _windows(x, weight, stride, begin, end, dilation)
    return convolution(at, x, weight, bias, windows, groups)


# -- attention


@lowers(aten.scaled_dot_product_attention.default)
def _attention(
    at: Lowering,
    query: Value,
    key: Value,
    value: Value,
    mask: Value | None,
    dropout_p: float,
    is_causal: bool,
    *,
    scale: float | None,
    enable_gqa: bool,
) -> Value:
    if dropout_p:
        raise NotLowered("oneDNN's attention has no dropout")
    at.need_float(query, key, value)
    without_heads = query.ndim == key.ndim == value.ndim == 3
    if not without_heads and not query.ndim == key.ndim == value.ndim == 4:
        raise NotLowered("oneDNN's attention has 4 dims")
    if without_heads:
        query, key, value = query[:, None], key[:, None], value[:, None]
        mask = mask[:, None] if mask is not None and mask.ndim == 3 else mask
    attention = sdpa(query, key, value, mask=mask, causal=is_causal, scale=scale)
    return attention.squeeze(1) if without_heads else attention


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
    linear = partial(b.matmul, transpose_b=True)

    def normalized(y: Value, weight: Value, bias: Value) -> Value:
        made: Value = b.layer_norm(
            y, at.cast(weight, "f32"), at.cast(bias, "f32"), keep_stats=False, epsilon=eps
        )
        return made

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
