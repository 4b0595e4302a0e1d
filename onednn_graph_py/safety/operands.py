"""Defects of operands that binary ops read, after another op or among themselves."""

import math
from collections.abc import Iterator

from ..machine import Conditions
from ..ops.lookup import with_attribute, with_trait
from ..ops.terms import Shape, shape_text
from .attention import attention_by_heads
from .calls import Op, Tensor
from .defect import APART, OUT_OF_BOUNDS, SPLIT, WRONG, Answer, Hit, Needs, Where, defect
from .facts import BINARY, aligned, contraction, runs_in_amx
from .group import Group
from .post_ops import ELEMENTWISE, Primitive, primitive_of

__all__: list[str] = []

_BINARY = with_trait("binary")
_MATMUL = frozenset({"MatMul"})
_PRODUCT = Needs(_MATMUL, fused=True, beside=BINARY)

# -- after other ops


_NORMS = {"GroupNorm", "LayerNorm"}
_IGNORING = BINARY | with_trait("reduces") | with_attribute("kernel") | _NORMS | {"MatMul"}
"""Ops behind which oneDNN ignores an operand's strides before 3.13."""


@defect(
    "oneDNN ignores the strides of an operand that is broadcast; make it contiguous",
    Needs(BINARY, fused=True, strided=True),
)
def strided_operand(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find an operand that is read as if it were contiguous.

    Since 3.13 oneDNN does so behind products of four dims, where it varies along two or more.
    """
    old = conditions.version < (3, 13)
    made = group.shape(op.outputs[0])
    if made is None or (not old and len(made) != 4):
        return False
    if not group.follows(op, _IGNORING if old else _MATMUL):
        return False
    for operand in op.inputs:
        tensor = group.tensor(_before_reshapes(group, operand))
        if group.producer(tensor):
            continue
        shape = aligned(group.shape(operand), len(made))
        wide = sum(d > 1 for d in shape or ())
        if not tensor.is_in_order and (shape != made if wide > 1 else old):
            return True
    return False


def _before_reshapes(group: Group, tensor: Tensor) -> Tensor:
    while (maker := group.producer(tensor)) is not None and maker.kind == "StaticReshape":
        tensor = maker.inputs[0]
    return tensor


@defect(
    "oneDNN reads an operand that varies over a part of the batch wrongly after a product with 2-D "
    "weights",
    Needs(_MATMUL, fused=True, beside=BINARY | {"Select"}),
)
def operand_of_shared_weights(group: Group, op: Op, conditions: Conditions) -> Answer:
    """The batch is flattened, but not the operand; with transpose_a neither is."""
    primitive = primitive_of(group, op, conditions)
    if primitive is None or op.attr("transpose_a") or len(group.shape(op.inputs[1]) or ()) != 2:
        return False
    made = primitive.shape
    wide = [i for i, d in enumerate(made[:-1]) if d > 1]
    shapes = [o.shape for o in primitive.operands]
    for other in group.ops if conditions.version < (3, 8) else ():
        if other.kind == "Select" and group.follows(other, _MATMUL):
            shapes += [aligned(group.shape(t), len(made)) or made for t in group.read(other)]
    return len(made) in (3, 4) and any(
        0 < sum(shape[i] > 1 for i in wide) < len(wide) for shape in shapes
    )


@defect(
    "oneDNN reads an operand that is broadcast, of another layout than row-major, wrongly "
    "behind a product",
    Needs({"MatMul", "Select"}, fused=True, strided=True),
)
def strided_operand_of_product(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find an operand that is not row-major, and is read as if it were.

    Since 3.13 gaps alone are right, and other orders of dims with gaps. The kernel that computes
    one head after another misreads rows and columns, before 3.8.
    """
    old = conditions.version < (3, 8)
    primitive = primitive_of(group, op, conditions)
    if primitive is None:
        return False
    read = [o.tensor for o in primitive.operands if op.kind == "MatMul"]
    if op.kind == "Select" and old and group.follows(op, _MATMUL):
        read.append(op.inputs[0])
    for tensor in read:
        shape, strides = group.shape(tensor), group.tensor(tensor).strides
        if not shape or not strides or shape == primitive.shape:
            continue
        if not attention_by_heads(group, conditions):
            misread = _is_misread(shape, strides, conditions)
        else:  # a head's part has one row or column, whose elements don't lie side by side
            steps = [s for d, s in zip(shape[-2:], strides[-2:], strict=True) if d > 1]
            misread = old and len(steps) == 1 and steps[0] != 1
        if misread:
            return True
    return False


def _is_misread(shape: tuple[int, ...], strides: tuple[int, ...], conditions: Conditions) -> bool:
    wide = [(s, d) for s, d in zip(strides, shape, strict=True) if d > 1]
    dense = [math.prod(d for s, d in wide if s < stride) for stride, _ in wide]
    has_gaps = [s for s, _ in wide] != dense
    permuted = wide != sorted(wide, reverse=True)
    return permuted and not has_gaps if conditions.version >= (3, 13) else permuted or has_gaps


@defect(
    "oneDNN reads an operand wrongly after a product with a vector",
    Needs(_MATMUL, fused=True),
    Where(until=(3, 13)),
)
def operand_behind_vector(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find an operand behind a product with 1-D weights, or one that varies along more than them.

    oneDNN computes with a matrix of one column or row, and does not reshape the operand.
    """
    sizes = [len(group.shape(t) or (1, 1)) for t in op.inputs[:2]]
    if 1 not in sizes:
        return False
    read = (t for o in group.ops if group.follows(o, _MATMUL) for t in group.read(o))
    shapes = (group.shape(t) or () for t in read)
    return any(math.prod(s if sizes[1] == 1 else s[:-1]) != 1 for s in shapes)


@defect(
    "oneDNN reads an operand that is broadcast wrongly after a product of one column with "
    "transpose_a",
    _PRODUCT,
    Where((3, 8), has=("avx2",)),
    effect=WRONG | OUT_OF_BOUNDS,
)
def operand_of_one_column(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find an operand that varies over batch or rows; a vector is a matrix of one column, too."""
    primitive = primitive_of(group, op, conditions)
    if primitive is None or not op.attr("transpose_a") or contraction(group, op) <= 1:
        return False
    column = (1,) if len(group.shape(op.inputs[1]) or ()) == 1 else ()
    made = (*primitive.shape, *column)
    if len(made) != 3 or not made[2] == 1 < min(made[:2]):
        return False
    wrong = (1, made[1], 1), (made[0], 1, 1)
    return any((*o.shape, *column) in wrong for o in primitive.operands)


def _heads(group: Group, op: Op, conditions: Conditions) -> Primitive | None:
    """Return a product of four dims with all that is fused to it, if an AMX kernel may run it."""
    primitive = primitive_of(group, op, conditions)
    if primitive is None or len(primitive.shape) != 4 or not runs_in_amx(group, op, conditions):
        return None
    return primitive


@defect(
    "oneDNN with AMX reads an operand for all batches and heads, such as an attention mask, "
    "wrongly",
    _PRODUCT,
    Where((3, 8), has=("amx",)),
    effect=WRONG | OUT_OF_BOUNDS,
)
def operand_for_all_heads(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find an operand (1, 1, M, N) behind a product of several batches and heads."""
    product = _heads(group, op, conditions)
    if product is None or min(product.shape) <= 1:
        return False
    if (1, 1, *product.shape[2:]) not in [o.shape for o in product.operands]:
        return False
    return not attention_by_heads(group, conditions)


@defect(
    "oneDNN with AMX reads an operand for each head and row wrongly after a product",
    _PRODUCT,
    Where(until=(3, 8), has=("amx",)),
)
def operand_for_each_row(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find an operand (1, H, M, 1) behind a product, of one batch or more."""
    product = _heads(group, op, conditions)
    if product is None or min(product.shape[2:]) <= 1:
        return False
    return (1, *product.shape[1:3], 1) in [o.shape for o in product.operands]


@defect(
    "oneDNN reads a second operand for each channel wrongly where there is no spatial extent",
    Needs(BINARY | {"SoftMax"}, fused=True, beside=BINARY),
)
def second_channel_operand(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find one after a binary op, or after a SoftMax along the channels.

    With an operand that varies over the batch oneDNN takes another kernel, which is right.
    """
    primitive = primitive_of(group, op, conditions)
    if primitive is None or len(made := primitive.shape) < 3:
        return False
    if op.kind == "SoftMax" and op.attr("axis") % len(made) != 1:
        return False
    if min(made[:2]) < 2 or set(made[2:]) != {1}:
        return False
    read = [operand.shape for operand in primitive.operands]
    return (1, *made[1:]) in read and (made[0], *(1,) * (len(made) - 1)) not in read


@defect(
    "oneDNN reads an operand that is broadcast wrongly after a binary op",
    Needs(BINARY, fused=True, rank=3, beside=BINARY),
    Where((3, 8), (3, 9)),
)
def broadcast_operand_of_binary(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find any operand of another shape; about half of those along the last dim are wrong."""
    primitive = primitive_of(group, op, conditions)
    if primitive is None or len(primitive.shape) < 3:
        return False
    return any(operand.shape != primitive.shape for operand in primitive.operands)


# -- among binary ops that read tensors in another order of dims


def _behind_permuted(
    group: Group, op: Op, conditions: Conditions
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    """Yield operands fused after a binary op that reads a tensor without gaps, in any dim order.

    Each comes with the result's shape and that tensor's strides, which the result gets too.
    """
    primitive = primitive_of(group, op, conditions)
    if primitive is None or not primitive.operands or 0 in primitive.shape:
        return
    shape = primitive.shape
    for tensor in (t for read in op.inputs for t in _sources(group, read)):
        if group.shape(tensor) != shape or tensor.has_gaps:
            continue
        strides = tensor.strides
        if group.producer(tensor) is not None and _may_be_channels_last(group, tensor):
            strides = _channels_last(shape)
        if strides is not None:
            yield from ((operand.shape, shape, strides) for operand in primitive.operands)


def _channels_last(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a result of a convolution whose channels oneDNN puts last."""
    order = [0, *range(2, len(shape)), 1]
    inside = {axis: math.prod(shape[a] for a in order[i + 1 :]) for i, axis in enumerate(order)}
    return tuple(inside[axis] for axis in range(len(shape)))


def _sources(group: Group, tensor: Tensor) -> Iterator[Tensor]:
    """Yield the tensors that binary and element-wise ops make one from."""
    maker = group.producer(tensor)
    if maker is None or maker.kind not in BINARY | ELEMENTWISE:
        yield group.tensor(tensor)
        return
    for before in maker.inputs:
        yield from _sources(group, before)


@defect(
    "oneDNN reads an operand that varies along the last dim alone wrongly after a binary op "
    "on tensors that are not row-major",
    Needs(BINARY, fused=True, rank=3),
    Where((3, 11)),
)
def last_dim_operand_of_strided(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Behind two layouts oneDNN reads it out of bounds, which the mirror refuses."""
    for operand, made, strides in _behind_permuted(group, op, conditions):
        wide = [s for d, s in zip(made, strides, strict=True) if d > 1]
        varies = operand[-1] > 1 and math.prod(operand[:-1]) == 1
        if len(made) > 2 and varies and operand != made and wide != sorted(wide, reverse=True):
            return True
    return False


@defect(
    "oneDNN reads an operand for each channel wrongly after a binary op on tensors whose "
    "channels are neither innermost nor next to the batch",
    Needs(BINARY, fused=True, strided=True),
)
def channel_operand_of_strided(group: Group, op: Op, conditions: Conditions) -> Answer:
    for operand, made, strides in _behind_permuted(group, op, conditions):
        if len(made) < 2 or operand == made or operand[1] in (1, math.prod(made)):
            continue
        if math.prod(operand) != operand[1] or strides[1] == 1:
            continue
        batch_inside = made[0] > 1 and strides[0] < strides[1]
        spatial = zip(made[2:], strides[2:], strict=True)
        if batch_inside or any(d > 1 and s > strides[1] for d, s in spatial):
            return True
    return False


# -- out of bounds


@defect(
    "a fused op with a wider result than its input: oneDNN lets it write into the input",
    Needs(_BINARY, fused=True),
    effect=OUT_OF_BOUNDS,
    remedy=APART,
)
def widening(group: Group, op: Op, conditions: Conditions) -> Answer:
    if len(op.inputs) != 2 or not op.outputs:
        return False
    for fused, other in (op.inputs, op.inputs[::-1]):
        if not group.producer(fused) or group.producer(other):
            continue
        before, after = group.shape(fused), group.shape(op.outputs[0])
        if before is None or after is None or math.prod(before) == math.prod(after):
            continue
        return Hit(f"widening the {shape_text(before)} of the op before it to {shape_text(after)}")
    return False


@defect(
    "a tensor of one element in which no dim has the stride 1 that oneDNN looks for",
    Needs(_BINARY, strided=True),
    effect=OUT_OF_BOUNDS,
    remedy="make the logical tensor with strides of 1",
)
def one_element_strides(group: Group, op: Op, conditions: Conditions) -> Answer:
    for tensor in map(group.tensor, (*op.inputs, *op.outputs)):
        if tensor.strides is None or set(tensor.shape or ()) != {1} or 1 in tensor.strides:
            continue
        return Hit(f"one element with strides other than 1, {tensor.mirror!r},")
    return False


@defect(
    "an op fused after a binary op that reads operands in two layouts, one channels-last",
    Needs(_BINARY, fused=True, rank=3),
    Where((3, 8)),
    effect=OUT_OF_BOUNDS,
    remedy=f"pass contiguous arrays, or {SPLIT}",
)
def last_dim_behind_two_layouts(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find an operand that varies along the last dim alone.

    The kernel then reads a table of offsets that it never made. It was seen to do so with such
    operands.
    """
    shape = group.shape(op.outputs[0]) if op.outputs else None
    if shape is None or len(shape) < 3:
        return False
    shapes = [group.shape(t) for t in group.read(op)]
    along = [s for s in shapes if _varies_along_last_alone(s, shape)]
    before = next((o for o in _chain(group, op) if _reads_two_layouts(group, o)), None)
    if not along or before is None:
        return False
    return Hit(
        f"an operand of shape {shape_text(along[0])} fused after {before.label}, which reads two "
        "layouts,"
    )


def _varies_along_last_alone(shape: Shape, of: Shape) -> bool:
    """Whether an operand varies along the last dim alone, and is broadcast; true if unknown."""
    if shape is None or of is None:
        return True
    others = set(of[:-1]) - {1}
    return bool(shape and others) and shape[-1] != 1 and set(shape[:-1]) <= {1}


def _chain(group: Group, op: Op) -> list[Op]:
    """Return the element-wise and binary ops that lead to an op without others, nearest first."""
    found: list[Op] = []
    left = [op]
    while left:
        for tensor in left.pop().inputs:
            before = group.producer(tensor)
            if before and before not in found and before.kind in _BINARY | ELEMENTWISE:
                found.append(before)
                left.append(before)
    return found


_FORWARD_CONVOLUTIONS = frozenset({"Convolution", "ConvTranspose"})


def _reads_two_layouts(group: Group, op: Op) -> bool:
    """Whether a binary op that starts a kernel may read operands of equal dims in two layouts."""
    if op.kind not in _BINARY or len(op.inputs) != 2:
        return False
    a, b = (group.shape(t) for t in op.inputs)
    if a is None or b is None or a[1:] != b[1:]:
        return a is None or b is None
    if not any(_may_be_channels_last(group, t) for t in op.inputs):
        return False
    if group.follows(op, _FORWARD_CONVOLUTIONS):
        # A convolution takes the ops after it into its own kernel, up to the first that it can't.
        return any(_is_apart(group, o) for o in _chain(group, op))
    if len(group.read(op)) == 2:
        return group.tensor(op.inputs[0]).strides != group.tensor(op.inputs[1]).strides
    return True


def _may_be_channels_last(group: Group, tensor: Tensor) -> bool:
    maker = group.producer(tensor)
    if maker is None:
        known = group.tensor(tensor)
        return known.strides is not None and not known.is_row_major and known.strides[1] == 1
    if maker.kind in _FORWARD_CONVOLUTIONS:
        return bool(maker.attr("data_format") == "NCX")
    if maker.kind not in _BINARY | ELEMENTWISE:
        return False
    return any(
        _may_be_channels_last(group, t)
        for t in maker.inputs
        if group.shape(t) == group.shape(tensor)
    )


def _is_apart(group: Group, op: Op) -> bool:
    """Whether the kernel of a convolution can't take a binary op after it.

    It takes operands of its result's shape, of one element, and those that vary along the channels
    alone.
    """
    if op.kind not in _BINARY or not group.follows(op, _FORWARD_CONVOLUTIONS):
        return False
    made = group.shape(op.outputs[0])
    for shape in map(group.shape, group.read(op)):
        if shape is None or made is None:
            return True
        whole = (1,) * (len(made) - len(shape)) + shape
        if whole != made and math.prod(whole) != whole[1]:
            return True
    return False
