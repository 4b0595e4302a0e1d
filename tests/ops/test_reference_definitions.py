"""The reference's forward ops against their definitions, written out as loops or by hand."""

import itertools
import math

import numpy as np
import pytest
from one_op import draw

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


BINARY = {
    "Add": lambda a, b: a + b,
    "Divide": lambda a, b: a / b,
    "GreaterEqual": lambda a, b: a >= b,
    "Maximum": max,
    "Minimum": min,
    "Multiply": lambda a, b: a * b,
    "SquaredDifference": lambda a, b: (a - b) ** 2,
    "Subtract": lambda a, b: a - b,
}


@pytest.mark.parametrize("kind", BINARY)
def test_two_operands_are_broadcast_from_the_last_dim_on(kind):
    a, b = noise(2, 1, 3), noise(4, 1, seed=1) + np.float32(2.5)
    (made,) = run(kind, [a, b])
    assert made.shape == (2, 4, 3)
    for n, i, j in np.ndindex(2, 4, 3):
        near(made[n, i, j], BINARY[kind](float(a[n, 0, j]), float(b[i, 0])))


def test_integers_add_up_exactly():
    a = np.int32([2**31 - 2, 7])
    (made,) = run("Add", [a, np.int32([1, -9])], version=NEWEST)
    assert made.dtype == np.int32
    assert made.tolist() == [2**31 - 1, -2]


def test_select_takes_where_the_condition_holds():
    condition = np.array([[True], [False]])
    (made,) = run("Select", [condition, f32(1, 2, 3), f32([[10, 20, 30], [40, 50, 60]])[0]])
    assert made.tolist() == [[1, 2, 3], [40, 50, 60]]


@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
def test_a_bias_goes_to_its_channel(data_format):
    x, bias = np.zeros((2, 3, 4, 3), np.float32), f32(1, 2, 3)
    (made,) = run("BiasAdd", [x, bias], {"data_format": data_format})
    channels_last = made if data_format == "NXC" else np.moveaxis(made, 1, -1)
    assert (channels_last == bias).all()


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


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_matrices_are_multiplied_row_by_column(transpose_a, transpose_b):
    a, b, bias = noise(2, 1, 3, 4), noise(5, 4, 6, seed=1), noise(6, seed=2)
    given = [
        a.swapaxes(-1, -2) if transpose_a else a,
        b.swapaxes(-1, -2) if transpose_b else b,
        bias,
    ]
    (made,) = run("MatMul", given, {"transpose_a": transpose_a, "transpose_b": transpose_b})
    assert made.shape == (2, 5, 3, 6)
    for n, m, i, j in np.ndindex(2, 5, 3, 6):
        assert made[n, m, i, j] == dot(a[n, 0, i], b[m, :, j]) + bias[j]


@pytest.mark.parametrize("flag", [False, True])
def test_vectors_are_rows_and_columns_whatever_the_flags(flag):
    attrs = {"transpose_a": flag, "transpose_b": flag}
    v, matrix = noise(4), noise(4, 3, seed=1)
    given = matrix.T if flag else matrix
    assert run("MatMul", [v, given], attrs)[0].tolist() == [dot(v, c) for c in matrix.T]
    assert run("MatMul", [given, v[:3]], attrs)[0].tolist() == [dot(r, v[:3]) for r in matrix]
    assert run("MatMul", [v, v], attrs)[0].reshape(-1).tolist() == [dot(v, v)]


# -- windows


