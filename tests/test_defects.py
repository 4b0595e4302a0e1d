"""Fused partitions that oneDNN computes wrongly: found again here, and avoided by models."""

import pickle
import warnings

import numpy as np
import pytest
from graphs import LINKED
from onednn_graph_py.defects import DEFECTS

import onednn_graph_py as og
from onednn_graph_py.dtypes import numpy_dtype
from onednn_graph_py.reference import round_to
from onednn_graph_py.verify import reference_values


def evaluate(b, inputs):
    known = reference_values(b, inputs)
    return [known[v.id] for v in b.outputs.values()]


PER_TENSOR = {"qtype": "per_tensor", "zps": [0]}


def noise(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def layer_norm_and_sum(b):
    x, z = b.input((6, 16)), b.input((6, 16))
    gamma, beta = noise(16, seed=1), noise(16, seed=2)
    b.output(x.layer_norm(gamma, beta, keep_stats=False) + z)


def layer_norm_cast_and_sum(b):
    x, z = b.input((6, 16), "bf16"), b.input((6, 16))
    y = x.layer_norm(noise(16, seed=1), noise(16, seed=2), keep_stats=False)
    b.output(y.type_cast(dtype="f32") + z)


def attention_mask_of_three_dims(b):
    q, k, v = (b.input((2, 4, 32, 64)) for _ in range(3))
    scores = q.matmul(k, transpose_b=True) * 0.125 + noise(4, 32, 32, seed=1)
    b.output(scores.softmax(axis=-1) @ v)


def pooling_and_sum(b):
    x, z = b.input((2, 8, 8, 16)), b.input((2, 4, 4, 16))
    window = {"kernel": (2, 2), "strides": (2, 2), "pads_begin": (0, 0), "pads_end": (0, 0)}
    b.output(x.max_pool(**window) + z)


def pooling_of_channels_last(b):
    x = b.input((2, 4, 4, 3))
    window = {"kernel": (2, 2), "strides": (2, 2), "pads_begin": (0, 0), "pads_end": (0, 0)}
    b.output(x.max_pool(**window) + noise(3, seed=1))


def int8_pooling_and_relu(b):
    x = b.input((1, 4, 4, 8), "s8").dequantize(scales=[0.5], **PER_TENSOR)
    window = {"kernel": (2, 2), "strides": (2, 2), "pads_begin": (0, 0), "pads_end": (0, 0)}
    y = x.max_pool(**window).relu()
    b.output(y.quantize(dtype="s8", scales=[0.5], **PER_TENSOR))


def scales_per_channel_behind_a_normalization(b):
    x = b.input((2, 8, 8, 32)).softmax(axis=-1)
    scales = [2.0 ** -(5 + i % 4) for i in range(32)]
    b.output(x.quantize(dtype="u8", scales=scales, zps=[0] * 32, qtype="per_channel", axis=3))


def residual_of_other_sign(b):
    per_tensor = {"scales": [0.25], **PER_TENSOR}
    x, r = b.input((8, 64), "u8"), b.input((8, 32), "u8")
    weights = b.constant(np.random.default_rng(3).integers(-8, 8, (64, 32)).astype(np.int8))
    y = x.dequantize(**per_tensor) @ weights.dequantize(scales=[2.0**-6], **PER_TENSOR)
    y = y + r.dequantize(scales=[0.5], **PER_TENSOR)
    b.output(y.quantize(dtype="s8", scales=[0.5], **PER_TENSOR))


def scales_per_channel_behind_a_product(b):
    x = b.input((1, 6, 6, 16), "u8")
    weights = b.constant(np.random.default_rng(3).integers(-8, 8, (3, 3, 16, 8)).astype(np.int8))
    y = x.dequantize(scales=[0.25], **PER_TENSOR).convolution(
        weights.dequantize(scales=[2.0**-6], **PER_TENSOR),
        strides=(1, 1), pads_begin=(1, 1), pads_end=(1, 1), dilations=(1, 1),
    )  # fmt: skip
    scales = [2.0 ** (i % 4) for i in range(8)]
    b.output(y.quantize(dtype="s8", scales=scales, zps=[0] * 8, qtype="per_channel", axis=3))


def s8_convolution_of_one_channel_a_group(b):
    x = b.input((1, 6, 6, 4), "s8")
    weights = b.constant(np.random.default_rng(3).integers(-8, 8, (3, 3, 1, 128)).astype(np.int8))
    y = x.dequantize(scales=[0.25], **PER_TENSOR).convolution(
        weights.dequantize(scales=[2.0**-6], **PER_TENSOR), groups=4,
        strides=(1, 1), pads_begin=(1, 1), pads_end=(1, 1), dilations=(1, 1),
    )  # fmt: skip
    b.output(y)


def attention_on_strided_inputs(b):
    stacked = (192, 96, 96, 1)  # three of 32 beside each other
    q, k, v = (b.input((2, 1, 2, 32), strides=stacked) for _ in range(3))
    b.output((q.matmul(k, transpose_b=True) / 8.0).softmax(axis=-1) @ v)


def int8_attention_of_u8(b):
    per_tensor = {"scales": [2.0**-5], "zps": [128], "qtype": "per_tensor"}
    q, k, v = (b.input((2, 8, 16, 16), "u8").dequantize(**per_tensor) for _ in range(3))
    mask = b.input((2, 1, 16, 16))
    weights = (q.matmul(k, transpose_b=True) / 4.0 + mask).softmax(axis=-1)
    steps = {"scales": [2.0**-8], **PER_TENSOR}
    weights = weights.quantize(dtype="u8", **steps).dequantize(**steps)
    y = (weights @ v).static_transpose(order=(0, 2, 1, 3))
    y = y.static_reshape(shape=(2, 16, 128), special_zero=False)
    b.output(y.quantize(dtype="u8", scales=[2.0**-5], zps=[64], qtype="per_tensor"))


def s8_transposed_convolution(b):
    x = b.input((1, 6, 6, 16), "s8")
    weights = b.constant(np.random.default_rng(3).integers(-8, 8, (3, 3, 8, 16)).astype(np.int8))
    y = x.dequantize(scales=[0.25], **PER_TENSOR).conv_transpose(
        weights.dequantize(scales=[2.0**-6], **PER_TENSOR),
        strides=(2, 2), pads_begin=(1, 1), pads_end=(1, 1), dilations=(1, 1),
    )  # fmt: skip
    b.output(y)


CASES = {
    f.__name__: f
    for f in (
        layer_norm_and_sum,
        layer_norm_cast_and_sum,
        attention_mask_of_three_dims,
        pooling_and_sum,
        pooling_of_channels_last,
        int8_pooling_and_relu,
        scales_per_channel_behind_a_normalization,
        residual_of_other_sign,
        scales_per_channel_behind_a_product,
        s8_convolution_of_one_channel_a_group,
        s8_transposed_convolution,
        attention_on_strided_inputs,
        int8_attention_of_u8,
    )
}


def arrays_of(b):
    chance = np.random.default_rng(7)
    ranges = {"u8": (0, 256), "s8": (-32, 32)}
    return [
        chance.integers(*ranges[v.dtype], v.shape).astype(np.uint8 if v.dtype == "u8" else np.int8)
        if v.dtype in ranges
        else round_to(chance.standard_normal(v.shape), v.dtype)
        for v in b.inputs
    ]


def compiled(b):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        return b.compile(), caught


@pytest.mark.parametrize("case", CASES)
def test_models_are_right_where_a_fused_partition_would_not_be(case):
    b = og.GraphBuilder()
    CASES[case](b)
    model, caught = compiled(b)
    arrays = arrays_of(b)
    (exact,) = evaluate(b, arrays)
    made = model(*arrays)
    # Powers of two as scales: integers are exact, but for a tie that fused ops round once.
    tolerance = 1 if exact.dtype == np.int8 else 1e-5 * np.abs(exact).max()
    known = reference_values(b, arrays)
    between = [known[v.id] for n in b.nodes for v in n.outputs if v.dtype == "bf16"]
    # What is rounded to bf16 between two ops may be so or not, when they are fused.
    tolerance += sum(2.0**-8 * float(np.abs(a.astype(float)).max()) for a in between)
    assert np.abs(made.astype(float) - exact.astype(float)).max() <= tolerance
    assert [w.category for w in caught] in ([], [RuntimeWarning])
    if caught:
        assert "runs in parts" in str(caught[0].message)
        assert "test_defects.py" in str(caught[0].message)


def in_layout(array, lt):
    """A copy with the strides that a logical tensor has."""
    strides = lt.get_strides()
    memory = np.zeros(
        1 + sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True)), array.dtype
    )
    made = np.lib.stride_tricks.as_strided(
        memory, array.shape, [s * array.itemsize for s in strides]
    )
    made[...] = array
    return made


