"""Scaled dot-product attention in f32, bf16 and f16: five ops, one partition.

MatMul, Divide, Add of a mask, SoftMax and MatMul become one fused kernel. The sizes are those of
oneDNN's own example and can be given instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from .. import Value
from ..base.dtypes import numpy_dtype
from ._attention import attention, scores_type
from ._run import DATA_TYPES, Array, Case, Pipeline, Skipped, cannot_run, checked


def _mask(queries: int, sequence: int, batch: int) -> Array:
    """Make a mask with which each query sees itself and earlier keys, less so the further away.

    In every other batch entry the last quarter of the keys is padding.
    """
    query, key = np.mgrid[:queries, :sequence]
    causal = np.where(key <= query, (key - query) / 16, -np.inf)
    padded = np.where(key < max(sequence - sequence // 4, 1), causal, -np.inf)
    masks: Array = np.stack([causal, padded])[np.arange(batch) % 2]
    return masks[:, None].astype(np.float32)


def _arrays(inputs: Sequence[Value]) -> dict[int, Array]:
    """Make arrays for query, key, value, scale and mask, by id."""
    random = np.random.default_rng(0)
    dtype = numpy_dtype(inputs[0].dtype)
    query, key, value, _, mask = (v.shape or () for v in inputs)
    batch, _, queries, sequence = mask
    arrays: tuple[Array, ...] = (
        random.standard_normal(query, np.float32),
        random.standard_normal(key, np.float32),
        random.uniform(-1, 1, value),
        np.full(1, math.sqrt(query[-1])),
        _mask(queries, sequence, batch),
    )
    return {v.id: array.astype(dtype) for v, array in zip(inputs, arrays, strict=True)}


@checked
def run(
    engine_kind: str = "cpu",
    mb: int = 32,
    seq: int = 384,
    heads: int = 16,
    head_size: int = 64,
    query_num: int | None = None,
) -> Iterator[Case | Skipped]:
    """Run in each data type; `query_num` queries, as many as keys by default."""
    queries = seq if query_num is None else query_num
    rows, vectors = (mb, heads, queries, head_size), (mb, heads, seq, head_size)
    for data_type in DATA_TYPES:
        name = f"{data_type}, {mb}x{seq}, {heads} heads of {head_size}"
        if queries != seq:
            name += f", {queries} queries"
        b, result = attention(
            engine_kind, data_type, rows, vectors, (mb, 1, queries, seq), data_type
        )
        if (skipped := cannot_run(name, data_type, b.graph)) is not None:
            yield skipped
            continue
        execution = Pipeline.of(b, [result]).bind(_arrays(b.inputs))
        facts = [f"between MatMul and SoftMax: {scores_type(data_type)}"]
        yield execution.case(name, b.graph.get_ops(), facts, by_entry=True)
