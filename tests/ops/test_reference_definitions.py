"""The reference's functions against their definitions, and where it goes its own way.

`test_torch_reference.py` holds all other ops against torch's, on the draws with which
`test_random.py` holds oneDNN against the reference.
"""

import math

import numpy as np
import pytest

import onednn_graph_py as og
from onednn_graph_py.reference import run

NEWEST = (3, 13)


def f32(*values) -> np.ndarray:
    return np.array(values, np.float32)


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    """Small integers over 8, whose sums of products are exact in float64 and float32."""
    return (np.random.default_rng(seed).integers(-16, 17, shape) / 8).astype(np.float32)


def near(actual, expected):
    np.testing.assert_allclose(actual, np.asarray(expected, np.float64), rtol=2e-7, atol=1e-30)


# -- element by element

POINTS = [-30.0, -3.5, -3.0, -2.5, -1.0, -0.5, -0.125, 0.0, 0.25, 0.5, 1.0, 1.5, 3.0, 4.0, 30.0]


def gelu_tanh(x: float) -> float:
    v = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    # tanh(v) + 1, exactly also far below 0
    return x / (1 + math.exp(-2 * v)) if v > -300 else 0.0


FUNCTIONS = {
    "Abs": ({}, abs),
    "Clamp": ({"min": -0.5, "max": 1.0}, lambda x: min(max(x, -0.5), 1.0)),
    "Elu": ({"alpha": 0.5}, lambda x: x if x > 0 else 0.5 * math.expm1(x)),
    "Exp": ({}, math.exp),
    "GELU": ({}, lambda x: x * math.erfc(-x / math.sqrt(2)) / 2),
    "HardSigmoid": ({"alpha": 0.25, "beta": 0.5}, lambda x: min(max(x / 4 + 0.5, 0), 1)),
    "HardSwish": ({}, lambda x: x * min(max(x + 3, 0), 6) / 6),
    "LeakyReLU": ({"alpha": 0.25}, lambda x: x if x > 0 else x / 4),
    "Mish": ({}, lambda x: x * math.tanh(math.log1p(math.exp(x)))),
    "ReLU": ({}, lambda x: max(x, 0.0)),
    "Round": ({}, round),
    "Sigmoid": ({}, lambda x: 1 / (1 + math.exp(-x))),
    "SoftPlus": ({"beta": 2.0}, lambda x: math.log1p(math.exp(2 * x)) / 2),
    "Square": ({}, lambda x: x * x),
    "Tanh": ({}, math.tanh),
}
ABOVE_0 = {
    "Log": ({}, math.log),
    "Sqrt": ({}, math.sqrt),
    "Reciprocal": ({}, lambda x: 1 / x),
    "Pow": ({"beta": 2.5}, lambda x: x**2.5),
}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_functions_are_as_defined(kind):
    attrs, function = FUNCTIONS[kind]
    near(run(kind, [f32(*POINTS)], attrs)[0], [function(x) for x in POINTS])


@pytest.mark.parametrize("kind", ABOVE_0)
def test_functions_of_positive_numbers_are_as_defined(kind):
    attrs, function = ABOVE_0[kind]
    points = [x for x in POINTS if x > 0]
    near(run(kind, [f32(*points)], attrs)[0], [function(x) for x in points])


def test_gelu_by_tanh_is_as_defined():
    (made,) = run("GELU", [f32(*POINTS)], {"mode": "gelu_tanh"}, version=NEWEST)
    near(made, [gelu_tanh(x) for x in POINTS])


def test_pow_takes_negative_numbers_to_whole_exponents_only():
    assert run("Pow", [f32(-2.0)], {"beta": 3.0})[0] == -8.0
    assert np.isnan(run("Pow", [f32(-2.0)], {"beta": 0.5})[0])


@pytest.mark.parametrize("kind", ["Sigmoid", "SoftPlus", "Mish", "GELU", "Tanh", "HardSwish"])
def test_functions_do_not_overflow(kind):
    low, high = run(kind, [f32(-1e4, 1e4)])[0]
    assert abs(low) < 1e-30 or kind == "Tanh"
    assert high == pytest.approx(1.0 if kind in ("Sigmoid", "Tanh") else 1e4)


