"""Blocks: one partition each, the numbers of a plain formula in float64."""

import math
from contextlib import nullcontext

import numpy as np
import pytest
from block_inputs import (
    DTYPES,
    F32,
    NUMPY,
    ROUNDING,
    Inputs,
    assert_within,
    attention,
    causal_mask,
    exact,
    for_integers,
    repeated,
)
from graphs import LINKED, may_run_masks_in_parts

import onednn_graph_py as og
from onednn_graph_py import blocks
from onednn_graph_py.machine import current

INTEGERS = {"s8": (-100, 101), "u8": (0, 201), "s4": (-8, 8), "u4": (0, 16)}
random = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def same_numbers():
    """For each test, whichever ran before."""
    global random
    random = np.random.default_rng(0)


def uniform(shape, dtype="f32", low=-1.0, high=1.0):
    return random.uniform(low, high, shape).astype(NUMPY[dtype])


# -- attention


def mask_array(shape, dtype):
    made = np.where(random.random(shape) < 0.3, -np.inf, uniform(shape))
    made[..., 0] = 0  # each query sees something
    return made.astype(NUMPY[dtype])


B, H, S, T, D = 2, 4, 6, 10, 16
MASKS = [
    (B, 1, S, T),
    (1, 1, S, T),
    (B, H, S, T),
    (B, 1, 1, T),
    (1, H, S, T),
    (H, S, T),
    (S, T),
    (T,),
]


def attention_inputs(dtype, kv_heads=H, queries=S, keys=T, value_size=D):
    of = Inputs()
    arrays = [uniform((B, H, queries, D), dtype)]
    arrays += [uniform((B, kv_heads, keys, size), dtype) for size in (D, value_size)]
    return of, arrays, [of(a) for a in arrays]


def assert_attention(of, arrays, y, dtype, mask=0.0, scale=1 / 4):
    q, k, v = arrays
    wanted = attention(q, repeated(k, H), repeated(v, H), scale, np.asarray(mask), dtype)
    assert y.shape == (*q.shape[:-1], v.shape[-1]) and y.dtype == dtype
    assert_within(of.run(y), *wanted)


# oneDNN 3.7's attention of these is wrong, so that models split it.
@pytest.mark.filterwarnings(r"ignore:.*\[attention_of_(narrower|wider)_values\]:RuntimeWarning")
@pytest.mark.parametrize("size", [1, 5, 40])
@pytest.mark.parametrize("kv_heads", [H, 2, 1])
@pytest.mark.parametrize("queries", [1, S])
def test_values_may_be_narrower_or_wider_than_keys(kv_heads, queries, size):
    of, arrays, values = attention_inputs("f32", kv_heads, queries, value_size=size)
    assert_attention(of, arrays, blocks.sdpa(*values), "f32")


@pytest.mark.parametrize("kv_heads", [H, 2, 1])
@pytest.mark.parametrize("dtype", DTYPES)
def test_attention_is_one_partition(dtype, kv_heads):
    of, arrays, values = attention_inputs(dtype, kv_heads)
    y = blocks.sdpa(*values)
    of.assert_one_partition()
    assert_attention(of, arrays, y, dtype)


