"""Ops that are written as the one op that they are, before oneDNN sees them."""

import numpy as np
import pytest
from graphs import lacks

import onednn_graph_py as og
from onednn_graph_py.tools.explaining import probe
from onednn_graph_py.tools.explaining.reasons import reasons

RNG = np.random.default_rng(7)


def noise(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


SQUARES = {"Multiply": lambda d: d * d, "Square": lambda d: d.square(), "Pow": lambda d: d**2}
QUOTIENTS = {
    "Divide": lambda d, v: d / v.sqrt(),
    "Reciprocal": lambda d, v: v.sqrt().reciprocal() * d,
    "Pow -0.5": lambda d, v: d * v**-0.5,
    "Pow -1": lambda d, v: d * v.sqrt() ** -1,
    "one over it": lambda d, v: d * (1.0 / v.sqrt()),
}


def kinds(model):
    return [kind for step in model.steps() for kind in step.ops]


def normalized(x, square="Multiply", quotient="Divide", epsilon=3e-4):
    """Write a normalization over the last dim in parts."""
    d = x - x.reduce_mean(axes=[-1], keep_dims=True)
    variance = SQUARES[square](d).reduce_mean(axes=[x.ndim - 1], keep_dims=True)
    return QUOTIENTS[quotient](d, epsilon + variance)


def in_f64(x, gamma=1.0, beta=0.0, epsilon=3e-4):
    d = x - x.mean(-1, keepdims=True, dtype=np.float64)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + epsilon) * gamma + beta


@pytest.mark.parametrize("affine", ["none", "behind", "before"])
@pytest.mark.parametrize("quotient", QUOTIENTS)
@pytest.mark.parametrize("square", SQUARES)
def test_a_normalization_in_parts_is_a_layer_norm(square, quotient, affine):
    shape = (3, 5, 17)
    x, gamma, beta = noise(*shape), noise(17), noise(17)
    b = og.GraphBuilder()
    v = b.input(shape)
    if affine == "before":
        d = v - v.reduce_mean(axes=[-1], keep_dims=True)
        variance = SQUARES[square](d).reduce_mean(axes=[-1], keep_dims=True)
        y = beta + QUOTIENTS[quotient](d * gamma, variance + 3e-4)
    else:
        y = normalized(v, square, quotient)
        y = y if affine == "none" else gamma * y + beta
    b.output(y)
    model = b.compile()
    assert kinds(model) == ["LayerNorm"]
    wanted = in_f64(x) if affine == "none" else in_f64(x, gamma, beta)
    np.testing.assert_allclose(model(x), wanted, rtol=2e-5, atol=2e-6)
    assert model.verify()


def test_a_layer_norm_in_parts_of_any_size_is_one():
    b = og.GraphBuilder()
    gamma, beta = noise(6), noise(6)
    b.output(normalized(b.input((-1, -1, 6))) * gamma + beta)
    model = b.compile()
    for shape in ((2, 3, 6), (5, 1, 6)):
        x = noise(*shape)
        np.testing.assert_allclose(model(x), in_f64(x, gamma, beta), rtol=2e-5, atol=2e-6)
        assert [s.ops for s in model.steps(shape)] == [("LayerNorm",)]


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_a_layer_norm_in_parts_of_16_bits_is_one(dtype):
    if lacks(dtype) is not None:
        pytest.skip(lacks(dtype))
    b = og.GraphBuilder()
    b.output(normalized(b.input((3, 24), dtype)))
    model = b.compile()
    assert kinds(model) == ["LayerNorm"]
    assert model.verify()


def other_axis(b, x):
    d = x - x.reduce_mean(axes=[1], keep_dims=True)
    return d / ((d * d).reduce_mean(axes=[-1], keep_dims=True) + 1e-3).sqrt()


def of_another(b, x):
    d = x - x.reduce_mean(axes=[-1], keep_dims=True)
    return d / ((x * d).reduce_mean(axes=[-1], keep_dims=True).square() + 1e-3).sqrt()


def below_zero(b, x):
    d = x - x.reduce_mean(axes=[-1], keep_dims=True)
    return d / ((d * d).reduce_mean(axes=[-1], keep_dims=True) + -1e-6).sqrt()


