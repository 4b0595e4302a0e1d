"""Partitions with MatMul or attention for which oneDNN computes wrong results silently."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ..machine import Conditions
from ..ops.lookup import with_attribute, with_trait
from .calls import Op, Tensor
from .facts import (
    BINARY,
    attention,
    contraction,
    integers_of,
    is_row_major,
    quantization_of,
    runs_in_amx,
)
from .group import Group
from .post_ops import primitives

__all__ = [
    "attention_and_gradient_of_scores",
    "attention_by_heads",
    "attention_mask_of_fewer_dims",
    "attention_mask_of_other_rank",
    "attention_of_narrower_values",
    "attention_of_several_key_heads",
    "attention_of_wider_values",
    "attention_on_strided_inputs",
    "attention_select_of_other_rank",
    "attention_select_of_strided",
    "both_transposed_and_shared",
    "column_operand_of_transposed_product",
    "few_rows_transposed",
    "gaps_between_shared_weights",
    "gaps_between_weights_of_one_row",
    "int8_attention_of_mixed_types",
    "int8_attention_of_other_result",
    "int8_product_in_chunks",
    "one_row_transposed",
    "one_row_transposed_alone",
    "operand_behind_vector",
    "operand_for_all_heads",
    "operand_for_each_row",
    "partly_broadcast_operand",
    "product_over_nothing",
    "scales_of_channels_of_residual",
    "scales_of_flattened_source",
    "scales_of_input_channels",
    "scales_of_one_channel",
    "strided_operand",
    "zero_points_of_channels",
]

_PRODUCTS = with_trait("product") - with_trait("gradient")
_CONVOLUTIONS = _PRODUCTS & with_attribute("weights_format")
_DEQUANTIZES = with_trait("dequantizes")
_QUANTIZATION = with_trait("quantizes") | _DEQUANTIZES


def _products(group: Group) -> Iterator[tuple[Op, tuple[int, ...], tuple[int, ...]]]:
    """Yield each MatMul with the shapes of its second input and of its result."""
    for op in group.ops:
        weights, result = (
            (group.shape(op.inputs[1]), group.shape(op.outputs[0]))
            if op.kind == "MatMul"
            else (None, None)
        )
        if weights is not None and result is not None:
            yield op, weights, result


# -- operands broadcast behind products


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


def _query_key_value(group: Group) -> tuple[tuple[int, ...], ...] | None:
    """Return the shapes of what attention reads, before it is reshaped; None if unknown."""
    products = [op for op in group.ops if op.kind == "MatMul"]
    if not attention(group) or len(products) != 2:
        return None
    scores, result = sorted(products, key=lambda op: group.follows(op, ("SoftMax",)))
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


def _operands(
    group: Group, conditions: Conditions, *, amx: bool = False
) -> Iterator[tuple[Op, tuple[int, ...], tuple[int, ...]]]:
    """Yield each MatMul with the shapes of its result and of an operand fused behind it."""
    for primitive in primitives(group, conditions):
        base = primitive.base
        if base.kind != "MatMul" or (amx and not runs_in_amx(group, base, conditions)):
            continue
        for operand in primitive.operands:
            yield base, primitive.shape, operand.shape


def operand_for_all_heads(group: Group, conditions: Conditions) -> bool:
    """An operand (1, 1, M, N) behind a product of several batches and heads."""
    return any(
        len(made) == 4 and min(made) > 1 and operand == (1, 1, *made[2:])
        for _, made, operand in _operands(group, conditions, amx=True)
    ) and not attention_by_heads(group, conditions)


def operand_for_each_row(group: Group, conditions: Conditions) -> bool:
    """An operand (1, H, M, 1) behind a product, of one batch or more."""
    return any(
        len(made) == 4 and min(made[2:]) > 1 and operand == (1, *made[1:3], 1)
        for _, made, operand in _operands(group, conditions, amx=True)
    )


def partly_broadcast_operand(group: Group, conditions: Conditions) -> bool:
    """An operand that varies over a part of the batch, behind a product with 2-D weights.

    oneDNN flattens the batch, but not the operand; with transpose_a it flattens nothing.
    """
    for product, made, operand in _operands(group, conditions):
        if len(group.shape(product.inputs[1]) or ()) != 2 or len(made) not in (3, 4):
            continue
        wide = [i for i, d in enumerate(made[:-1]) if d > 1]
        varies = sum(operand[i] > 1 for i in wide)
        if 0 < varies < len(wide) and not product.attr("transpose_a"):
            return True
    return False


def strided_operand(group: Group, conditions: Conditions) -> bool:
    """An operand that is broadcast along some dims and not row-major, behind a product.

    oneDNN reads it as if it were. Since 3.13 gaps alone are right, and other orders of dims with
    gaps. The kernel that computes one head after another misreads rows and columns, before 3.8.
    """
    by_heads = attention_by_heads(group, conditions)
    for primitive in primitives(group, conditions):
        base, made = primitive.base, primitive.shape
        read = [o.tensor for o in primitive.operands if base.kind == "MatMul"]
        multiplies = base.kind == "Select" and conditions.version < (3, 8)
        if multiplies and group.follows(base, {"MatMul"}):
            read.append(base.inputs[0])
        for tensor in read:
            shape, strides = group.shape(tensor), group.tensor(tensor).strides
            if not shape or not strides or shape == made:
                continue
            if not by_heads:
                misread = _is_misread(shape, strides, conditions)
            else:
                misread = conditions.version < (3, 8) and _is_strided_line(shape, strides)
            if misread:
                return True
    return False


def _is_strided_line(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether one head's part has one row or column, whose elements don't lie side by side."""
    steps = [s for d, s in zip(shape[-2:], strides[-2:], strict=True) if d > 1]
    return len(steps) == 1 and steps[0] != 1


