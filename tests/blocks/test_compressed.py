"""`blocks.linear` with weights of 8 and 4 bits, and activations rounded token by token."""

import ml_dtypes
import numpy as np
import pytest
from rounding import allowed, steps_of_columns

import onednn_graph_py as og
from onednn_graph_py import blocks
from onednn_graph_py.blocks import tokens
from onednn_graph_py.machine.cpu import largest_int8_weight

rng = np.random.default_rng(0)

RANGES = {"s8": (-128, 128), "u8": (0, 256), "s4": (-8, 8), "u4": (0, 16)}
TYPES = {"s8": np.int8, "u8": np.uint8, "s4": ml_dtypes.int4, "u4": ml_dtypes.uint4}


def weights_of(dtype, shape, group, points):
    """Return integers, scales, zero points, and the numbers that they stand for."""
    low, high = RANGES[dtype]
    inputs, outputs = shape
    integers = rng.integers(low, high, shape)
    groups = {"tensor": 1, "column": 1}.get(group) or inputs // group
    scales = rng.uniform(0.5, 2, (groups, 1 if group == "tensor" else outputs)) / high
    scales = scales.astype(np.float32)
    middle = (low + high) // 2
    zeros = {
        "none": np.zeros_like(scales),
        "whole": middle + rng.integers(-3, 4, scales.shape),
        "fractions": (middle + rng.uniform(-3, 3, scales.shape)).astype(np.float32),
    }[points]
    size = inputs // groups
    exact = (integers - np.repeat(zeros, size, 0).astype(np.float64)) * np.repeat(scales, size, 0)
    return integers.astype(TYPES[dtype]), scales, None if points == "none" else zeros, exact


def run(x, weights, **options):
    b = og.GraphBuilder()
    dtype = {np.dtype(np.float32): "f32"}.get(x.dtype, "bf16")
    b.output(blocks.linear(b.input(x.shape, dtype, name="x"), weights, **options))
    model = b.compile()
    return model(x), model


