"""Default inputs show what is wrong: each known defect, head by head, over the whole data type."""

import os
import subprocess
import sys

import numpy as np
import pytest
from graphs import LINKED, held_to
from test_defects import CASES, PER_TENSOR, noise, strided_scales_of_groups
from test_defects import weights_gradient_with_automatic_padding as automatic_padding

import onednn_graph_py as og
from onednn_graph_py import defects
from onednn_graph_py.defects import DEFECTS
from onednn_graph_py.filling import Fill, filled, fills_of
from onednn_graph_py.reference.rounding import integer_limits
from onednn_graph_py.verify import reference_values

PLAIN = {"strides": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1), "dilations": (1, 1)}
VALID = [d for d in DEFECTS if d.since <= LINKED < d.until]


# -- every known defect


def mask_for_each_head(b):
    q, k, v = (b.input((2, 4, 32, 64)) for _ in range(3))
    scores = q.matmul(k, transpose_b=True) * 0.125 + b.input((4, 32, 32))
    b.output(scores.softmax(axis=-1) @ v)


def convolution_quantized_per_channel(b):
    x, w = b.input((1, 16, 6, 6), "u8"), b.input((3, 3, 16, 8), "s8")
    y = x.dequantize(scales=[0.25], **PER_TENSOR).convolution(
        w.dequantize(scales=[2.0**-6], **PER_TENSOR), data_format="NCX", **PLAIN
    )
    scales = [2.0 ** (i % 4) for i in range(8)]
    b.output(y.quantize(dtype="s8", scales=scales, zps=[0] * 8, qtype="per_channel", axis=1))


def product_quantized_per_channel(b):
    x, w = b.input((19, 16), "u8"), b.input((16, 20), "s8")
    y = x.dequantize(scales=[0.5], **PER_TENSOR) @ w.dequantize(scales=[0.25], **PER_TENSOR)
    scales = [2.0 ** (i % 4) for i in range(20)]
    b.output(y.quantize(dtype="s8", scales=scales, zps=[0] * 20, qtype="per_channel", axis=1))


def convolution_of_one_channel_a_group(b):
    x, w = b.input((1, 6, 6, 4), "s8"), b.input((3, 3, 1, 128), "s8")
    y = x.dequantize(scales=[0.25], **PER_TENSOR).convolution(
        w.dequantize(scales=[2.0**-6], **PER_TENSOR), groups=4, **PLAIN
    )
    b.output(y)


def four_bit_weights(b):
    w, scales = b.input((32, 16), "s4"), b.input((1, 16))
    kind = {"qtype": "per_group", "axis": 0, "group_shape": (32, 1)}
    b.output(b.input((4, 32)) @ w.dynamic_dequantize(scales, **kind))


# By what a row's text has in it.
FOUND = {
    "attention mask of another rank": mask_for_each_head,
    "attention on strided inputs": CASES["attention_on_strided_inputs"],
    "attention in other integers": CASES["int8_attention_of_u8"],
    "adds another tensor to a layer normalization": CASES["layer_norm_and_sum"],
    "pooling of channels-last": CASES["pooling_of_channels_last"],
    "rounds what int8 pooling makes": CASES["int8_pooling_and_relu"],
    "quantized residual wrongly": CASES["residual_of_other_sign"],
    "when it quantizes a convolution's result": convolution_quantized_per_channel,
    "when it quantizes a product's result": product_quantized_per_channel,
    "gradient of transposed convolution weights": automatic_padding,
    "ignores the strides of scales": strided_scales_of_groups,
}
# Partitions that are never run: oneDNN does not fuse them, or the mirror refuses to compile them.
NOT_RUN = {
    "fused 4-bit weights": four_bit_weights,
    "fused operand of more than one wide dim": CASES["pooling_and_sum"],
}
# Wrong on CPUs without VNNI only.
WITHOUT_VNNI = {"one channel a group": convolution_of_one_channel_a_group}
# Wrong by chance only: in memory that nobody wrote; in one call of 10,000.
BY_CHANCE = ("leaves a product over no elements unwritten", "on SYCL sometimes")


def found_right(monkeypatch, build):
    """Whether the model is right when nothing is known of defects, and its steps."""
    monkeypatch.setattr(defects, "DEFECTS", ())
    b = og.GraphBuilder()
    build(b)
    model = b.compile()
    return bool(model.verify()), model.steps()


def row_of(text):
    (found,) = (d for d in DEFECTS if text in d.what)
    return found


def test_every_known_defect_is_tried():
    tried = (*FOUND, *NOT_RUN, *WITHOUT_VNNI, *BY_CHANCE)
    assert sorted(row_of(text).what for text in tried) == sorted(d.what for d in DEFECTS)


@pytest.mark.parametrize("text", [t for t in FOUND if row_of(t) in VALID])
def test_default_inputs_show_a_known_defect(monkeypatch, text):
    b = og.GraphBuilder()
    FOUND[text](b)
    assert row_of(text).met(b.nodes)
    right, steps = found_right(monkeypatch, FOUND[text])
    assert len(steps) == 1
    assert not right


@pytest.mark.filterwarnings("ignore:.*runs in parts")
@pytest.mark.parametrize("text", [t for t in NOT_RUN if row_of(t) in VALID])
def test_a_known_defect_that_no_input_shows_is_not_run(monkeypatch, text):
    b = og.GraphBuilder()
    NOT_RUN[text](b)
    assert row_of(text).met(b.nodes)
    right, steps = found_right(monkeypatch, NOT_RUN[text])
    assert len(steps) > 1
    assert right


