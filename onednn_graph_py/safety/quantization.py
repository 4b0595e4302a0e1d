"""Defects of scales and zero points."""

import numpy as np

from ..machine import Conditions
from ..ops.lookup import with_attribute
from .calls import Op
from .defect import OUT_OF_BOUNDS, WRONG, Answer, Hit, Needs, Where, defect
from .facts import (
    DEQUANTIZES,
    PRODUCTS,
    QUANTIZATION,
    has_zero_point,
    integers_of,
    one_element,
    quantization_of,
    stored,
)
from .group import Group

__all__: list[str] = []

_POOLS = frozenset({"AvgPool", "MaxPool"})
_CONVOLUTIONS = PRODUCTS & with_attribute("weights_format")


def _differ(op: Op, name: str, port: int) -> bool:
    """Whether an op's scales or zero points are not known to be equal."""
    if op.attr("qtype") != "per_channel":
        return False
    if len(op.inputs) == 1:
        return len(set(op.attr(name) or ())) > 1
    if len(op.inputs) <= port or op.inputs[port].shape == (1,):
        return False
    data = op.inputs[port].data
    return data is None or len(np.unique(data)) > 1


@defect(
    "oneDNN computes with fused 4-bit weights wrongly unless apply_to_int is set",
    Needs({"DynamicDequantize"}, fused=True),
    Where(until=(3, 13)),
)
def four_bit_weights(group: Group, op: Op, conditions: Conditions) -> Answer:
    return op.inputs[0].dtype in ("s4", "u4") and not group.apply_to_int


@defect(
    "oneDNN computes transposed convolutions of s8 or with a zero point wrongly in some calls",
    Needs({"ConvTranspose"}, fused=True, beside=DEQUANTIZES),
    Where((3, 8), sycl=True),
    Where((3, 8), has=("avx512",)),
)
def s8_transposed_convolution(group: Group, op: Op, conditions: Conditions) -> Answer:
    """A convolution whose weights have a zero point does not compile."""
    source, weights = (quantization_of(group, t) for t in op.inputs[:2])
    if source is None or (weights is not None and has_zero_point(weights)):
        return False
    return source.inputs[0].dtype == "s8" or has_zero_point(source)


