"""Defects of element-wise ops, Select and PReLU, and of ops that move elements."""

import math
from itertools import pairwise

import numpy as np

from ..machine import Conditions
from ..ops.lookup import with_trait
from .calls import Op, Tensor
from .defect import OUT_OF_BOUNDS, SPLIT, WRONG, Answer, Hit, Needs, Where, defect
from .facts import aligned, one_element
from .group import Group
from .post_ops import ELEMENTWISE

__all__: list[str] = []

_SELECT = Needs({"Select"})
_PRELU = frozenset({"PReLU", "PReLUBackward"})


@defect(
    "oneDNN leaves the mask of a fused Dropout unwritten",
    Needs({"Dropout"}, fused=True),
    Where((3, 12)),
)
def mask_of_dropout(group: Group, op: Op, conditions: Conditions) -> Answer:
    return len(op.outputs) > 1


# -- Select


_FINITE = {"MatMul", "Convolution", "ConvTranspose", "SoftMax", "LayerNorm", "GroupNorm", "Sigmoid"}


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


@defect(
    "oneDNN multiplies by a condition of another shape than input 1 instead of selecting, "
    "which makes NaN of infinity",
    _SELECT,
    Where(until=(3, 8)),
)
def select_of_infinity(group: Group, op: Op, conditions: Conditions) -> Answer:
    unlike = group.shape(op.inputs[0]) != group.shape(op.inputs[1])
    return unlike and any(_may_be_infinite(group, t) for t in op.inputs[1:])


