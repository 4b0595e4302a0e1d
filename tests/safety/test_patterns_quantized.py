"""Quantized patterns: what running the gallery's cases does not show."""

import warnings

import numpy as np
import pytest
from graphs import LINKED

import onednn_graph_py as og
from gallery import quantized
from gallery._cases import LONG_EPILOGUES
from gallery._quantization import SRC_SCALE, dequantized, finished
from gallery.pattern import patterns
from gallery.quantized_conv_transpose import quantized_conv_transpose
from gallery.quantized_convolution import quantized_convolution
from gallery.quantized_matmul import quantized_matmul
from gallery.quantized_movement import channel_shuffle, quantized_reorder
from gallery.quantized_norm import quantized_norm
from gallery.quantized_pool import quantized_pool
from onednn_graph_py.reference.rounding import NUMPY_DTYPES

WEIGHTED = [quantized_convolution, quantized_conv_transpose, quantized_matmul]
ROWS = [
    *(f"Q-{i:02}" for i in range(1, 11)),
    *(f"Q-2A-{src}-{weights}" for src in ("u8", "s8") for weights in ("s8", "f32")),
    *(f"Q-2B-{bias}" for bias in ("f32", "bf16", "f16")),
    *(f"Q-2C-{dst}" for dst in ("u8", "s8", "f32", "bf16", "f16")),
    *(f"Q-2E-{length}" for length in range(6)),
    *("Q-2D-bias", "Q-2F", "Q-2Z-per_channel", "Q-2Z-src/dst", "Q-2Z-weights-w", "Q-2G"),
]
EXTREMES = {"u8": (0, 255), "s8": (-128, 127)}


def kinds(builder):
    return [node.kind for node in builder.nodes]


def run(builder, *arrays):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # that a model runs in parts
        return builder.compile()(*arrays)


def test_every_row_is_there_under_a_name_of_its_own():
    assert set(ROWS) <= set(patterns(quantized.PATTERNS))


@pytest.mark.parametrize("number", ["Q-01", "Q-02", "Q-03"])
def test_every_documented_combination_of_types_is_a_case(number):
    pattern = patterns(quantized.PATTERNS)[number]
    found = {
        tuple(case.arguments.get(name) for name in ("src", "weights", "bias", "dst"))
        for case in pattern.cases
    }
    documented = {
        (src, weights, bias, dst)
        for src in ("u8", "s8")
        for weights in ("s8", "f32")
        for bias in (None, "f32", "bf16", "f16")
        for dst in ("u8", "s8", "bf16", "f16", "f32")
    }
    assert documented <= found


# -- what the functions build


@pytest.mark.parametrize("build", WEIGHTED)
def test_a_graph_has_the_types_it_was_asked_for(build):
    b = build("s8", "f32", "u8", bias="f32", residual="u8")
    assert [v.dtype for v in b.inputs] == ["s8", "u8"]
    assert [v.dtype for v in b.outputs.values()] == ["u8"]
    assert kinds(b).count("Quantize") == 2
    assert kinds(b).count("Dequantize") == 3


@pytest.mark.parametrize("build", WEIGHTED)
def test_only_an_op_in_another_type_needs_type_casts(build):
    assert "TypeCast" not in kinds(build("u8", "s8", "f32", bias="f32"))
    assert kinds(build("u8", "s8", "bf16", bias="bf16", compute="bf16")).count("TypeCast") == 2
    # Of source, weights and bias, and back before Quantize.
    b = build("u8", "s8", "s8", bias="f32", compute="bf16")
    assert kinds(b).count("TypeCast") == 4


@pytest.mark.parametrize("build", WEIGHTED)
def test_bias_add_and_a_third_input_are_the_same(build):
    one, other = build("s8", bias="f32"), build("s8", bias="f32", bias_add=True)
    assert "BiasAdd" not in kinds(one)
    assert kinds(other).count("BiasAdd") == 1
    (x,) = og.fill_inputs(one)
    assert np.array_equal(run(one, x), run(other, x))


@pytest.mark.parametrize("build", WEIGHTED)
def test_scales_per_channel_belong_to_the_output_channels(build):
    b = build(per_channel=True)
    weights = next(n for n in b.nodes if n.kind == "Dequantize" and n.inputs[0].name == "weights")
    channels = next(iter(b.outputs.values())).shape[-1]
    assert len(set(weights.attrs["scales"])) == channels
    assert weights.inputs[0].shape[weights.attrs["axis"]] == channels