@held_to("avx512_core")
@pytest.mark.parametrize("text", [t for t in WITHOUT_VNNI if row_of(t) in VALID])
def test_default_inputs_show_a_defect_of_older_cpus(text):
    code = (
        "import pytest, test_filling as t\n"
        "with pytest.MonkeyPatch.context() as patch:\n"
        f"    right, steps = t.found_right(patch, t.WITHOUT_VNNI[{text!r}])\n"
        "assert len(steps) == 1\n"
        "print('right' if right else 'wrong')\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},
        cwd=os.path.dirname(__file__),
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.split()[-1] == "wrong"


# -- ranges


def ranges(build):
    b = og.GraphBuilder()
    build(b)
    return [(f.low, f.high) for f in fills_of(b).values()]


@pytest.mark.parametrize("dtype", ["s8", "u8", "s4", "u4"])
def test_quantized_inputs_have_the_whole_range_of_their_type(dtype):
    b = og.GraphBuilder()
    x = b.input((64, 64), dtype)
    b.output(
        x.dequantize(scales=[0.5], **PER_TENSOR)
        if dtype[1] == "8"
        else x.dynamic_dequantize(b.input((1, 64)), qtype="per_group", axis=0, group_shape=(64, 1))
    )
    array = og.fill_inputs(b)[0].astype(np.int64)
    assert (array.min(), array.max()) == integer_limits(dtype)


def test_weights_in_s8_keep_two_products_in_16_bits():
    """CPUs without VNNI add them so, and oneDNN says that they may saturate."""

    def product(b):
        x, w = b.input((8, 64), "u8"), b.input((64, 32), "s8")
        b.output(
            x.dequantize(scales=[0.5], **PER_TENSOR) @ w.dequantize(scales=[0.5], **PER_TENSOR)
        )

    (_, largest), (low, high) = ranges(product)
    assert largest == 255
    assert 2 * largest * max(-low, high) < 2**15


@pytest.mark.parametrize("scale", [2.0**-4, 2.0**-2, 1.0, 2.0**6])
@pytest.mark.parametrize("dtype", ["u8", "s8"])
def test_quantized_results_neither_vanish_nor_saturate_everywhere(scale, dtype):
    b = og.GraphBuilder()
    x, w = b.input((32, 64), "u8"), b.input((64, 32), "s8")
    y = x.dequantize(scales=[0.25], **PER_TENSOR) @ w.dequantize(scales=[2.0**-6], **PER_TENSOR)
    y = y + b.input((32, 32), "s8").dequantize(scales=[0.25], **PER_TENSOR)
    q = y.quantize(dtype=dtype, scales=[scale], **PER_TENSOR)
    b.output(q)
    made = reference_values(b, og.fill_inputs(b))[q.id]
    low, high = integer_limits(dtype)
    saturated = np.mean((made == high) | ((made == low) & (low < 0)))
    # Below a scale of 1 even the fewest integers that tell something are more than fit.
    assert saturated < (0.5 if scale >= 0.25 else 0.8)
    assert len(np.unique(made)) > 4


def test_a_zero_point_is_the_middle_of_a_smaller_range():
    def quantized(b):
        x = b.input((8, 8), "u8").dequantize(scales=[1.0], zps=[128], qtype="per_tensor")
        b.output(x.quantize(dtype="s8", scales=[0.5], **PER_TENSOR))

    ((low, high),) = ranges(quantized)
    assert 0 < low < 128 < high < 255
    assert abs(128 - low - (high - 128)) <= 2


def test_attention_in_integers_chooses_more_than_one_key():
    b = og.GraphBuilder()
    q, k = (
        b.input((1, 2, 16, 64), "u8").dequantize(scales=[0.0625], zps=[128], qtype="per_tensor")
        for _ in range(2)
    )
    p = q.matmul(k, transpose_b=True).softmax(axis=-1)
    b.output(p)
    made = reference_values(b, og.fill_inputs(b))[p.id]
    assert np.median(made.max(axis=-1)) < 0.99


def test_inputs_with_unknown_dims_are_filled_when_their_shapes_are_given():
    b = og.GraphBuilder()
    x = b.input((-1, 64), "u8", name="x").dequantize(scales=[0.25], **PER_TENSOR)
    b.output((x @ noise(64, 8)).quantize(dtype="s8", scales=[1.0], **PER_TENSOR))
    (array,) = og.fill_inputs(b, shapes={"x": (5, 64)})
    assert array.shape == (5, 64)
    with pytest.raises(og.InvalidShapeError, match="input 'x': its shape must be given"):
        og.fill_inputs(b)


# -- masks


@pytest.mark.parametrize("shape", [(2, 4, 16, 16), (4, 1, 1, 8), (3, 5, 7), (2, 2, 1, 8, 12)])
def test_masks_differ_from_head_to_head(shape):
    made = filled(Fill("mask"), shape, "f32", seed=0, number=0)
    heads = made.reshape(-1, *shape[-2:])
    assert len({h.tobytes() for h in heads}) == min(len(heads), shape[-1] // 2)
    assert (heads.max(axis=-1) == 0).all()  # no query without a key
    assert (heads[0] < 0).any()
