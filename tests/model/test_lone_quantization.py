"""Quantization for which oneDNN has no kernel of its own runs as separate ops, right to the bit."""

import warnings

import numpy as np
import pytest

import onednn_graph_py as og

SHAPE = (3, 4, 6)
CHANCE = np.random.default_rng(5)
INTEGERS = CHANCE.integers(-128, 128, SHAPE).astype(np.int8)
FLOATS = (CHANCE.standard_normal(SHAPE) * 40).astype(np.float32)


def result_of(b, *arrays):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # as for what runs in NumPy
        model = b.compile()
    assert {s.implementation for s in model.steps()} <= {"oneDNN", "constant", "view"}
    return model(*arrays)


def along(axis, values):
    return np.float64(values).reshape([-1 if i == axis else 1 for i in range(len(SHAPE))])


def parameters(axis):
    count = SHAPE[axis]
    return [0.25 * (i + 1) for i in range(count)], [3 * i - 4 for i in range(count)]


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_zero_points_of_channels(axis, dynamic, equal):
    scales, zps = parameters(axis)
    zps = [7] * len(zps) if equal else zps
    s, z = (along(axis % 3, values) for values in (scales, zps))
    options = {"qtype": "per_channel", "axis": axis}
    given = (np.float32(scales), np.int32(zps)) if dynamic else ()
    if not dynamic:
        options |= {"scales": scales, "zps": zps}
    b = og.GraphBuilder()
    kind = "dynamic_dequantize" if dynamic else "dequantize"
    b.output(getattr(b.input(SHAPE, "s8"), kind)(*map(b.constant, given), **options))
    np.testing.assert_array_equal(result_of(b, INTEGERS), ((INTEGERS - z) * s).astype(np.float32))
    b = og.GraphBuilder()
    kind = kind.replace("dequantize", "quantize")
    made = getattr(b.input(SHAPE), kind)(*map(b.constant, given), dtype="s8", **options)
    b.output(made)
    np.testing.assert_array_equal(
        result_of(b, FLOATS), np.clip(np.rint(FLOATS / s + z), -128, 127).astype(np.int8)
    )


def test_groups_with_scales_and_zero_points_that_are_inputs():
    b = og.GraphBuilder()
    x, s, z = b.input(SHAPE, "s8"), b.input((3, 2, 6)), b.input((3, 2, 6), "s8")
    b.output(x.dynamic_dequantize(s, z, qtype="per_group", group_shape=(1, 2, 1)))
    scales = CHANCE.integers(1, 9, (3, 2, 6)).astype(np.float32)
    zps = CHANCE.integers(-9, 9, (3, 2, 6)).astype(np.int8)
    exact = (INTEGERS - zps.repeat(2, 1).astype(np.float64)) * scales.repeat(2, 1)
    np.testing.assert_array_equal(result_of(b, INTEGERS, scales, zps), exact.astype(np.float32))


@pytest.mark.parametrize(("shape", "axis", "groups"), [((6, 1, 2, 2), 1, 0), ((2, 3, 1, 6), 2, 3)])
def test_scales_of_a_depthwise_transposed_convolution_are_of_its_groups(shape, axis, groups):
    """With two input channels a group."""
    weights = CHANCE.integers(-9, 9, shape).astype(np.int8)
    scales = [0.5, 2.0, 4.0]
    b = og.GraphBuilder()
    b.output(b.input(shape, "s8").dequantize(scales=scales, qtype="per_channel", axis=axis))
    with pytest.warns(RuntimeWarning, match="with a scale for each input channel"):
        model = b.compile()
    each = np.repeat(scales, 2).reshape([-1 if i == groups else 1 for i in range(4)])
    np.testing.assert_array_equal(model(weights), (weights * each).astype(np.float32))
    assert model.verify()


def test_scales_that_fit_two_axes_are_refused():
    b = og.GraphBuilder()
    with pytest.raises(og.InvalidGraphOpError, match=r"each of the 1 channels \(axis 1 of 3x1x3\)"):
        b.input((3, 1, 3), "s8").dequantize(scales=[1.0, 2.0, 3.0], qtype="per_channel", axis=1)


def test_zero_points_of_channels_that_are_inputs_of_32_bits():
    """oneDNN makes no floats of them, so NumPy computes the op."""
    zps = np.int32([300, -70, 5, 0])
    b = og.GraphBuilder()
    x, s, z = b.input(SHAPE, "s8"), b.input((4,)), b.input((4,), "s32")
    b.output(x.dynamic_dequantize(s, z, qtype="per_channel", axis=1))
    with pytest.warns(RuntimeWarning, match="runs in NumPy"):
        model = b.compile()
    scales = np.float32([1, 2, 0.5, 8])
    exact = (INTEGERS - along(1, zps)) * along(1, scales)
    np.testing.assert_array_equal(model(INTEGERS, scales, zps), exact.astype(np.float32))
