"""Scaled dot-product attention in f32, bf16 and f16: five ops, one partition.

MatMul, Divide, Add of a mask, SoftMax and MatMul become one fused kernel. The sizes are those of
oneDNN's own example and can be given instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from .. import GraphBuilder
from ..base.dtypes import numpy_dtype
from ._attention import attention, scores_type
from ._run import DATA_TYPES, Array, BuiltRun, Case, Skipped, cannot_run, checked


def _mask(queries: int, sequence: int, batch: int) -> Array:
    """Make a mask with which each query sees itself and earlier keys, less so the further away.

    In every other batch entry the last quarter of the keys is padding.
    """
    query, key = np.mgrid[:queries, :sequence]
    causal = np.where(key <= query, (key - query) / 16, -np.inf)
    padded = np.where(key < max(sequence - sequence // 4, 1), causal, -np.inf)
    masks: Array = np.stack([causal, padded])[np.arange(batch) % 2]
    return masks[:, None].astype(np.float32)


def _arrays(b: GraphBuilder) -> dict[str, Array]:
    random = np.random.default_rng(0)
    shapes = {value.name: value.shape or () for value in b.inputs}
    batch, _, queries, sequence = shapes["mask"]
    arrays: dict[str, Array] = {
        "query": random.standard_normal(shapes["query"], np.float32),
        "key": random.standard_normal(shapes["key"], np.float32),
        "value": random.uniform(-1, 1, shapes["value"]),
        "scale": np.full(1, math.sqrt(shapes["query"][-1])),
        "mask": _mask(queries, sequence, batch),
    }
    return {name: array.astype(numpy_dtype(b.inputs[0].dtype)) for name, array in arrays.items()}


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

    def build(batch: int) -> GraphBuilder:
        rows, vectors = (batch, heads, queries, head_size), (batch, heads, seq, head_size)
        mask = (batch, 1, queries, seq)
        return attention(engine_kind, data_type, rows, vectors, mask, data_type)

    for data_type in DATA_TYPES:
        name = f"{data_type}, {mb}x{seq}, {heads} heads of {head_size}"
        if queries != seq:
            name += f", {queries} queries"
        b, facts = build(mb), [f"between MatMul and SoftMax: {scores_type(data_type)}"]
        yield cannot_run(name, data_type, b.graph) or BuiltRun(b, _arrays(b), entry=build(1)).case(
            name, facts
        )