def run_fused(b, arrays):
    """The whole graph as oneDNN partitions it, through the mirror."""
    (partition,) = [p for p in b.graph.get_partitions() if len(p.get_ops()) == len(b.nodes)]
    given = {v.id: a for v, a in zip(b.inputs, arrays, strict=True)}
    given |= {v.id: v.data for v in b.constants}
    values = {v.id: v.logical_tensor for v in (*b.inputs, *b.constants)}
    wanted = {lt.get_id() for lt in partition.get_input_ports()}
    inputs = [lt for i, lt in values.items() if i in wanted]
    (value,) = b.outputs.values()
    engine = og.engine("cpu", 0)
    stream = og.stream(engine)
    compiled = partition.compile(inputs, [value.logical_tensor], engine)
    made = np.zeros(value.shape, numpy_dtype(value.dtype))
    compiled.execute(
        stream,
        [og.tensor(lt, engine, in_layout(given[lt.get_id()], lt)) for lt in inputs],
        [og.tensor(value.logical_tensor, engine, made)],
    )
    stream.wait()
    return made


@pytest.mark.skipif(LINKED >= (3, 13), reason="right from oneDNN 3.13 on")
@pytest.mark.parametrize(
    "case",
    [
        "layer_norm_and_sum",
        "layer_norm_cast_and_sum",
        "attention_mask_of_three_dims",
        "attention_on_strided_inputs",
        "int8_attention_of_u8",
    ],
)
def test_onednn_still_computes_these_wrongly(case):
    """If this fails the defect is gone, and its row in defects.py can go too."""
    b = og.GraphBuilder()
    CASES[case](b)
    arrays = arrays_of(b)
    (exact,) = evaluate(b, arrays)
    assert np.abs(run_fused(b, arrays).astype(float) - exact.astype(float)).max() > 0.1


