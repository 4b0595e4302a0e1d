"""The families of random graphs, by name."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ... import blocks
from ...base.linked import linked_version
from ...model.building.value import Value, is_whole
from ...ops import OPS
from . import ops
from .draft import CALLS, Draft, Drawn, Open

Family = Callable[[int], Drawn]
"""A module's function that draws a graph, and arrays for its calls; equal for equal seeds."""


_FIRST = (
    "MatMul", "MatMul", "MatMul", "Convolution", "Convolution", "ConvTranspose", "AvgPool",
    "MaxPool", "SoftMax", "LayerNorm", "GroupNorm", "BatchNormInference", "ReduceMean",
)  # fmt: skip
"""The ops to which oneDNN fuses others, with which chains begin."""
_EPILOGUE = [k for k in OPS if "epilogue" in OPS[k].traits]
_SUMS = [k for k in _EPILOGUE if "binary" in OPS[k].traits]


def _grown(d: Draft, x: Value, count: int, kinds: list[str] | None = None) -> list[Value]:
    """Add ops, one behind the other or to an earlier tensor; return all tensors that they make."""
    made, values = [], [x]
    for _ in range(count):
        y = values[-1] if d.chance(0.75) else d.pick(values)
        known = is_whole(y.shape or ()) and 0 not in (y.shape or (0,))
        floats = known and y.dtype in ("f32", "bf16", "f16")
        if not kinds and floats and d.chance(0.12):
            values.append(_by_numpy(d, y))
            made.append(values[-1])
            continue
        among = kinds or (_EPILOGUE if d.chance(0.5) else list(ops.ROWS))
        node = y.producer
        if node is not None and node.kind == "MatMul" and node.inputs[1].ndim == 1:
            among = _SUMS  # oneDNN errs behind a product with a vector, which is rare
        fitting = [k for k in among if ops.fits(d, k, y)]
        if not fitting:
            continue
        same = [v for v in values if v is not y and v.dtype == y.dtype and d.alike(v, y)]
        if same and d.chance(0.35):  # two branches meet
            results = [d.op(d.pick(("Add", "Multiply", "Maximum", "Subtract")), y, d.pick(same))]
        else:
            results = ops.drawn(d, d.pick(fitting), y)
        made += results
        values.append(results[0])
    return made