def _is_misread(shape: tuple[int, ...], strides: tuple[int, ...], conditions: Conditions) -> bool:
    wide = [(s, d) for s, d in zip(strides, shape, strict=True) if d > 1]
    dense = [math.prod(d for s, d in wide if s < stride) for stride, _ in wide]
    has_gaps = [s for s, _ in wide] != dense
    permuted = wide != sorted(wide, reverse=True)
    return permuted and not has_gaps if conditions.version >= (3, 13) else permuted or has_gaps


def operand_behind_vector(group: Group, conditions: Conditions) -> bool:
    """An operand behind a product with 1-D weights, or one that varies over more than the columns.

    oneDNN computes with a matrix of one column or row, and does not reshape the operand.
    """
    for product in group.ops:
        sizes = [len(group.shape(t) or (1, 1)) for t in product.inputs[:2]]
        if product.kind != "MatMul" or 1 not in sizes:
            continue
        for op in group.ops:
            if not group.follows(op, {"MatMul"}):
                continue
            for tensor in op.inputs:
                shape = group.shape(tensor) or ()
                varying = shape if sizes[1] == 1 else shape[:-1]
                if group.producer(tensor) is None and math.prod(varying) != 1:
                    return True
    return False


def column_operand_of_transposed_product(group: Group, conditions: Conditions) -> bool:
    """A product of one column with transpose_a, and an operand that varies over batch or rows."""
    return any(
        len(made) == 3
        and made[2] == 1 < min(made[:2])
        and operand in ((1, made[1], 1), (made[0], 1, 1))
        and bool(product.attr("transpose_a"))
        and contraction(group, product) > 1
        for product, made, operand in _operands(group, conditions)
    )


# -- single products


def both_transposed_and_shared(group: Group, conditions: Conditions) -> bool:
    """A product with transpose_a, and transposed weights that all its batches share."""
    for op, weights, made in _products(group):
        turned = op.attr("transpose_b") or not is_row_major(group.tensor(op.inputs[1]))
        if op.attr("transpose_a") and turned and len(weights) == 2 < len(made):
            return True
    return False


def _shared_row(product: Op, weights: tuple[int, ...], made: tuple[int, ...]) -> bool:
    """Whether a product has one row, transposed, and the same weights for the whole batch."""
    return (
        len(made) > 2
        and made[-2] == 1
        and bool(product.attr("transpose_a"))
        and math.prod(weights[:-2]) == 1
        and math.prod(made[:-2]) > 1
    )


