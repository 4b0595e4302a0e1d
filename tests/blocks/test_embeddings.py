"""The blocks `embedding`, `rope` and `rope_tables`."""

import pickle

import ml_dtypes
import numpy as np
import pytest

import onednn_graph_py as og
from onednn_graph_py import blocks
from onednn_graph_py.machine.cpu import lacks

rng = np.random.default_rng(0)

FLOATS = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
UNIT = {"f32": 2.0**-24, "bf16": 2.0**-8, "f16": 2.0**-11}
"""The largest relative error of one rounding."""


def compiled(b, dtype):
    """Compile; where the CPU has no kernels for a data type, assert that this is the reason."""
    try:
        return b.compile(fallback="error")
    except og.UnimplementedError:
        assert lacks(dtype) is not None
        return b.compile()


@pytest.mark.parametrize("dtype", ["s64", "s32", "u8", "s16", "u64"])
@pytest.mark.parametrize("of", ["f32", "bf16", "s8"])
def test_embedding_looks_rows_up(dtype, of):
    table = rng.integers(-9, 9, (20, 6)).astype(og.dtypes.array_dtype(of))
    b = og.GraphBuilder()
    ids = b.input((2, -1), dtype, name="ids")
    rows = blocks.embedding(ids, table, name="tokens")
    assert rows.shape == (2, -1, 6) and rows.dtype == of
    b.output(rows)
    model = b.compile()
    for n in (1, 7, 0):
        given = rng.integers(0, 20, (2, n)).astype(og.dtypes.array_dtype(dtype))
        np.testing.assert_array_equal(model(given), table[given])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model))(given), table[given])


@pytest.mark.parametrize("wrong", [20, -1, 2**40])
def test_embedding_refuses_ids_out_of_range(wrong):
    b = og.GraphBuilder()
    ids = b.input((3,), "s64", name="ids")
    b.output(blocks.embedding(ids, np.zeros((20, 6), np.float32), name="tokens"))
    model = b.compile()
    with pytest.raises(IndexError, match=f"'tokens': ids must be from 0 to 19, got {wrong}"):
        model(np.array([0, wrong, 3]))
    assert model(np.array([0, 19, 3])).shape == (3, 6)


def test_embedding_refuses_wrong_arguments():
    b = og.GraphBuilder()
    ids = b.input((3,), "s64", name="ids")
    with pytest.raises(og.InvalidDataTypeError, match="embedding: ids must be s8 or"):
        blocks.embedding(b.input((3,), "f32"), np.zeros((2, 2), np.float32))
    with pytest.raises(og.InvalidShapeError, match="embedding: table must have 2 dims, got 4"):
        blocks.embedding(ids, np.zeros(4, np.float32))
    with pytest.raises(TypeError, match="embedding: ids must be a Value"):
        blocks.embedding(np.zeros(3, np.int64), np.zeros((2, 2), np.float32))


def turned(x, cos, sin, interleaved):
    """Rotate pairs of elements, as complex numbers in f64."""
    x, cos, sin = (a.astype(np.float64) for a in (x, cos, sin))
    half = cos.shape[-1]
    made = x.copy()
    one = np.s_[..., 0 : 2 * half : 2] if interleaved else np.s_[..., :half]
    two = np.s_[..., 1 : 2 * half : 2] if interleaved else np.s_[..., half : 2 * half]
    points = (x[one] + 1j * x[two]) * (cos + 1j * sin)
    made[one], made[two] = points.real, points.imag
    return made


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("rotated", [16, 8])
def test_rope_rotates_pairs(dtype, interleaved, rotated):
    x = rng.standard_normal((2, 3, 5, 16)).astype(FLOATS[dtype])
    cos, sin = blocks.rope_tables(np.arange(5), rotated, dtype=dtype)
    b = og.GraphBuilder()
    y = blocks.rope(b.input(x.shape, dtype), cos, sin, interleaved=interleaved, name="rope")
    assert y.shape == x.shape and y.dtype == dtype and y.name == "rope"
    b.output(y)
    got = compiled(b, dtype)(x)
    expected = turned(x, cos, sin, interleaved)
    # Two products and their sum, each rounded once.
    allowed = 3 * UNIT[dtype] * 2 * np.abs(x.astype(np.float64)).max()
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=0, atol=allowed)
    np.testing.assert_array_equal(got[..., rotated:], x[..., rotated:])


