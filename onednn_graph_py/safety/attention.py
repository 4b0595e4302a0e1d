"""Defects of attention: two products, and a SoftMax of the first one's result."""

import math
from itertools import pairwise

from ..machine import Conditions
from ..ops.lookup import with_trait
from ..ops.terms import shape_text
from .calls import Op, Tensor
from .defect import (
    CRASH,
    OUT_OF_BOUNDS,
    SPLIT,
    WRONG,
    Answer,
    Hit,
    Needs,
    Where,
    defect,
    unmeasured,
)
from .facts import BINARY, attention, reads_twice
from .group import Group

__all__ = ["attention_by_heads"]

_SOFTMAX, _MATMUL, _SELECT = (frozenset({kind}) for kind in ("SoftMax", "MatMul", "Select"))
_ONCE = Needs(_SOFTMAX, fused=True, beside=_MATMUL)
"""For what is about the partition as a whole: asked about its SoftMax."""
_BINARY = Needs(with_trait("binary"), fused=True, beside=_SOFTMAX)
_SELECTS = Needs(_SELECT, fused=True, beside=_SOFTMAX)
_CONTIGUOUS = "pass a contiguous array"

# -- the kernel that computes one head after another


def attention_by_heads(group: Group, conditions: Conditions) -> bool:
    """Whether attention runs in the kernel that computes one head after another.

    oneDNN has that kernel since 3.7, without SYCL, for more than two heads a thread, a scale of one
    element and equal batches, and not for training.
    """
    given = _query_key_value(group)
    if given is None or conditions.runtime == "SYCL":
        return False
    if group.has("Dropout") or any(op.kind == "SoftMax" and op.outputs[1:] for op in group.ops):
        return False
    for op in group.ops:
        if op.kind in ("Multiply", "Divide"):
            sizes = [math.prod(s) for t in op.inputs if (s := group.shape(t)) is not None]
            if 1 not in sizes:
                return False
    query, key, value = given
    ranks = (4, 5) if conditions.version >= (3, 9) else (4,)
    return (
        {len(s) for s in given} <= set(ranks)
        and query[0] == key[0] == value[0]
        and (key[1] == value[1] or conditions.version < (3, 9))
        and math.prod(query[:-2]) > 2 * conditions.threads
    )


def _products(group: Group) -> list[Op]:
    """Return the products of attention, that of the scores first."""
    products = [op for op in group.ops if op.kind == "MatMul"]
    return sorted(products, key=lambda op: group.follows(op, _SOFTMAX))


def _query_key_value(group: Group) -> tuple[tuple[int, ...], ...] | None:
    """Return the shapes of what attention reads, before it is reshaped; None if unknown."""
    products = _products(group)
    if not attention(group) or len(products) != 2:
        return None
    scores, result = products
    if scores.inputs[1].dtype != result.inputs[1].dtype:
        return None
    read = (*scores.inputs[:2], result.inputs[1])
    shapes = tuple(s for t in read if (s := group.shape(_source(group, t))) is not None)
    return shapes if len(shapes) == 3 and min(map(len, shapes)) > 3 else None


def _source(group: Group, tensor: Tensor) -> Tensor:
    """Return the tensor outside of the partition that one is made from, by first inputs."""
    while (maker := group.producer(tensor)) is not None:
        tensor = maker.inputs[0]
    return tensor


# -- masks