def one_row_transposed_alone(group: Group, conditions: Conditions) -> bool:
    """The cases of `one_row_transposed` that are wrong in a partition of their own too."""
    if conditions.version >= (3, 8):
        return False
    for product, weights, made in _products(group):
        if len(made) != 4 or not _shared_row(product, weights, made):
            continue
        if integers_of(group, product) is not None:
            continue
        over = contraction(group, product)
        if product.inputs[0].dtype == "f16":
            if conditions.avx512 and conditions.f16 and over > 1:
                return True
        elif runs_in_amx(group, product, conditions) and over % 2:
            return True
    return False


def one_row_transposed(group: Group, conditions: Conditions) -> bool:
    """A transposed row, which oneDNN reads as if untransposed, up to whole steps of the kernel."""
    if one_row_transposed_alone(group, conditions):
        return True
    if not conditions.amx:
        return False
    return any(
        _shared_row(product, weights, made)
        and integers_of(group, product) is not None
        and contraction(group, product) % 4 != 0
        and (conditions.version >= (3, 8) or len(made) == 4)
        for product, weights, made in _products(group)
    )


def few_rows_transposed(group: Group, conditions: Conditions) -> bool:
    """At most 32 rows of one transposed batch, and an incomplete fourth tile of 16 columns."""
    return any(
        len(made) == 4
        and bool(product.attr("transpose_a"))
        and math.prod(weights[:-2]) == 1
        and math.prod(made[:-1]) <= 32
        and 48 < made[-1] < 64
        and integers_of(group, product) is None
        and runs_in_amx(group, product, conditions)
        for product, weights, made in _products(group)
    )


def int8_product_in_chunks(group: Group, conditions: Conditions) -> bool:
    """An int8 product whose last elements oneDNN reads from uninitialized memory.

    oneDNN is right for constant weights of two or three dims, which it packs beforehand.
    """
    for product, _, made in _products(group):
        integers = integers_of(group, product)
        over = contraction(group, product)
        if integers is None or product.attr("transpose_b") or over <= 64 or not over % 64:
            continue
        large = made[-1] > 32 and (len(made) < 2 or made[-2] > 16)
        if large and (len(made) > 3 or integers[1].data is None):
            return True
    return False


def product_over_nothing(group: Group, conditions: Conditions) -> bool:
    """A product over a dim of no elements, whose result has elements."""
    return any(
        contraction(group, product) == 0 and 0 not in made for product, _, made in _products(group)
    )


def gaps_between_weights_of_one_row(group: Group, conditions: Conditions) -> bool:
    """Weights (.., 1, N) of several batches, read as if there were no gaps between the batches."""
    for op in group.ops:
        if op.kind != "MatMul":
            continue
        shape = group.shape(op.inputs[1])
        if shape is None or math.prod(shape[:-2]) < 2 or is_row_major(group.tensor(op.inputs[1])):
            continue
        rows, columns = shape[-2:]
        if op.attr("transpose_b"):
            rows, columns = columns, rows
        if rows == 1 < columns:
            return True
    return False


def gaps_between_shared_weights(group: Group, conditions: Conditions) -> bool:
    """A product in five dims of several batches of weights with gaps, each for several inputs."""
    for op, weights, made in _products(group):
        tensor = group.tensor(op.inputs[1])
        if len(weights) != 5 or tensor.strides is None or weights[:-2] == made[:-2]:
            continue
        steps = [s for d, s in zip(weights[:-2], tensor.strides, strict=False) if d > 1]
        if steps and steps[-1] != math.prod(weights[-2:]):
            return True
    return False


# -- quantization of channels


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


def scales_of_one_channel(group: Group, conditions: Conditions) -> bool:
    """Scales of the groups of a depthwise ConvTranspose, without that ConvTranspose."""
    if group.has("ConvTranspose"):
        return False
    for op in group.ops:
        shape = group.shape(op.inputs[0]) if op.kind in _QUANTIZATION else None
        if shape and _differ(op, "scales", 1) and shape[op.attr("axis")] == 1:
            return True
    return False


def scales_of_flattened_source(group: Group, conditions: Conditions) -> bool:
    """Scales along the first dim of a product's first operand, if that is not its rows.

    Without a batch oneDNN adds a dim in front; a batch that shares the weights becomes rows.
    """
    for product, weights, _ in _products(group):
        source = quantization_of(group, product.inputs[0])
        rank = len(group.shape(product.inputs[0]) or ())
        if not rank or source is None or not _differ(source, "scales", 1):
            continue
        if source.attr("axis") % rank:
            continue
        if rank == 1 or (rank > 2 and len(weights) < 3):
            return True
    return False


