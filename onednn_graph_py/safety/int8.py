"""Defects of products of integers, and of ops that oneDNN fuses to them."""

from ..machine import Conditions
from .calls import Op, Tensor
from .defect import Answer, Needs, Where, defect
from .facts import DEQUANTIZES, PRODUCTS, integers_of, slide_of
from .group import Group
from .saturation import LARGEST_WEIGHT, magnitude_of

__all__: list[str] = []

_PER_CHANNEL = "oneDNN applies scales per channel wrongly when it quantizes a"
_QUANTIZE = frozenset({"Quantize"})


@defect(
    "this CPU has no VNNI, without which oneDNN's int8 products saturate at 16 bits; constant "
    f"weights from -{LARGEST_WEIGHT} to {LARGEST_WEIGHT} would be right in one partition, and "
    "faster; convolutions of s8 need even ones instead, or u8 with zero point 128 as source",
    Needs(PRODUCTS, fused=True, beside=DEQUANTIZES),
    Where(lacks=("vnni",)),
)
def int8_products_without_vnni(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find weights that are not known to be small enough.

    Depthwise convolutions of u8 were seen to add nothing in 16 bits with AVX2.
    """
    integers = integers_of(group, op)
    if integers is None:
        return False
    source, weights = integers
    if _exact(weights, halved=op.kind != "MatMul" and source.dtype == "s8"):
        return False
    slide = slide_of(group, op) if op.kind == "Convolution" else None
    depthwise = slide is not None and slide.depthwise
    return not (depthwise and source.dtype == "u8" and not conditions.has("avx512"))


def _exact(weights: Tensor, *, halved: bool) -> bool:
    """Whether weights are known, no sum of theirs saturates, and halving rounds none."""
    if weights.data is None or weights.dtype != "s8":
        return False
    magnitude = magnitude_of(weights.data)
    return magnitude.even if halved else magnitude.small


@defect(
    "oneDNN adds a quantized residual wrongly where u8 and s8 mix",
    Needs({"Add"}, fused=True, beside=_QUANTIZE),
)
def residual_of_other_sign(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find an Add of a dequantized residual before a Quantize to the other type of u8 and s8."""
    last = group.ops[-1]
    if last.kind != "Quantize":
        return False
    if not group.has("MatMul", "Convolution", "ConvTranspose", "Reorder"):
        return False
    target = last.outputs[0].dtype
    makers = [m for t in op.inputs if (m := group.producer(t)) is not None]
    residuals = {m.inputs[0].dtype for m in makers if m.kind in DEQUANTIZES} - {target}
    if target == "u8" and group.has("Convolution"):
        residuals -= {"s8"}  # oneDNN is right for this pair of types alone
    return bool(residuals)


def _quantizes_channels(group: Group, op: Op) -> bool:
    """Whether the partition ends with this Quantize, which has a scale for each channel."""
    return op is group.ops[-1] and op.attr("qtype") == "per_channel"


@defect(
    f"{_PER_CHANNEL} convolution's result",
    Needs(_QUANTIZE, fused=True, beside=PRODUCTS),
    Where(until=(3, 9)),
)
def channel_scales_of_convolution(group: Group, op: Op, conditions: Conditions) -> Answer:
    return _quantizes_channels(group, op)


@defect(
    f"{_PER_CHANNEL} product's result", Needs(_QUANTIZE, fused=True, beside=PRODUCTS), Where((3, 9))
)
def channel_scales_of_product(group: Group, op: Op, conditions: Conditions) -> Answer:
    return _quantizes_channels(group, op)
