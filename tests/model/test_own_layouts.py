"""Ops that read, by themselves, a convolution's result in the layout that oneDNN chose for it."""

import numpy as np
import pytest

import onednn_graph_py as og

SHAPE = (6, 5, 8, 3)


def convolution(b, channels):
    weights = np.random.default_rng(channels).integers(-2, 3, (2, 2, 5, channels))
    options = {"strides": (1, 3), "dilations": (1, 1), "pads_begin": (0, 1), "pads_end": (1, 0)}
    formats = {"data_format": "NCX", "weights_format": "XIO"}
    return b.input(SHAPE).convolution(weights.astype(np.float32), **options, **formats)


def rising(count, first=0.5):
    return np.linspace(first, first + 1, count).astype(np.float32)


def per_channel(y, zps):
    scales = [0.5 + 0.1 * i for i in range(y.shape[1])]
    return y.quantize(dtype="u8", scales=scales, zps=zps, qtype="per_channel", axis=1)


WINDOWS = {
    "strides": [2, 1], "pads_begin": [0, 0], "pads_end": [1, 0], "kernel": [2, 1],
    "data_format": "NCX",
}  # fmt: skip
READERS = {
    "add a channel's": lambda y: y + rising(y.shape[1])[:, None, None],
    "average": lambda y: y.avg_pool(**WINDOWS, exclude_pad=True),
    "batch norm": lambda y: y.batch_norm_inference(
        *(rising(y.shape[1], k + 0.5) for k in range(4)), epsilon=1e-5, data_format="NCX"
    ),
    "concat": lambda y: y.builder.concat(y, y * 2, axis=1),
    "layer norm": lambda y: y.layer_norm(keep_stats=False, use_affine=False),
    "leaky relu": lambda y: y.leaky_relu(alpha=0.1),
    "max pool": lambda y: y.max_pool(**WINDOWS),
    "prelu": lambda y: y.prelu(rising(y.shape[1]), data_format="NCX"),
    "quantize": lambda y: y.quantize(dtype="s8", scales=[0.5], zps=[0]),
    "quantize, shifted": lambda y: y.quantize(dtype="s8", scales=[0.5], zps=[9]),
    "shift": lambda y: y.quantize(dtype="s8", scales=[1.0], zps=[9]),
    "shift to u8": lambda y: y.quantize(dtype="u8", scales=[1.0], zps=[9]),
    "round": lambda y: y.quantize(dtype="s8", scales=[1.0], zps=[0]),
    "quantize to u8": lambda y: y.quantize(dtype="u8", scales=[0.5], zps=[9]),
    "quantize channels": lambda y: per_channel(y, [0] * y.shape[1]),
    "quantize channels, shifted": lambda y: per_channel(y, list(range(y.shape[1]))),
    "reduce channels": lambda y: y.reduce_sum(axes=(1,), keep_dims=True),
    "reduce space": lambda y: y.reduce_mean(axes=(2, 3), keep_dims=False),
    "reshape": lambda y: y.static_reshape(shape=[6, y.shape[1] // 2, -1], special_zero=False),
    "select": lambda y: np.where(y > 0, y, -3.5),
    "softmax": lambda y: y.softmax(axis=1),
    "transpose": lambda y: y.static_transpose(order=[2, 0, 3, 1]),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*runs in parts.*:RuntimeWarning")
@pytest.mark.parametrize("channels", [2, 6, 8, 12, 16, 24, 40])
@pytest.mark.parametrize("name", READERS)
def test_what_reads_it_by_itself_is_right(name, channels):
    b = og.GraphBuilder()
    b.output(READERS[name](convolution(b, channels)))
    model = b.compile()
    array = np.random.default_rng(1).integers(-3, 4, SHAPE).astype(np.float32)
    assert model.verify(array)


@pytest.mark.parametrize("scale", [1.0, 0.5])
@pytest.mark.parametrize("channels", [4, 8, 16])
@pytest.mark.parametrize("source", ["u8", "s8"])
@pytest.mark.parametrize("dtype", ["u8", "s8"])
@pytest.mark.filterwarnings("ignore:.*runs in parts.*:RuntimeWarning")
def test_integers_in_it_are_shifted_to_floats(dtype, source, channels, scale):
    draw = np.random.default_rng(channels)
    b = og.GraphBuilder()
    x = b.input(SHAPE, source).dequantize(scales=[0.5], zps=[0])
    weights = b.constant(draw.integers(-3, 4, (2, 2, 5, channels)).astype(np.int8))
    options = {"strides": (1, 3), "dilations": (1, 1), "pads_begin": (0, 1), "pads_end": (1, 0)}
    formats = {"data_format": "NCX", "weights_format": "XIO"}
    y = x.convolution(weights.dequantize(scales=[0.25], zps=[0]), **options, **formats)
    b.output(y.quantize(dtype=dtype, scales=[0.5], zps=[7]).dequantize(scales=[scale], zps=[9]))
    array = draw.integers(0, 9, SHAPE).astype({"u8": np.uint8, "s8": np.int8}[source])
    assert b.compile().verify(array)