def test_integers_add_up_exactly():
    a = np.int32([2**31 - 2, 7])
    (made,) = run("Add", [a, np.int32([1, -9])], version=NEWEST)
    assert made.dtype == np.int32
    assert made.tolist() == [2**31 - 1, -2]


@pytest.mark.parametrize(
    ("slope", "attrs", "factors"),
    [
        ([2, 3, 4], {"data_format": "NXC"}, [[2, 3, 4]] * 3),
        ([2, 3, 4], {"data_format": "NCX"}, [[2] * 3, [3] * 3, [4] * 3]),
        ([2, 3, 4], {"data_format": "NCX", "per_channel_broadcast": False}, [[2, 3, 4]] * 3),
        ([[[2], [3], [4]]], {"data_format": "NXC"}, [[2] * 3, [3] * 3, [4] * 3]),
        ([5], {"data_format": "NCX"}, [[5] * 3] * 3),
    ],
)
def test_the_slope_of_prelu_is_broadcast(slope, attrs, factors):
    x = np.full((1, 3, 3), -1, np.float32)
    x[0, 1, 1] = 7
    expected = -np.float32(factors)
    expected[1, 1] = 7
    assert run("PReLU", [x, np.float32(slope)], attrs)[0][0].tolist() == expected.tolist()


def test_gen_index_counts_along_an_axis():
    x = np.zeros((2, 3), np.float32)
    assert run("GenIndex", [x], {"axis": -1})[0].tolist() == [[0, 1, 2], [0, 1, 2]]
    assert run("GenIndex", [x], {"axis": 0})[0].tolist() == [[0, 0, 0], [1, 1, 1]]


# -- matrix products


