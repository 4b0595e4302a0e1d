"""Defects of pooling and Interpolate, and of ops that oneDNN fuses to pooling."""

from ..machine import Conditions
from ..ops.lookup import with_attribute, with_trait
from ..ops.terms import shape_text
from .calls import Op
from .defect import APART, CRASH, OUT_OF_BOUNDS, SPLIT, Answer, Hit, Needs, Where, defect
from .facts import BINARY, operands, reads_twice, spread
from .group import Group

__all__: list[str] = []

_POOLING = with_attribute("kernel")
_POOLS = _POOLING - with_trait("gradient")
_BINARY = with_trait("binary")


@defect(
    "oneDNN computes pooling with a fused operand of more than one wide dim wrongly",
    Needs(BINARY, fused=True, beside=_POOLS),
)
def wide_operand_behind_pooling(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find an operand that oneDNN reads as if in the pool's layout."""
    shapes = [group.shape(t) for t in group.read(op)]
    return any(shape is not None and spread(shape) for shape in shapes)


@defect(
    "oneDNN computes pooling of channels-last tensors with an operand per channel wrongly",
    Needs(_POOLS, fused=True, beside=BINARY),
)
def channel_operand_behind_pooling(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find a fused operand that varies along the channels alone, read at wrong places.

    With one batch and one channel, oneDNN also misreads one that varies along the innermost spatial
    dim, or along the only dim of more than one element.
    """
    if op.attr("data_format") != "NXC":
        return False
    for operand, result in operands(group, op):
        if sum(d != 1 for d in operand) != 1:
            continue
        if operand[-1] != 1:
            return True
        if result[0] == result[-1] == 1 and (operand[-2] != 1 or operand == result):
            return True
    return False


@defect(
    "oneDNN rounds the result of int8 pooling before it applies ReLU and scales",
    Needs({"ReLU", "LeakyReLU"}, fused=True, beside=_POOLS),
)
def relu_behind_int8_pooling(group: Group, op: Op, conditions: Conditions) -> Answer:
    """With a binary op too the partition does not compile."""
    return group.has("Dequantize") and not group.has(*BINARY)


@defect(
    "oneDNN reads an operand along one dim wrongly in int8 pooling, but for one per channel "
    "of channels-first tensors",
    Needs(_POOLS, fused=True, beside=BINARY),
)
def operand_behind_int8_pooling(group: Group, op: Op, conditions: Conditions) -> Answer:
    if not group.has("Dequantize") or not group.has("Quantize"):
        return False
    first = op.attr("data_format") == "NCX"
    for operand, _ in operands(group, op):
        wide = [i for i, d in enumerate(operand) if d != 1]
        if len(wide) == 1 and not (first and wide == [1]):
            return True
    return False


@defect(
    "oneDNN leaves parts of the gradient of channels-last MaxPool unwritten where its source "
    "has gaps",
    Needs({"MaxPoolBackward"}, strided=True),
    Where(until=(3, 8)),
)
def gapped_source_of_pooling(group: Group, op: Op, conditions: Conditions) -> Answer:
    return op.attr("data_format") == "NXC" and group.tensor(op.inputs[0]).has_gaps


@defect(
    "an operand of a fused op that oneDNN reads as if it had the pooling's blocked layout",
    Needs(_BINARY, fused=True, beside=_POOLING),
    effect=OUT_OF_BOUNDS,
    remedy=APART,
)
def binary_after_pooling(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Operands of one element, or of one a channel, are right."""
    if not group.follows(op, _POOLING):
        return False
    for tensor in op.inputs:
        before = group.producer(tensor)
        if before and (before.kind in _POOLING or group.follows(before, _POOLING)):
            continue
        shape = group.shape(tensor)
        if spread(shape):
            return Hit(f"an operand of shape {shape_text(shape)} fused after pooling")
    return False


@defect(
    "an op after int8 pooling with one tensor as both inputs; fusion assumes two tensors",
    Needs(_BINARY, fused=True, beside=_POOLING),
    effect=OUT_OF_BOUNDS,
    remedy=SPLIT,
)
def operand_twice_behind_pooling(group: Group, op: Op, conditions: Conditions) -> Answer:
    behind = group.follows(op, _POOLING) and group.follows(op, {"Dequantize"})
    return behind and reads_twice(group, op) and Hit("one tensor as both inputs")


@defect(
    "an AvgPoolBackward without src_shape, which crashes oneDNN while it compiles",
    Needs({"AvgPoolBackward"}),
    effect=CRASH,
    remedy="set src_shape to the output's shape",
)
def pooling_backward_without_shape(group: Group, op: Op, conditions: Conditions) -> Answer:
    shape = op.attrs.get("src_shape")
    if isinstance(shape, tuple) and any(shape):  # graphs that oneDNN dumps have an empty one
        return False
    return Hit("an AvgPoolBackward without src_shape")


@defect(
    "gaps in gradients of pooling, which oneDNN clears or sums up as if there were none",
    Needs({"AvgPoolBackward", "MaxPoolBackward"}, strided=True),
    effect=OUT_OF_BOUNDS,
    remedy="pass contiguous arrays",
)
def pooling_backward_gaps(group: Group, op: Op, conditions: Conditions) -> Answer:
    if not op.inputs or not op.outputs:
        return False
    read = [t for t in op.inputs[:1] if op.kind == "MaxPoolBackward" and group.tensor(t).has_gaps]
    made = [op.outputs[0]] if read or op.attr("data_format") == "NCX" else []
    narrow = op.outputs[0].dtype != "f32"
    gapped = [t for t in map(group.tensor, (*(read if narrow else ()), *made)) if t.has_gaps]
    return bool(gapped) and Hit(f"gaps between the elements of {gapped[0].mirror!r}")


@defect(
    "an Interpolate of one column, or its gradient: the kernel steps by its stride, which means "
    "nothing",
    Needs({"Interpolate", "InterpolateBackward"}),
    effect=OUT_OF_BOUNDS,
    remedy="repeat its element instead, by an op that broadcasts",
)
def interpolation_of_one_column(group: Group, op: Op, conditions: Conditions) -> Answer:
    """A gradient is right if it has one channel, or several columns on either side."""
    backward = op.kind == "InterpolateBackward"
    shapes = [group.shape(t) or () for t in op.inputs[: 2 if backward else 1]]
    last, channels = (-2, -1) if op.attr("data_format") == "NXC" else (-1, 1)
    if not shapes or any(len(s) < 3 or s[last] != 1 for s in shapes):
        return False
    if backward and shapes[0][channels] == 1:
        return False
    return Hit(f"an innermost spatial dim of 1, in {shape_text(shapes[0])},")