def _by_numpy(d: Draft, x: Value) -> Value:
    """Call a function of NumPy, which adds ops, a view, or a host step."""
    axis, many = d.random.randrange(x.ndim), range(x.ndim)
    size, few = d.shape(x)[axis], x.ndim < 6
    row = d.operand(d.shape(x)[-1:], x.dtype)
    calls: list[Callable[[], Any]] = [
        lambda: x[(*(slice(None) for _ in range(axis)), slice(size // 3, None, 2))],
        lambda: x.transpose(d.random.sample(many, len(many))),
        lambda: np.split(x, [size // 2], axis)[1],
        lambda: x.transpose([axis, *(i for i in many if i != axis)]).reshape(size, -1),
        lambda: np.broadcast_to(x, (d.pick((1, 2, 3)), *d.shape(x))) if few else np.square(x),
        lambda: np.expand_dims(x, axis) if few else np.abs(x),
        lambda: np.flip(x, axis),
        lambda: np.sort(x, axis),
        lambda: np.logaddexp(x, row),
        lambda: np.where(x > row, x, row),
        lambda: np.where(x >= row, row, -1.5),
        lambda: np.clip(x, -0.5, row),
        lambda: np.var(x, axis, keepdims=True),
        lambda: np.max(x, axis, keepdims=True),
        lambda: np.concatenate([x, np.minimum(x, row), x], axis),
        lambda: np.stack([x * 0.5, x], axis) if few else np.tanh(x),
    ]
    result: Value = d.pick(calls)()
    return result


def _outputs(d: Draft, made: list[Value]) -> list[Value]:
    """Choose outputs: what nothing reads, and now and then a tensor in the middle."""
    read = {v.id for n in d.b.nodes for v in n.inputs}
    return [v for v in made if v.id not in read or d.chance(0.15)]


def op_case(seed: int) -> Drawn:
    """Draw one op of any kind."""
    d = Draft("ops", seed)
    kind = d.pick([k for k in ops.ROWS if d.has(k)])
    return d.finished(*_outputs(d, ops.drawn(d, kind, ops.source(d, kind))))


def chain_case(seed: int) -> Drawn:
    """Draw 2 to 6 ops with several readers, branches that meet, and outputs in the middle."""
    d = Draft("chains", seed)
    kind = d.pick(_FIRST if d.chance(0.7) else [k for k in ops.ROWS if "uantize" not in k])
    kind = kind if d.has(kind) else "MatMul"
    d.opens = d.opens and not kind.endswith("BackwardWeights")
    results = ops.drawn(d, kind, ops.source(d, kind))
    results += _grown(d, results[0], d.random.randint(1, 5))
    return d.finished(*_outputs(d, results))


def _int8_product(d: Draft) -> Value:
    """Add a product or a pool of dequantized tensors, with scales and zero points that differ."""
    kind = d.pick(("MatMul", "MatMul", "Convolution", "ConvTranspose", "AvgPool", "MaxPool"))
    row = ops.ROWS[kind]
    shape = d.dims(max(row.low, 2), min(row.high, 4))
    axis = d.pick((None, None, len(shape) - 1, 0))
    x = d.input(shape) if d.chance(0.15) else d.dequantized(shape, d.quantized_type(), axis)
    d.integers = True
    (y,) = ops.drawn(d, kind, x)
    d.integers = False
    return y


def int8_case(seed: int) -> Drawn:
    """Draw a product of integers, up to 3 ops, among them a residual, and a quantized result."""
    d = Draft("int8", seed)
    y = _int8_product(d)
    results = [y]
    for _ in range(d.random.randint(0, 2)):
        if d.chance(0.4):
            shape = d.thinned(d.shape(y)) if d.chance(0.3) else d.shape(y)
            axis = d.random.randrange(len(shape)) if d.chance(0.5) else None
            other = d.dequantized(shape, d.quantized_type(), axis)
            y = d.op(d.pick(("Add", "Add", "Multiply", "Subtract")), y, other)
            results.append(y)
        else:
            results += _grown(d, y, 1, _EPILOGUE)
            y = results[-1]
    if d.chance(0.6):
        results.append(d.quantized(y, d.random.randrange(y.ndim) if d.chance(0.3) else None))
    return d.finished(*_outputs(d, results))


# -- attention

_TOKENS = (1, 2, 3, 5, 7, 9, 16, 17, 33)
_WIDTHS = (1, 4, 5, 8, 16, 32, 33, 64)


def _heads(d: Draft) -> tuple[tuple[int, ...], tuple[int, ...], int, int]:
    """Draw leading dims of queries and of keys, and the numbers of queries and keys."""
    batch, heads = d.pick((1, 1, 2, 3)), d.pick((1, 2, 3, 5, 6))
    queries = d.size(_TOKENS)
    keys = queries if d.chance(0.4) else d.size(_TOKENS)
    if d.chance(0.05):  # as many as several blocks of queries have
        queries, keys = d.uneven(2, (128, 131, 193))
    per_key = d.pick((1, 1, 2, 3))
    if d.chance(0.3):  # five dims
        fewer = 1 if d.chance(0.7) else per_key
        return (batch, heads, per_key), (batch, heads, fewer), queries, keys
    return (
        (batch, heads * per_key),
        (batch, heads if d.chance(0.6) else heads * per_key),
        queries,
        keys,
    )


def _sdpa(d: Draft) -> Value:
    """Add attention as the block makes it."""
    leading, shared, queries, keys = _heads(d)
    if len(leading) == 5:
        shared = (*shared[:2], 1)
    size = d.pick(_WIDTHS)
    if len(shared) == 3:
        shared = (*shared[:2], 1)
    q = d.input((*leading, queries, size))
    k, v = d.input((*shared, keys, size)), d.input((*shared, keys, size))
    options: dict[str, Any] = {}
    if d.chance(0.6):
        dtype = d.pick(("boolean", d.dtype, d.dtype))
        if d.opens and linked_version() < (3, 8):  # has no boolean masks of unknown dims
            dtype = d.dtype
        whole = (
            (leading[0], math.prod(leading[1:]), queries, keys)
            if len(leading) == 2
            else (*leading, queries, keys)
        )
        options["mask"] = d.input(d.thinned(whole), dtype)
    if d.chance(0.4):
        options["causal"] = d.pick(("top_left", "bottom_right"))
    if d.chance(0.4):
        options["masked_rows"], d.nan = "nan", True
    if d.chance(0.3):
        options["scale"] = d.pick((0.5, 0.125))
    if d.chance(0.2):
        options["scale_by"] = "divide"
    return blocks.sdpa(q, k, v, **options)


def _by_hand(d: Draft) -> Value:
    """Add attention op by op: a scale, further ops on the scores, SoftMax, another width."""
    leading, shared, queries, keys = _heads(d)
    if len(leading) == 2:
        shared = leading
    size, width = d.pick(_WIDTHS), d.pick(_WIDTHS)
    turned = d.chance(0.7)
    q = d.input((*leading, queries, size))
    k = d.input((*shared, keys, size) if turned else (*shared, size, keys))
    v = d.input((*shared, keys, width))
    y = q.matmul(k, transpose_b=turned)
    if d.chance(0.8):
        y = d.op(d.pick(("Multiply", "Divide")), y, d.b.constant([math.sqrt(size)], d.dtype))
    whole = (*leading, queries, keys)
    for kind in d.random.sample(
        ("Add", "Add", "Select", "Multiply", "Maximum"), d.pick((0, 1, 1, 2))
    ):
        if kind == "Select":
            condition = d.input(d.thinned(whole), "boolean")
            pair = [y, d.b.constant([-1e4], d.dtype)]
            if d.chance(0.4):
                pair[1] = d.operand(d.thinned(whole))
            y = d.op(kind, condition, *(pair if d.chance(0.6) else reversed(pair)))
        else:
            y = d.op(kind, y, d.operand(d.thinned(whole)))
    y = y.softmax(axis=-1).matmul(v)
    if d.chance(0.4):
        order = [0, *d.random.sample(range(1, y.ndim - 1), y.ndim - 2), y.ndim - 1]
        y = d.op("StaticTranspose", y, order=order)
    return y


def _int8_attention(d: Draft) -> Value:
    batch, heads = d.pick((1, 2, 3)), d.pick((1, 2, 4))
    queries, keys, size = d.pick(_TOKENS), d.pick(_TOKENS), d.pick(_WIDTHS)
    kinds = d.pick(("u8", "s8")), d.pick(("s8", "s8", "u8")), d.pick(("s8", "s8", "u8"))
    q = d.dequantized((batch, heads, queries, size), kinds[0])
    k = d.dequantized((batch, heads, size, keys), kinds[1])
    v = d.dequantized((batch, heads, keys, size), kinds[2])
    y = q.matmul(k) / d.b.constant([math.sqrt(size)], d.dtype)
    if d.chance(0.7):
        y = y + d.operand(d.thinned((batch, heads, queries, keys)))
    y = y.softmax(axis=-1)
    y = y if y.dtype == "f32" else y.type_cast(dtype="f32")
    scale: dict[str, Any] = {"qtype": "per_tensor", "scales": [2.0**-7], "zps": [0]}
    y = d.floats(y.quantize(dtype=d.pick(("u8", "s8")), **scale).dequantize(**scale)).matmul(v)
    if d.chance(0.3):
        y = y.static_transpose(order=(0, 2, 1, 3))
    return d.quantized(y) if d.chance(0.6) else y


def attention_case(seed: int) -> Drawn:
    """Draw an attention: the block, by hand, or of integers; with up to 2 ops behind it."""
    d = Draft("attention", seed)
    y = d.pick((_sdpa, _sdpa, _by_hand, _by_hand, _int8_attention))(d)
    results = [y]
    # oneDNN's ops differ in what they make of NaN, which rows that are masked as a whole may be.
    if d.chance(0.25) and not d.nan:
        results += _grown(d, y, d.random.randint(1, 2), _EPILOGUE)
    return d.finished(*_outputs(d, results))


# -- other blocks


def _mlp(d: Draft) -> Value:
    x, hidden, made = d.input(d.dims(2, 3)), d.pick((4, 7, 16)), d.pick((3, 8))
    turned = d.chance(0.4)

    def weights(inner: int, outer: int) -> Value:
        return d.operand((outer, inner) if turned else (inner, outer), None, -1.0, 1.0)

    n = d.shape(x)[-1]
    if isinstance(n, Open):
        n = 5
        x = d.input((3, n))
    return blocks.gated_mlp(
        x, weights(n, hidden), weights(n, hidden), weights(hidden, made), transpose_b=turned,
        activation=d.pick(("silu", "gelu", "relu", None)) if d.chance(0.5) else "silu",
    )  # fmt: skip


def _rms_norm(d: Draft) -> Value:
    shape = d.dims(2, 4)
    return blocks.rms_norm(d.input(shape), d.operand(shape[-1:], None, 0.5, 1.5))


def _rope(d: Draft) -> Value:
    tokens, size = d.size(_TOKENS), d.pick((2, 4, 8, 16))
    x = d.input((d.pick((1, 2)), d.pick((1, 3)), tokens, size))
    tables = [d.operand((tokens, size // 2)) for _ in range(2)]
    return blocks.rope(x, *tables, interleaved=d.chance(0.5))


def _linear(d: Draft) -> Value:
    x = d.input(d.dims(2, 4))
    n, m = d.shape(x)[-1], d.pick((3, 8, 17))
    w = d.operand((n, m), None, -1.0, 1.0)
    return blocks.linear(x, w, d.operand((m,)), activation=d.pick((None, "relu", "gelu")))


def _integers(d: Draft) -> Value:
    """Add a linear layer of compressed weights, most of them with integers as activations."""
    inputs, outputs = d.pick((4, 6, 9, 16, 33)), d.pick((3, 8, 17))
    x = d.input((*d.dims(1, 3), inputs))
    groups = inputs // d.divisor(inputs)
    whole: Any = d.numbers.integers(*d.pick(((-128, 128), (-8, 8))), (inputs, outputs), np.int8)
    scales: Any = np.ldexp(d.numbers.uniform(-1, 1, (groups, outputs)), -6)
    zps: Any = d.numbers.integers(-7, 9, (groups, outputs)) / d.pick((1, 1, 4))
    turned = d.chance(0.4)
    whole, scales, zps = (a.T if turned else a for a in (whole, scales, zps))
    return blocks.linear(
        x, whole, d.operand((outputs,)), scales=scales, zero_points=d.pick((None, zps)),
        transpose_b=turned, activation=d.pick((None, "relu", "silu")),
        activations=d.pick(("int8", "int8", "exact")),
    )  # fmt: skip


def _conv_block(d: Draft) -> Value:
    x = d.input(tuple(map(int, d.dims(4, 4))), strided=False)
    n, m = int(d.shape(x)[1]), d.pick((2, 5, 16))
    w = d.operand((m, n, *d.uneven(2, (1, 2))), None, -1.0, 1.0)
    gamma, beta, mean, variance = (d.operand((m,), "f32", 0.5, 1.5) for _ in range(4))
    begin, end = d.uneven(2, (0, 1)), d.uneven(2, (2, 1))
    y = x.convolution(
        w, pads_begin=begin, pads_end=end, strides=d.uneven(2, (1, 2)), dilations=(1, 1),
        data_format="NCX", weights_format="OIX",
    )  # fmt: skip
    parameters = (gamma, beta, mean, variance)
    return y.batch_norm_inference(*parameters, epsilon=1e-5, data_format="NCX").relu()


def _pooled(d: Draft) -> Value:
    return blocks.global_avg_pool(d.input(d.dims(4, 5)))


def _cached(d: Draft) -> Value:
    """Add attention over a cache, which has a number of tokens already."""
    batch, heads, size = d.pick((1, 2)), d.pick((1, 2)), d.pick((4, 8, 33))
    tokens, cached, unused = ([d.pick(_TOKENS[:7]) for _ in range(CALLS)] for _ in range(3))
    cache = blocks.kv_cache(d.b, layers=1, batch=batch, heads=heads, size=size, dtype=d.dtype)
    memory = Open([sum(each) for each in zip(tokens, cached, unused, strict=True)])
    d.given |= {v.id: (memory, batch, heads, size) for v in cache.layers[0]}
    d.given[cache.length.id] = (1,)
    d.filled[cache.length.id] = cached
    q, k, v = (
        d.input((batch, n, Open(tokens), size)) for n in (heads * d.pick((1, 2)), heads, heads)
    )
    return cache.attend(q, k, v)


def block_case(seed: int) -> Drawn:
    """Draw a block other than attention, with up to 2 ops behind it."""
    d = Draft("blocks", seed)
    kinds = (_mlp, _rms_norm, _rope, _linear, _integers, _conv_block, _pooled, _cached)
    y = d.pick(kinds)(d)
    results = [y, *_grown(d, y, d.random.randint(0, 2))]
    return d.finished(*_outputs(d, results))


FAMILIES: Mapping[str, Family] = {
    "ops": op_case,
    "chains": chain_case,
    "int8": int8_case,
    "attention": attention_case,
    "blocks": block_case,
}
"""The functions that draw the graphs of each family, by its name."""