def starts_of(attrs, sizes, kernel, dilations) -> list[int]:
    """Padding before the data, of each spatial dim, as auto_pad or pads_begin has it."""
    auto = attrs.get("auto_pad", "None")
    if auto == "None":
        return list(attrs["pads_begin"])
    if auto == "VALID":
        return [0] * len(sizes)
    starts = []
    for size, k, s, d in zip(sizes, kernel, attrs["strides"], dilations, strict=True):
        windows = -(-size // s)
        missing = max((windows - 1) * s + (k - 1) * d + 1 - size, 0)
        starts.append(missing // 2 if auto == "SAME_UPPER" else missing - missing // 2)
    return starts


def channels_first(x: np.ndarray, attrs) -> np.ndarray:
    return np.moveaxis(x, -1, 1) if attrs.get("data_format", "NXC") == "NXC" else x


def elements(at, kernel, starts, strides, dilations, sizes):
    """The elements of a window: (index in the window, position in the data) where it has any."""
    for k in np.ndindex(*kernel):
        position = tuple(
            o * s - p + i * d
            for o, s, p, i, d in zip(at, strides, starts, k, dilations, strict=True)
        )
        if all(0 <= p < size for p, size in zip(position, sizes, strict=True)):
            yield k, position


def drawn(kind: str, count: int):
    """Small configurations; one a seed."""
    for seed in range(count):
        c = draw(kind, seed)
        yield c, [noise(*s, seed=i) for i, s in enumerate(c.shapes)]


def test_convolution_is_a_sum_over_each_window():
    for c, (x, weights, *bias) in drawn("Convolution", 12):
        attrs = c.attrs
        (made,) = run("Convolution", [x, weights, *bias], attrs)
        x, made = channels_first(x, attrs), channels_first(made, attrs)
        if attrs["weights_format"] == "XIO":
            weights = np.moveaxis(weights, (-1, -2), (0, 1))
        kernel, groups = weights.shape[2:], attrs["groups"]
        starts = starts_of(attrs, x.shape[2:], kernel, attrs["dilations"])
        inputs, outputs = weights.shape[1], weights.shape[0] // groups
        for n, o, *at in np.ndindex(*made.shape):
            total = float(bias[0][o]) if bias else 0.0
            first = o // outputs * inputs
            for k, p in elements(
                at, kernel, starts, attrs["strides"], attrs["dilations"], x.shape[2:]
            ):
                total += dot(
                    x[(n, slice(first, first + inputs), *p)], weights[(o, slice(None), *k)]
                )
            assert made[(n, o, *at)] == total, c


def test_transposed_convolution_spreads_each_element():
    for c, (x, weights, *bias) in drawn("ConvTranspose", 12):
        attrs = c.attrs
        (made,) = run("ConvTranspose", [x, weights, *bias], attrs)
        x, made = channels_first(x, attrs), channels_first(made, attrs)
        if attrs["weights_format"] == "XOI":
            weights = np.moveaxis(weights, (-1, -2), (0, 1))
        kernel, groups = weights.shape[2:], attrs["groups"]
        # SAME_* make the output strides times the input.
        sizes = [size * s for size, s in zip(x.shape[2:], attrs["strides"], strict=True)]
        starts = starts_of(attrs, sizes, kernel, attrs["dilations"])
        inputs, outputs = weights.shape[0] // groups, weights.shape[1]
        expected = np.zeros(made.shape)
        for n, i, *at in np.ndindex(*x.shape):
            first = i // inputs * outputs
            for k, p in elements(
                at, kernel, starts, attrs["strides"], attrs["dilations"], made.shape[2:]
            ):
                for o in range(outputs):
                    expected[(n, first + o, *p)] += float(x[(n, i, *at)]) * float(
                        weights[(i, o, *k)]
                    )
        if bias:
            expected += bias[0].reshape(-1, *[1] * len(kernel))
        assert np.array_equal(made, expected), c


def test_output_padding_lengthens_the_end():
    x, weights = np.ones((1, 3, 1), np.float32), np.ones((2, 1, 1), np.float32)
    attrs = {"strides": (2,), "pads_begin": (0,), "pads_end": (0,), "dilations": (1,)}
    assert run("ConvTranspose", [x, weights], attrs)[0].ravel().tolist() == [1] * 6
    (made,) = run("ConvTranspose", [x, weights], {**attrs, "output_padding": (1,)})
    assert made.ravel().tolist() == [1] * 6 + [0]


@pytest.mark.parametrize("kind", ["AvgPool", "MaxPool"])
def test_pooling_goes_over_each_window(kind):
    for c, (x,) in drawn(kind, 25):
        attrs = c.attrs
        (made,) = run(kind, [x], attrs)
        x, made = channels_first(x, attrs), channels_first(made, attrs)
        kernel, sizes = attrs["kernel"], x.shape[2:]
        dilations = attrs.get("dilations", (1,) * len(kernel))
        starts = starts_of(attrs, sizes, kernel, dilations)
        for n, ch, *at in np.ndindex(*made.shape):
            inside = [
                float(x[(n, ch, *p)])
                for _, p in elements(at, kernel, starts, attrs["strides"], dilations, sizes)
            ]
            value = made[(n, ch, *at)]
            if kind == "MaxPool":
                assert value == max(inside, default=float(np.finfo(np.float32).min)), c
            elif inside or not attrs["exclude_pad"]:
                count = len(inside) if attrs["exclude_pad"] else math.prod(kernel)
                near(value, math.fsum(inside) / count)


def test_ceil_adds_a_window_at_the_end():
    x = f32(1, 2, 3, 4, 5, 6).reshape(1, 6, 1)
    attrs = {"strides": (4,), "pads_begin": (0,), "pads_end": (0,), "kernel": (3,)}
    assert run("MaxPool", [x], attrs)[0].ravel().tolist() == [3]
    ceil = {**attrs, "rounding_type": "ceil"}
    assert run("MaxPool", [x], ceil)[0].ravel().tolist() == [3, 6]
    for exclude_pad, last in ((True, 5.5), (False, 11 / 3)):
        near(run("AvgPool", [x], {**ceil, "exclude_pad": exclude_pad})[0].ravel(), [2, last])


# -- interpolation


@pytest.mark.parametrize(
    ("mode", "transformation", "expected"),
    [
        ("linear", "half_pixel", [0, 2, 6, 10, 14, 16]),
        ("linear", "align_corners", [0, 3.2, 6.4, 9.6, 12.8, 16]),
        ("nearest", "half_pixel", [0, 0, 8, 8, 16, 16]),
        ("nearest", "align_corners", [0, 0, 8, 8, 16, 16]),
    ],
)
def test_interpolation_between_three_elements(mode, transformation, expected):
    x = f32(0, 8, 16).reshape(1, 1, 3)
    attrs = {"mode": mode, "sizes": (6,), "data_format": "NCX"}
    attrs["coordinate_transformation_mode"] = transformation
    (made,) = run("Interpolate", [x], attrs)
    near(made.ravel(), np.float32(expected))


def test_halves_go_to_the_next_element_when_shrinking():
    """A coordinate of 2 i + 0.5 is as near to both, and roundf takes the larger."""
    x = f32(0, 1, 2, 3, 4, 5).reshape(1, 6, 1)
    assert run("Interpolate", [x], {"mode": "nearest", "sizes": (3,)})[0].ravel().tolist() == [
        1,
        3,
        5,
    ]


def test_two_dims_are_interpolated_one_after_the_other():
    x = noise(1, 4, 3, 2)
    attrs = {"mode": "bilinear", "scales": (1.5, 2.0)}
    (made,) = run("Interpolate", [x], attrs)
    assert made.shape == (1, 6, 6, 2)
    for i, j in np.ndindex(6, 6):
        expected = np.zeros(2)
        corners = []
        for at, size, scale in ((i, 4, 1.5), (j, 3, 2.0)):
            c = min(max((at + 0.5) / scale - 0.5, 0.0), size - 1.0)
            low = int(c)
            corners.append([(low, 1 - c + low), (min(low + 1, size - 1), c - low)])
        for (a, wa), (b, wb) in itertools.product(*corners):
            expected += x[0, a, b].astype(np.float64) * wa * wb
        np.testing.assert_allclose(made[0, i, j], expected, rtol=1e-6, atol=1e-6)


# -- normalization


def moments(values) -> tuple[float, float]:
    mean = math.fsum(values) / len(values)
    return mean, math.fsum((v - mean) ** 2 for v in values) / len(values)


def normal(value, mean, variance, epsilon=1e-5) -> float:
    return (float(value) - mean) / math.sqrt(variance + float(np.float32(epsilon)))


@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
def test_batch_normalization_is_by_channel(data_format):
    x, mean, variance = noise(2, 3, 2, 3), noise(3, seed=1), noise(3, seed=2) ** 2
    gamma, beta = noise(3, seed=3), noise(3, seed=4)
    attrs = {"epsilon": 1e-5, "data_format": data_format}
    (fixed,) = run("BatchNormInference", [x, gamma, beta, mean, variance], attrs)
    trained = run(
        "BatchNormForwardTraining",
        [x, mean, variance, gamma, beta],
        {**attrs, "momentum": 0.75},
    )
    plain = run("BatchNormForwardTraining", [x, mean, variance], attrs)
    first = [channels_first(a, attrs) for a in (x, fixed, trained[0], plain[0])]
    gamma, beta, mean, variance = (a.tolist() for a in (gamma, beta, mean, variance))
    for c in range(3):
        m, v = moments([float(a) for a in first[0][:, c].ravel()])
        near(trained[3][c], m)
        near(trained[4][c], v)
        near(trained[1][c], 0.75 * mean[c] + 0.25 * m)
        near(trained[2][c], 0.75 * variance[c] + 0.25 * v)
        near(plain[1][c], (mean[c] + m) / 2)
        for a, f, t, p in zip(*(y[:, c].ravel() for y in first), strict=True):
            near(f, normal(a, mean[c], variance[c]) * gamma[c] + beta[c])
            near(t, normal(a, m, v) * gamma[c] + beta[c])
            near(p, normal(a, m, v))


@pytest.mark.parametrize("axis", [-1, 1, -3])
def test_layer_and_rms_normalization_are_over_the_last_axes(axis):
    x = noise(2, 3, 4)
    shape = x.shape[axis:]
    gamma, beta = noise(*shape, seed=1), noise(*shape, seed=2)
    attrs = {"begin_norm_axis": axis, "epsilon": 1e-5}
    y, mean, variance = run("LayerNorm", [x, gamma, beta], attrs)
    (rms,) = run("RMSNorm", [x, gamma], attrs, version=NEWEST)
    rows = x.reshape(-1, math.prod(shape))
    assert mean.shape == variance.shape == x.shape[:axis]
    factors = list(zip(gamma.ravel().tolist(), beta.ravel().tolist(), strict=True))
    for r, row in enumerate(rows.tolist()):
        m, v = moments(row)
        square = math.fsum(a * a for a in row) / len(row)
        near(mean.ravel()[r], m)
        near(variance.ravel()[r], v)
        for i, a in enumerate(row):
            factor, summand = factors[i]
            near(y.reshape(rows.shape)[r, i], normal(a, m, v) * factor + summand)
            near(rms.reshape(rows.shape)[r, i], normal(a, 0, square) * factor)


@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
def test_group_normalization_is_by_sample_and_group(data_format):
    x = noise(2, 6, 3, 2) if data_format == "NCX" else noise(2, 3, 2, 6)
    gamma, beta = noise(6, seed=1), noise(6, seed=2)
    attrs = {"groups": 3, "epsilon": 1e-5, "data_format": data_format}
    y, mean, variance = run("GroupNorm", [x, gamma, beta], attrs)
    x, y = channels_first(x, attrs), channels_first(y, attrs)
    assert mean.shape == variance.shape == (2, 3)
    for n, c in np.ndindex(2, 6):
        g = c // 2
        m, v = moments(x[n, 2 * g : 2 * g + 2].ravel().tolist())
        near(mean[n, g], m)
        near(variance[n, g], v)
        factor, summand = float(gamma[c]), float(beta[c])
        expected = [normal(a, m, v) * factor + summand for a in x[n, c].ravel()]
        near(y[n, c].ravel(), expected)


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

REDUCTIONS = {
    "ReduceL1": lambda v: math.fsum(map(abs, v)),
    "ReduceL2": lambda v: math.hypot(*v),
    "ReduceMax": max,
    "ReduceMean": lambda v: math.fsum(v) / len(v),
    "ReduceMin": min,
    "ReduceProd": math.prod,
    "ReduceSum": math.fsum,
}


@pytest.mark.parametrize("kind", REDUCTIONS)
@pytest.mark.parametrize("keep_dims", [False, True])
def test_reductions_go_over_their_axes(kind, keep_dims):
    x = noise(2, 3, 4)
    (made,) = run(kind, [x], {"axes": (0, -1), "keep_dims": keep_dims})
    assert made.shape == ((1, 3, 1) if keep_dims else (3,))
    near(made.ravel(), [REDUCTIONS[kind](x[:, i].ravel().tolist()) for i in range(3)])


def test_reductions_name_their_axes():
    """The library's set_attr refuses an empty list, too."""
    with pytest.raises(og.InvalidArgumentsError, match="axes must have at least one entry"):
        run("ReduceSum", [noise(2, 3)], {"axes": ()})


# -- moving elements


def test_concatenation_is_along_the_axis():
    a, b = np.zeros((2, 1), np.float32), np.ones((2, 2), np.float32)
    assert run("Concat", [a, b, a], {"axis": -1})[0].tolist() == [[0, 1, 1, 0]] * 2


@pytest.mark.parametrize(
    ("shape", "special_zero", "expected"),
    [((4, 6), False, (4, 6)), ((-1, 8), False, (3, 8)), ((0, -1), True, (2, 12))],
)
def test_reshaping_keeps_the_row_major_order(shape, special_zero, expected):
    x = noise(2, 3, 4)
    (made,) = run("StaticReshape", [x], {"shape": shape, "special_zero": special_zero})
    assert made.shape == expected
    assert np.array_equal(made.ravel(), x.ravel())


def test_transposition_names_the_axis_that_comes_from():
    x = noise(2, 3, 4)
    (made,) = run("StaticTranspose", [x], {"order": (-1, 0, 1)})
    assert made.shape == (4, 2, 3)
    for i, j, k in np.ndindex(2, 3, 4):
        assert made[k, i, j] == x[i, j, k]


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