@pytest.mark.parametrize("points", ["none", "whole", "fractions"])
@pytest.mark.parametrize("group", ["tensor", "column", 32, 48])
@pytest.mark.parametrize("dtype", TYPES)
def test_groups_by_column(dtype, group, points):
    integers, scales, zeros, exact = weights_of(dtype, (96, 56), group, points)
    x = rng.standard_normal((7, 96)).astype(np.float32)
    given = scales.reshape(-1) if group in ("tensor", "column") else scales
    given_zeros = None if zeros is None else zeros.reshape(given.shape)
    y, _ = run(x, integers, scales=given, zero_points=given_zeros, activations="int8")
    largest = largest_int8_weight()
    one = group in ("tensor", "column")
    shifted = exact / np.repeat(scales, 96 // len(scales), 0)
    whole = one and points != "fractions"
    fits = shifted.min() >= (-128 if largest == 127 else -largest) and shifted.max() <= largest
    steps = 0 if whole and fits else steps_of_columns(exact, largest)
    assert np.all(np.abs(y - x @ exact) <= allowed(x, exact, steps))


@pytest.mark.parametrize("points", ["none", "whole", "fractions"])
@pytest.mark.parametrize("group", ["column", 32, 48])
@pytest.mark.parametrize("dtype", TYPES)
def test_exact_groups_round_no_weight(dtype, group, points):
    integers, scales, zeros, exact = weights_of(dtype, (96, 24), group, points)
    # Each token's largest number is 127 steps, so that nothing of it is rounded.
    steps = rng.uniform(0.01, 3, (5, 1)).astype(np.float32)
    whole = rng.integers(-127, 128, (5, 96))
    whole[:, 11] = 127
    x = (whole * steps).astype(np.float32)
    y, _ = run(x, integers, scales=scales, zero_points=zeros, activations="int8", groups="exact")
    sums = np.abs(x).astype(np.float64) @ np.abs(exact)
    largest = max(float(np.abs(integers.astype(np.int64)).max()), 1)
    parts = np.abs(x).astype(np.float64) @ np.repeat(scales, 96 // len(scales), 0) * 2 * largest
    few = len(scales) + 8  # sums of products, and roundings of scales
    np.testing.assert_array_less(np.abs(y - x @ exact), few * 2.0**-24 * (sums + parts) + 1e-30)


@pytest.mark.parametrize("dtype", ["s8", "u8"])
@pytest.mark.parametrize("groups", ["column", "exact"])
def test_nothing_saturates(dtype, groups):
    low, high = RANGES[dtype][0], RANGES[dtype][1] - 1
    for x_sign in (1, -1):
        for weight in (low, high):
            x = np.full((3, 512), 127.0 * x_sign, np.float32)
            integers = np.full((512, 16), weight, TYPES[dtype])
            point = 128 if dtype == "u8" else 0
            y, _ = run(
                x, integers, scales=[1.0], zero_points=[point], activations="int8", groups=groups
            )
            np.testing.assert_allclose(y, 512 * 127.0 * x_sign * (weight - point), rtol=1e-6)


@pytest.mark.parametrize(
    "shape", [(5, 64), (1, 7, 64), (2, 3, 64), (64,), (1, 1, 64), (2, 1, 3, 64)]
)
@pytest.mark.parametrize("biased", [False, True])
def test_shapes_bias_and_activation(shape, biased):
    x = rng.standard_normal(shape).astype(np.float32)
    w = (rng.standard_normal((64, 40)) / 8).astype(np.float32)
    bias = rng.standard_normal(40).astype(np.float32) if biased else None
    y, _ = run(x, w, bias=bias, activation="relu", activations="int8", name="fc")
    flat = x.reshape(-1, 64)
    exact = flat @ w.astype(np.float64) + (0 if bias is None else bias)
    far = allowed(flat, w, steps_of_columns(w, largest_int8_weight()))
    assert y.shape == (*shape[:-1], 40)
    assert np.all(np.abs(y.reshape(-1, 40) - np.maximum(exact, 0)) <= far + 1e-6)


@pytest.mark.parametrize("dims", [(-1, 48), (1, -1, 48), (-1, -1, 48)])
def test_unknown_dims(dims):
    w = (rng.standard_normal((48, 32)) / 7).astype(np.float32)
    b = og.GraphBuilder()
    x = b.input(dims, "f32", name="x")
    b.output(*(blocks.linear(x, w * k, activations="int8", name=f"fc{k}") for k in (1, 2)))
    assert sum(n.kind == "Quantize" for n in b.nodes) == 1
    model = b.compile()
    for sizes in ((1, 1), (2, 9), (3, 130)):
        given = rng.standard_normal([*sizes[: len(dims) - 1], 48]).astype(np.float32)
        given = given[:1] if dims[0] == 1 else given
        flat = given.reshape(-1, 48)
        far = allowed(flat, w, steps_of_columns(w, largest_int8_weight()))
        for k, y in zip((1, 2), model(given), strict=True):
            assert np.all(np.abs(y.reshape(-1, 32) - k * (flat @ w)) <= k * far)


def test_what_a_front_end_took_back_is_rounded_anew():
    w = (rng.standard_normal((48, 32)) / 7).astype(np.float32)
    b = og.GraphBuilder()
    x = b.input((5, 48), "f32")
    blocks.linear(x, w, activations="int8")
    b.contents.nodes.clear()
    b.output(blocks.linear(x, w, activations="int8"))
    given = rng.standard_normal((5, 48)).astype(np.float32)
    far = allowed(given, w, steps_of_columns(w, largest_int8_weight()))
    assert np.all(np.abs(b.compile()(given) - given @ w) <= far)


def test_bf16_is_rounded_once_for_all_that_read_it():
    x = rng.standard_normal((6, 64)).astype(ml_dtypes.bfloat16)
    w = (rng.standard_normal((64, 24)) / 8).astype(np.float32)
    b = og.GraphBuilder()
    value = b.input(x.shape, "bf16", name="x")
    for _ in range(3):
        b.output(blocks.linear(value, w, activations="int8"))
    assert sum(n.kind == "Quantize" for n in b.nodes) == 1
    y = b.compile()(x)[2].astype(np.float64)
    exact = x.astype(np.float64) @ w
    far = allowed(x.astype(np.float32), w, steps_of_columns(w, largest_int8_weight()))
    assert np.all(np.abs(y - exact) <= far + 2.0**-8 * np.abs(exact) + 2.0**-8 * far)


def test_a_quantization_of_the_caller_is_no_rounding_of_tokens():
    b = og.GraphBuilder()
    x = b.input((4, 32), "f32", name="x")
    mine = (x / b.constant(np.full((1, 1), 0.5, np.float32))).quantize(
        dtype="s8", qtype="per_tensor", scales=[1.0]
    )
    b.output(mine, blocks.linear(x, np.eye(32, dtype=np.float32), activations="int8"))
    assert sum(n.kind == "Quantize" for n in b.nodes) == 2


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_tokens_that_are_not_finite(bad):
    x = rng.standard_normal((4, 64)).astype(np.float32)
    x[1, 17] = bad
    w = (rng.standard_normal((64, 24)) / 8).astype(np.float32)
    y, _ = run(x, w, activations="int8")
    assert np.isnan(y[1]).all()
    good = [0, 2, 3]
    far = allowed(x[good], w, steps_of_columns(w, largest_int8_weight()))
    assert np.all(np.abs(y[good] - x[good] @ w.astype(np.float64)) <= far)


@pytest.mark.parametrize("size", [0.0, 1e-44, 1e-38, 1e30])
def test_tokens_of_zeros_and_of_small_and_large_numbers(size):
    x = (rng.uniform(-1, 1, (3, 64)) * size).astype(np.float32)
    w = (rng.standard_normal((64, 24)) / 8).astype(np.float32)
    y, _ = run(x, w, activations="int8")
    far = allowed(x, w, steps_of_columns(w, largest_int8_weight()))
    tiny = np.finfo(np.float32).tiny * 64 * np.abs(w).max()  # steps are no smaller
    assert np.all(np.abs(y - x.astype(np.float64) @ w) <= far + tiny)


def test_exact_activations_read_the_numbers_that_weights_stand_for():
    integers, scales, zeros, exact = weights_of("u4", (64, 24), 32, "fractions")
    x = rng.standard_normal((4, 64)).astype(np.float32)
    y, _ = run(x, integers, scales=scales, zero_points=zeros)
    np.testing.assert_allclose(y, x @ exact, rtol=1e-4, atol=1e-4)
    y, _ = run(
        x, np.ascontiguousarray(integers.T), scales=np.ascontiguousarray(scales.T),
        zero_points=np.ascontiguousarray(zeros.T), transpose_b=True,
    )  # fmt: skip
    np.testing.assert_allclose(y, x @ exact, rtol=1e-4, atol=1e-4)


def test_products_are_those_of_integers():
    x = rng.standard_normal((4, 64)).astype(np.float32)
    _, model = run(x, np.ones((64, 24), np.int8), scales=[0.1], activations="int8")
    assert any(s.ops[:3] == ("Dequantize", "Dequantize", "MatMul") for s in model.steps())
    assert {s.implementation for s in model.steps()} <= {"oneDNN", "view"}


@pytest.mark.parametrize("size", [64, 1024])
def test_tokens_are_unsigned_where_signed_ones_are_slow(monkeypatch, size):
    """Sums of integers are exact, so that both give the same bits, also at the extremes."""
    x = rng.uniform(-3, 3, (3, size)).astype(np.float32)
    x[0], x[1, ::2] = 5, -5
    weights = rng.integers(-64, 65, (size, 11)).astype(np.int8)
    weights[:, 0], weights[:, 1] = 64, -64
    scales = rng.uniform(0.5, 2, 11).astype(np.float32)
    made = {}
    for most, dtype in ((127, "s8"), (64, "u8")):
        monkeypatch.setattr(tokens, "largest_int8_weight", lambda most=most: most)
        b = og.GraphBuilder()
        y = blocks.linear(b.input(x.shape), weights, scales=scales, activations="int8")
        b.output(y)
        assert [n.outputs[0].dtype for n in b.nodes if n.kind == "Quantize"] == [dtype]
        made[dtype] = b.compile()(x)
    np.testing.assert_array_equal(made["u8"], made["s8"])
    steps = np.abs(x).max(1, keepdims=True) / np.float32(127)
    sums = np.rint(x / steps).astype(np.int64) @ weights.astype(np.int64)
    np.testing.assert_allclose(made["u8"], sums * steps * scales, rtol=2e-6)
