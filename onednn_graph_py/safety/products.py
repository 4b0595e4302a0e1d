"""Defects of single products."""

import math
from typing import NamedTuple

from ..machine import Conditions
from ..ops.terms import shape_text
from .calls import Op
from .defect import HANG, OUT_OF_BOUNDS, SPLIT, WRONG, Answer, Hit, Needs, Where, defect
from .facts import (
    DEQUANTIZES,
    contraction,
    has_zero_point,
    integers_of,
    quantization_of,
    runs_in_amx,
    stored,
)
from .group import Group

__all__: list[str] = []

_MATMUL = frozenset({"MatMul"})
_AMX = Where(has=("amx",))


class _Shapes(NamedTuple):
    """The shapes of a product's second input and of its result; empty tuples if one is unknown."""

    weights: tuple[int, ...]
    result: tuple[int, ...]

    @property
    def batches(self) -> int:
        """The number of batches of weights."""
        return math.prod(self.weights[:-2])


def _shapes(group: Group, op: Op) -> _Shapes:
    weights, made = group.shape(op.inputs[1]), group.shape(op.outputs[0])
    return _Shapes((), ()) if weights is None or made is None else _Shapes(weights, made)


@defect("oneDNN leaves a product over no elements unwritten", Needs(_MATMUL), Where(until=(3, 13)))
def product_over_nothing(group: Group, op: Op, conditions: Conditions) -> Answer:
    if contraction(group, op) != 0:
        return False
    weights, made = _shapes(group, op)
    return bool(weights) and 0 not in made


@defect(
    "oneDNN computes attention with shared heads wrongly after it compiled a product with "
    "transpose_a and transposed weights that all batches share",
    Needs(_MATMUL),
)
def both_transposed_and_shared(group: Group, op: Op, conditions: Conditions) -> Answer:
    if not op.attr("transpose_a"):
        return False
    weights, made = _shapes(group, op)
    turned = op.attr("transpose_b") or not group.tensor(op.inputs[1]).is_row_major
    return bool(turned) and len(weights) == 2 < len(made)