def dot(a: list[float], b: list[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("flag", [False, True])
def test_vectors_are_rows_and_columns_whatever_the_flags(flag):
    attrs = {"transpose_a": flag, "transpose_b": flag}
    v, matrix = noise(4), noise(4, 3, seed=1)
    given = matrix.T if flag else matrix
    assert run("MatMul", [v, given], attrs)[0].tolist() == [dot(v, c) for c in matrix.T]
    assert run("MatMul", [given, v[:3]], attrs)[0].tolist() == [dot(r, v[:3]) for r in matrix]
    assert run("MatMul", [v, v], attrs)[0].reshape(-1).tolist() == [dot(v, v)]


# -- interpolation


def test_halves_go_to_the_next_element_when_shrinking():
    """A coordinate of 2 i + 0.5 is as near to both, and roundf takes the larger."""
    x = f32(0, 1, 2, 3, 4, 5).reshape(1, 6, 1)
    assert run("Interpolate", [x], {"mode": "nearest", "sizes": (3,)})[0].ravel().tolist() == [
        1,
        3,
        5,
    ]


# -- normalization


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_is_shares_of_exponentials(axis):
    x = noise(3, 4)
    attrs = {"axis": axis}
    y, stats = run("SoftMax", [x], attrs, outputs=[(None, "f32")] * 2, version=NEWEST)
    (logarithm,) = run("LogSoftmax", [x], attrs)
    for i, j in np.ndindex(3, 4):
        row = x[i] if axis else x[:, j]
        total = math.fsum(math.exp(v) for v in row)
        near(y[i, j], math.exp(x[i, j]) / total)
        near(logarithm[i, j], float(x[i, j]) - math.log(total))
        near(stats[i, 0] if axis else stats[0, j], math.log(total))


def test_softmax_takes_large_numbers_and_empty_rows():
    (y,) = run("SoftMax", [f32(1000, 1000, -1000).reshape(1, 3)], {"axis": 1})
    assert y.tolist() == [[0.5, 0.5, 0.0]]
    nothing = np.full((1, 3), -np.inf, np.float32)
    assert np.isnan(run("SoftMax", [nothing], {"axis": 1})[0]).all()
    attrs = {"axis": 1, "mode": "inf_as_zero"}
    y, stats = run("SoftMax", [nothing], attrs, outputs=[(None, "f32")] * 2, version=NEWEST)
    assert y.tolist() == [[0, 0, 0]]
    assert stats.tolist() == [[0]]


# -- reductions


def test_reductions_name_their_axes():
    """The library's set_attr refuses an empty list, too."""
    with pytest.raises(og.InvalidArgumentsError, match="axes must have at least one entry"):
        run("ReduceSum", [noise(2, 3)], {"axes": ()})


def test_a_cast_rounds_and_a_reorder_copies():
    x = f32(1 + 2.0**-8, 1 + 3 * 2.0**-8, 3.4e38)
    (made,) = run("TypeCast", [x], outputs=[(None, "bf16")])
    assert made.astype(np.float64).tolist() == [1.0, 1 + 2.0**-6, np.inf]
    assert np.array_equal(run("Reorder", [x])[0], x)


# -- dropout

# Philox4x32-10's known answers, from the Random123 library's tests: key and counter of zeros.
PHILOX_OF_ZEROS = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def dropout(x, seed, offset, p):
    inputs = [x, np.int64(seed), np.int64(offset), np.float32(p)]
    return run("Dropout", inputs, outputs=[(None, "f32"), (None, "u8")], version=NEWEST)


@pytest.mark.parametrize("i", range(4))
def test_dropout_draws_philox_numbers(i):
    x = np.ones(4, np.float32)
    word = PHILOX_OF_ZEROS[i] / 2**32
    for p, kept in ((word - 1e-6, True), (word + 1e-6, False)):
        y, mask = dropout(x, 0, 0, p)
        assert mask[i] == kept
        near(y[i], kept / (1 - float(np.float32(p))))


SEEDS_AND_OFFSETS = [(1, 1), (1, 2), (2, 1), (2**32 + 1, 1), (1, 2**32 + 1), (1, -1), (-1, 1)]


def test_dropout_depends_on_seed_and_offset_and_keeps_the_share():
    x = noise(40, 50)
    results = [dropout(x, s, o, 0.25) for s, o in SEEDS_AND_OFFSETS]
    masks = {mask.tobytes() for _, mask in results}
    assert len(masks) == len(SEEDS_AND_OFFSETS)
    for y, mask in results:
        assert mask.mean() == pytest.approx(0.75, abs=0.04)
        near(y, x * mask / 0.75)


def test_dropout_keeps_all_or_nothing_at_the_ends():
    x = noise(10, 10)
    assert np.array_equal(dropout(x, 3, 4, 0.0)[0], x)
    y, mask = dropout(x, 3, 4, 1.0)
    assert not y.any()
    assert not mask.any()


def test_dropout_needs_a_version_that_has_it():
    with pytest.raises(og.UnimplementedError, match=r"Dropout needs oneDNN >= 3\.12"):
        run("Dropout", [noise(2)] + [np.int64(1)] * 2 + [np.float32(0.5)], version=(3, 11))


NO_PADDING = {"strides": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0), "dilations": (1, 1)}


@pytest.mark.parametrize(
    ("kind", "shapes", "attrs", "made"),
    [
        ("Convolution", [(0, 5, 5, 3), (3, 3, 3, 4)], NO_PADDING, (0, 3, 3, 4)),
        ("Convolution", [(2, 5, 5, 3), (3, 3, 3, 0)], NO_PADDING, (2, 3, 3, 0)),
        ("ConvTranspose", [(0, 5, 5, 3), (3, 3, 4, 3)], NO_PADDING, (0, 7, 7, 4)),
        ("SoftMax", [(3, 0)], {"axis": -1}, (3, 0)),
        ("LogSoftmax", [(3, 0)], {"axis": 1}, (3, 0)),
        ("MatMul", [(4, 0), (0, 5)], {}, (4, 5)),
    ],
)
def test_tensors_without_elements(kind, shapes, attrs, made):
    (result,) = run(kind, [np.zeros(s, np.float32) for s in shapes], attrs)
    assert result.shape == made
    assert not result.any()