def scales_of_input_channels(group: Group, conditions: Conditions) -> bool:
    """Scales of a convolution's weights along another dim than that of the output's channels.

    oneDNN reads one for each of these, equal ones too, and beyond the last where there are fewer.
    """
    for op in group.ops:
        if op.kind not in _CONVOLUTIONS or (made := quantization_of(group, op.inputs[1])) is None:
            continue
        shape = group.shape(op.inputs[1]) or ()
        if not shape or made.attr("qtype") != "per_channel":
            continue
        written = str(op.attr("weights_format")).replace("X", "X" * (len(shape) - 2))
        axis = made.attr("axis") % len(shape)
        fewer = shape[axis] < shape[written.index("O")]
        if written[axis] != "O" and (fewer or _differ(made, "scales", 1)):
            return True
    return False


def zero_points_of_channels(group: Group, conditions: Conditions) -> bool:
    """Zero points of channels that differ, of any operand or result of a product or pooling."""
    return group.has(*_PRODUCTS, "AvgPool", "MaxPool") and any(
        op.kind in _QUANTIZATION and _differ(op, "zps", 2) for op in group.ops
    )


def scales_of_channels_of_residual(group: Group, conditions: Conditions) -> bool:
    """Scales of channels that differ, of a residual behind a product."""
    if not group.has(*_PRODUCTS):
        return False
    for op in group.ops:
        makers = [group.producer(t) for t in op.inputs] if op.kind == "Add" else []
        for maker in makers:
            if maker and maker.kind in _DEQUANTIZES and _differ(maker, "scales", 1):
                return True
    return False


# -- attention


def attention_mask_of_other_rank(group: Group, conditions: Conditions) -> bool:
    """A 3-D operand for scores of four dims, or a 2-D one that is reshaped for scores of five."""
    if not attention(group):
        return False
    for op in group.ops:
        if op.kind not in BINARY:
            continue
        scores = len(group.shape(op.outputs[0]) or ())
        for tensor in op.inputs:
            source = group.producer(tensor)
            if source is not None and source.kind == "StaticReshape":
                if len(group.shape(source.inputs[0]) or ()) == 2 and scores == 5:
                    return True
            elif source is None and len(group.shape(tensor) or ()) == 3 and scores == 4:
                return True
    return False


def attention_mask_of_fewer_dims(group: Group, conditions: Conditions) -> bool:
    """A mask of three or four dims for scores of five, in the kernel for single heads.

    That takes the first dims of four for batch and head, and no dims of three.
    """
    return attention_by_heads(group, conditions) and any(
        op.kind in BINARY
        and len(group.shape(op.outputs[0]) or ()) == 5
        and any(
            group.producer(tensor) is None
            and len(shape := group.shape(tensor) or ()) < 5
            and math.prod(shape[:-2]) > 1
            for tensor in op.inputs
        )
        for op in group.ops
    )


def attention_of_several_key_heads(group: Group, conditions: Conditions) -> bool:
    """Attention by heads in five dims, unless all queries of a group share one key head.

    oneDNN knows the second dim of keys and values only.
    """
    given = _query_key_value(group)
    if given is None or max(map(len, given)) < 5 or not attention_by_heads(group, conditions):
        return False
    query, key, value = given
    return query[1] != key[1] or (key[2], value[2]) != (1, 1)


def attention_select_of_other_rank(group: Group, conditions: Conditions) -> bool:
    """A Select behind a product, with an input of fewer dims, in the kernel for single heads.

    If the scores are input 1, oneDNN reads the same part of that input for all heads; if they are
    input 2, only its first element.
    """
    if not attention(group):
        return False
    for op in group.ops:
        if op.kind != "Select" or not group.follows(op, {"MatMul"}):
            continue
        scores = group.shape(op.outputs[0])
        if scores is None or math.prod(scores[:-2]) <= 2 * conditions.threads:
            continue
        skipped = -2 if group.producer(op.inputs[1]) is not None else len(scores)
        for tensor in op.inputs:
            shape = group.shape(tensor)
            if group.producer(tensor) is not None or shape is None or len(shape) == len(scores):
                continue
            if math.prod(shape[:skipped]) > 1:
                return True
    return False


