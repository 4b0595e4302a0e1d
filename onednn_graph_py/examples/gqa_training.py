"""Training of grouped-query attention: a graph forwards and a graph backwards, a partition each.

SoftMax of the forward graph leaves the logarithms of its sums of exponentials (its output stats,
since oneDNN 3.9; fused since 3.10). From them the backward graph computes the probabilities anew,
and the gradients of query, key and value. Sizes are those of oneDNN's own example.
"""

from collections.abc import Iterator

from .. import GraphBuilder, Value
from ..base.errors import InvalidArgumentsError
from ._attention import GroupedHeads, check_groups, draw
from ._run import DATA_TYPES, BuiltRun, Case, Skipped, cannot_run, too_old

_FORWARD = ("query", "key", "value", "scale", "mask")
_BACKWARD = (*_FORWARD, "result", "stats", "gradient")


def _shapes(heads: GroupedHeads) -> dict[str, tuple[int, ...]]:
    query, key = heads.grouped_query, heads.grouped_key
    rows = query[:-1]
    return {
        **{"query": query, "key": key, "value": key, "scale": (1,), "mask": (*rows, heads.seq)},
        **{"result": query, "stats": (*rows, 1), "gradient": query},
    }


def _inputs(
    b: GraphBuilder, names: tuple[str, ...], data_type: str, heads: GroupedHeads
) -> list[Value]:
    shapes = _shapes(heads)
    wide = ("scale", "mask", "stats")
    return [b.input(shapes[n], "f32" if n in wide else data_type, name=n) for n in names]


def _forward(engine_kind: str, data_type: str, heads: GroupedHeads) -> GraphBuilder:
    b = GraphBuilder(engine_kind)
    query, key, value, scale, mask = _inputs(b, _FORWARD, data_type, heads)
    scores = b.matmul(query, key, transpose_b=True, dtype="f32") / scale + mask
    weights, stats = b.op(
        "SoftMax", scores, outputs=[(None, data_type), (None, "f32")],
        axis=-1, mode="inf_as_zero",
    )  # fmt: skip
    b.output(result=b.matmul(weights, value), stats=stats)
    return b


def _backward(engine_kind: str, data_type: str, heads: GroupedHeads) -> GraphBuilder:
    b = GraphBuilder(engine_kind)
    query, key, value, scale, mask, result, stats, gradient = _inputs(
        b, _BACKWARD, data_type, heads
    )

    def narrowed(x: Value) -> Value:
        # MatMul takes operands of one type.
        return x if data_type == "f32" else b.type_cast(x, dtype=data_type)

    def of_group(x: Value) -> Value:
        # The query heads of a group share the key head that the gradient is of. oneDNN does not
        # compile a ReduceSum that has nothing to sum up.
        if heads.q_heads == heads.kv_heads:
            return x
        return b.reduce_sum(x, axes=(2,), keep_dims=True)

    scores = b.matmul(query, key, transpose_b=True, dtype="f32") / scale + mask
    weights = b.exp(scores - stats)
    by_head = b.matmul(narrowed(weights), gradient, transpose_a=True, dtype=data_type)
    outputs = {"value gradient": of_group(by_head)}
    # Backwards through SoftMax: weights * (d weights - sum(weights * d weights)), where the sum
    # equals that of result * gradient, which is shorter.
    of_weights = b.matmul(gradient, value, transpose_b=True, dtype="f32")
    correction = b.multiply(result, gradient, dtype="f32")
    correction = b.reduce_sum(correction, axes=(4,), keep_dims=True)
    of_scores = narrowed(weights * (of_weights - correction) / scale)
    outputs["query gradient"] = b.matmul(of_scores, key, dtype=data_type)
    by_head = b.matmul(of_scores, query, transpose_a=True, dtype=data_type)
    outputs["key gradient"] = of_group(by_head)
    b.output(**outputs)
    return b


def run(
    engine_kind: str = "cpu",
    mb: int = 2,
    seq: int = 128,
    q_heads: int = 16,
    kv_heads: int = 2,
    head_size: int = 64,
) -> Iterator[Case | Skipped]:
    """Run forwards and backwards in each data type."""
    check_groups("gqa_training", q_heads, kv_heads)
    if head_size == 1:
        # The sum along the head would have nothing to sum up, see _backward.
        raise InvalidArgumentsError("gqa_training: head_size must be at least 2, got 1")
    heads = GroupedHeads(mb, seq, q_heads, kv_heads, head_size)
    for data_type in DATA_TYPES:
        names = [f"{data_type}, {heads}, {way}" for way in ("forwards", "backwards")]
        skipped = [too_old(name, (3, 10)) for name in names]
        cases = []
        if not any(skipped):
            cases = [build(engine_kind, data_type, heads) for build in (_forward, _backward)]
            skipped = [cannot_run(n, data_type, b.graph) for n, b in zip(names, cases, strict=True)]
        if any(skipped):
            yield from filter(None, skipped)
            continue
        arrays = draw(cases[1])
        forward = BuiltRun(cases[0], {name: arrays[name] for name in _FORWARD})
        yield forward.case(names[0])
        arrays |= {name: forward.output(name) for name in ("result", "stats")}
        yield BuiltRun(cases[1], {name: arrays[name] for name in _BACKWARD}).case(names[1])
