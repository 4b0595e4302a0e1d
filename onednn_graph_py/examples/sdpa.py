"""Scaled dot-product attention in f32, bf16 and f16: five ops, one partition.

MatMul, Divide, Add of a mask, SoftMax and MatMul become one fused kernel. The sizes are those of
oneDNN's own example and can be given instead.
"""

from collections.abc import Iterator

from .. import GraphBuilder
from ._attention import attention, draw, scores_type
from ._run import DATA_TYPES, BuiltRun, Case, Skipped, cannot_run


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
        yield cannot_run(name, data_type, b.graph) or BuiltRun(b, draw(b), entry=build(1)).case(
            name, facts
        )