def attention_select_of_strided(group: Group, conditions: Conditions) -> bool:
    """A Select of scores or something else, in the kernel for single heads, of strided matrices."""
    return attention_by_heads(group, conditions) and any(
        op.kind == "Select"
        and group.producer(op.inputs[1]) is not None
        and any(
            group.producer(tensor) is None and not _has_dense_matrices(group, tensor)
            for tensor in (op.inputs[0], op.inputs[2])
        )
        for op in group.ops
    )


def _has_dense_matrices(group: Group, tensor: Tensor) -> bool:
    shape, strides = group.shape(tensor), group.tensor(tensor).strides
    if shape is None or strides is None or 1 in shape[-2:] or len(shape) < 2:
        return True
    return strides[-2:] == (shape[-1], 1)


def attention_and_gradient_of_scores(group: Group, conditions: Conditions) -> bool:
    """The gradients of attention, if ops outside read a gradient of the scores too.

    oneDNN adds to the values that it finds in that output's memory, if it caches constants: from
    the second call on.
    """
    for op in group.ops:
        if op.kind == "Multiply" and op.outputs[0].id in group.leaving:
            makers = [group.producer(t) for t in op.inputs]
            if {m.kind for m in makers if m is not None} == {"Exp", "Subtract"}:
                return True
    return False


def attention_on_strided_inputs(group: Group, conditions: Conditions) -> bool:
    """Attention on strided inputs whose batch is as large as the sequence.

    With more heads than threads oneDNN is right again.
    """
    if not group.has("SoftMax"):
        return False
    for op in group.ops:
        for tensor in op.inputs if op.kind == "MatMul" else ():
            dims = group.shape(tensor) or ()
            if len(dims) > 2 and dims[0] == dims[-2] > 1 and not is_row_major(tensor):
                return True
    return False


def attention_of_wider_values(group: Group, conditions: Conditions) -> bool:
    """Attention by heads whose values have more elements for a key than the keys have."""
    given = _query_key_value(group)
    return (
        given is not None and given[2][-1] > given[0][-1] and attention_by_heads(group, conditions)
    )


def attention_of_narrower_values(group: Group, conditions: Conditions) -> bool:
    """Attention by heads whose values have fewer elements for a key than the keys have.

    oneDNN takes the keys' number for both. It finds strides that don't fit that, unless there is
    one query and one key, and leaves OpenMP with one thread then.
    """
    given = _query_key_value(group)
    return (
        given is not None and given[2][-1] < given[0][-1] and attention_by_heads(group, conditions)
    )


def _types_of_int8_attention(group: Group) -> tuple[str, ...] | None:
    """Return the types of query, key, probabilities, values and result; None if it is not int8."""
    products = [op for op in group.ops if op.kind == "MatMul"]
    if len(products) != 2 or not group.has("SoftMax"):
        return None
    sources = [group.producer(tensor) for product in products for tensor in product.inputs]
    types = [s.inputs[0].dtype for s in sources if s is not None and s.kind == "Dequantize"]
    return (*types, group.ops[-1].outputs[0].dtype) if len(types) == 4 else None


def int8_attention_of_mixed_types(group: Group, conditions: Conditions) -> bool:
    """int8 attention of other types than those that oneDNN is known to compute right.

    It is right for s8 keys and values, a result of the query's type, and a query of u8 or
    probabilities of s8. With few heads other types are right too.
    """
    types = _types_of_int8_attention(group)
    if types is None:
        return False
    query, key, probabilities, values, result = types
    fits = query == "u8" or probabilities == "s8"
    return (key, values) != ("s8", "s8") or result != query or not fits


def int8_attention_of_other_result(group: Group, conditions: Conditions) -> bool:
    """int8 attention by heads with a result of another type: oneDNN rounds it to the query's."""
    types = _types_of_int8_attention(group)
    if types is None or types[-1] not in ("s8", "u8") or types[-1] == types[0]:
        return False
    return attention_by_heads(group, conditions)