@defect(
    "oneDNN reads strided weights of one row, of several batches, as if they were contiguous",
    Needs(_MATMUL, strided=True, rank=3),
    Where((3, 8), has=("avx2",), sycl=False),
    Where((3, 9), (3, 13), has=("avx2",)),
    effect=WRONG | OUT_OF_BOUNDS,
)
def strided_weights_of_one_row(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find weights (.., 1, N), read as if there were no gaps between the batches."""
    weights = group.tensor(stored(group, op.inputs[1]))
    shape = group.shape(weights)
    if shape is None or math.prod(shape[:-2]) < 2 or weights.is_row_major:
        return False
    rows, columns = shape[-2:] if not op.attr("transpose_b") else shape[:-3:-1]
    return rows == 1 < columns and Hit(alone=weights.id == op.inputs[1].id)


@defect(
    "oneDNN reads weights of a product in four dims wrongly where their batch lies within them and "
    "a first dim of 1 before it, which oneDNN may have added, does not lie outermost",
    Needs(_MATMUL, strided=True, rank=4),
    Where(until=(3, 8), has=("avx512",)),
    Where((3, 8), has=("avx2",)),
)
def batch_within_weights(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find such weights; later products of these shapes with other strides are wrong, too."""
    weights = group.tensor(stored(group, op.inputs[1]))
    shape, strides, made = group.shape(weights), weights.strides, group.shape(op.outputs[0])
    if shape is None or strides is None or made is None or len(made) != 4 or len(shape) < 3:
        return False
    first, batch = shape[:-3] or (1,), strides[-3]
    innermost, outermost = sorted(strides[-2:])
    within = shape[-3] > 1 and innermost < batch < outermost
    added = len(shape) == 3 or strides[0] <= outermost
    return first == (1,) and within and added and Hit(alone=weights.id == op.inputs[1].id)


@defect(
    "oneDNN reads several batches of weights in five dims as if there were no gaps between "
    "them where several inputs share each",
    Needs(_MATMUL, rank=5),
    Where(until=(3, 8), has=("avx512",)),  # reported from one; not measured elsewhere
)
def gaps_between_shared_weights(group: Group, op: Op, conditions: Conditions) -> Answer:
    (weights, made), strides = _shapes(group, op), group.tensor(op.inputs[1]).strides
    if len(weights) != 5 or strides is None or weights[:-2] == made[:-2]:
        return False
    steps = [s for d, s in zip(weights[:-2], strides, strict=False) if d > 1]
    return bool(steps) and steps[-1] != math.prod(weights[-2:])


@defect(
    "oneDNN with AMX sums int8 products over more than 64 elements wrongly where 64 does not "
    "divide them",
    Needs(_MATMUL, fused=True, beside=DEQUANTIZES),
    Where((3, 8), has=("amx",)),
)
def int8_product_in_chunks(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find a product whose last elements oneDNN reads from uninitialized memory.

    oneDNN is right for constant weights of two or three dims, which it packs beforehand.
    """
    integers, over, (_, made) = integers_of(group, op), contraction(group, op), _shapes(group, op)
    if integers is None or op.attr("transpose_b") or over <= 64 or not over % 64 or not made:
        return False
    large = made[-1] > 32 and (len(made) < 2 or made[-2] > 16)
    return large and (len(made) > 3 or integers[1].data is None)


@defect(
    "oneDNN computes products of one row with transpose_a wrongly where the batch shares the "
    "weights",
    Needs(_MATMUL, rank=3),
    _AMX,
    Where(has=("avx512", "f16")),
)
def one_row_transposed(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find a transposed row, which oneDNN reads as if untransposed, up to whole kernel steps."""
    shapes = _shapes(group, op)
    made, over = shapes.result, contraction(group, op)
    if len(made) < 3 or made[-2] != 1 or not op.attr("transpose_a"):
        return False
    if shapes.batches != 1 or math.prod(made[:-2]) < 2:
        return False
    old = conditions.version < (3, 8) and len(made) == 4
    if integers_of(group, op) is not None:
        met = conditions.has("amx") and over % 4 != 0 and (old or conditions.version >= (3, 8))
        return met and Hit(alone=False)
    if op.inputs[0].dtype == "f16":
        return old and conditions.has("avx512") and conditions.has("f16") and over > 1
    return old and runs_in_amx(group, op, conditions) and over % 2 != 0


@defect(
    "oneDNN with AVX-512 computes products of one row with transpose_a wrongly where several "
    "batches share weights with a zero point",
    Needs(_MATMUL, fused=True, rank=3, beside=DEQUANTIZES),
    Where(has=("avx512",)),
)
def one_row_by_shifted_weights(group: Group, op: Op, conditions: Conditions) -> Answer:
    data, weights = group.shape(op.inputs[0]), quantization_of(group, op.inputs[1])
    if not data or weights is None or not op.attr("transpose_a") or not has_zero_point(weights):
        return False
    if len(data) < 3 or (conditions.version < (3, 8) and len(data) != 4):
        return False
    shared = math.prod(data[:-2]) > 1 and _shapes(group, op).batches == 1
    return shared and data[-1] == 1 and data[-2] > 1


@defect(
    "oneDNN with AMX computes the last columns of transposed products of few rows wrongly",
    Needs(_MATMUL, rank=4),
    Where(until=(3, 13), has=("amx",)),
)
def few_rows_transposed(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find at most 32 rows of one transposed batch, and an incomplete fourth tile of 16 columns."""
    shapes = _shapes(group, op)
    made = shapes.result
    return (
        len(made) == 4
        and bool(op.attr("transpose_a"))
        and shapes.batches == 1
        and math.prod(made[:-1]) <= 32
        and 48 < made[-1] < 64
        and integers_of(group, op) is None
        and runs_in_amx(group, op, conditions)
    )


@defect(
    "a product of several batches with weights of one, whose rows lie too far apart",
    Needs(_MATMUL, rank=4),
    Where(until=(3, 13)),
    effect=OUT_OF_BOUNDS,
    remedy="leave out the dim of one element, or the ones before input 1's matrix",
)
def shared_weights(group: Group, op: Op, conditions: Conditions) -> Answer:
    weights = group.shape(op.inputs[1]) if len(op.inputs) > 1 else None
    if weights is None or set(weights[:-2]) != {1}:
        return False
    return _rows_too_far(group, op)


@defect(
    "a product of several batches with a vector, or transposed with 2-D weights, as in "
    "`shared_weights`",
    Needs(_MATMUL, rank=4),
    Where(until=(3, 13), has=("avx512",)),
    Where(until=(3, 13), has=("vnni",)),  # AVX2 with VNNI has kernels of int8
    effect=OUT_OF_BOUNDS,
    remedy="leave out the dim of one element, or transpose input 0 before if weights are 2-D",
)
def shared_matrix(group: Group, op: Op, conditions: Conditions) -> Answer:
    weights = group.shape(op.inputs[1]) if len(op.inputs) > 1 else None
    if weights is None or not (len(weights) == 1 or (len(weights) == 2 and op.attr("transpose_a"))):
        return False
    return _rows_too_far(group, op)


def _rows_too_far(group: Group, op: Op) -> Answer:
    data, weights = (group.shape(t) for t in op.inputs[:2])
    if data is None or len(data) != 4 or data[0] == 1 or data[1] != 1:
        return False
    if data[3 if op.attr("transpose_a") else 2] == 1:
        return False
    return Hit(f"input 0 of shape {shape_text(data)} with input 1 of shape {shape_text(weights)}")


@defect(
    "a bias or batch normalization of a product whose result another op reads too",
    Needs({"BatchNormInference", "BiasAdd"}, fused=True),
    effect=HANG,
    remedy=SPLIT,
)
def folded_beside_its_source(group: Group, op: Op, conditions: Conditions) -> Answer:
    """It is folded into the product again and again."""
    source = op.inputs[0]
    maker = group.producer(source)
    if maker is None or maker.kind not in ("Convolution", "ConvTranspose", "MatMul"):
        return False
    readers = sum(t.id == source.id for other in group.ops for t in other.inputs)
    what = f"the result of a {maker.kind} that {op.kind} and another op read"
    return readers > 1 and Hit(what)


@defect(
    "oneDNN adds a bias of channels behind a product to the last dim if that is as long",
    Needs({"BiasAdd"}, fused=True, rank=3, beside={"MatMul"}),
)
def bias_of_columns(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find a bias with the channels first, in front of other dims."""
    made = group.shape(op.outputs[0])
    if op.attr("data_format") != "NCX" or not group.follows(op, {"MatMul"}):
        return False
    return made is None or (len(made) > 2 and (made[1] == made[-1] or -1 in (made[1], made[-1])))