@defect(
    "oneDNN reads an attention mask of another rank wrongly",
    Needs(BINARY, fused=True, beside=_SOFTMAX),
    Where(until=(3, 8)),
    Where(sycl=False),
    Where((3, 10), (3, 11)),
    Where((3, 12), (3, 13)),
    *unmeasured((3, 8), (3, 13)),
)
def attention_mask_of_other_rank(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find 3-D operands for scores of four dims, 2-D ones that are reshaped for scores of five."""
    if not attention(group):
        return False
    scores = len(group.shape(op.outputs[0]) or ())
    for tensor in op.inputs:
        source = group.producer(tensor)
        if source is not None and source.kind == "StaticReshape":
            if len(group.shape(source.inputs[0]) or ()) == 2 and scores == 5:
                return True
        elif source is None and len(group.shape(tensor) or ()) == 3 and scores == 4:
            return True
    return False


@defect(
    "oneDNN reads the condition or the masking input of attention's Select wrongly if it has "
    "fewer dims than the scores",
    _SELECTS,
    Where((3, 8), sycl=False),
)
def attention_select_of_other_rank(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find a Select after a product, in the kernel for single heads.

    If the scores are input 1, oneDNN reads the same part of that input for all heads; if they are
    input 2, only its first element.
    """
    if not attention(group) or not group.follows(op, {"MatMul"}):
        return False
    scores = group.shape(op.outputs[0])
    if scores is None or math.prod(scores[:-2]) <= 2 * conditions.threads:
        return False
    skipped = -2 if group.producer(op.inputs[1]) is not None else len(scores)
    shapes = [s for t in group.read(op) if (s := group.shape(t)) is not None]
    return any(len(s) != len(scores) and math.prod(s[:skipped]) > 1 for s in shapes)


@defect(
    "oneDNN reads the condition or the masking input of attention's Select wrongly if its "
    "matrices are not row-major",
    _SELECTS,
    Where((3, 9)),
)
def attention_select_of_strided(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find a Select of scores or something else, in the kernel for single heads."""
    if group.producer(op.inputs[1]) is None or not attention_by_heads(group, conditions):
        return False
    read = {t.id for t in group.read(op)}
    others = (op.inputs[0], op.inputs[2])
    return any(t.id in read and not _has_dense_matrices(group, t) for t in others)


@defect(
    "oneDNN reads a condition of scores that nothing scales as if its matrices were row-major",
    _SELECTS,
    Where(until=(3, 8)),
)
def attention_condition_of_strided(group: Group, op: Op, conditions: Conditions) -> Answer:
    maker = group.producer(op.inputs[-1])
    if maker is None or maker.kind != "MatMul" or not attention(group):
        return False
    return not _has_dense_matrices(group, op.inputs[0])


def _has_dense_matrices(group: Group, tensor: Tensor) -> bool:
    shape, strides = group.shape(tensor), group.tensor(tensor).strides
    if not shape or strides is None:
        return True
    sides = zip(shape[-2:], strides[-2:], (shape[-1], 1)[-len(shape) :], strict=True)
    return all(d == 1 or stride == dense for d, stride, dense in sides)


@defect(
    "attention with a Select whose condition or masking input lacks the shape of the scores",
    _SELECTS,
    Where(until=(3, 13)),
    effect=OUT_OF_BOUNDS,
    remedy="negate the condition, so that the scores are input 1, or give inputs 0 and 1 the shape "
    "of the scores",
)
def attention_select(group: Group, op: Op, conditions: Conditions) -> Answer:
    """A kernel assumes that both have it.

    With a mask of keys, which heads share, another kernel runs, unless a mask is added to the
    scores, too.
    """
    if len(op.inputs) != 3 or not group.follows(op, {"MatMul"}):
        return False
    masked, maker = op.inputs[1], group.producer(op.inputs[2])
    if group.producer(masked) or maker is None or maker.kind == "GreaterEqual":
        return False
    scores = group.shape(op.inputs[2])
    condition, other = (group.shape(t) for t in op.inputs[:2])
    if scores and condition and other is not None and not group.has("Dequantize"):
        heads_share = len(condition) == len(scores) == 4 and (1, 1, 1, *other)[-3] == 1
        if heads_share and condition[:2] == (scores[0], 1) and maker.kind != "Add":
            return False
    for i in (0, 1):
        if scores is None or group.shape(op.inputs[i]) != scores:
            return Hit(
                f"attention that selects input 1 in place of scores, with input {i} of another "
                "shape than the scores,"
            )
    return False


@defect(
    "attention with a Select of something else in place of scores to which a mask was added",
    _SELECTS,
    Where(until=(3, 8)),
    effect=CRASH,
    remedy="negate the condition, so that the scores are input 1",
)
def attention_select_behind_mask(group: Group, op: Op, conditions: Conditions) -> Answer:
    maker = group.producer(op.inputs[-1])
    if maker is None or maker.kind != "Add" or not attention(group):
        return False
    return Hit("attention that adds a mask to its scores, and then selects others in their place,")


def _selects_scaled_scores(group: Group, op: Op) -> bool:
    """Whether attention selects between its scaled scores and something else.

    With a Select directly after the product, oneDNN does not take the kernel that computes one
    head after another.
    """
    if len(op.inputs) != 3 or not group.has("SoftMax") or not group.follows(op, {"MatMul"}):
        return False
    makers = [m for t in op.inputs[1:] if (m := group.producer(t)) is not None]
    return any(m.kind != "MatMul" and group.follows(m, {"MatMul"}) for m in makers)


@defect(
    "attention with a condition that oneDNN reads as if it had one element for each score",
    _SELECTS,
    Where((3, 8), sycl=False),
    effect=OUT_OF_BOUNDS,
    remedy="give the condition the last two dims of the scores",
)
def attention_condition(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find such a condition for any number of heads, as the number of threads is not known here.

    The kernel that computes one head after another, for more than two heads a thread, reads it so.
    """
    if not _selects_scaled_scores(group, op) or group.producer(op.inputs[0]):
        return False
    condition, scores = group.shape(op.inputs[0]), group.shape(op.inputs[1])
    if group.producer(op.inputs[1]) is None or scores is None:
        return False
    if condition is not None and (1, 1, *condition)[-2:] == scores[-2:]:
        return False
    return Hit(
        f"attention with the condition {shape_text(condition)} for scores {shape_text(scores)}"
    )


@defect(
    "attention with a Select after an Add of a mask, which a kernel overlooks",
    _SELECTS,
    Where((3, 8), sycl=False),
    effect=OUT_OF_BOUNDS,
    remedy=f"use one mask for both, or {SPLIT}",
)
def attention_mask_and_select(group: Group, op: Op, conditions: Conditions) -> Answer:
    makers = [group.producer(t) for t in op.inputs[1:]]
    if not _selects_scaled_scores(group, op) or not any(m and m.kind == "Add" for m in makers):
        return False
    return Hit("attention that adds a mask to its scores and then selects")


@defect(
    "attention of queries that a reshape groups: the kernel looks for ops that are gone",
    Needs(_SELECT, fused=True, rank=5, beside={"StaticReshape"}),
    Where((3, 8), sycl=False),
    effect=OUT_OF_BOUNDS,
    remedy=f"add a mask to the scores instead, or {SPLIT}",
)
def grouped_attention_select(group: Group, op: Op, conditions: Conditions) -> Answer:
    scores = group.shape(op.outputs[0])
    if not _selects_scaled_scores(group, op) or (scores is not None and len(scores) != 5):
        return False
    return Hit("attention of grouped queries that selects between its scores and something else")


@defect(
    "attention whose scores are a binary op's second input; the kernel assumes the first",
    _BINARY,
    Where((3, 8)),
    effect=OUT_OF_BOUNDS,
    remedy="make them the first input",
)
def attention_order(group: Group, op: Op, conditions: Conditions) -> Answer:
    if len(op.inputs) != 2 or group.producer(op.inputs[0]) or not group.follows(op, {"MatMul"}):
        return False
    return Hit("attention whose scores are the second input of this op")


@defect(
    "an op in attention with one tensor as both inputs; fusion assumes two tensors",
    _BINARY,
    Where(until=(3, 13)),
    effect=OUT_OF_BOUNDS,
    remedy=SPLIT,
)
def operand_twice_in_attention(group: Group, op: Op, conditions: Conditions) -> Answer:
    return group.has("MatMul") and reads_twice(group, op) and Hit("one tensor as both inputs")


# -- training


@defect(
    "oneDNN adds the former content of its memory to a gradient of attention's scores",
    Needs({"Multiply"}, fused=True, beside={"Exp"}),
    Where((3, 12)),
    *unmeasured((3, 11), (3, 12)),
)
def gradient_of_attention_scores(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find the gradients of attention, if ops outside read a gradient of the scores too.

    oneDNN adds to the values that it finds in that output's memory, if it caches constants: from
    the second call on.
    """
    if op.outputs[0].id not in group.leaving:
        return False
    makers = [group.producer(t) for t in op.inputs]
    return {m.kind for m in makers if m is not None} == {"Exp", "Subtract"}


# -- shapes and strides of queries, keys and values


@defect(
    "oneDNN computes attention on strided inputs wrongly where batch equals sequence, or a batch "
    "is as many heads long as all batches have",
    Needs(_MATMUL, fused=True, strided=True, beside=_SOFTMAX),
    Where(until=(3, 13), has=("avx512",)),
    Where((3, 11), (3, 13), has=("avx2",)),
)
def attention_on_strided_inputs(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find strided inputs; with more heads than threads oneDNN is right again.

    Such are keys out of an array of keys and values by their second dim, in as many batches. Where
    queries are grouped, those of a group stand for batches of keys and values.
    """
    return _as_long_as_batches(group, op)


def _as_long_as_batches(group: Group, op: Op) -> bool:
    scores = group.shape(op.outputs[0]) or ()
    each = scores[2] if len(scores) == 5 else 1
    for tensor, queries in zip(op.inputs, (1, each), strict=True):
        tensor = group.tensor(_source(group, tensor))
        dims, strides = group.shape(tensor) or (), tensor.strides or ()
        if len(dims) < 3 or tensor.is_row_major:
            continue
        if 1 < dims[-2] in (dims[0], dims[0] * queries):
            return True
        heads = strides[0] // max(strides[1], 1)
        if len(dims) == 4 and min(dims[:2]) > 1 and heads == dims[0] * dims[1]:
            return True
    return False


@defect(
    "oneDNN computes attention in five dims as if batches of strided inputs lay without gaps",
    Needs(_MATMUL, fused=True, strided=True, rank=5, beside=_SOFTMAX),
    Where(until=(3, 11), has=("avx2",)),
)
def scattered_batches_of_attention(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find inputs whose first three dims are not one dim in memory, and strided ones in groups.

    These are wrong as in `attention_on_strided_inputs`, also with AVX2.
    """
    if len(group.shape(op.outputs[0]) or ()) == 5 and _as_long_as_batches(group, op):
        return True
    for tensor in map(group.tensor, op.inputs[:2]):
        dims = group.shape(tensor) or ()
        if tensor.strides is None or len(dims) != 5:
            continue
        batch = [(d, s) for d, s in zip(dims[:3], tensor.strides, strict=False) if d > 1]
        if any(stride != d * step for (_, stride), (d, step) in pairwise(batch)):
            return True
    return False


@defect(
    "oneDNN reads keys wrongly where reshapes group queries, after it read such keys with another "
    "stride between heads",
    Needs({"StaticReshape"}, fused=True, strided=True, rank=5, beside=_SOFTMAX),
)
def strided_keys_of_grouped_queries(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find all keys but those without gaps, which have one stride between heads for their dims.

    Each kernel is right, but the next one of these dims, strided or not, may get its primitive.
    """
    source, shape = group.tensor(op.inputs[0]), group.shape(op.inputs[0]) or ()
    if not attention(group) or source.is_in_order or len(shape) != 4 or source.strides is None:
        return False
    if shape[-1] == 1:
        return True
    scores = [o for o in group.ops if o.kind == "MatMul" and not group.follows(o, _SOFTMAX)]
    keys = any(o.inputs[1].id == op.outputs[0].id for o in scores)
    return keys and shape[0] == 1 < shape[1] and source.strides[1] != shape[-1]


@defect("attention by heads that turns the shares", _ONCE, effect=CRASH, remedy=SPLIT)
def attention_of_turned_shares(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find a second product with transpose_a, for which oneDNN divides by zero."""
    products = [o for o in group.ops if o.kind == "MatMul" and group.follows(o, _SOFTMAX)]
    turned = attention(group) and any(o.attr("transpose_a") for o in products)
    return turned and Hit("attention whose second product transposes its first input")


@defect("oneDNN computes the SoftMax of attention along the keys, whatever its axis is", _ONCE)
def attention_along_other_dims(group: Group, op: Op, conditions: Conditions) -> Answer:
    last = op.attr("axis") in (-1, len(group.shape(op.inputs[0]) or ()) - 1)
    return not last and attention_by_heads(group, conditions)


@defect(
    "oneDNN reads transposed queries of attention as if they were not transposed",
    _ONCE,
    Where(until=(3, 13)),
    effect=WRONG | OUT_OF_BOUNDS,
)
def attention_of_transposed_queries(group: Group, op: Op, conditions: Conditions) -> Answer:
    return attention_by_heads(group, conditions) and bool(_products(group)[0].attr("transpose_a"))


@defect(
    "oneDNN reads transposed values of attention as if they were not transposed",
    _ONCE,
    effect=WRONG | OUT_OF_BOUNDS,
)
def attention_of_transposed_values(group: Group, op: Op, conditions: Conditions) -> Answer:
    return attention_by_heads(group, conditions) and bool(_products(group)[1].attr("transpose_b"))


@defect(
    "oneDNN leaves elements of attention unwritten if values are wider than keys",
    _ONCE,
    Where(until=(3, 10)),
)
def attention_of_wider_values(group: Group, op: Op, conditions: Conditions) -> Answer:
    given = _query_key_value(group)
    wider = given is not None and given[2][-1] > given[0][-1]
    return wider and attention_by_heads(group, conditions)


@defect(
    "oneDNN computes attention as if values were as wide as keys",
    _ONCE,
    Where(until=(3, 8)),
    effect=WRONG | OUT_OF_BOUNDS,
)
def attention_of_narrower_values(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find values with fewer elements for a key than the keys have.

    oneDNN takes the keys' number for both. It finds strides that don't fit that, unless there is
    one query and one key, and leaves OpenMP with one thread then.
    """
    given = _query_key_value(group)
    narrower = given is not None and given[2][-1] < given[0][-1]
    return narrower and attention_by_heads(group, conditions)


@defect(
    "oneDNN reads an attention mask of fewer dims than five wrongly",
    Needs(BINARY, fused=True, rank=5, beside=_SOFTMAX),
    Where((3, 9)),
)
def attention_mask_of_fewer_dims(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find a mask of three or four dims for scores of five, in the kernel for single heads.

    That takes the first dims of four for batch and head, and no dims of three.
    """
    if len(group.shape(op.outputs[0]) or ()) != 5 or not attention_by_heads(group, conditions):
        return False
    masks = [group.shape(t) or () for t in group.read(op)]
    return any(len(mask) < 5 and math.prod(mask[:-2]) > 1 for mask in masks)


@defect(
    "oneDNN computes attention in five dims as if all queries of a group shared a key head",
    _ONCE,
    Where((3, 9)),
    effect=WRONG | OUT_OF_BOUNDS,
)
def attention_of_several_key_heads(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find attention by heads; oneDNN knows the second dim of keys and values only."""
    given = _query_key_value(group)
    if given is None or max(map(len, given)) < 5 or not attention_by_heads(group, conditions):
        return False
    query, key, value = given
    return query[1] != key[1] or (key[2], value[2]) != (1, 1)


@defect(
    "attention with unequal batches: the decomposed kernel takes the first one for all",
    Needs(_MATMUL, fused=True, rank=4, beside=_SOFTMAX),
    effect=OUT_OF_BOUNDS,
    remedy="use equal batches, five dims for grouped queries, or policy debug",
)
def attention_batches(group: Group, op: Op, conditions: Conditions) -> Answer:
    if len(op.inputs) < 2 or group.count("MatMul") < 2:
        return False
    a, b = ((group.shape(t) or ())[:-2] for t in op.inputs[:2])
    if len(a) != 2 or len(b) != 2 or a == b:
        return False
    return Hit(f"attention with the batches {shape_text(a)} and {shape_text(b)}")


@defect(
    "attention with one head whose stride is larger than that of the batch",
    Needs(_MATMUL, fused=True, strided=True, beside=_SOFTMAX),
    effect=OUT_OF_BOUNDS,
    remedy=_CONTIGUOUS,
)
def attention_strides(group: Group, op: Op, conditions: Conditions) -> Answer:
    return _unit_head(group, op, 4)


@defect(
    "attention in five dims with one head whose stride is larger than that of the batch",
    Needs(_MATMUL, fused=True, strided=True, rank=5, beside=_SOFTMAX),
    Where(until=(3, 13)),
    effect=OUT_OF_BOUNDS,
    remedy=_CONTIGUOUS,
)
def attention_strides_of_five_dims(group: Group, op: Op, conditions: Conditions) -> Answer:
    return _unit_head(group, op, 5)


def _unit_head(group: Group, op: Op, rank: int) -> Answer:
    for tensor in map(group.tensor, op.inputs):
        if tensor.strides is None or tensor.shape is None or len(tensor.shape) != rank:
            continue
        batch = list(zip(tensor.shape, tensor.strides, strict=True))[:-2]
        if any(
            d == 1 and any(before != 1 and stride > s for before, s in batch[:i])
            for i, (d, stride) in enumerate(batch)
        ):
            return Hit(f"attention over {tensor.mirror!r}")
    return False


# -- integers


def _maker(group: Group, tensor: Tensor, *skipped: str) -> Op | None:
    """Return what makes a tensor, before ops of some kinds."""
    maker = group.producer(tensor)
    while maker is not None and maker.kind in skipped:
        maker = group.producer(maker.inputs[0])
    return maker


def _types_of_int8_attention(group: Group) -> tuple[str, ...] | None:
    """Return the types of query, key, probabilities, values and result; None if it is not int8."""
    products = [op for op in group.ops if op.kind == "MatMul"]
    if len(products) != 2:
        return None
    sources = [_maker(group, t, "TypeCast") for product in products for t in product.inputs]
    types = [s.inputs[0].dtype for s in sources if s is not None and s.kind == "Dequantize"]
    return (*types, group.ops[-1].outputs[0].dtype) if len(types) == 4 else None


@defect(
    "oneDNN computes attention in other integers than s8 wrongly",
    _ONCE,
    Where(until=(3, 8)),
    *unmeasured((3, 8), (3, 10)),
)
def attention_in_other_integers(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find int8 attention of other types than those that oneDNN is known to compute right.

    It is right for s8 keys and values, a result of the query's type, and a query of u8 or
    probabilities of s8. With few heads other types are right too.
    """
    types = _types_of_int8_attention(group)
    if types is None:
        return False
    query, key, probabilities, values, result = types
    fits = query == "u8" or probabilities == "s8"
    return (key, values) != ("s8", "s8") or result != query or not fits


@defect(
    "oneDNN rounds the probabilities and the result of int8 attention to the type of its queries",
    _ONCE,
    Where((3, 10)),
)
def attention_of_other_result(group: Group, op: Op, conditions: Conditions) -> Answer:
    types = _types_of_int8_attention(group)
    if types is None:
        return False
    query, _, probabilities, _, result = types
    if probabilities == query and (result not in ("s8", "u8") or result == query):
        return False
    return attention_by_heads(group, conditions)


@defect(
    "weights with s32 zero points, which AVX2 kernels load with an instruction of AVX-512",
    Needs(_MATMUL, fused=True, beside={"DynamicDequantize"}),
    Where((3, 8), lacks=("avx512",)),
    effect=CRASH,
    remedy=f"give the zero points as s8 or u8, or {SPLIT}",
)
def zero_points_of_columns(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find weights of attention and gated MLPs, with which it was seen.

    Zero points of 8 bits, zero points of groups along the columns, and transposed weights are
    right.
    """
    maker = _maker(group, op.inputs[1], "StaticReshape", "StaticTranspose")
    if maker is None or maker.kind != "DynamicDequantize" or len(maker.inputs) < 3:
        return False
    if group.tensor(maker.inputs[2]).dtype != "s32" or maker.attr("qtype") == "per_tensor":
        return False
    if op.attr("transpose_b") or (maker.attr("group_shape") or (1,))[-1] != 1:
        return False
    return Hit(
        f"weights with zero points of type s32 for each column, which {maker.label} takes and a "
        "kernel loads with an instruction of AVX-512,"
    )