@defect(
    "oneDNN ignores the zero point of weights of depthwise convolutions",
    Needs({"Convolution"}, fused=True, beside=DEQUANTIZES),
    Where(until=(3, 8), has=("vnni",)),
)
def zero_point_of_weights(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find any convolution of such weights: those of other groups do not compile."""
    weights = quantization_of(group, op.inputs[1])
    return weights is not None and has_zero_point(weights) and Hit(alone=False)


@defect(
    "oneDNN computes int8 transposed convolutions whose residual has a zero point as if the "
    "CPU had no VNNI, so that products of weights beyond 64 saturate at 16 bits",
    Needs({"Add"}, fused=True, beside={"ConvTranspose"}),
    Where(until=(3, 13), has=("avx512",), lacks=("f16",)),
)
def shifted_residual_of_transposed_convolution(
    group: Group, op: Op, conditions: Conditions
) -> Answer:
    if not any(o.kind == "ConvTranspose" and integers_of(group, o) for o in group.ops):
        return False
    makers = [m for t in op.inputs if (m := quantization_of(group, t)) is not None]
    return any(map(has_zero_point, makers))


@defect(
    "oneDNN adds a residual wrongly to a transposed convolution of s8 that another op follows",
    Needs({"Add"}, fused=True, beside={"ConvTranspose"}),
    Where(until=(3, 8), has=("avx512", "vnni")),
)
def late_residual_of_transposed_convolution(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find strides, and a residual of the result's shape; a bias is part of the convolution."""
    early = {o.outputs[0].id for o in group.ops if o.kind in ("ConvTranspose", "BiasAdd")}
    shapes = (group.shape(op.outputs[0]), None)
    return all(t.id not in early and group.shape(t) in shapes for t in op.inputs) and any(
        (source := quantization_of(group, maker.inputs[0])) is not None
        and source.inputs[0].dtype == "s8"
        and max(maker.attr("strides")) > 1
        for maker in group.ops
        if maker.kind == "ConvTranspose"
    )


@defect(
    "oneDNN uses the first zero point for all channels",
    Needs(QUANTIZATION, fused=True, beside=PRODUCTS | _POOLS),
)
def zero_points_of_channels(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find zero points of any operand or result of a product or pooling."""
    return _differ(op, "zps", 2)


@defect(
    "oneDNN uses the first scale for all channels of a residual",
    Needs({"Add"}, fused=True, beside=PRODUCTS),
)
def scales_of_channels_of_residual(group: Group, op: Op, conditions: Conditions) -> Answer:
    makers = [m for t in op.inputs if (m := quantization_of(group, t)) is not None]
    return any(_differ(m, "scales", 1) for m in makers)


@defect(
    "oneDNN converts a residual of an int8 product in 16 bits to the result's integers, which "
    "lack numbers of it if one of them is s8 and the other u8",
    Needs({"Add"}, fused=True, narrow=True, beside=PRODUCTS),
    Where(has=("vnni",)),
)
def residual_of_other_integers(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find a residual of the result's shape, which oneDNN adds in place.

    In f32 it is right; without VNNI the product is not one of integers.
    """
    results = {o.outputs[0].dtype for o in group.ops if o.kind == "Quantize"}
    made = group.shape(op.outputs[0])
    for tensor in op.inputs if op.inputs[0].dtype != "f32" else ():
        residual = stored(group, tensor)
        other = results - {residual.dtype} and residual.dtype in ("s8", "u8")
        if other and group.shape(tensor) in (made, None):
            return Hit(alone=False)
    return False


@defect(
    "oneDNN scales all elements by the first scale of a depthwise ConvTranspose's groups",
    Needs(QUANTIZATION),
)
def scales_of_one_channel(group: Group, op: Op, conditions: Conditions) -> Answer:
    """A partition with that ConvTranspose too is right."""
    shape = group.shape(op.inputs[0])
    if not shape or group.has("ConvTranspose") or not _differ(op, "scales", 1):
        return False
    return bool(shape[op.attr("axis")] == 1)


@defect(
    "oneDNN applies scales of the input's channels of a convolution's weights to the output's",
    Needs(_CONVOLUTIONS, fused=True, beside=DEQUANTIZES),
    effect=WRONG | OUT_OF_BOUNDS,
)
def scales_of_input_channels(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find scales of the weights along another dim than that of the output's channels.

    oneDNN reads one for each of these, equal ones too, and beyond the last where there are fewer.
    """
    made, shape = quantization_of(group, op.inputs[1]), group.shape(op.inputs[1])
    if made is None or not shape or made.attr("qtype") != "per_channel":
        return False
    written = str(op.attr("weights_format")).replace("X", "X" * (len(shape) - 2))
    axis = made.attr("axis") % len(shape)
    fewer = shape[axis] < shape[written.index("O")]
    return written[axis] != "O" and (fewer or _differ(made, "scales", 1))


@defect(
    "oneDNN reads scales along the first dim of a product's first operand as those of its rows",
    Needs({"MatMul"}, fused=True, beside=DEQUANTIZES),
    Where((3, 8)),
    effect=WRONG | OUT_OF_BOUNDS,
)
def scales_of_flattened_source(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find scales along the first dim, if that is not the rows.

    Without a batch oneDNN adds a dim in front; a batch that shares the weights becomes rows. It
    reads equal scales, or one of a batch of 1, beyond the last.
    """
    source = quantization_of(group, op.inputs[0])
    data, weights = (group.shape(t) for t in op.inputs[:2])
    if source is None or not data or weights is None:
        return False
    if source.attr("qtype") != "per_channel" or source.attr("axis") % len(data):
        return False
    if len(data) == 1:
        return _differ(source, "scales", 1)
    return len(data) > 2 and len(weights) < 3


@defect(
    "oneDNN reads scales of a product's first operand along another dim if it has fewer dims than "
    "the second",
    Needs({"MatMul"}, fused=True, beside=DEQUANTIZES, rank=3),
    Where((3, 8)),
)
def scales_of_fewer_dims(group: Group, op: Op, conditions: Conditions) -> Answer:
    source = quantization_of(group, op.inputs[0])
    data, weights = (group.shape(t) or () for t in op.inputs[:2])
    return source is not None and len(data) < len(weights) and _differ(source, "scales", 1)


@defect(
    "oneDNN averages padding as the integer 0 instead of the zero point",
    Needs({"AvgPool"}, fused=True, beside=DEQUANTIZES),
)
def int8_average_over_padding(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find an average that counts padding, of integers whose zero point is not 0."""
    if op.attr("exclude_pad"):
        return False
    source = quantization_of(group, op.inputs[0])
    padded = str(op.attr("auto_pad")).startswith("SAME") or any(
        (*op.attr("pads_begin"), *op.attr("pads_end"))
    )
    return padded and source is not None and has_zero_point(source)


@defect(
    "oneDNN ignores the strides of scales and zero points of groups; make them row-major",
    Needs({"DynamicDequantize"}, strided=True),
)
def strided_scales_of_groups(group: Group, op: Op, conditions: Conditions) -> Answer:
    return op.attr("qtype") == "per_group" and not all(t.is_row_major for t in op.inputs[1:])


@defect(
    "oneDNN reads a zero point of 4 bits for a whole tensor as one of 32; make it s32",
    Needs({"DynamicDequantize", "DynamicQuantize"}),
    Where((3, 8)),
)
def zero_point_of_four_bits(group: Group, op: Op, conditions: Conditions) -> Answer:
    points = op.inputs[2:3]
    return op.attr("qtype") == "per_tensor" and any(t.dtype in ("s4", "u4") for t in points)


@defect(
    "a 16-bit scale for a whole tensor, which oneDNN reads as a 32-bit one",
    Needs({"DynamicDequantize"}),
    Where((3, 8)),
    effect=OUT_OF_BOUNDS,
    remedy="use an f32 scale and output and a TypeCast, or qtype per_channel",
)
def dynamic_scale(group: Group, op: Op, conditions: Conditions) -> Answer:
    if len(op.inputs) < 2 or op.inputs[1].dtype == "f32":
        return False
    if op.attr("qtype") != "per_tensor" and not one_element(group.shape(op.inputs[1])):
        return False
    if group.has("MatMul"):  # MatMul's kernel takes the scales itself
        return False
    return Hit(f"a scale of type {op.inputs[1].dtype} for the whole tensor")
