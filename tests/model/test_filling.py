"""Default inputs cover the whole data type, head by head.

That they show known defects is tested with these, in tests/safety/test_defects.py.
"""

import numpy as np
import pytest
from wrong_cases import PER_TENSOR, noise

import onednn_graph_py as og
from onednn_graph_py.model.checking.filling import Fill, filled, fills_of
from onednn_graph_py.model.checking.magnitudes import Size, sizes
from onednn_graph_py.model.checking.verify import reference_values
from onednn_graph_py.reference.rounding import integer_limits

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


def test_the_probabilities_of_a_softmax_without_axis_are_along_its_default():
    b = og.GraphBuilder()
    x = b.input((2, 4, 16))
    y = x.softmax()
    found = sizes(b.nodes, {x.id: Size(0.0, 1.0)}, {v.id: (2, 4, 16) for v in (x, y)})
    assert found[y.id].mean == 1 / 4