@pytest.mark.parametrize(
    "case", ["layer_norm_and_sum"] if LINKED < (3, 13) else ["residual_of_other_sign"]
)
def test_a_known_defect_runs_as_it_is_where_that_is_wanted(case):
    b = og.GraphBuilder()
    CASES[case](b)
    model = b.compile(known_defects="run")  # a warning would fail
    assert len(model.steps()) == 1
    (exact,) = evaluate(b, arrays := arrays_of(b))
    assert np.abs(model(*arrays).astype(float) - exact.astype(float)).max() > 0.1
    assert not b.compile(known_defects="run").verify(*arrays)
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied(*arrays), model(*arrays))


def test_an_op_that_is_wrong_by_itself_runs_where_that_is_wanted():
    b = og.GraphBuilder()
    strided_scales_of_groups(b)
    with pytest.raises(og.UnimplementedError, match="ignores the strides of scales"):
        b.compile()
    assert not b.compile(known_defects="run").verify()


def test_running_known_defects_lifts_no_other_guard():
    b = og.GraphBuilder()
    pooling_and_sum(b)
    with pytest.warns(RuntimeWarning, match="access memory out of bounds"):
        model = b.compile(known_defects="run")
    assert len(model.steps()) == 2
    assert model.verify()
    b = og.GraphBuilder()
    pads = {"strides": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1), "dilations": (1, 1)}
    x = b.input((1, 6, 6, 16), "s8").dequantize(scales=[0.5], **PER_TENSOR)
    b.output(x.convolution(noise(3, 3, 16, 8), **pads))
    model = b.compile(known_defects="run")  # in one graph the search for fusions crashes
    assert len(model.steps()) == 2
    with pytest.raises(og.InvalidArgumentsError, match="known_defects must be 'avoid' or 'run'"):
        b.compile(known_defects="wrong")