@pytest.mark.parametrize("scale_by", ["multiply", "divide"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_scale_multiplies_or_divides(dtype, scale_by):
    for given in (0.5, "value"):
        of, arrays, values = attention_inputs(dtype)
        if given == "value":
            given = of(np.full(1, 0.5, NUMPY[dtype]))
        y = blocks.sdpa(*values, scale=given, scale_by=scale_by)
        of.assert_one_partition()
        assert_attention(of, arrays, y, dtype, scale=0.5 if scale_by == "multiply" else 2)


def test_the_scale_is_by_default_that_of_the_head_size():
    for scale_by in ("multiply", "divide"):
        of, arrays, values = attention_inputs("f32")
        assert_attention(of, arrays, blocks.sdpa(*values, scale_by=scale_by), "f32", scale=0.25)


@may_run_masks_in_parts
@pytest.mark.parametrize("shape", MASKS)
@pytest.mark.parametrize("kv_heads", [H, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_mask_is_added(dtype, kv_heads, shape):
    for as_value in (False, True):
        of, arrays, values = attention_inputs(dtype, kv_heads)
        mask = mask_array(shape, dtype)
        given = {"mask": of(mask), "masked_rows": "nan"} if as_value else {"mask": mask}
        y = blocks.sdpa(*values, **given)
        of.assert_one_partition()
        assert_attention(of, arrays, y, dtype, exact(mask))


@pytest.mark.parametrize("kv_heads", [H, 2])
def test_a_mask_of_bool_says_what_is_seen(kv_heads):
    of, arrays, values = attention_inputs("f32", kv_heads)
    seen = random.random((S, T)) < 0.7
    seen[:, 0] = True
    y = blocks.sdpa(*values, mask=seen)
    of.assert_one_partition()
    assert_attention(of, arrays, y, "f32", np.where(seen, 0, -np.inf))


@may_run_masks_in_parts
@pytest.mark.parametrize("keys", [10, 6, 4])
@pytest.mark.parametrize("causal", [True, "top_left", "bottom_right"])
@pytest.mark.parametrize("kv_heads", [H, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_causal_mask_is_fused(dtype, kv_heads, causal, keys):
    of, arrays, values = attention_inputs(dtype, kv_heads, keys=keys)
    y = blocks.sdpa(*values, causal=causal)
    offset = keys - S if causal == "bottom_right" else 0
    # Before 3.8, a product zeroes the rows of queries that see nothing.
    assert len(of.partitions()) == 1 + (offset < 0 and LINKED < (3, 8))
    assert_attention(of, arrays, y, dtype, causal_mask(S, keys, offset))


@pytest.mark.parametrize("causal", ["top_left", "bottom_right"])
@pytest.mark.parametrize("kv_heads", [H, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_causal_mask_goes_with_another(dtype, kv_heads, causal):
    total = causal_mask(S, T, T - S if causal == "bottom_right" else 0)
    for as_value in (False, True):
        of, arrays, values = attention_inputs(dtype, kv_heads)
        mask = mask_array((B, 1, S, T), dtype)
        given = of(mask) if as_value else mask
        y = blocks.sdpa(*values, causal=causal, mask=given, masked_rows="nan")
        assert len(of.partitions()) == 1 + as_value
        assert_attention(of, arrays, y, dtype, exact(mask) + total)


@pytest.mark.parametrize("causal", [False, "top_left", "bottom_right"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_heads_may_be_grouped_already(dtype, masked, causal):
    of = Inputs()
    arrays = [uniform((B, 2, 2, S, D), dtype), *(uniform((B, 2, 1, T, D), dtype) for _ in "kv")]
    mask = mask_array((B, 1, 1, S, T), dtype) if masked else np.zeros(1)
    y = blocks.sdpa(
        *(of(a) for a in arrays),
        causal=causal,
        mask=of(mask) if masked else None,
        masked_rows="nan",
    )
    assert len(of.partitions()) == 1 + bool(masked and causal)
    total = exact(mask)
    if causal:
        total = total + causal_mask(S, T, T - S if causal == "bottom_right" else 0)
    assert_within(of.run(y), *attention(*arrays, 1 / 4, total, dtype))


def test_unknown_dims_stay_open():
    b = og.GraphBuilder()
    q = b.input((-1, H, -1, D), "f32")
    k, v = (b.input((-1, H, -1, D), "f32") for _ in "kv")
    b.output(blocks.sdpa(q, k, v, causal=True))
    model = b.compile()
    for batch, keys in ((1, 5), (2, 7)):
        arrays = [uniform((batch, H, keys, D)) for _ in range(3)]
        wanted = attention(*arrays, 1 / 4, causal_mask(keys, keys, 0), "f32")
        assert_within(exact(model(*arrays)), *wanted)


@pytest.mark.parametrize("queries, keys", [(S, T), (-1, -1)])
def test_grouped_heads_may_be_of_an_unknown_batch(queries, keys):
    b = og.GraphBuilder()
    q = b.input((-1, H, queries, D), "f32")
    k, v = (b.input((-1, 2, keys, D), "f32") for _ in "kv")
    b.output(blocks.sdpa(q, k, v))
    arrays = [uniform((3, H, S, D)), uniform((3, 2, T, D)), uniform((3, 2, T, D))]
    wanted = attention(arrays[0], *(repeated(a, H) for a in arrays[1:]), 1 / 4, 0.0, "f32")
    assert_within(exact(b.compile()(*arrays)), *wanted)


@pytest.mark.parametrize("kv_heads", [2, 1])
def test_masks_of_grouped_heads_may_be_of_unknown_tokens(kv_heads):
    """A reshape can't tell two unknown dims apart."""
    b = og.GraphBuilder()
    q, mask = b.input((B, H, -1, D)), b.input((B, H, -1, -1))
    k, v = (b.input((B, kv_heads, -1, D)) for _ in "kv")
    b.output(blocks.sdpa(q, k, v, mask=mask))
    model = b.compile()
    for queries, keys in ((S, T), (1, 3)):
        given = [uniform((B, H, queries, D)), *(uniform((B, kv_heads, keys, D)) for _ in "kv")]
        added = uniform((B, H, queries, keys))
        heads = [repeated(a, H) for a in given[1:]]
        wanted = attention(given[0], *heads, 1 / 4, added, "f32")
        assert_within(model(given[0], added, *given[1:]), *wanted)


def test_interleaved_pairs_may_be_of_an_unknown_batch_and_unknown_tokens():
    results = []
    x, tables = uniform((3, H, S, D)), [uniform((S, D // 2)) for _ in "cs"]
    for batch, tokens in ((3, S), (-1, -1)):
        b = og.GraphBuilder()
        given = b.input((batch, H, tokens, D), "f32")
        cos, sin = (b.input((tokens, D // 2), "f32") for _ in "cs")
        b.output(blocks.rope(given, cos, sin, interleaved=True))
        results.append(b.compile()(x, *tables))
    assert np.array_equal(*results)


# -- compressed weights


def compress(shape, integers, groups, dtype, zero_points):
    """Integers, scales and zero points, and what they stand for."""
    low, high = INTEGERS[integers]
    whole = random.integers(low, high, shape)
    parameters = tuple(d // g for d, g in zip(shape, groups, strict=True))
    scales = (random.uniform(0.5, 1, parameters) / high).astype(NUMPY[dtype])
    points = random.integers(0, 3, parameters) if zero_points else np.zeros(parameters, int)
    spread = [exact(scales), exact(points)]
    for axis, group in enumerate(groups):
        spread = [np.repeat(a, group, axis) for a in spread]
    stored = whole.astype(NUMPY[integers])
    given = points.astype(NUMPY.get(zero_points, np.int32)) if zero_points else None
    return stored, scales, given, (whole - spread[1]) * spread[0]


LONG = 64


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("zero_points", [None, "s32"])
@pytest.mark.parametrize("integers", [("s8", "s8"), ("u4", "u4"), ("s4", None), (None, "u8")])
@pytest.mark.parametrize("dtype", DTYPES)
def test_compressed_keys_and_values_are_fused(dtype, integers, zero_points, grouped):
    of = for_integers(dtype)
    lead = (B, 2, 1) if grouped else (B, H)
    q = uniform((B, 2, 2, S, LONG) if grouped else (B, H, S, LONG), dtype)
    values, meant, options = [of(q)], [], {}
    for argument, kind in zip(("key", "value"), integers, strict=True):
        shape = (*lead, T, LONG)
        if kind is None:
            array = uniform(shape, dtype)
            values.append(of(array))
            meant.append(exact(array))
            continue
        groups = (*(1,) * (len(shape) - 1), 32)
        stored, scales, points, exactly = compress(shape, kind, groups, dtype, zero_points)
        values.append(of(stored))
        meant.append(exactly)
        options[f"{argument}_scale"] = of(scales)
        if zero_points:
            options[f"{argument}_zero_point"] = of(points)
    y = blocks.sdpa(*values, **options)
    of.assert_one_partition()
    wanted, bound = attention(q, *meant, 1 / 8, 0.0, dtype)
    # Keys and values may be rounded to the data type once dequantized.
    scores = np.abs(exact(q)) @ np.abs(meant[0]).swapaxes(-1, -2) / 8
    rounded = 2 * 2 * ROUNDING[dtype] * scores.max() + 2 * ROUNDING[dtype]
    assert_within(of.run(y), wanted, bound + rounded * np.abs(meant[1]).max())


def test_compressed_keys_go_with_a_causal_mask():
    of = for_integers("f32")
    q = uniform((B, H, S, LONG))
    (k, ks, kz, key), (v, vs, vz, value) = (
        compress((B, H, T, LONG), "u4", (1, 1, 1, 32), "f32", "s32") for _ in "kv"
    )
    y = blocks.sdpa(
        of(q), of(k), of(v), causal=True, key_scale=ks, key_zero_point=kz,
        value_scale=vs, value_zero_point=vz,
    )  # fmt: skip
    of.assert_one_partition()
    wanted, bound = attention(q, key, value, 1 / 8, causal_mask(S, T, 0), "f32")
    assert_within(of.run(y), wanted, bound + 64 * F32 * np.abs(value).max())


# -- layers


def silu(x):
    return x / (1 + np.exp(-x))


erf = np.vectorize(math.erf)


ACTIVATIONS = {
    None: lambda x: x,
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "gelu": lambda x: x / 2 * (1 + erf(x / np.sqrt(2))),
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": silu,
    "tanh": np.tanh,
}
STEEPEST = 1.6  # of them all; oneDNN's approximations are good to 1e-5 of the largest value
APPROXIMATION = 1e-5


def product(x, w, error_x=0.0, error_w=0.0):
    """The product, and how far off it may be for such errors of x and w, summed in f32."""
    size = np.abs(x) @ np.abs(w)
    error = (x.shape[-1] + 2) * 2 * F32 * size
    error = error + (np.broadcast_to(error_x, x.shape) + 0 * x) @ np.abs(w)
    return x @ w, error + np.abs(x) @ (np.broadcast_to(error_w, w.shape) + 0 * w)


def activated(pair, activation, dtype):
    """The activation of a stored (value, error), stored."""
    value, error = pair
    error = error + ROUNDING[dtype] * np.abs(value)
    y = ACTIVATIONS[activation](value)
    if activation is None:
        return y, error
    # silu is two ops, of which the first may be stored too.
    return y, STEEPEST * error + 2 * ROUNDING[dtype] * np.abs(y) + APPROXIMATION


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_linear_is_one_partition(dtype, activation, biased):
    of = Inputs()
    x, w, bias = uniform((3, 5, 24), dtype), uniform((24, 7), dtype), uniform((7,), dtype)
    y = blocks.linear(of(x), of(w), of(bias) if biased else None, activation=activation)
    of.assert_one_partition()
    assert y.shape == (3, 5, 7) and y.dtype == dtype
    value, error = product(exact(x), exact(w))
    if biased:
        value, error = value + exact(bias), error + 2 * F32 * np.abs(exact(bias))
    assert_within(of.run(y), *activated((value, error), activation, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_linear_takes_arrays_with_outputs_first(dtype):
    of = Inputs()
    x, w, bias = uniform((5, 24), dtype), uniform((7, 24)), uniform((7,))
    y = blocks.linear(of(x), w, bias, transpose_b=True, activation="relu", name="fc")
    of.assert_one_partition()
    assert y.name == "fc" and {c.dtype for c in of.b.constants} == {dtype}
    w, bias = exact(w.astype(NUMPY[dtype])), exact(bias.astype(NUMPY[dtype]))
    value, error = product(exact(x), w.T)
    pair = value + bias, error + 2 * F32 * np.abs(bias)
    assert_within(of.run(y), *activated(pair, "relu", dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_compressed_weights_of_linear_are_dequantized_apart(dtype):
    of = Inputs()
    x = uniform((3, 24), dtype)
    w, scales, _, weights = compress((24, 6), "u4", (8, 1), dtype, None)
    y = blocks.linear(of(x), blocks.dequantize(of(w), of(scales)), activation="relu")
    assert of.partitions() == [1, 2]
    pair = product(exact(x), weights, 0.0, 2 * ROUNDING[dtype] * np.abs(weights))
    assert_within(of.run(y), *activated(pair, "relu", dtype))


def mlp(x, gate, up, down, activation, dtype, weight_error=0.0):
    x, gate, up, down = (exact(a) for a in (x, gate, up, down))
    errors = [weight_error * np.abs(w) for w in (gate, up, down)]
    g, g_error = activated(product(x, gate, 0.0, errors[0]), activation, dtype)
    u, u_error = product(x, up, 0.0, errors[1])
    u_error = u_error + ROUNDING[dtype] * np.abs(u)
    h = g * u
    h_error = np.abs(g) * u_error + np.abs(u) * g_error + g_error * u_error
    y, error = product(h, down, h_error + ROUNDING[dtype] * np.abs(h), errors[2])
    return y, error + ROUNDING[dtype] * np.abs(y)


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("activation", ["silu", "gelu", "relu", None])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_gated_mlp_is_one_partition(dtype, activation, transpose_b):
    of = Inputs()
    x = uniform((2, 3, 24), dtype)
    gate, up, down = weights = [uniform(s, dtype) for s in ((24, 40), (24, 40), (40, 12))]
    given = [of(a) for a in (x, *(w.T.copy() if transpose_b else w for w in weights))]
    y = blocks.gated_mlp(*given, activation=activation, transpose_b=transpose_b)
    of.assert_one_partition()
    assert y.shape == (2, 3, 12) and y.dtype == dtype
    assert_within(of.run(y), *mlp(x, gate, up, down, activation, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_gate_and_up_may_be_inputs_over_one_memory(dtype):
    of = Inputs()
    x, both, down = (uniform(s, dtype) for s in ((3, 24), (24, 80), (40, 12)))
    halves = [of(h, strides=(80, 1)) for h in (both[:, :40], both[:, 40:])]
    y = blocks.gated_mlp(of(x), *halves, of(down))
    of.assert_one_partition()
    assert_within(of.run(y), *mlp(x, both[:, :40], both[:, 40:], down, "silu", dtype))


# Such a partition would execute an instruction that the CPU lacks.
WITHOUT_KERNEL = LINKED >= (3, 8) and not current().has("avx512")


def runs_in_parts(expected):
    """Expect that a model says so."""
    return pytest.warns(RuntimeWarning, match="runs in parts") if expected else nullcontext()


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("zero_points", [None, "s32"])
@pytest.mark.parametrize("integers", ["u4", "s4", "s8", "u8"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_compressed_weights_of_a_gated_mlp_are_fused(dtype, integers, zero_points, axis):
    of = for_integers(dtype)
    x = uniform((3, 64), dtype)
    groups = (32, 1) if axis == 0 else (1, 32)
    made = [
        compress(s, integers, groups, dtype, zero_points) for s in ((64, 96), (64, 96), (96, 32))
    ]
    y = blocks.gated_mlp(
        of(x),
        *(of(m[0]) for m in made),
        scales=[of(m[1]) for m in made],
        zero_points=[of(m[2]) for m in made] if zero_points else None,
    )
    of.assert_one_partition()
    wanted = mlp(x, *(m[3] for m in made), "silu", dtype, weight_error=2 * ROUNDING[dtype])
    with runs_in_parts(WITHOUT_KERNEL and zero_points == "s32" and axis == 0):
        assert_within(of.run(y, slow_fusions="run"), *wanted)


def test_dequantized_weights_may_be_given_too():
    of = for_integers("f32")
    x = uniform((3, 64))
    made = [compress(s, "s4", (32, 1), "f32", None) for s in ((64, 96), (64, 96), (96, 32))]
    y = blocks.gated_mlp(of(x), *(blocks.dequantize(of(m[0]), of(m[1])) for m in made))
    of.assert_one_partition()
    assert_within(of.run(y), *mlp(x, *(m[3] for m in made), "silu", "f32", 2 * F32))


# -- quantization


def assert_quantized(actual, exactly, dtype):
    """To the nearest, except that ties may go either way."""
    low, high = {"u8": (0, 255), "s8": (-128, 127)}[dtype]
    inside = np.clip(exactly, low, high)
    # 8 roundings of f32 on the way.
    slack = 0.5 + 8 * F32 * np.maximum(1, np.abs(exactly))
    assert_within(actual, inside, np.where(inside == exactly, slack, 0.5))


@pytest.mark.parametrize("given", ["numbers", "arrays", "values"])
@pytest.mark.parametrize("dtype", ["u8", "s8"])
def test_quantize_per_tensor(dtype, given):
    of = Inputs()
    x = uniform((4, 32), low=-8, high=8)
    scale, point = 0.05, 3
    options = {
        "numbers": lambda: (scale, point),
        "arrays": lambda: (np.float32([scale]), np.int64([point])),
        "values": lambda: (of(np.float32([scale])), of(np.int32([point]))),
    }
    v = of(x)
    y = blocks.quantize(v, dtype, *options[given]())
    of.assert_one_partition()
    kind = "DynamicQuantize" if given == "values" else "Quantize"
    assert [n.kind for n in of.b.nodes] == [kind] and y.dtype == dtype
    assert_quantized(of.run(y), exact(x) / exact(np.float32(scale)) + point, dtype)


@pytest.mark.parametrize("given", ["arrays", "values"])
@pytest.mark.parametrize("axis", [1, -2])  # oneDNN computes wrong results for the latter
def test_quantize_per_channel(axis, given):
    of = Inputs()
    x = uniform((3, 4, 5), low=-8, high=8)
    scales = random.uniform(0.03, 0.1, x.shape[axis]).astype(np.float32)
    v = of(x)
    y = blocks.quantize(v, "s8", of(scales) if given == "values" else scales, axis=axis)
    of.assert_one_partition()
    assert_quantized(of.run(y), exact(x) / exact(scales)[:, None], "s8")


@pytest.mark.parametrize("given", ["numbers", "values"])
@pytest.mark.parametrize("integers", ["u8", "s8"])
def test_dequantize_per_tensor(integers, given):
    of = Inputs()
    x = random.integers(*INTEGERS[integers], (4, 32)).astype(NUMPY[integers])
    v = of(x)
    if given == "numbers":
        y = blocks.dequantize(v, 0.05, 3)
    else:
        y = blocks.dequantize(v, of(np.float32([0.05])), of(np.int32([3])))
    of.assert_one_partition()
    wanted = (exact(x) - 3) * exact(np.float32(0.05))
    assert y.dtype == "f32"
    assert_within(of.run(y), wanted, 4 * F32 * np.abs(wanted))


@pytest.mark.parametrize("axis", [1, -1])  # oneDNN computes wrong results for the latter
@pytest.mark.parametrize("given", ["arrays", "values"])
def test_dequantize_per_channel(given, axis):
    of = Inputs()
    x = random.integers(-100, 100, (4, 6)).astype(np.int8)
    scales = random.uniform(0.03, 0.1, 6).astype(np.float32)
    v = of(x)
    y = blocks.dequantize(v, of(scales) if given == "values" else scales, axis=axis)
    of.assert_one_partition()
    wanted = exact(x) * exact(scales)
    assert_within(of.run(y), wanted, 4 * F32 * np.abs(wanted))


@pytest.mark.parametrize("given", ["arrays", "values"])
@pytest.mark.parametrize("zero_points", [None, "s32"])
@pytest.mark.parametrize("integers", ["u4", "s4", "s8", "u8"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dequantize_per_group(dtype, integers, zero_points, given):
    of = Inputs()
    x, scales, points, wanted = compress((8, 12), integers, (4, 1), dtype, zero_points)
    v = of(x)
    if given == "values":
        y = blocks.dequantize(v, of(scales), None if points is None else of(points))
    else:
        y = blocks.dequantize(v, scales, points, group_shape=(4, 1), dtype=dtype)
    of.assert_one_partition()
    assert y.dtype == dtype
    if (integers, dtype) == ("u8", "f16"):
        with pytest.raises(og.UnimplementedError, match="DynamicDequantize"):
            of.run(y)
        return
    bound = (ROUNDING[dtype] + 4 * F32) * np.abs(wanted)
    assert_within(of.run(y), wanted, bound)


def test_one_zero_point_serves_all_groups():
    of = Inputs()
    x, scales, _, _ = compress((8, 12), "u4", (4, 1), "f32", None)
    y = blocks.dequantize(of(x), scales, 3)
    wanted = (exact(x) - 3) * np.repeat(exact(scales), 4, 0)
    assert_within(of.run(y), wanted, 4 * F32 * np.abs(wanted))


@pytest.mark.parametrize("dtype", [p for p in DTYPES if p.values[0] != "f16"])
def test_an_int8_layer_is_one_partition(dtype):
    of = Inputs()
    x = random.integers(0, 200, (4, 32)).astype(np.uint8)
    w = random.integers(-100, 100, (32, 16)).astype(np.int8)
    scales = random.uniform(0.01, 0.02, 16).astype(np.float32)
    left = blocks.dequantize(of(x), 0.02, 100, dtype=dtype)
    right = blocks.dequantize(of(w), scales, axis=1, dtype=dtype)
    y = blocks.linear(left, right, activation="relu")
    y = blocks.quantize(y, "u8", 0.5)
    of.assert_one_partition()
    x, w = (exact(x) - 100) * 0.02, exact(w) * exact(scales)
    size = np.abs(x) @ np.abs(w)
    wanted = np.maximum(x @ w, 0) / 0.5
    # Rounded to the data type at most four times, and to u8.
    bound = 0.5 + size / 0.5 * (4 * ROUNDING[dtype] + 64 * F32)
    with runs_in_parts(not current().has("vnni")):
        assert_within(of.run(y), np.clip(wanted, 0, 255), bound)


def test_8_bit_floats_have_no_zero_points():
    b = og.GraphBuilder()
    y = blocks.quantize(b.input((4,), "f32"), "f8_e4m3", 0.5)
    assert y.dtype == "f8_e4m3"
    assert blocks.dequantize(y, 0.5).dtype == "f32"
    for make in (lambda: blocks.quantize(b.inputs[0], "f8_e4m3", 0.5, 0),
                 lambda: blocks.dequantize(y, 0.5, 0)):  # fmt: skip
        with pytest.raises(og.InvalidArgumentsError, match=r"quantize: f8_e4m3 has no zero_points"):
            make()


# -- names


def test_ops_of_a_named_block_are_named():
    b = og.GraphBuilder()
    with b.scope("layer0"):
        q, k, v = (b.input((B, H, S, D), "f32", name=n) for n in "qkv")
        y = blocks.sdpa(q, k, v, causal=True, name="attention")
    assert y.name == "layer0/attention"
    assert {n.name for n in b.nodes} == {"layer0/attention"} | {
        f"layer0/attention/{part}" for part in ("scores", "scaled", "masked", "softmax")
    }


def test_unnamed_blocks_may_all_be_outputs():
    of = Inputs()
    x = of(uniform((4, 8)))
    of.b.output(*(blocks.linear(x, uniform((8, 8))) for _ in range(2)))
    assert len(of.b.outputs) == 2


# -- errors


@pytest.mark.parametrize("mode", ["strict", "any", "bf16"])
def test_compressed_bf16_needs_a_mode_that_computes_in_bf16(mode):
    b = og.GraphBuilder(fpmath_mode=mode, apply_to_int=True)
    x = b.input((4, 64), "bf16")
    weights = [b.input((64, 64), "u4") for _ in range(3)]
    scales = [b.input((2, 64), "bf16") for _ in range(3)]
    if mode == "strict":
        with pytest.raises(og.InvalidArgumentsError, match=r"fpmath_mode='bf16', apply_to_int=Tr"):
            blocks.gated_mlp(x, *weights, scales=scales)
    else:
        assert blocks.gated_mlp(x, *weights, scales=scales).shape == (4, 64)


# -- pooling


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 8, 7, 5), (1, 4, 3, 5, 2), (2, 3, 1, 1)])
def test_global_pooling_is_the_mean_over_space(dtype, shape):
    of = Inputs()
    x = uniform(shape, dtype)
    y = blocks.global_avg_pool(of(x))
    axes = tuple(range(2, len(shape)))
    wide = x.astype(np.float64)
    assert y.shape == (*shape[:2], *[1] * len(axes)) and y.dtype == dtype
    of.assert_one_partition()
    wanted = wide.mean(axes, keepdims=True)
    # The sum rounds in f32, the result in its own type.
    error = math.prod(shape[2:]) * F32 * abs(wide).mean(axes, keepdims=True)
    assert_within(of.run(y), wanted, error + ROUNDING[dtype] * abs(wanted))


def test_global_pooling_of_unknown_sizes():
    b = og.GraphBuilder()
    x = b.input((-1, 4, -1, -1), name="x")
    y = blocks.global_avg_pool(x)
    assert y.shape == (-1, 4, 1, 1)
    b.output(y=y)
    model = b.compile()
    for shape in ((2, 4, 6, 5), (1, 4, 1, 3), (3, 4, 2, 2)):
        given = uniform(shape)
        wanted = given.astype(np.float64).mean((2, 3), keepdims=True)
        assert_within(model(given), wanted, np.full(wanted.shape, shape[2] * shape[3] * F32))
