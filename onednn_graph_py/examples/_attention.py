"""The parts that the attention examples share: sizes, inputs, and a graph."""

import math
from collections.abc import Sequence

import numpy as np

from .. import GraphBuilder, Value
from ..base.dtypes import numpy_dtype
from ..base.errors import InvalidArgumentsError
from ..base.linked import linked_version
from ._run import Array, normal


def check_groups(example: str, q_heads: int, kv_heads: int) -> None:
    """Raise InvalidArgumentsError unless each key head serves the same number of query heads."""
    if q_heads % kv_heads:
        raise InvalidArgumentsError(
            f"{example}: kv_heads must divide q_heads, {q_heads}, got {kv_heads}"
        )


def scores_type(data_type: str) -> str:
    """Choose the data type of the tensors between the first MatMul and SoftMax."""
    # oneDNN allows an f32 result of a bf16 MatMul from 3.8 on; later versions fuse that best.
    return "f32" if linked_version() >= (3, 8) else data_type


def random_array(random: np.random.Generator, shape: Sequence[int], data_type: str) -> Array:
    """Draw normally distributed values."""
    return normal(random, shape, numpy_dtype(data_type))


def root_scale(head_size: int, data_type: str) -> Array:
    """The divisor of the scores: the root of the head size."""
    return np.full(1, math.sqrt(head_size), numpy_dtype(data_type))


def padding_mask(shape: Sequence[int], data_type: str) -> Array:
    """Make a mask, keys last: the last quarter is hidden, of the others later ones weigh more."""
    keys = shape[-1]
    row = np.where(np.arange(keys) < max(3 * keys // 4, 1), np.arange(keys) / keys, -np.inf)
    return np.ascontiguousarray(np.broadcast_to(row, tuple(shape)).astype(numpy_dtype(data_type)))


def draw(b: GraphBuilder) -> dict[str, Array]:
    """Draw the inputs of a graph by their names: scale, mask, and others, which are vectors."""
    random = np.random.default_rng(0)
    arrays = {}
    for value in b.inputs:
        shape = value.shape or ()
        if value.name == "scale":
            arrays[value.name] = root_scale((b.inputs[0].shape or ())[-1], value.dtype)
        elif value.name == "mask":
            arrays[value.name] = padding_mask(shape, value.dtype)
        else:
            arrays[value.name] = random_array(random, shape, value.dtype)
    return arrays


def attended(
    query: Value, key: Value, value: Value, scale: Value, mask: Value, data_type: str
) -> Value:
    """Add five ops: MatMul, Divide, Add of a mask, SoftMax and MatMul."""
    b = query.builder
    between = scores_type(data_type)
    scores = b.matmul(query, key, transpose_b=True, dtype=between) / scale + mask
    return b.matmul(b.softmax(scores, axis=-1, dtype=data_type), value)


def attention(
    engine_kind: str,
    data_type: str,
    query: tuple[int, ...],
    key: tuple[int, ...],
    mask: tuple[int, ...],
    wide: str,
    strides: tuple[int, ...] | None = None,
) -> GraphBuilder:
    """Build a graph of `attended`.

    The inputs are query, key and value, which may be strided, and scale and mask, of type `wide`.
    """
    b = GraphBuilder(engine_kind)
    q, k, v = (
        b.input(shape, data_type, name=name, strides=strides)
        for name, shape in (("query", query), ("key", key), ("value", key))
    )
    scale, masked = b.input((1,), wide, name="scale"), b.input(mask, wide, name="mask")
    b.output(result=attended(q, k, v, scale, masked, data_type))
    return b