def test_every_row_names_its_versions():
    for defect in DEFECTS:
        assert (3, 7) <= defect.since < defect.until
        assert "oneDNN" in defect.what


def test_a_dequantize_before_a_plain_convolution_does_not_crash():
    """oneDNN's search for fusions would; the mirror refuses, models use two graphs."""
    b = og.GraphBuilder()
    x = b.input((1, 6, 6, 16), "s8").dequantize(scales=[0.5], **PER_TENSOR)
    y = x.convolution(
        noise(3, 3, 16, 8), strides=(1, 1), pads_begin=(1, 1), pads_end=(1, 1), dilations=(1, 1)
    )
    b.output(y)
    with pytest.raises(og.UnimplementedError, match="crashes oneDNN's search for fusions"):
        b.graph.get_partitions()
    assert len(b.graph.get_partitions("debug")) == 2
    a = np.ones((1, 6, 6, 16), np.int8)
    np.testing.assert_allclose(b.compile()(a), evaluate(b, [a])[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 2, 16), (3, 1, 16), (1, 1, 16), (5, 1, 3, 4)])
def test_what_follows_a_transposition_of_a_unit_dim_is_written(shape):
    """oneDNN asked for strides of the unit dim with which the next partition wrote nothing."""
    b = og.GraphBuilder()
    order = (1, 0, *range(2, len(shape)))
    b.output(b.input(shape).static_transpose(order=order) * 2.0 + 1.0)
    a = noise(*shape)
    made = np.full([shape[i] for i in order], np.nan, np.float32)
    b.compile()(a, out=made)
    np.testing.assert_array_equal(made, a.transpose(order) * 2 + 1)


@pytest.mark.parametrize("kind", ["quantize", "dequantize"])
@pytest.mark.parametrize("axis", [-3, -2, -1])
def test_negative_axes_of_quantization_count_from_the_end(kind, axis):
    """oneDNN took them for other axes, without a word."""
    shape = (3, 4, 5)
    scales = [2.0**-i for i in range(shape[axis])]
    results = []
    for given in (axis, axis + 3):
        b = og.GraphBuilder()
        x = b.input(shape, "f32" if kind == "quantize" else "s8")
        dtype = {"dtype": "s8"} if kind == "quantize" else {}
        b.output(getattr(x, kind)(scales=scales, qtype="per_channel", axis=given, **dtype))
        a = (np.arange(60).reshape(shape) % 7).astype(np.float32 if dtype else np.int8)
        results.append(b.compile()(a))
        np.testing.assert_array_equal(results[-1], evaluate(b, [a])[0])
    np.testing.assert_array_equal(*results)


def test_a_negative_axis_of_an_unknown_rank_is_refused():
    x = og.logical_tensor(0, "f32", -1, "strided")
    o = og.op(0, "Quantize", [x], [og.logical_tensor(1, "s8", -1, "strided")])
    o.set_attr("scales", [0.5, 0.5]).set_attr("qtype", "per_channel").set_attr("axis", -1)
    with pytest.raises(og.InvalidGraphOpError, match="axis must not be negative"):
        og.graph("cpu").add_op(o)


@pytest.mark.skipif(LINKED >= (3, 13), reason="right from oneDNN 3.13 on")
def test_attention_that_selects_one_element_is_refused_by_the_mirror():
    b = og.GraphBuilder()
    q, k, v = (b.input((2, 4, 32, 64)) for _ in range(3))
    scores = q.matmul(k, transpose_b=True) * 0.125
    hidden = np.triu(np.ones((1, 1, 32, 32), bool), 1)
    masked = b.select(b.constant(hidden), np.float32([-1e30]), scores)
    b.output(masked.softmax(axis=-1) @ v)
    arrays = arrays_of(b)
    with pytest.raises(og.UnimplementedError, match="turn the condition around"):
        run_fused(b, arrays)
    model, caught = compiled(b)
    assert len(caught) == 1
    (exact,) = evaluate(b, arrays)
    np.testing.assert_allclose(model(*arrays), exact, rtol=1e-4, atol=1e-5)