@pytest.mark.parametrize("interleaved", [False, True])
def test_rope_for_positions_of_a_call(interleaved):
    b = og.GraphBuilder()
    x = b.input((1, 2, -1, 8), "f32", name="x")
    positions = b.input((-1,), "s64", name="positions")
    cos, sin = blocks.rope_tables(positions, 8, base=500.0)
    b.output(blocks.rope(x, cos, sin, interleaved=interleaved))
    model = b.compile()
    for n, first in ((4, 0), (1, 100), (3, 7)):
        given = rng.standard_normal((1, 2, n, 8)).astype(np.float32)
        at = np.arange(first, first + n)
        expected = turned(given, *blocks.rope_tables(at, 8, base=500.0), interleaved)
        np.testing.assert_allclose(model(given, at), expected, rtol=0, atol=1e-5)
    assert pickle.loads(pickle.dumps(model))(given, at).shape == given.shape


def test_rope_depends_only_on_distances():
    """The product of a query and a key is that of their distance, which is what it is for."""
    q, k = rng.standard_normal((2, 1, 1, 1, 64)).astype(np.float32)
    b = og.GraphBuilder()
    x = b.input((2, 1, 1, 64), "f32")
    positions = b.input((2, 1, 1), "s32", name="positions")
    b.output(blocks.rope(x, *blocks.rope_tables(positions, 64)))
    model = b.compile()
    products = []
    for start in (0, 40, 1000):
        at = np.int32([start + 5, start]).reshape(2, 1, 1)
        one, two = model(np.concatenate([q, k]), at)
        products.append(float((one.astype(np.float64) * two).sum()))
    np.testing.assert_allclose(products, products[0], rtol=0, atol=64 * 2.0**-22)


@pytest.mark.parametrize(
    ("cos", "sin", "match"),
    [
        ((5, 9), (5, 9), r"cos must be .* broadcasts to 2x3x5x8, got 5x9"),
        ((4, 8), (4, 8), r"cos must be .*got 4x8"),
        ((5, 8), (4, 8), "sin must be .*got 4x8"),
        ((5, 8), (5, 4), "sin must have the shape of cos, 5x8, got 5x4"),
        ((1, 1, 1, 5, 8), (5, 8), "cos must be"),
    ],
)
def test_rope_refuses_shapes(cos, sin, match):
    b = og.GraphBuilder()
    x = b.input((2, 3, 5, 16), "f32")
    with pytest.raises(og.InvalidShapeError, match=f"rope: {match}"):
        blocks.rope(x, np.zeros(cos, np.float32), np.zeros(sin, np.float32))


def test_rope_says_how_tables_get_a_data_type():
    b = og.GraphBuilder()
    x = b.input((1, 2, 5, 8), "bf16")
    positions = b.input((5,), "s32")
    with pytest.raises(og.InvalidDataTypeError, match=r"rope: cos must be bf16, got f32.*dtype='b"):
        blocks.rope(x, *blocks.rope_tables(positions, 8))
    assert blocks.rope(x, *blocks.rope_tables(positions, 8, dtype="bf16")).dtype == "bf16"


@pytest.mark.parametrize(("size", "dtype"), [(3, "f32"), (0, "f32"), (True, "f32"), (4, "s8")])
def test_rope_tables_refuse(size, dtype):
    with pytest.raises(og.InvalidArgumentsError, match=r"rope_tables: (size|dtype) must be"):
        blocks.rope_tables(np.arange(3), size, dtype=dtype)


def test_rope_tables_round_once():
    cos, sin = blocks.rope_tables(np.array([0, 1, 4095]), 8)
    angles = np.array([0, 1, 4095])[:, None] * 10000.0 ** (-np.arange(4) / 4)
    np.testing.assert_array_equal(cos, np.cos(angles).astype(np.float32))
    np.testing.assert_array_equal(sin, np.sin(angles).astype(np.float32))
