"""The dims of an attention."""

from dataclasses import dataclass

from ..base.errors import InvalidShapeError
from ..model.building.value import Value
from ..ops.terms import shape_text
from .arguments import need_rank, need_shape


@dataclass(frozen=True)
class Heads:
    """The dims of an attention; -1 if unknown, which heads may be only in inputs of 5 dims."""

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    size: int
    value_size: int
    regroup: bool  # whether to make a dim of the query heads that share a key head
    rank: int  # that of the given query

    @property
    def scores(self) -> tuple[int, ...]:
        """The shape of the scores in the query's rank."""
        if self.rank == 4:
            return (self.batch, self.heads, self.queries, self.keys)
        return (self.batch, self.kv_heads, self.heads, self.queries, self.keys)


def heads_of(query: Value, key: Value, value: Value) -> Heads:
    """Return the dims of an attention; raise InvalidShapeError if they don't fit together."""
    q = need_rank("sdpa", "query", query, 4, 5)
    k = need_rank("sdpa", "key", key, len(q))
    v = need_rank("sdpa", "value", value, len(q))
    size = k[-1] if q[-1] == -1 else q[-1]
    if len(q) == 5:
        need_shape(
            "sdpa", "key", k, (q[0], q[1], 1, -1, size), "(batch, key heads, 1, keys, head size)"
        )
        need_shape("sdpa", "value", v, (*k[:-1], -1), "as key but for the last dim")
        return Heads(q[0], q[2], q[1], q[3], k[3], size, v[-1], False, 5)
    if -1 in (q[1], k[1]):
        raise InvalidShapeError(
            "sdpa: the numbers of heads (dim 1) must be known, got query "
            f"{shape_text(q)} and key {shape_text(k)}"
        )
    need_shape("sdpa", "key", k, (q[0], -1, -1, size), "(batch, key heads, keys, head size)")
    need_shape("sdpa", "value", v, (*k[:-1], -1), "as key but for the last dim")
    if q[1] % k[1]:
        raise InvalidShapeError(
            f"sdpa: the number of heads of key must divide those of query, {q[1]}, got {k[1]}"
        )
    heads = Heads(q[0], q[1], k[1], q[2], k[2], size, v[-1], q[1] != k[1], 4)
    for argument, shape in (("query", q), ("key", k), ("value", v)):
        if heads.regroup and shape[1:].count(-1) > 1:
            raise InvalidShapeError(
                f"sdpa: with fewer key heads than query heads, {argument} must have at most one "
                f"unknown dim after the batch, got {shape_text(shape)}; inputs of 5 dims may have "
                "more"
            )
    return heads