def test_a_tensor_that_a_partition_reads_twice_is_no_in_place_port():
    """oneDNN 3.13 offered it, and then read what it had overwritten."""
    b = og.GraphBuilder()
    x, z = b.input((8, 16)), b.input((8, 16))
    y = x.relu() + 0.0  # not an input of the model, so that its memory may be reused
    b.output((y + z) * y)
    a, c = noise(8, 16), noise(8, 16, seed=1)
    y = np.maximum(a, 0)
    np.testing.assert_allclose(b.compile()(a, c), (y + c) * y, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("strided", ["", "q", "k", "v", "qkv"])
@pytest.mark.parametrize("made", [False, True])
def test_attention_of_heads_behind_tokens_is_right(strided, made):
    """Their strides are not to be touched where plain ones of unit dims are put right."""
    batch, heads, tokens, size = 1, 12, 32, 64
    arrays = [noise(batch, tokens, heads, size, seed=i) for i in range(3)]
    b = og.GraphBuilder()
    values, given = [], []
    for name, array in zip("qkv", arrays, strict=True):
        turned = array.transpose(0, 2, 1, 3)
        if made:
            x = b.input(array.shape, name=name).static_transpose(order=(0, 2, 1, 3))
            given.append(array)
        elif name in strided:
            x = b.input(turned.shape, strides=[s // 4 for s in turned.strides], name=name)
            given.append(turned)
        else:
            x = b.input(turned.shape, name=name)
            given.append(np.ascontiguousarray(turned))
        values.append(x)
    q, k, v = values
    b.output((q.matmul(k, transpose_b=True) * 0.125).softmax(axis=-1) @ v)
    model, _ = compiled(b)
    (exact,) = evaluate(b, given)
    assert model.copies == 0
    np.testing.assert_allclose(model(*given), exact, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch", [1, 2])
def test_products_take_weights_whose_heads_lie_behind_tokens(batch):
    heads, tokens, size = 3, 8, 16
    q = noise(batch, heads, tokens, size)
    k = noise(batch, tokens, heads, size, seed=1).transpose(0, 2, 1, 3)
    b = og.GraphBuilder()
    y = b.input(k.shape, strides=[s // 4 for s in k.strides])
    b.output(b.input(q.shape).matmul(y, transpose_b=True))
    np.testing.assert_allclose(b.compile()(k, q), q @ k.transpose(0, 1, 3, 2), rtol=1e-4, atol=1e-5)


def product_over_nothing(b):
    b.output((b.input((4, 0)) @ b.input((0, 8))).relu())


def weights_gradient_with_automatic_padding(b):
    b.output(
        b.conv_transpose_backward_weights(
            b.input((1, 1, 5)), b.input((1, 1, 10)), auto_pad="SAME_UPPER", weights_shape=(1, 1, 3),
            strides=(2,), pads_begin=(0,), pads_end=(0,), dilations=(1,),
            data_format="NCX", weights_format="IOX",
        )
    )  # fmt: skip


def strided_scales_of_groups(b):
    x = b.input((1, 2, 4), "s8")
    scales = b.input((1, 2, 2), strides=(8, 4, 1))
    b.output(x.dynamic_dequantize(scales, qtype="per_group", axis=2, group_shape=(1, 1, 2)))


@pytest.mark.parametrize(
    ("make", "what", "until"),
    [
        (strided_scales_of_groups, "ignores the strides of scales", (99, 0)),
        (product_over_nothing, "leaves a product over no elements unwritten", (3, 13)),
        (weights_gradient_with_automatic_padding, "give pads_begin and pads_end", (99, 0)),
    ],
)
def test_what_is_wrong_also_alone_is_refused_or_computed_in_numpy(make, what, until):
    b = og.GraphBuilder()
    make(b)
    arrays = arrays_of(b)
    if until > LINKED:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            with pytest.raises(og.UnimplementedError, match=what):
                b.compile()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        model = b.compile(fallback="reference")
    assert any(s.implementation == "reference" for s in model.steps())
    np.testing.assert_allclose(model(*arrays), evaluate(b, arrays)[0], rtol=1e-6)
