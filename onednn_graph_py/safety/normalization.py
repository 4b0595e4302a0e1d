"""Defects of normalizations and SoftMax, and of their gradients."""

import math

from ..machine import Conditions
from ..ops.lookup import with_attribute
from .calls import Op
from .defect import APART, OUT_OF_BOUNDS, WRONG, Answer, Hit, Needs, Where, defect, unmeasured
from .facts import BINARY, aligned, operands
from .group import Group

__all__: list[str] = []

_NORMS = frozenset({"GroupNorm", "LayerNorm", "SoftMax"})


@defect(
    "oneDNN adds another tensor to a layer normalization wrongly",
    Needs({"Add"}, fused=True, beside={"LayerNorm"}),
    Where(until=(3, 13)),
)
def sum_behind_layer_norm(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find an Add of a tensor of the result's shape, maybe after a TypeCast.

    oneDNN is right for other shapes, but for dims of 1 in front.
    """
    made = group.shape(op.outputs[0]) or ()
    if any(aligned(group.shape(t), len(made)) != made for t in op.inputs):
        return False
    for tensor in op.inputs:
        before = group.producer(tensor)
        if before is not None and before.kind == "TypeCast":
            before = group.producer(before.inputs[0])
        if before is not None and before.kind == "LayerNorm":
            return True
    return False


@defect(
    "oneDNN reads another tensor after a SoftMax as if it lay in the order of SoftMax's source",
    Needs(BINARY, fused=True, strided=True, beside={"SoftMax"}),
)
def operand_after_softmax_of_strided(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find one that has other dims than the last; into a row-major result oneDNN is right."""
    if not group.follows(op, {"SoftMax"}):
        return False
    for source in (group.tensor(o.inputs[0]) for o in group.ops if o.kind == "SoftMax"):
        if group.producer(source) is None and not source.is_in_order:
            for tensor in map(group.tensor, group.read(op)):
                shape = group.shape(tensor)
                wide = shape is None or max(shape[:-1], default=1) > 1
                if wide and tensor.strides != source.strides:
                    return True
    return False


@defect(
    "oneDNN computes SoftMax of mode inf_as_zero wrongly along an axis that is not the "
    "innermost in memory",
    Needs({"SoftMax"}),
    Where((3, 8)),
)
def softmax_inf_as_zero(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find elements that don't lie side by side.

    oneDNN computes a vector of rows at a time, and looks for sums of 0 in the first four alone.
    """
    shape = group.shape(op.inputs[0])
    if shape is None or op.attr("mode") != "inf_as_zero":
        return False
    axis = int(op.attr("axis")) % len(shape)
    strides = group.tensor(op.inputs[0]).strides
    inner = math.prod(shape[axis + 1 :]) if strides is None else strides[axis]
    return inner > 1 and shape[axis] > 1


@defect(
    "oneDNN reads an operand that is broadcast wrongly between a normalization and Quantize",
    Needs(_NORMS, fused=True, beside={"Quantize"}),
    Where((3, 10)),
    *unmeasured((3, 8), (3, 10)),
)
def operand_behind_quantized_norm(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find any operand but one for each channel; elsewhere oneDNN checks it and does not fuse."""
    data_format = op.attr("data_format")
    for operand, result in operands(group, op):
        wide = [i for i, d in enumerate(operand) if d != 1]
        if not wide or operand == result:
            continue
        channel = 1 if data_format == "NCX" else len(result) - 1
        if len(wide) > 1 or (data_format is not None and wide != [channel]):
            return True
    return False


_FILLED = {
    "BatchNormForwardTraining", "BatchNormTrainingBackward", "LayerNorm", "LayerNormBackward",
    "PReLUBackward",
}  # fmt: skip
"""Ops with results that have elements where the source has none, such as sums over a batch."""


@defect("oneDNN leaves results unwritten where the source has no elements", Needs(_FILLED))
def results_of_nothing(group: Group, op: Op, conditions: Conditions) -> Answer:
    return 0 in (group.shape(op.inputs[0]) or ()) and any(
        0 not in (group.shape(t) or (0,)) for t in op.outputs
    )


@defect(
    "oneDNN computes BatchNormTrainingBackward with one output without gamma, and as if the "
    "statistics were constants",
    Needs({"BatchNormTrainingBackward"}),
)
def batch_norm_gradient_of_one_output(group: Group, op: Op, conditions: Conditions) -> Answer:
    return len(op.outputs) == 1


_WITH_PARAMETERS = with_attribute("epsilon") | {"DynamicDequantize", "DynamicQuantize"}


@defect(
    "oneDNN ignores the strides of gamma, beta, statistics, scales and zero points of "
    "channels; make them contiguous",
    Needs(_WITH_PARAMETERS, strided=True),
)
def strided_parameters(group: Group, op: Op, conditions: Conditions) -> Answer:
    read = map(group.tensor, op.inputs[1:])
    return any(t.has_gaps for t in read if t.shape is not None and len(t.shape) == 1)


@defect(
    "oneDNN computes gradients of LayerNorm and SoftMax wrongly from tensors that are not "
    "row-major",
    Needs({"LayerNormBackward", "LogSoftmaxBackward", "SoftMaxBackward"}, strided=True),
)
def norm_gradient_of_other_layout(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find a gradient whose kernel takes all tensors to have the layout of one.

    That is LayerNorm's source, or SoftMax's result without gaps, if the last dim is innermost in
    it. The gradient is taken to be row-major, as nobody knows more before it is compiled.
    """
    if op.kind == "LayerNormBackward":
        tensors = [group.tensor(t) for t in op.inputs[:2]]
    else:
        tensors = [group.tensor(op.inputs[1])]
        shape = tensors[0].shape or ()
        inner = shape[int(op.attr("axis")) % max(len(shape), 1) + 1 :]
        if math.prod(inner) > 1 or 0 in shape or tensors[0].has_gaps:
            return False
    first = tensors[0]
    if not first.strides or not first.shape or all(t.is_in_order for t in tensors):
        return False
    return 1 in (first.strides[-1], first.shape[-1])


@defect(
    "a strided mean or variance, with whose strides oneDNN writes the new ones",
    Needs({"BatchNormForwardTraining"}, strided=True),
    effect=OUT_OF_BOUNDS,
    remedy="pass contiguous arrays",
)
def strided_running_statistics(group: Group, op: Op, conditions: Conditions) -> Answer:
    gapped = [t for t in map(group.tensor, op.inputs[1:3]) if t.has_gaps]
    return bool(gapped) and Hit(f"running statistics as {gapped[0].mirror!r}")


@defect(
    "a normalization with a mean and a variance of 16 bits: oneDNN writes 32 bits of each",
    Needs({"GroupNorm", "LayerNorm"}, narrow=True),
    effect=OUT_OF_BOUNDS,
    remedy="make them f32",
)
def narrow_statistics(group: Group, op: Op, conditions: Conditions) -> Answer:
    narrow = [t.dtype for t in op.outputs[1:] if t.dtype != "f32"]
    return bool(narrow) and Hit(f"keeping the mean and the variance in {narrow[0]}")


@defect(
    "a Quantize with several scales after a normalization, whose kernels take only one",
    Needs({"Quantize"}, fused=True, beside=_NORMS),
    Where(until=(3, 13)),
    effect=OUT_OF_BOUNDS,
    remedy=f"use qtype per_tensor, {APART}",
)
def channel_scales_after_normalization(group: Group, op: Op, conditions: Conditions) -> Answer:
    if op.attr("qtype") != "per_channel" or not group.follows(op, _NORMS):
        return False
    return Hit("scales per channel fused after a normalization")


@defect(
    "oneDNN applies scales along another dim to the channels, in a Quantize after a group "
    "normalization",
    Needs({"GroupNorm"}, fused=True, beside={"Quantize"}),
    Where((3, 13)),
    effect=WRONG | OUT_OF_BOUNDS,
)
def scales_after_group_norm(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find such scales; before 3.13 any are read out of bounds, as after other normalizations."""
    rank = len(group.shape(op.outputs[0]) or ())
    channels = 1 if op.attr("data_format") == "NCX" else rank - 1
    return rank > 0 and any(
        made.attr("axis") % rank != channels
        for made in group.ops
        if made.kind == "Quantize" and made.attr("qtype") == "per_channel"
    )