def test_weights_in_f32_are_quantized_to_what_weights_in_s8_are():
    made = [quantized_matmul(weights=w, per_channel=True) for w in ("s8", "f32")]
    (x,) = og.fill_inputs(made[0])
    assert np.array_equal(*(run(b, x) for b in made))


def test_reorder_reads_another_order_in_memory():
    b = quantized_reorder("u8", "u8")
    (source,) = b.inputs
    assert source.strides[1:] != (160, 16, 1)
    (x,) = og.fill_inputs(b)
    assert np.array_equal(run(b, x), x)


def test_a_shuffle_of_channels_interleaves_the_groups():
    x = np.broadcast_to(np.arange(16, dtype=np.float32)[:, None, None], (2, 16, 10, 10)).copy()
    y = run(channel_shuffle(groups=4), x)
    assert y[0, :, 0, 0].tolist() == [4 * (i % 4) + i // 4 for i in range(16)]


def test_layer_norm_is_cast_before_the_post_ops_and_softmax_after():
    ops = {
        op: kinds(quantized_norm(op, "bf16", epilogue=("ReLU",))) for op in ("LayerNorm", "SoftMax")
    }
    assert ops["LayerNorm"] == ["LayerNorm", "TypeCast", "ReLU", "Quantize"]
    assert ops["SoftMax"] == ["SoftMax", "ReLU", "TypeCast", "Quantize"]


# -- rounding and saturation inside of a partition


@pytest.mark.parametrize("dtype", ["u8", "s8"])
def test_pooling_keeps_every_value_of_equal_scales(dtype):
    """A fused Dequantize and Quantize neither round nor saturate what came in."""
    low, high = EXTREMES[dtype]
    b = quantized_pool("MaxPool", dtype, dtype)
    x = np.resize(np.arange(low, high + 1), b.inputs[0].shape).astype(NUMPY_DTYPES[dtype])
    padded = np.full((2, 12, 12, 16), low)
    padded[:, 1:11, 1:11] = x
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))[:, ::2, ::2]
    assert np.array_equal(run(b, x), windows.max(axis=(-2, -1)))


@pytest.mark.parametrize("dst", ["u8", "s8"])
@pytest.mark.parametrize("build", WEIGHTED)
def test_results_out_of_range_saturate_inside_of_a_partition(build, dst):
    b = build("s8", "s8", dst, dst_zero_point=100)
    (source,) = b.inputs
    x = np.random.default_rng(0).integers(-128, 128, source.shape).astype(np.int8)
    y = run(b, x)
    assert (y.min(), y.max()) == EXTREMES[dst]


@pytest.mark.parametrize("dtype", ["u8", "s8"])
def test_equal_quantization_is_not_taken_for_nothing(dtype):
    """Quantize and Dequantize of one scale round and saturate what is between them."""
    b = og.GraphBuilder()
    x = b.input((1000,))
    b.output(dequantized(finished(x, dtype, scale=SRC_SCALE, zero_point=7), zero_point=7))
    low, high = EXTREMES[dtype]
    given = np.linspace(-30, 30, 1000, dtype=np.float32)
    steps = np.clip(np.rint(given / np.float32(SRC_SCALE)) + 7, low, high)
    made = run(b, given)
    assert made.min() == pytest.approx((low - 7) * SRC_SCALE)
    assert made.max() == pytest.approx((high - 7) * SRC_SCALE)
    # Where the quotient is near the middle of two steps either is right.
    near = np.abs(given / SRC_SCALE % 1 - 0.5) < 1e-3
    assert np.allclose(made[~near], ((steps - 7) * SRC_SCALE)[~near])
    assert not np.allclose(made, given, atol=1)


# -- limits, by version


@pytest.mark.parametrize("build", WEIGHTED)
def test_the_longest_epilogue_is_one_partition_and_one_more_op_is_not(build):
    longest = 19 if LINKED >= LONG_EPILOGUES else 4
    for length, parts in ((longest, 1), (longest + 1, 3)):
        b = build(bias="f32", epilogue=("Abs",) * length)
        assert len(b.graph.get_partitions()) == parts