def shifted_by_a_tensor(b, x):
    d = x - x.reduce_mean(axes=[-1], keep_dims=True)
    shift = np.abs(noise(4, 1)) + 0.1
    return d / ((d * d).reduce_mean(axes=[-1], keep_dims=True) + shift).sqrt()


def softmax_of_another_axis(b, x):
    e = (x - x.reduce_max(axes=[1], keep_dims=True)).exp()
    return e / e.reduce_sum(axes=[2], keep_dims=True)


def softmax_below_another(b, x):
    e = (x - x.relu().reduce_max(axes=[2], keep_dims=True)).exp()
    return e / e.reduce_sum(axes=[2], keep_dims=True)


@pytest.mark.parametrize(
    "write",
    [
        other_axis,
        of_another,
        below_zero,
        shifted_by_a_tensor,
        softmax_of_another_axis,
        softmax_below_another,
    ],
)
def test_what_is_something_else_stays(write):
    b = og.GraphBuilder()
    b.output(write(b, b.input((3, 4, 7))))
    model = b.compile(warn=False)
    assert not {"LayerNorm", "SoftMax"} & set(kinds(model))
    assert model.verify()


@pytest.mark.parametrize("behind", [(1, 4, 7), (4, 7), (1,), (3, 4, 7)])
def test_a_factor_that_is_no_row_stays_behind_a_layer_norm(behind):
    b = og.GraphBuilder()
    b.output(normalized(b.input((3, 4, 7))) * noise(*behind) + noise(7))
    model = b.compile()
    assert kinds(model) == ["LayerNorm", "Multiply", "Add"]
    assert model.verify()


def test_a_part_that_is_read_elsewhere_stays():
    x, gamma, beta = noise(4, 7), noise(7), noise(7)
    b = og.GraphBuilder()
    normal = normalized(b.input((4, 7)))
    b.output(normal=normal, scaled=normal * gamma + beta)
    model = b.compile()
    assert sorted(kinds(model)) == ["Add", "LayerNorm", "Multiply"]
    normal, scaled = model(x)
    np.testing.assert_allclose(normal, in_f64(x), rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(scaled, in_f64(x, gamma, beta), rtol=2e-5, atol=2e-6)


def test_statistics_that_are_read_elsewhere_are_there():
    x = noise(4, 7)
    b = og.GraphBuilder()
    v = b.input((4, 7))
    mean = v.reduce_mean(axes=[-1], keep_dims=True)
    d = v - mean
    y = d / ((d * d).reduce_mean(axes=[-1], keep_dims=True) + 1e-5).sqrt()
    b.output(mean=mean, y=y)
    mean, y = b.compile()(x)
    np.testing.assert_allclose(mean, x.mean(-1, keepdims=True), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(y, in_f64(x, epsilon=1e-5), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_a_softmax_in_parts_is_one(axis):
    x = 30 * noise(3, 5, 7)
    b = og.GraphBuilder()
    v = b.input(x.shape)
    powers = (v - v.reduce_max(axes=[axis], keep_dims=True)).exp()
    b.output(powers / powers.reduce_sum(axes=[axis], keep_dims=True))
    model = b.compile()
    assert kinds(model) == ["SoftMax"]
    wanted = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    wanted /= wanted.sum(axis, keepdims=True)
    np.testing.assert_allclose(model(x), wanted, rtol=1e-4, atol=1e-6)


def test_the_policy_debug_leaves_ops_as_they_are():
    b = og.GraphBuilder()
    b.output(normalized(b.input((4, 7))))
    assert "LayerNorm" not in kinds(b.compile(policy="debug"))


def test_nothing_is_said_against_parts_of_a_whole():
    b = og.GraphBuilder()
    x = b.input((4, 7))
    powers = (x - x.reduce_max(axes=[1], keep_dims=True)).exp()
    b.output(powers / powers.reduce_sum(axes=[1], keep_dims=True))
    (group,) = probe.grouped(b)
    assert sorted(n.kind for n in group.nodes) == sorted(n.kind for n in b.nodes)
    assert not reasons(b)
