"""The block `rms_norm`."""

import ml_dtypes
import numpy as np
import pytest

import onednn_graph_py as og
from onednn_graph_py import blocks

rng = np.random.default_rng(0)

FLOATS = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
UNIT = {"f32": 2.0**-24, "bf16": 2.0**-8, "f16": 2.0**-11}


def expected(x, weight, eps):
    x = x.astype(np.float64)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight.astype(np.float64)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(1, 4096), (16, 768), (2, 3, 64), (5,), (4, 1)])
@pytest.mark.parametrize("weight", ["none", "same", "f32", "value"])
def test_it_is_its_definition(dtype, shape, weight):
    x = (rng.standard_normal(shape) * 3).astype(FLOATS[dtype])
    of = np.float32 if weight == "f32" else FLOATS[dtype]
    w = rng.uniform(0.5, 2, shape[-1]).astype(of) if weight != "none" else np.ones(1, of)
    b = og.GraphBuilder()
    value = b.input(shape, dtype, name="x")
    given = {
        "none": None,
        "value": b.input(w.shape, dtype, name="w") if weight == "value" else None,
    }
    y = blocks.rms_norm(value, given.get(weight, w), epsilon=1e-3, name="norm")
    assert y.shape == shape and y.dtype == dtype and y.name == "norm"
    b.output(y)
    try:
        model = b.compile(fallback="error")
    except og.UnimplementedError:
        assert dtype == "f16"
        model = b.compile()
    got = model(x, w) if weight == "value" else model(x)
    # One rounding to the data type; in f32 a mean of n squares, a root, a quotient and a product.
    unit, wide = UNIT[dtype], UNIT["f32"] * (4 + np.log2(max(shape[-1], 2)))
    np.testing.assert_allclose(
        got.astype(np.float64),
        expected(x, w, 1e-3),
        rtol=1.01 * unit + wide,
        atol=2.0**-25 if dtype == "f16" else 0,  # half of its least number
    )


@pytest.mark.parametrize("scale", [1e-18, 1e15, 0.0])
def test_large_and_small_numbers(scale):
    x = (rng.standard_normal((4, 64)) * scale).astype(np.float32)
    b = og.GraphBuilder()
    b.output(blocks.rms_norm(b.input(x.shape, "f32"), eps=1e-6))
    np.testing.assert_allclose(b.compile()(x), expected(x, np.ones(1), 1e-6), rtol=1e-5, atol=1e-30)


def test_unknown_dims():
    b = og.GraphBuilder()
    w = rng.uniform(0.5, 2, 32).astype(np.float32)
    b.output(blocks.rms_norm(b.input((1, -1, 32), "f32"), w))
    model = b.compile()
    for n in (1, 7):
        x = rng.standard_normal((1, n, 32)).astype(np.float32)
        np.testing.assert_allclose(model(x), expected(x, w, 1e-5), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_no_step_runs_in_numpy(dtype):
    b = og.GraphBuilder()
    w = np.ones(1024, FLOATS[dtype])
    b.output(blocks.rms_norm(b.input((128, 1024), dtype), w))
    steps = [s for s in b.compile().steps() if s.implementation != "constant"]
    assert {s.implementation for s in steps} == {"oneDNN"}


def test_wrong_arguments():
    b = og.GraphBuilder()
    x = b.input((4, 8), "f32")
    for eps in (0, -1.0, float("nan"), float("inf"), "small"):
        with pytest.raises(og.InvalidArgumentsError, match="rms_norm: epsilon must be positive"):
            blocks.rms_norm(x, epsilon=eps)
    with pytest.raises(og.InvalidShapeError, match=r"weight must be \(size,\) = 8, got 4"):
        blocks.rms_norm(x, np.ones(4, np.float32))
    with pytest.raises(og.InvalidDataTypeError, match="weight must be f32, got bf16"):
        blocks.rms_norm(x, np.ones(8, ml_dtypes.bfloat16))
    with pytest.raises(og.InvalidDataTypeError, match="x must be f32 or bf16 or f16, got s8"):
        blocks.rms_norm(b.input((4, 8), "s8"))
    with pytest.raises(og.InvalidShapeError, match="x must have 1 dims, got scalar"):
        blocks.rms_norm(b.input((), "f32"))
    with pytest.raises(TypeError, match="x must be a Value"):
        blocks.rms_norm(np.ones(4))
