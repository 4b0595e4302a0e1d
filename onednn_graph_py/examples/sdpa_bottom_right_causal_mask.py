"""Attention with a causal mask that oneDNN makes from indices, within the partition.

The last query is beside the last key: query i sees key j if i + keys - queries >= j. GenIndex gives
the indices of rows and columns, Add, Subtract and GreaterEqual compare them, and Select puts minus
infinity where a query must not look. Sizes are those of oneDNN's own example, which came with 3.9;
it passes scale, lengths and minus infinity as scalars of the host, here they are constants.
"""

import math
from collections.abc import Iterator

import numpy as np

from .. import GraphBuilder
from ._attention import draw
from ._run import DATA_TYPES, BuiltRun, Case, Skipped, cannot_run, too_old


def _build(
    engine_kind: str, data_type: str, query_shape: tuple[int, ...], key_shape: tuple[int, ...]
) -> GraphBuilder:
    scale = np.float32(1 / math.sqrt(query_shape[-1]))
    queries, keys = query_shape[-2], key_shape[-2]
    b = GraphBuilder(engine_kind)
    query = b.input(query_shape, data_type, name="query")
    key = b.input(key_shape, data_type, name="key")
    value = b.input(key_shape, data_type, name="value")
    scores = b.matmul(query, key, transpose_b=True, dtype="f32") * b.constant([scale])
    row = b.gen_index(scores, axis=-2) + b.constant([keys], "s32") - b.constant([queries], "s32")
    seen = row >= b.gen_index(scores, axis=-1)
    masked = b.select(seen, scores, b.constant([-np.inf], "f32"))
    # With more queries than keys the first ones see nothing; their result is then 0.
    weights = b.softmax(masked, axis=-1, mode="inf_as_zero", dtype=data_type)
    b.output(result=b.matmul(weights, value))
    return b


def run(
    engine_kind: str = "cpu",
    mb: int = 2,
    seq: int = 128,
    heads: int = 16,
    head_size: int = 64,
    query_num: int | None = None,
) -> Iterator[Case | Skipped]:
    """Run in each data type; `query_num` queries, as many as keys (`seq`) by default."""
    queries = seq if query_num is None else query_num
    query_shape, key_shape = (mb, heads, queries, head_size), (mb, heads, seq, head_size)
    for data_type in DATA_TYPES:
        name = f"{data_type}, {mb} x {queries} queries and {seq} keys, {heads} heads of {head_size}"
        if (skipped := too_old(name, (3, 9))) is not None:
            yield skipped
            continue
        builder = _build(engine_kind, data_type, query_shape, key_shape)
        yield cannot_run(name, data_type, builder.graph) or BuiltRun(builder, draw(builder)).case(
            name
        )
