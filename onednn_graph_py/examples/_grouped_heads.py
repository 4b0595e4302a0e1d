"""Attention whose query heads come in groups that share a head of keys and values.

It is built in two forms: with query heads grouped by ops of the graph, from inputs of 4 dims, and
with inputs of 5 dims that are grouped already.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from .. import GraphBuilder, Value
from ._attention import attended, draw, scores_type
from ._run import DATA_TYPES, BuiltRun, Case, Skipped, cannot_run


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

    @property
    def grouped_mask(self) -> tuple[int, ...]:
        return (self.mb, 1, 1, 1, self.seq)


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
    mask = grouped("mask", heads.mask, heads.grouped_mask, between)
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
            made = build(engine_kind, data_type, heads, reshaped)
            arrays = {one.name: grouped[one.name].reshape(one.shape or ()) for one in made.inputs}
            facts = [f"between MatMul and SoftMax: {scores_type(data_type)}"]
            yield cannot_run(name, data_type, made.graph) or BuiltRun(made, arrays).case(
                name, facts
            )
