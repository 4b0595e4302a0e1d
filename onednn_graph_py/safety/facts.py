"""Facts about a partition, which the predicates of defects use."""

from collections.abc import Iterator
from typing import NamedTuple

from ..machine import Conditions
from ..ops.lookup import with_trait
from ..ops.shapes.windows import Data, Window, data_of, window_of
from ..ops.terms import Shape
from .calls import Op, Tensor, call_of
from .group import Group

BINARY = with_trait("epilogue", "binary")  # the documents' category Binary

DEQUANTIZES = with_trait("dequantizes")

QUANTIZATION = with_trait("quantizes") | DEQUANTIZES

PRODUCTS = with_trait("product") - with_trait("gradient")  # MatMul and the convolutions

_CONVERTS = DEQUANTIZES | {"TypeCast"}

_MOVING = with_trait("moves") | {"TypeCast"}


def aligned(shape: Shape, rank: int) -> tuple[int, ...] | None:
    """Return a shape as NumPy broadcasts it: with dims of 1 in front; None if it is unknown."""
    return None if shape is None else (1,) * (rank - len(shape)) + shape


def spread(shape: Shape) -> bool:
    """Whether more than one dim may have more than one element."""
    return shape is None or sum(d != 1 for d in shape) > 1


def one_element(shape: Shape) -> bool:
    """Whether a tensor is known to have one element."""
    return shape is not None and all(d == 1 for d in shape)


def _behind(group: Group, op: Op) -> set[int]:
    """Return the ids of an op's results, and of all tensors computed from them."""
    found = {t.id for t in op.outputs}
    for other in group.ops:  # in order
        if any(t.id in found for t in other.inputs):
            found.update(t.id for t in other.outputs)
    return found


def operands(group: Group, op: Op) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield shapes of what binary ops after an op read besides, each with the result's shape.

    They are aligned with the result's.
    """
    behind = _behind(group, op)
    for binary in group.ops:
        if binary.kind not in BINARY or not any(t.id in behind for t in binary.inputs):
            continue
        result = group.shape(binary.outputs[0])
        for tensor in binary.inputs:
            shape = aligned(group.shape(tensor), len(result or ()))
            if tensor.id not in behind and shape is not None and result is not None:
                yield shape, result


def quantization_of(group: Group, tensor: Tensor) -> Op | None:
    """Return the Dequantize that made a tensor, maybe through ops that move or cast elements."""
    while True:
        op = group.producer(tensor)
        if op is None or op.kind in DEQUANTIZES:
            return op
        if op.kind not in _MOVING:
            return None
        tensor = op.inputs[0]


def stored(group: Group, tensor: Tensor) -> Tensor:
    """Return the tensor in memory that an operand is dequantized or cast from, or the operand."""
    while (op := group.producer(tensor)) is not None and op.kind in _CONVERTS:
        tensor = op.inputs[0]
    return tensor


def has_zero_point(op: Op) -> bool:
    """Whether a Dequantize has a zero point that is not 0, or may have one."""
    if op.kind == "DynamicDequantize":
        return len(op.inputs) > 2
    return any(op.attr("zps") or ())


def integers_of(group: Group, op: Op) -> tuple[Tensor, Tensor] | None:
    """Return the integer tensors that a product's operands are dequantized from, or None."""
    if len(op.inputs) < 2:
        return None
    source, weights = (quantization_of(group, t) for t in op.inputs[:2])
    if source is None or weights is None:
        return None
    return source.inputs[0], weights.inputs[0]


def runs_in_amx(group: Group, op: Op, conditions: Conditions) -> bool:
    """Whether oneDNN may run a product or convolution in an AMX kernel."""
    if not conditions.has("amx"):
        return False
    dtype = op.inputs[0].dtype
    if dtype == "bf16" or integers_of(group, op) is not None:  # whatever they are cast to
        return True
    if dtype == "f16" or (dtype == "f32" and group.fpmath == "f16"):
        return "amx_fp16" in conditions.isa
    return dtype == "f32" and group.fpmath in ("bf16", "any")


def contraction(group: Group, op: Op) -> int:
    """Return the number of products that a MatMul adds up for each element; -1 if unknown."""
    shape = group.shape(op.inputs[0])
    if not shape:
        return -1
    return shape[-2 if len(shape) > 1 and op.attr("transpose_a") else -1]


def reads_twice(group: Group, op: Op) -> bool:
    """Whether both inputs of an op are one tensor, which another op of the partition makes."""
    ids = [t.id for t in op.inputs]
    return len(ids) == 2 and ids[0] == ids[1] and group.producer(op.inputs[0]) is not None


def attention(group: Group) -> bool:
    """Whether a partition has several products and a SoftMax."""
    return group.count("MatMul") > 1 and group.has("SoftMax")


class Slide(NamedTuple):
    """The tensors, window and groups of a convolution or one of its kin; all dims are known."""

    source: Data
    result: Data
    window: Window
    groups: int

    @property
    def depthwise(self) -> bool:
        """Whether each group has one channel."""
        return self.groups == self.source.channels == self.result.channels

    def begin(self, dim: int) -> int:
        """Return the padding before the data along a spatial dim."""
        return self.window.begin(dim, self.source.spatial[dim])

    def padded(self) -> bool:
        """Whether there is any padding."""
        window = self.window
        return window.same or (
            window.auto_pad == "None" and any((*window.pads_begin, *window.pads_end))
        )


def slide_of(group: Group, op: Op) -> Slide | None:
    """Read a convolution, a ConvTransposeBackwardData or a gradient of weights.

    Return None if dims are unknown. Of a gradient of weights source and result are what it reads.
    """
    if op.schema is None or len(op.inputs) < 2:
        return None
    call = call_of(op, op.schema, {t.id: group.shape(t) for t in (*op.inputs, *op.outputs)})
    read, other, made = call.input(0), call.input(1), call.output(0)
    if op.kind == "ConvolutionBackwardWeights":
        other, made = made, other
    elif op.kind == "ConvTransposeBackwardWeights":  # oneDNN computes it as the former
        read, other, made = other, made, read
    weights, source, result = other.shape, data_of(call, read), data_of(call, made)
    if weights is None or source is None or result is None:
        return None
    if min(*weights, source.batch, source.channels, *source.spatial, *result.spatial) < 0:
        return None
    taps = weights[:-2] if str(call.attr("weights_format")).startswith("X") else weights[2:]
    return Slide(source, result, window_of(call, taps), int(call.attr("groups") or 1))