@defect(
    "oneDNN selects operands for each channel wrongly where there is no spatial extent",
    _SELECT,
    Where(until=(3, 8)),
)
def channel_operand_of_select(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find a condition for all batches, of operands for each channel.

    oneDNN makes products and sums of it, with the defect of `second_channel_operand`.
    """
    made = group.shape(op.outputs[0]) or ()
    if len(made) < 3 or min(made[:2]) < 2 or set(made[2:]) != {1}:
        return False
    read = [aligned(group.shape(t), len(made)) for t in op.inputs]
    if read[0] == made or read[1:] == [made, made]:
        return False
    return (1, *made[1:]) in read and (made[0], *(1,) * (len(made) - 1)) not in read


def _is_constant(group: Group, tensor: Tensor) -> bool:
    if maker := group.producer(tensor):
        return all(_is_constant(group, t) for t in maker.inputs)
    return group.tensor(tensor).data is not None


@defect(
    "oneDNN adds the result of Select to what it keeps of a constant condition and input",
    _SELECT,
    Where(until=(3, 8)),
)
def select_of_constants(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find a constant condition and another constant, in whose product it adds up the result.

    oneDNN keeps that product, so it is wrong from the second call on. A condition of the result's
    shape is right in f32, next to an input of that shape.
    """
    made = group.shape(op.outputs[0]) or ()
    condition, *others = (aligned(group.shape(t), len(made)) or () for t in op.inputs)
    fixed, *known = (_is_constant(group, t) for t in op.inputs)
    whole = [tuple(map(max, condition, other)) == made for other in others]
    right = op.outputs[0].dtype == "f32" and condition == made and made in others
    return fixed and any(known) and whole[0] and not right and (all(known) or known[1] == whole[1])


# -- PReLU


@defect(
    "oneDNN computes PReLU with other slopes than one a channel or element wrongly, and reads "
    "beside its buffers, after it compiled a product",
    Needs(_PRELU),
    effect=WRONG | OUT_OF_BOUNDS,
)
def slope_by_reference(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find what only oneDNN's reference kernel computes, in at most four dims.

    The kernel goes along five dims, and takes those that a tensor lacks from memory that is not
    always empty: a product that oneDNN writes in two dims leaves its third there, in a description
    that all later tensors with the same two dims share.
    """
    source, slope = (group.shape(t) for t in op.inputs[:2])
    if group.producer(op.inputs[0]) or source is None or slope is None or len(source) > 4:
        return False
    channel = 1 if op.attr("data_format") == "NCX" else len(source) - 1
    by_channel = op.attr("per_channel_broadcast") is not False
    if by_channel and slope == (source[channel],):
        return False
    along = (1,) * channel + source[channel : channel + 1] + (1,) * (len(source) - channel - 1)
    return aligned(slope, len(source)) not in (source, along)


@defect(
    "oneDNN reads the slopes of PReLU wrongly where a spatial dim lies between the batch and "
    "the channels",
    Needs(_PRELU, strided=True, rank=4),
)
def slopes_of_permuted(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find a slope a channel: oneDNN compares strides of batch, channels, first spatial dim."""
    source = group.tensor(op.inputs[0])
    if source.strides is None or source.shape is None or len(source.shape) < 4:
        return False
    if group.shape(op.inputs[1]) in (source.shape, (1,)):
        return False
    dims = list(zip(source.shape, source.strides, strict=True))
    if op.attr("data_format") == "NXC":
        dims.insert(1, dims.pop())
    strides = [s for _, s in dims]
    ordered = all(a >= b for a, b in pairwise(strides[:3]))
    return ordered and strides[1] != 1 and any(s > strides[1] for d, s in dims[3:] if d > 1)


# -- element-wise ops on many dims


@defect(
    "an element-wise op on more than five dims, beyond what its reference kernel handles",
    Needs(ELEMENTWISE, rank=6),
    effect=OUT_OF_BOUNDS,
)
def elementwise_rank(group: Group, op: Op, conditions: Conditions) -> Answer:
    if not op.inputs or (group.producer(op.inputs[0]) and not _starts_a_kernel(group, op)):
        return False
    rank = len(group.shape(op.inputs[0]) or ())
    if rank <= 5:
        return False
    if not all(group.tensor(t).is_row_major for t in (*op.inputs, *op.outputs)):
        return Hit(
            f"rank {rank} with strides that are not row-major",
            "pass row-major arrays, or use at most 5 dims",
        )
    if len(group.ops) == 1:
        return False
    return Hit(f"rank {rank} with other ops fused to it", f"{SPLIT}, or use at most 5 dims")


def _starts_a_kernel(group: Group, op: Op) -> bool:
    """Whether an element-wise op has post-ops but is none, as a further op reads what it reads."""
    readers = [o for o in group.ops if any(t.id == op.inputs[0].id for t in o.inputs)]
    after = [o for o in group.ops if any(t.id == op.outputs[0].id for t in o.inputs)]
    times = [o for o in after if o.kind == "Multiply"]
    swish = op.kind == "Sigmoid" and len(readers) == 2 and times == after == readers[1:]
    return len(readers) > 1 and not swish and bool(after)


@defect(
    "an element-wise op on more than five dims between two binary ops, the first broadcasts",
    Needs(ELEMENTWISE, fused=True, rank=6, beside=with_trait("binary")),
    Where((3, 8)),
    effect=OUT_OF_BOUNDS,
    remedy=f"{SPLIT}, or use at most 5 dims",
)
def elementwise_rank_behind_broadcast(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find an op that has a kernel of its own, as in `elementwise_rank`.

    Since 3.8 oneDNN fuses nothing to a binary op that broadcasts, but for a second operand of one
    element.
    """
    binary = with_trait("binary")
    made = group.shape(op.outputs[0]) or ()
    read = {t.id for o in group.ops if o.kind in binary for t in o.inputs}
    if len(made) <= 5 or op.outputs[0].id not in read:
        return False
    maker = group.producer(op.inputs[0])
    while maker is not None and maker.kind in ELEMENTWISE:
        maker = group.producer(maker.inputs[0])
    if maker is None or maker.kind not in binary:
        return False
    first, second = (group.shape(t) for t in maker.inputs[:2])
    if first == made and (second == made or one_element(second)):
        return False
    if maker.kind == "Add" and second == made and one_element(first):
        return False
    return Hit(f"rank {len(made)} with other ops fused to it, after an op that broadcasts")


# -- ops that move elements


@defect(
    "gaps in the input of an op whose result keeps the input's layout",
    Needs({"StaticReshape", "StaticTranspose", "MaxPoolBackward"}, strided=True),
    Where((3, 8)),
    effect=OUT_OF_BOUNDS,
)
def gaps(group: Group, op: Op, conditions: Conditions) -> Answer:
    """The bytes between the elements are copied too, and some after the last one."""
    if not op.inputs or not op.outputs:
        return False
    tensor = group.tensor(op.inputs[0])
    copies = op.kind != "MaxPoolBackward"
    if not tensor.has_gaps or (copies and group.tensor(op.outputs[0]).layout != "any"):
        return False
    remedy = "pass a contiguous array"
    return Hit(
        f"gaps between the elements of input 0, {tensor.mirror!r},",
        f"let the output be strided, or {remedy}" if copies else remedy,
    )


@defect(
    "a reshape of a strided product, which oneDNN writes as if it were row-major",
    Needs({"StaticReshape"}, fused=True, strided=True, beside={"MatMul"}),
    effect=OUT_OF_BOUNDS,
    remedy=f"let that tensor be row-major, or {SPLIT}",
)
def strides_before_reshape(group: Group, op: Op, conditions: Conditions) -> Answer:
    before = group.producer(op.inputs[0]) if op.inputs else None
    if before is None or before.kind != "MatMul" or op.inputs[0].is_row_major:
        return False
    return Hit(f"reshaping {op.inputs[0].mirror!r} in one partition with the op before it")
