"""Fused partitions for which oneDNN computes wrong results silently.

The mirror refuses partitions that read or write out of bounds, also those of the rows here that say
so; the others only give wrong numbers. Each row has its conditions: version, runtime, instruction
set and threads. The rows are pure functions of those and of the partition, so that tests cover each
on every machine; tests show the defect itself if the CPU has it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ..machine import Conditions
from ..ops.lookup import with_trait
from . import wrong_products as products
from . import wrong_strides as strided
from . import wrong_windows as windows
from .calls import Tensor
from .defect import Defect, Finding, Met, first_met
from .facts import BINARY, aligned, is_row_major, operands
from .group import Group
from .post_ops import ELEMENTWISE, primitives
from .saturation import LARGEST_WEIGHT, saturating_product

__all__ = ["DEFECTS", "wrong_result"]


def _residual_of_other_sign(group: Group, conditions: Conditions) -> bool:
    """An Add of a dequantized residual before a Quantize to the other type of u8 and s8."""
    last = group.ops[-1]
    if last.kind != "Quantize":
        return False
    if not group.has("MatMul", "Convolution", "ConvTranspose", "Reorder"):
        return False
    target = last.outputs[0].dtype
    for op in group.ops:
        for tensor in op.inputs if op.kind == "Add" else ():
            source = group.producer(tensor)
            if source is None or source.kind not in with_trait("dequantizes"):
                continue
            residual = source.inputs[0].dtype
            if residual == target:
                continue
            if residual == "s8" and target == "u8" and group.has("Convolution"):
                continue  # oneDNN is right for this pair of types alone
            return True
    return False


def _quantize_per_channel(*producers: str) -> Met:
    def met(group: Group, conditions: Conditions) -> bool:
        last = group.ops[-1]
        per_channel = last.kind == "Quantize" and last.attr("qtype") == "per_channel"
        return per_channel and group.has(*producers)

    return met


def _layer_norm_and_sum(group: Group, conditions: Conditions) -> bool:
    """An Add of a tensor of the same shape to a LayerNorm's result, maybe after a TypeCast.

    oneDNN is right for other shapes, but for dims of 1 in front.
    """
    for op in group.ops:
        made = group.shape(op.outputs[0]) or ()
        if op.kind != "Add" or any(aligned(group.shape(t), len(made)) != made for t in op.inputs):
            continue
        for tensor in op.inputs:
            before = group.producer(tensor)
            if before is not None and before.kind == "TypeCast":
                before = group.producer(before.inputs[0])
            if before is not None and before.kind == "LayerNorm":
                return True
    return False


def _quantized_norm_and_operand(group: Group, conditions: Conditions) -> bool:
    """An operand after a quantized normalization; elsewhere oneDNN checks it and does not fuse."""
    if not group.has("Quantize"):
        return False
    for op in group.ops:
        if op.kind not in ("GroupNorm", "LayerNorm", "SoftMax"):
            continue
        data_format = op.attr("data_format")
        for _, operand, result in operands(group, op):
            wide = [i for i, d in enumerate(operand) if d != 1]
            if not wide or operand == result:
                continue
            channel = 1 if data_format == "NCX" else len(result) - 1
            if len(wide) > 1 or (data_format is not None and wide != [channel]):
                return True
    return False


def _channels_of_a_second_operand(group: Group, conditions: Conditions) -> bool:
    """A binary op without spatial extent, with an operand for each channel, fused after another.

    Or it is fused after a SoftMax along the channels.

    With an operand that varies over the batch oneDNN takes another kernel, which is right.
    """
    for primitive in primitives(group, conditions):
        made, base = primitive.shape, primitive.base
        if len(made) < 3 or not (
            base.kind in BINARY or (base.kind == "SoftMax" and base.attr("axis") % len(made) == 1)
        ):
            continue
        if min(made[:2]) < 2 or set(made[2:]) != {1}:
            continue
        read = [operand.shape for operand in primitive.operands]
        if (1, *made[1:]) in read and (made[0], *(1,) * (len(made) - 1)) not in read:
            return True
    return False


def _channels_of_select(group: Group, conditions: Conditions) -> bool:
    """A Select without spatial extent by a condition for all batches, of operands for each channel.

    oneDNN makes products and sums of it, with the defect of `_channels_of_a_second_operand`.
    """
    for op in group.ops:
        made = group.shape(op.outputs[0]) or ()
        if op.kind != "Select" or len(made) < 3 or min(made[:2]) < 2 or set(made[2:]) != {1}:
            continue
        read = [aligned(group.shape(t), len(made)) for t in op.inputs]
        if read[0] == made or read[1:] == [made, made]:
            continue
        if (1, *made[1:]) in read and (made[0], *(1,) * (len(made) - 1)) not in read:
            return True
    return False


def _is_constant(group: Group, tensor: Tensor) -> bool:
    maker = group.producer(tensor)
    if maker is not None:
        return all(_is_constant(group, t) for t in maker.inputs)
    return group.tensor(tensor).data is not None


def _select_of_constants(group: Group, conditions: Conditions) -> bool:
    """A Select with a constant condition and input 2, in whose product it adds up the result.

    oneDNN keeps that product as a constant, so it is wrong from the second call on. A condition of
    the result's shape is right in f32.
    """
    for op in group.ops:
        made = group.shape(op.outputs[0])
        if op.kind != "Select" or made is None:
            continue
        if not _is_constant(group, op.inputs[0]) or not _is_constant(group, op.inputs[2]):
            continue
        condition, first, second = (aligned(group.shape(t), len(made)) or () for t in op.inputs)
        whole = all(tuple(map(max, condition, other)) == made for other in (first, second))
        if whole and (condition != made or op.outputs[0].dtype != "f32"):
            return True
    return False


def _one_output_of_batch_norm(group: Group, conditions: Conditions) -> bool:
    return any(op.kind == "BatchNormTrainingBackward" and len(op.outputs) == 1 for op in group.ops)


def _strides(group: Group, tensor: Tensor, shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the strides of a tensor of this shape, or else of the inputs that it is made from."""
    maker = group.producer(tensor)
    if maker is not None and (maker.kind in BINARY or maker.kind in ELEMENTWISE):
        for before in maker.inputs:
            yield from _strides(group, before, shape)
        return
    known = group.tensor(tensor)
    if known.strides is not None and known.shape == shape:
        yield known.strides


