"""The parts that the attention examples share: sizes, inputs, and graphs.

Where query heads share a head of keys and values, the graph has two forms: with query heads grouped
by ops, from inputs of 4 dims, and with inputs of 5 dims that are grouped already.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .. import GraphBuilder, Value
from ..base.dtypes import numpy_dtype
from ..base.errors import InvalidArgumentsError
from ..base.linked import linked_version
from ._run import DATA_TYPES, Array, BuiltRun, Case, Skipped, cannot_run, normal


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


@dataclass(frozen=True)
class GroupedHeads:
    """Dims, apart and grouped with the key head that they share; `kv_heads` divides `q_heads`."""

    mb: int
    seq: int
    q_heads: int
    kv_heads: int
    head_size: int

    def __str__(self) -> str:
        s = "s" * (self.kv_heads != 1)
        return (
            f"{self.mb}x{self.seq}, {self.q_heads} query heads and {self.kv_heads} key head{s} of"
            f" {self.head_size}"
        )

    @property
    def query(self) -> tuple[int, ...]:
        return (self.mb, self.q_heads, self.seq, self.head_size)

    @property
    def key(self) -> tuple[int, ...]:
        return (self.mb, self.kv_heads, self.seq, self.head_size)

    @property
    def mask(self) -> tuple[int, ...]:
        return (self.mb, 1, 1, self.seq)

    @property
    def grouped_query(self) -> tuple[int, ...]:
        per_key = self.q_heads // self.kv_heads
        return (self.mb, self.kv_heads, per_key, self.seq, self.head_size)

    @property
    def grouped_key(self) -> tuple[int, ...]:
        return (self.mb, self.kv_heads, 1, self.seq, self.head_size)


def build(engine_kind: str, data_type: str, heads: GroupedHeads, reshaped: bool) -> GraphBuilder:
    between = scores_type(data_type)
    b = GraphBuilder(engine_kind)

    def grouped(name: str, shape: tuple[int, ...], to: tuple[int, ...], dtype: str) -> Value:
        if not reshaped:
            return b.input(to, dtype, name=name)
        return b.static_reshape(b.input(shape, dtype, name=name), shape=to, special_zero=False)

    query = grouped("query", heads.query, heads.grouped_query, data_type)
    key = grouped("key", heads.key, heads.grouped_key, data_type)
    value = grouped("value", heads.key, heads.grouped_key, data_type)
    mask = grouped("mask", heads.mask, (heads.mb, 1, 1, 1, heads.seq), between)
    scale = b.input((1,), between, name="scale")
    result = attended(query, key, value, scale, mask, data_type)
    if reshaped:
        result = b.static_reshape(result, shape=heads.query, special_zero=False)
    b.output(result=result)
    return b


def cases(engine_kind: str, heads: GroupedHeads) -> Iterator[Case | Skipped]:
    """Run in each data type and both forms."""
    for data_type in DATA_TYPES:
        grouped = draw(build(engine_kind, data_type, heads, False))
        for reshaped in (True, False):
            form = "grouped by StaticReshape" if reshaped else "grouped inputs"
            name = f"{data_type}, {heads}, {form}"
            net = build(engine_kind, data_type, heads, reshaped)
            arrays = {one.name: grouped[one.name].reshape(one.shape or ()) for one in net.inputs}
            facts = [f"between MatMul and SoftMax: {scores_type(data_type)}"]
            yield cannot_run(name, data_type, net.graph) or BuiltRun(net, arrays).case(name, facts)