def _behind_permuted(
    group: Group, conditions: Conditions
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    """Yield operands fused after a binary op that reads a tensor without gaps, in any dim order.

    Each comes with the result's shape and that tensor's strides, which the result gets too.
    """
    for primitive in primitives(group, conditions):
        made, base = primitive.shape, primitive.base
        read = base.inputs if base.kind in BINARY else ()
        for strides in (s for t in read for s in _strides(group, t, made)):
            if 0 in made:
                continue
            reach = 1 + sum((d - 1) * s for d, s in zip(made, strides, strict=True))
            if reach != math.prod(made):
                continue
            for operand in primitive.operands:
                yield operand.shape, made, strides


def _last_dim_behind_permuted(group: Group, conditions: Conditions) -> bool:
    """An operand that varies along the last dim alone, after tensors that are not row-major.

    Behind two layouts oneDNN reads it out of bounds, which the mirror refuses.
    """
    for operand, made, strides in _behind_permuted(group, conditions):
        wide = [s for d, s in zip(made, strides, strict=True) if d > 1]
        varies = operand[-1] > 1 and math.prod(operand[:-1]) == 1
        if len(made) > 2 and varies and operand != made and wide != sorted(wide, reverse=True):
            return True
    return False


def _channels_behind_permuted(group: Group, conditions: Conditions) -> bool:
    """An operand for each channel, where channels are neither innermost nor next to the batch."""
    for operand, made, strides in _behind_permuted(group, conditions):
        if len(made) < 2 or operand == made or operand[1] in (1, math.prod(made)):
            continue
        if math.prod(operand) != operand[1] or strides[1] == 1:
            continue
        batch_inside = made[0] > 1 and strides[0] < strides[1]
        spatial = zip(made[2:], strides[2:], strict=True)
        if batch_inside or any(d > 1 and s > strides[1] for d, s in spatial):
            return True
    return False


def _strided_scales_of_groups(group: Group, conditions: Conditions) -> bool:
    return any(
        op.kind == "DynamicDequantize"
        and op.attr("qtype") == "per_group"
        and not all(is_row_major(t) for t in op.inputs[1:])
        for op in group.ops
    )


def _zero_point_of_four_bits(group: Group, conditions: Conditions) -> bool:
    return any(
        op.kind in ("DynamicDequantize", "DynamicQuantize")
        and op.attr("qtype") == "per_tensor"
        and len(op.inputs) > 2
        and op.inputs[2].dtype in ("s4", "u4")
        for op in group.ops
    )


def _empty_rows_along_outer_axis(group: Group, conditions: Conditions) -> bool:
    """A SoftMax of mode inf_as_zero along elements that don't lie side by side.

    oneDNN computes a vector of rows at a time, and looks for sums of 0 in the first four alone.
    """
    for op in group.ops:
        shape = group.shape(op.inputs[0]) if op.kind == "SoftMax" else None
        if shape is None or op.attr("mode") != "inf_as_zero":
            continue
        axis = int(op.attr("axis")) % len(shape)
        strides = group.tensor(op.inputs[0]).strides
        inner = math.prod(shape[axis + 1 :]) if strides is None else strides[axis]
        if inner > 1 and shape[axis] > 1:
            return True
    return False


def _may_be_infinite(group: Group, tensor: Tensor) -> bool:
    """Whether a tensor may have infinities: masks have them, products and normalizations don't.

    A scalar is taken to be finite unless its value is known: attention that reads what it fills in
    from an input stays fused.
    """
    data, maker = group.tensor(tensor).data, group.producer(tensor)
    if data is not None:
        return not np.isfinite(data.astype(np.float64)).all()
    if tensor.dtype == "boolean":
        return False
    if maker is None:
        shape = group.shape(tensor)
        return shape is None or math.prod(shape) != 1
    if maker.kind in ("Exp", "Log", "Pow", "Reciprocal"):
        return True
    return maker.kind not in _FINITE and any(_may_be_infinite(group, t) for t in maker.inputs)


def _infinity_beside_broadcast_condition(group: Group, conditions: Conditions) -> bool:
    """A Select of what may not be finite, with a condition unlike input 1 in shape.

    oneDNN multiplies by the condition then, which makes NaN of infinity.
    """
    return any(
        op.kind == "Select"
        and group.shape(op.inputs[0]) != group.shape(op.inputs[1])
        and any(_may_be_infinite(group, t) for t in op.inputs[1:])
        for op in group.ops
    )


_FILLED = frozenset(
    [
        "BatchNormForwardTraining",
        "BatchNormTrainingBackward",
        "LayerNorm",
        "LayerNormBackward",
        "PReLUBackward",
    ]
)
"""Ops with results that have elements where the source has none, such as sums over a batch."""


def _results_of_nothing(group: Group, conditions: Conditions) -> bool:
    """An op on no elements, with a result that has some."""
    return any(
        0 in (group.shape(op.inputs[0]) or ())
        and any(0 not in (group.shape(t) or (0,)) for t in op.outputs)
        for op in group.ops
        if op.kind in _FILLED
    )


def _slope_by_reference(group: Group, conditions: Conditions) -> bool:
    """A PReLU or its gradient that only oneDNN's reference kernel computes, in at most four dims.

    The kernel goes along five dims, and takes those that a tensor lacks from memory that is not
    always empty: a product that oneDNN writes in two dims leaves its third there, in a description
    that all later tensors with the same two dims share.
    """
    for op in group.ops:
        if op.kind not in ("PReLU", "PReLUBackward") or group.producer(op.inputs[0]):
            continue
        source, slope = (group.shape(t) for t in op.inputs[:2])
        if source is None or slope is None or len(source) > 4:
            continue
        channel = 1 if op.attr("data_format") == "NCX" else len(source) - 1
        per_channel = len(slope) == 1 and op.attr("per_channel_broadcast") is not False
        if per_channel and slope[0] == source[channel]:
            continue
        dims = aligned(slope, len(source))
        along = (1,) * channel + source[channel : channel + 1] + (1,) * (len(source) - channel - 1)
        if dims not in (source, along):
            return True
    return False


def _four_bit_weights(group: Group, conditions: Conditions) -> bool:
    return any(
        op.kind == "DynamicDequantize" and op.inputs[0].dtype in ("s4", "u4") for op in group.ops
    )


def _amx(conditions: Conditions) -> bool:
    return conditions.amx


def _not_measured(conditions: Conditions) -> bool:
    """Whether the wheels of 3.8 to 3.11 were not measured so: their CPU had neither f16 nor AMX."""
    return (
        conditions.runtime != "SYCL"
        or conditions.version not in ((3, 8), (3, 9), (3, 11))
        or conditions.isa not in _MEASURED
    )


def _old_avx512(conditions: Conditions) -> bool:
    return conditions.avx512 and not conditions.vnni


_FINITE = {"MatMul", "Convolution", "ConvTranspose", "SoftMax", "LayerNorm", "GroupNorm", "Sigmoid"}
_MEASURED = ("sse41", "avx", "avx2", "avx512_core", "avx512_core_vnni", "avx512_core_bf16")
_SHARED_WEIGHTS = "oneDNN reads an operand that varies over a part of the batch wrongly after a "
_PER_CHANNEL = "scales per channel wrongly when it quantizes a"

DEFECTS = (
    Defect(
        "int8_products_without_vnni",
        "this CPU has no VNNI, without which oneDNN's int8 products saturate at 16 bits; constant "
        f"weights from -{LARGEST_WEIGHT} to {LARGEST_WEIGHT}, or even ones for convolutions of "
        "s8, would be right in one partition, and faster",
        saturating_product,
        where=lambda conditions: not conditions.vnni,
    ),
    Defect(
        "attention_mask_of_other_rank",
        "oneDNN reads an attention mask of another rank wrongly",
        products.attention_mask_of_other_rank,
        where=lambda conditions: (
            conditions.version < (3, 8)
            or conditions.runtime != "SYCL"
            or (conditions.version < (3, 13) and _not_measured(conditions))
        ),
    ),
    Defect(
        "attention_select_of_other_rank",
        "oneDNN reads the condition or the masking input of attention's Select wrongly if it has "
        "fewer dims than the scores",
        products.attention_select_of_other_rank,
        since=(3, 8),
        where=lambda conditions: conditions.runtime != "SYCL",
    ),
    Defect(
        "attention_select_of_strided",
        "oneDNN reads the condition or the masking input of attention's Select wrongly if its "
        "matrices are not row-major",
        products.attention_select_of_strided,
        since=(3, 9),
    ),
    Defect(
        "gradient_of_attention_scores",
        "oneDNN adds the former content of its memory to a gradient of attention's scores",
        products.attention_and_gradient_of_scores,
        since=(3, 11),
        where=lambda conditions: conditions.version >= (3, 12) or _not_measured(conditions),
    ),
    Defect(
        "four_bit_weights",
        "oneDNN computes with fused 4-bit weights wrongly unless apply_to_int is set",
        _four_bit_weights,
        until=(3, 13),
        unless_apply_to_int=True,
    ),
    Defect(
        "attention_on_strided_inputs",
        "oneDNN computes attention on strided inputs wrongly where batch equals sequence",
        products.attention_on_strided_inputs,
        until=(3, 13),
        where=lambda conditions: (
            conditions.avx512 or (conditions.avx2 and conditions.version >= (3, 11))
        ),
    ),
    Defect(
        "attention_of_wider_values",
        "oneDNN leaves elements of attention unwritten if values are wider than keys",
        products.attention_of_wider_values,
        until=(3, 10),
    ),
    Defect(
        "attention_of_narrower_values",
        "oneDNN computes attention as if values were as wide as keys",
        products.attention_of_narrower_values,
        until=(3, 8),
        out_of_bounds=True,
    ),
    Defect(
        "attention_mask_of_fewer_dims",
        "oneDNN reads an attention mask of fewer dims than five wrongly",
        products.attention_mask_of_fewer_dims,
        since=(3, 9),
    ),
    Defect(
        "attention_of_several_key_heads",
        "oneDNN computes attention in five dims as if all queries of a group shared a key head",
        products.attention_of_several_key_heads,
        since=(3, 9),
        out_of_bounds=True,
    ),
    Defect(
        "attention_in_other_integers",
        "oneDNN computes attention in other integers than s8 wrongly",
        products.int8_attention_of_mixed_types,
        until=(3, 10),
        where=lambda conditions: conditions.version < (3, 8) or _not_measured(conditions),
    ),
    Defect(
        "attention_of_other_result",
        "oneDNN rounds the result of int8 attention to the type of its queries",
        products.int8_attention_of_other_result,
        since=(3, 10),
    ),
    Defect(
        "sum_behind_layer_norm",
        "oneDNN adds another tensor to a layer normalization wrongly",
        _layer_norm_and_sum,
        until=(3, 13),
    ),
    Defect(
        "softmax_inf_as_zero",
        "oneDNN computes SoftMax of mode inf_as_zero wrongly along an axis that is not the "
        "innermost in memory",
        _empty_rows_along_outer_axis,
        since=(3, 8),
        alone=True,
    ),
    Defect(
        "select_of_infinity",
        "oneDNN multiplies by a condition of another shape than input 1 instead of selecting, "
        "which makes NaN of infinity",
        _infinity_beside_broadcast_condition,
        until=(3, 8),
        alone=True,
    ),
    Defect(
        "wide_operand_behind_pooling",
        "oneDNN computes pooling with a fused operand of more than one wide dim wrongly",
        windows.pool_and_whole_operand,
    ),
    Defect(
        "channel_operand_behind_pooling",
        "oneDNN computes pooling of channels-last tensors with an operand per channel wrongly",
        windows.pool_of_channels_last,
    ),
    Defect(
        "relu_behind_int8_pooling",
        "oneDNN rounds the result of int8 pooling before it applies ReLU and scales",
        windows.int8_pool_and_relu,
    ),
    Defect(
        "operand_behind_int8_pooling",
        "oneDNN reads an operand along one dim wrongly in int8 pooling, but for one per channel "
        "of channels-first tensors",
        windows.int8_pool_and_operand,
    ),
    Defect(
        "operand_behind_quantized_norm",
        "oneDNN reads an operand that is broadcast wrongly between a normalization and Quantize",
        _quantized_norm_and_operand,
        since=(3, 8),
        where=lambda conditions: conditions.version >= (3, 10) or _not_measured(conditions),
    ),
    Defect(
        "residual_of_other_sign",
        "oneDNN adds a quantized residual wrongly where u8 and s8 mix",
        _residual_of_other_sign,
    ),
    Defect(
        "channel_scales_of_convolution",
        f"oneDNN applies {_PER_CHANNEL} convolution's result",
        _quantize_per_channel("Convolution", "ConvTranspose", "MatMul"),
        until=(3, 9),
    ),
    Defect(
        "channel_scales_of_product",
        f"oneDNN applies {_PER_CHANNEL} product's result",
        _quantize_per_channel("MatMul", "Convolution", "ConvTranspose"),
        since=(3, 9),
    ),
    Defect(
        "one_s8_channel_a_group",
        "oneDNN with AVX-512 but without VNNI computes s8 convolutions of one channel a group "
        "wrongly",
        windows.one_s8_channel_a_group,
        where=_old_avx512,
    ),
    Defect(
        "product_over_nothing",
        "oneDNN leaves a product over no elements unwritten",
        products.product_over_nothing,
        until=(3, 13),
        alone=True,
    ),
    Defect(
        "both_transposed_and_shared",
        "oneDNN computes attention with shared heads wrongly after it compiled a product with "
        "transpose_a and transposed weights that all batches share",
        products.both_transposed_and_shared,
        alone=True,
    ),
    Defect(
        "results_of_nothing",
        "oneDNN leaves results unwritten where the source has no elements",
        _results_of_nothing,
        alone=True,
    ),
    Defect(
        "slope_by_reference",
        "oneDNN computes PReLU with other slopes than one a channel or element wrongly, and reads "
        "beside its buffers, after it compiled a product",
        _slope_by_reference,
        alone=True,
        out_of_bounds=True,
    ),
    Defect(
        "auto_pad_of_transposed_gradients",
        "oneDNN pads the gradients of transposed convolutions wrongly with auto_pad SAME_*; "
        "give pads_begin and pads_end",
        windows.transposed_gradient_with_automatic_padding,
        alone=True,
    ),
    Defect(
        "s8_transposed_convolution",
        "oneDNN computes transposed convolutions of s8 or with a zero point wrongly in some calls",
        windows.s8_transposed_convolution,
        since=(3, 8),
        where=lambda conditions: conditions.runtime == "SYCL" or conditions.avx512,
    ),
    Defect(
        "shifted_residual_of_transposed_convolution",
        "oneDNN computes int8 transposed convolutions whose residual has a zero point as if the "
        "CPU had no VNNI, so that products of weights beyond 64 saturate at 16 bits",
        windows.transposed_convolution_and_shifted_residual,
        until=(3, 13),
        where=lambda conditions: conditions.avx512 and not conditions.f16,
    ),
    Defect(
        "zero_points_of_channels",
        "oneDNN uses the first zero point for all channels",
        products.zero_points_of_channels,
    ),
    Defect(
        "scales_of_channels_of_residual",
        "oneDNN uses the first scale for all channels of a residual",
        products.scales_of_channels_of_residual,
    ),
    Defect(
        "scales_of_one_channel",
        "oneDNN scales all elements by the first scale of a depthwise ConvTranspose's groups",
        products.scales_of_one_channel,
        alone=True,
    ),
    Defect(
        "scales_of_input_channels",
        "oneDNN applies scales of the input's channels of a convolution's weights to the output's",
        products.scales_of_input_channels,
        out_of_bounds=True,
    ),
    Defect(
        "scales_of_flattened_source",
        "oneDNN reads scales along the first dim of a product's first operand as those of its rows",
        products.scales_of_flattened_source,
        since=(3, 8),
        out_of_bounds=True,
    ),
    Defect(
        "unreached_elements_of_transposed_convolution",
        "oneDNN leaves elements of int8 transposed convolutions that no window reaches undefined",
        windows.unreached_elements,
        where=lambda conditions: conditions.version < (3, 8) or not conditions.avx512,
    ),
    Defect(
        "int8_average_over_padding",
        "oneDNN averages padding as the integer 0 instead of the zero point",
        windows.int8_average_over_padding,
    ),
    Defect(
        "strided_scales_of_groups",
        "oneDNN ignores the strides of scales and zero points of groups; make them row-major",
        _strided_scales_of_groups,
        alone=True,
    ),
    Defect(
        "strided_parameters",
        "oneDNN ignores the strides of gamma, beta, statistics, scales and zero points of "
        "channels; make them contiguous",
        strided.strided_parameters,
        alone=True,
    ),
    Defect(
        "strided_operand",
        "oneDNN ignores the strides of an operand that is broadcast; make it contiguous",
        strided.strided_operand,
    ),
    Defect(
        "slopes_of_permuted",
        "oneDNN reads the slopes of PReLU wrongly where a spatial dim lies between the batch and "
        "the channels",
        strided.slopes_of_permuted,
        alone=True,
    ),
    Defect(
        "norm_gradient_of_other_layout",
        "oneDNN computes gradients of LayerNorm and SoftMax wrongly from tensors that are not "
        "row-major",
        strided.norm_gradient_of_other_layout,
        alone=True,
    ),
    Defect(
        "gapped_source_of_pooling",
        "oneDNN leaves parts of the gradient of channels-last MaxPool unwritten where its source "
        "has gaps",
        strided.gapped_source_of_pooling,
        until=(3, 8),
        alone=True,
    ),
    Defect(
        "batch_norm_gradient_of_one_output",
        "oneDNN computes BatchNormTrainingBackward with one output without gamma, and as if the "
        "statistics were constants",
        _one_output_of_batch_norm,
        alone=True,
    ),
    Defect(
        "zero_point_of_four_bits",
        "oneDNN reads a zero point of 4 bits for a whole tensor as one of 32; make it s32",
        _zero_point_of_four_bits,
        since=(3, 8),
        alone=True,
    ),
    Defect(
        "operand_of_shared_weights",
        f"{_SHARED_WEIGHTS}product with 2-D weights",
        products.partly_broadcast_operand,
    ),
    Defect(
        "strided_operand_of_product",
        "oneDNN reads an operand that is broadcast, of another layout than row-major, wrongly "
        "behind a product",
        products.strided_operand,
    ),
    Defect(
        "operand_behind_vector",
        "oneDNN reads an operand wrongly after a product with a vector",
        products.operand_behind_vector,
        until=(3, 13),
    ),
    Defect(
        "operand_of_one_column",
        "oneDNN reads an operand that is broadcast wrongly after a product of one column with "
        "transpose_a",
        products.column_operand_of_transposed_product,
        since=(3, 8),
        where=lambda conditions: conditions.avx2,
        out_of_bounds=True,
    ),
    Defect(
        "second_channel_operand",
        "oneDNN reads a second operand for each channel wrongly where there is no spatial extent",
        _channels_of_a_second_operand,
    ),
    Defect(
        "channel_operand_of_select",
        "oneDNN selects operands for each channel wrongly where there is no spatial extent",
        _channels_of_select,
        until=(3, 8),
        alone=True,
    ),
    Defect(
        "select_of_constants",
        "oneDNN adds the result of Select to what it keeps of a constant condition and input 2",
        _select_of_constants,
        until=(3, 8),
        alone=True,
    ),
    Defect(
        "last_dim_operand_of_strided",
        "oneDNN reads an operand that varies along the last dim alone wrongly after a binary op "
        "on tensors that are not row-major",
        _last_dim_behind_permuted,
        since=(3, 8),
        where=lambda conditions: conditions.version < (3, 9) or conditions.version >= (3, 11),
    ),
    Defect(
        "channel_operand_of_strided",
        "oneDNN reads an operand for each channel wrongly after a binary op on tensors whose "
        "channels are neither innermost nor next to the batch",
        _channels_behind_permuted,
    ),
    Defect(
        "dilated_transposed_gradients",
        "oneDNN computes ConvTransposeBackwardData without its dilations",
        windows.ignored_dilations,
        alone=True,
    ),
    Defect(
        "strided_weights_of_one_row",
        "oneDNN reads strided weights of one row, of several batches, as if they were contiguous",
        products.gaps_between_weights_of_one_row,
        since=(3, 8),
        where=lambda conditions: (
            conditions.avx2
            and (conditions.runtime != "SYCL" or (3, 9) <= conditions.version < (3, 13))
        ),
        alone=True,
        out_of_bounds=True,
    ),
    Defect(
        "gaps_between_shared_weights",
        "oneDNN reads several batches of weights in five dims as if there were no gaps between "
        "them where several inputs share each",
        products.gaps_between_shared_weights,
        until=(3, 8),
        where=lambda conditions: conditions.avx512,  # reported from one; not measured elsewhere
        alone=True,
    ),
    Defect(
        "operand_for_all_heads",
        "oneDNN with AMX reads an operand for all batches and heads, such as an attention mask, "
        "wrongly",
        products.operand_for_all_heads,
        since=(3, 8),
        where=_amx,
        out_of_bounds=True,
    ),
    Defect(
        "operand_for_each_row",
        "oneDNN with AMX reads an operand for each head and row wrongly after a product",
        products.operand_for_each_row,
        until=(3, 8),
        where=_amx,
    ),
    Defect(
        "int8_product_in_chunks",
        "oneDNN with AMX sums int8 products over more than 64 elements wrongly where 64 does not "
        "divide them",
        products.int8_product_in_chunks,
        since=(3, 8),
        where=_amx,
    ),
    Defect(
        "one_row_transposed",
        "oneDNN computes products of one row with transpose_a wrongly where the batch shares the "
        "weights",
        products.one_row_transposed,
        where=lambda conditions: conditions.amx or (conditions.avx512 and conditions.f16),
        alone=products.one_row_transposed_alone,
    ),
    Defect(
        "few_rows_transposed",
        "oneDNN with AMX computes the last columns of transposed products of few rows wrongly",
        products.few_rows_transposed,
        until=(3, 13),
        where=_amx,
        alone=True,
    ),
    Defect(
        "convolution_to_one_column",
        "oneDNN with AMX computes strided convolutions to one column wrongly",
        windows.convolution_to_one_column,
        where=_amx,
        alone=windows.convolution_to_one_column_alone,
    ),
    Defect(
        "one_channel_to_one_column",
        "oneDNN with AVX-512 computes strided convolutions of one channel to one column wrongly",
        windows.one_channel_to_one_column,
        where=lambda conditions: conditions.avx512,
        alone=True,
    ),
    Defect(
        "weights_that_see_padding",
        "oneDNN with AVX-512 leaves 16-bit gradients of weights unwritten where they see only "
        "padding",
        windows.weights_that_see_padding,
        where=lambda conditions: conditions.avx512,
        alone=True,
    ),
    Defect(
        "one_channel_of_one_plane",
        "oneDNN computes convolutions of one plane and one channel with a deeper kernel wrongly",
        windows.one_channel_of_one_plane,
        where=lambda conditions: conditions.avx512,
        alone=windows.one_channel_of_one_plane_alone,
    ),
    Defect(
        "padded_channels_of_one_plane",
        "oneDNN with AMX computes convolutions of one plane with a deeper kernel wrongly where 4 "
        "bytes do not divide the channels",
        windows.padded_channels_of_one_plane,
        where=_amx,
        alone=windows.padded_channels_of_one_plane_alone,
    ),
    Defect(
        "convolution_of_one_row",
        "oneDNN computes 16-bit convolutions of fewer rows than threads, with stride and padding, "
        "wrongly",
        windows.convolution_of_one_row,
        where=lambda conditions: conditions.avx512 and conditions.threads > 1,
        alone=True,
        out_of_bounds=True,
    ),
    Defect(
        "binary_behind_dilated_depthwise",
        "oneDNN computes binary ops after dilated depthwise convolutions in f16 wrongly",
        windows.dilated_depthwise_and_binary,
        since=(3, 8),
        where=lambda conditions: conditions.avx512 and conditions.f16,
    ),
    Defect(
        "stride_beyond_kernel",
        "oneDNN with AMX adds no bias and applies no fused ops to elements that no window of a "
        "transposed convolution reaches",
        windows.stride_beyond_kernel,
        since=(3, 8),
        where=_amx,
        alone=windows.stride_beyond_kernel_and_bias,
    ),
    Defect(
        "grouped_int8_with_zero_point",
        "oneDNN with AMX computes grouped int8 convolutions with a zero point and padding wrongly",
        windows.grouped_int8_with_zero_point,
        where=_amx,
    ),
)
"""All known defects that give wrong results."""


def wrong_result(group: Group, conditions: Conditions) -> Finding | None:
    """Look for a known defect by which oneDNN computes a partition wrongly.

    Parameters
    ----------
    group : Group
        The partition; `group_of` makes it from the nodes of a graph that is being built.
    conditions : Conditions
        The conditions in which it is to run.

    Returns
    -------
    Finding or None
        The finding of the first row of `DEFECTS` that the partition meets; a partition of one op
        meets only rows that hold for the op alone. None if it meets none.
    """
    return first_met(DEFECTS, group, conditions)
