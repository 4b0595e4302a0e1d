"""The data model: what a case of the gallery can't show."""

import re

import ml_dtypes
import numpy as np
import pytest
from graphs import packed_weights, since

import onednn_graph_py as og
from gallery import PATTERNS
from onednn_graph_py.model.building.builder import GraphBuilder

LT = og.logical_tensor

ROWS = [
    *("T-01", "T-02"),
    *(f"CT-{x}" for x in ("shape", "wf", "groups", "bias", "outpad", "autopad", "dil", "dt")),
    *(f"CTBW-{x}" for x in ("form", "groups", "fmt", "attrs", "dt")),
    *(f"DT-{x}" for x in ("undef", "f16", "bf16", "f32", "s32", "s8", "u8", "boolean")),
    *(f"DT-{x}" for x in ("f8_e5m2", "f8_e4m3", "s4", "u4", "s64")),
    *(f"LT-{x}" for x in ("any", "strided", "opaque", "undef")),
    *("DM-dim-unknown", "DM-ndims-unknown", "DM-scalar-/-zero-dims", "DM-strides"),
    *("DM-Quantize/Dequantize", "DM-TypeCast"),
]


def test_no_row_is_missing():
    assert set(ROWS) <= set(PATTERNS)


# -- layouts


def product(*layouts, src=(4, 16)):
    """A MatMul, compiled with other logical tensors than its graph has."""
    built = [
        LT(0, "f32", [4, 16], "strided"),
        LT(1, "f32", [16, 8], "strided", "constant"),
        LT(2, "f32", [4, 8], "strided"),
    ]
    given = [
        LT(i, "f32", dims, layout, prop) if layout else built[i]
        for i, (dims, layout, prop) in enumerate(
            zip((src, [16, 8], [4, 8]), layouts, ("undef", "constant", "undef"), strict=True)
        )
    ]
    o = og.op(1, "MatMul", "product")
    o.add_inputs(built[:2])
    o.add_output(built[2])
    g = og.graph("cpu")
    g.add_op(o)
    g.finalize()
    (partition,) = g.get_partitions()
    return partition.compile(given[:2], given[2:], og.engine("cpu", 0))


def test_an_output_of_layout_any_comes_back_strided():
    queried = product(None, None, "any").query_logical_tensor(2)
    assert queried.get_layout_type() is LT.strided
    assert (queried.get_dims(), queried.get_strides()) == ([4, 8], [8, 1])


def test_an_input_of_layout_any_is_refused_unless_it_is_constant():
    with pytest.raises(og.InvalidShapeError, match=r"input 0: .* strided or opaque"):
        product("any", None, None)
    product(None, "any", None)


@packed_weights
def test_constants_of_layout_any_come_back_opaque_with_a_layout_id():
    queried = product(None, "any", None).query_logical_tensor(1)
    assert queried.get_layout_type() is LT.opaque
    again = LT(7, "f32", [16, 8], queried.get_layout_id())
    assert again.get_layout_type() is LT.opaque
    assert again.get_mem_size() == queried.get_mem_size()


def test_an_opaque_layout_is_not_made_by_hand():
    with pytest.raises(og.InvalidArgumentsError, match="opaque needs the layout id"):
        LT(0, "f32", [4, 16], "opaque")


@pytest.mark.parametrize(
    ("layouts", "port"), [(("undef", None, None), 0), ((None, None, "undef"), 2)]
)
def test_layout_undef_is_only_for_building(layouts, port):
    with pytest.raises(og.OneDNNError) as caught:
        product(*layouts)
    assert re.search(f"input {port}|id {port}", f"{caught.value} {caught.value.reason()}")


def test_layouts_between_partitions_change_no_number():
    graph = PATTERNS["LT-any"].graph(PATTERNS["LT-any"].cases[0])
    x = np.random.default_rng(0).standard_normal((2, 8, 8, 16), np.float32)
    free, plain = (graph.compile(layout=layout) for layout in ("auto", "plain"))
    assert len(free.steps()) == len(plain.steps()) == 2
    np.testing.assert_allclose(free(x), plain(x), rtol=1e-5, atol=1e-5)


# -- data types and dims


def test_an_op_of_data_type_undef_is_refused_by_the_library():
    o = og.op(1, "ReLU", "none")
    o.add_input(LT(0, "undef", [4], "strided"))
    o.add_output(LT(1, "undef", [4], "strided"))
    with pytest.raises(og.InvalidGraphOpError, match="undef"):
        og.graph("cpu").add_op(o)


def test_unknown_dims_of_an_output_follow_when_it_is_compiled():
    o = og.op(1, "ReLU", "r")
    o.add_input(LT(0, "f32", [None, 16], "strided"))
    o.add_output(LT(1, "f32", og.UNKNOWN_NDIMS, "strided"))
    g = og.graph("cpu")
    g.add_op(o)
    g.finalize()
    (partition,) = g.get_partitions()
    out = LT(1, "f32", og.UNKNOWN_NDIMS, "strided")
    compiled = partition.compile([LT(0, "f32", [3, 16], "strided")], [out], og.engine("cpu", 0))
    assert compiled.query_logical_tensor(1).get_dims() == [3, 16]


def test_inputs_must_be_known_when_a_partition_is_compiled():
    with pytest.raises(og.InvalidShapeError, match=r"input 0: an input needs known dims"):
        product("strided", None, None, src=(None, 16))


def test_a_model_with_unknown_dims_is_compiled_for_each_shape_that_comes():
    pattern = PATTERNS["DM-dim-unknown"]
    graph = pattern.build("f32", op="MatMul")
    weights = graph.constants[0].data
    model = graph.compile()
    for rows in (1, 5, 3, 5):
        x = np.random.default_rng(rows).standard_normal((rows, 16), np.float32)
        np.testing.assert_allclose(model(x), x @ weights, rtol=1e-4, atol=1e-5)
    stats = model.stats()
    assert (stats.shapes, stats.misses, stats.hits) == (3, 3, 1)


# -- numbers


def of_one_op(kind, x, dtype, **attributes):
    b = GraphBuilder()
    given = b.input(x.shape, og.dtypes.data_type_of(x.dtype).name)
    b.output(b.op(kind, given, outputs=[(None, dtype)], **attributes))
    return b.compile()(x)


@pytest.mark.parametrize("zero_point", [0, 3])
@pytest.mark.parametrize("dtype", ["u8", "s8"])
def test_quantize_saturates_and_rounds_halves_to_even(dtype, zero_point):
    edges = [-128.5, -128.4, -129, -1, -0.5, -0.0, 0.5, 1.5, 2.5, 126.5, 127.4, 127.5, 128]
    edges += [254.5, 255.4, 255.5, 256, 2e9, 3e9, 1e10, 1e30, np.inf, -3e9, -1e30, -np.inf]
    steps = np.float32(edges)
    scale = np.float32(0.25)  # so that x / scale is exact
    made = of_one_op(
        "Quantize", steps * scale, dtype, scales=[scale], zps=[zero_point], qtype="per_tensor"
    )
    info = np.iinfo(made.dtype)
    expected = np.clip(np.rint(steps.astype(np.float64) + zero_point), info.min, info.max)
    np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize("qtype", ["per_tensor", "per_channel"])
@pytest.mark.parametrize("dtype", ["u8", "s8"])
def test_quantize_before_dequantize_of_equal_scales_is_not_taken_away(dtype, qtype):
    graph = PATTERNS["DM-Quantize/Dequantize"].build(dtype, qtype=qtype, zero_point=0)
    quantize = graph.nodes[0]
    x = np.random.default_rng(0).standard_normal((4, 16)).astype(np.float32)
    scales = np.float32(quantize.attrs["scales"])
    info = np.iinfo(np.dtype("u1" if dtype == "u8" else "i1"))
    # In f64, away from ties: the same step whichever way oneDNN divides.
    steps = x.astype(np.float64) / scales
    assert np.abs(steps - np.floor(steps) - 0.5).min() > 1e-5
    expected = np.clip(np.rint(steps), info.min, info.max).astype(np.float32) * scales
    for policy in ("fusion", "debug"):
        made = graph.compile(policy=policy)(x)
        np.testing.assert_array_equal(made, expected)
        assert not np.array_equal(made, x)


def all_kinds_of_f32():
    """Every bf16, what lies just around it, and halfway to the next; a sweep of all f32."""
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    bits = [upper, upper | 1, upper | 0x7FFF, upper | 0x8000, upper | 0x8001]
    # Of f16, in the range that it has: the same, 13 bits below.
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    halves = halves[np.isfinite(halves)].view(np.uint32)
    bits += [halves, halves | 1, halves | 0xFFF, halves | 0x1000, halves | 0x1001]
    bits.append(np.arange(0, 1 << 32, 40503, dtype=np.uint64).astype(np.uint32))
    return np.concatenate(bits).view(np.float32)


def bits_of(x):
    return x.view(f"u{x.itemsize}")


@pytest.mark.parametrize(
    ("dtype", "narrow"), [("bf16", ml_dtypes.bfloat16), ("f16", np.dtype(np.float16))]
)
def test_type_cast_from_f32_rounds_to_nearest_even(dtype, narrow):
    x = all_kinds_of_f32()
    with np.errstate(over="ignore", invalid="ignore"):
        expected = x.astype(narrow)
    made = of_one_op("TypeCast", x, dtype)
    # Two exceptions, on every oneDNN: what AVX-512's conversion to bf16 is given in subnormal f32
    # comes out as 0, and to f16 a zero loses its sign.
    tiny = np.finfo(np.float32).tiny
    exception = (np.abs(x) < tiny) if dtype == "bf16" else (x == 0)
    np.testing.assert_array_equal(np.isnan(made), np.isnan(x))
    same = np.isnan(x) | exception
    np.testing.assert_array_equal(bits_of(made)[~same], bits_of(expected)[~same])
    kept = bits_of(made)[exception] == bits_of(expected)[exception]
    assert (kept | (made[exception] == 0)).all()


@pytest.mark.parametrize(
    ("dtype", "narrow"), [("bf16", ml_dtypes.bfloat16), ("f16", np.dtype(np.float16))]
)
def test_type_cast_to_f32_is_exact(dtype, narrow):
    x = np.arange(1 << 16, dtype=np.uint16).view(narrow)
    expected = x.astype(np.float32)
    made = of_one_op("TypeCast", x, "f32")
    np.testing.assert_array_equal(np.isnan(made), np.isnan(expected))
    # Equal but for the sign of zero, which f16 loses.
    compared = ~np.isnan(expected)
    np.testing.assert_array_equal(made[compared], expected[compared])
    assert (bits_of(made) == bits_of(expected))[compared & (expected != 0)].all()


@pytest.mark.parametrize(
    ("dtype", "narrow"), [("bf16", ml_dtypes.bfloat16), ("f16", np.dtype(np.float16))]
)
def test_a_cast_and_the_one_back_are_both_done(dtype, narrow):
    graph = PATTERNS["DM-TypeCast"].build(dtype)
    x = np.random.default_rng(0).standard_normal((4, 16)).astype(np.float32)
    made = graph.compile()(x)
    np.testing.assert_array_equal(made, x.astype(narrow).astype(np.float32))
    assert not np.array_equal(made, x)


# -- transposed convolution


@pytest.mark.parametrize("name", ["none", "valid", "same_upper", "same_lower"])
def test_both_spellings_of_auto_pad_mean_the_same(name):
    build = PATTERNS["CT-autopad"].build
    library = "None" if name == "none" else name.upper()
    models = [build("f32", auto_pad=spelling).compile() for spelling in (name, library)]
    x = np.random.default_rng(0).standard_normal((2, 9, 8, 16)).astype(np.float32)
    np.testing.assert_array_equal(models[0](x), models[1](x))


def gradient_of_weights(diff, src, **padding):
    """ConvTransposeBackwardWeights of stride 2 for 3 weights, in the mirror."""
    tensors = [
        LT(0, "f32", src.shape, "strided"),
        LT(1, "f32", diff.shape, "strided"),
        LT(2, "f32", [1, 1, 3], "strided"),
    ]
    o = og.op(1, "ConvTransposeBackwardWeights", "gradient")
    o.add_inputs(tensors[:2])
    o.add_output(tensors[2])
    attributes = {"strides": [2], "dilations": [1], "weights_shape": [1, 1, 3], **padding}
    for name, value in attributes.items():
        o.set_attr(name, value)
    o.set_attr("data_format", "NCX")
    o.set_attr("weights_format", "IOX")
    g = og.graph("cpu")
    g.add_op(o)
    g.finalize()
    (partition,) = g.get_partitions()
    engine = og.engine("cpu", 0)
    stream = og.stream(engine)
    compiled = partition.compile(tensors[:2], tensors[2:], engine)
    made = np.zeros((1, 1, 3), np.float32)
    arrays = [og.tensor(lt, engine, a) for lt, a in zip(tensors, (src, diff, made), strict=True)]
    compiled.execute(stream, arrays[:2], arrays[2:])
    stream.wait()
    return made.ravel()


def test_automatic_padding_of_the_weights_gradient_goes_by_the_wrong_size():
    """3.7.2 and 3.13.2: it depends on the source's size, which that of the forward op does not."""
    for size, begin in ((4, 0), (5, 1)):  # the forward op pads 0 before and 1 after either
        src = np.arange(1, size + 1, dtype=np.float32).reshape(1, 1, size) ** 2
        diff = np.arange(2 * size, dtype=np.float32).reshape(1, 1, 2 * size) ** 2
        zeros = {"pads_begin": [0], "pads_end": [0]}
        automatic = gradient_of_weights(diff, src, auto_pad="SAME_UPPER", **zeros)
        by_hand = [gradient_of_weights(diff, src, pads_begin=[b], pads_end=[1 - b]) for b in (0, 1)]
        assert not np.array_equal(*by_hand)
        np.testing.assert_array_equal(automatic, by_hand[begin])


# -- training


def test_the_gradient_of_a_bias_runs_beside_the_convolution_as_a_sum():
    pattern = PATTERNS["T-01"]
    model = pattern.graph(pattern.cases[0]).compile(warn=False)
    assert {s.implementation for s in model.steps()} == {"oneDNN"}
    assert model.verify()


def attention(query, key, value, kept=1.0):
    """In f64: the result, and what SoftMax's second output holds."""
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    stats = np.log(np.exp(scores).sum(-1, keepdims=True))
    return (np.exp(scores - stats) * kept) @ value, stats


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"softmax_backward": True},
        {"groups": 2},
        {"groups": 2, "softmax_backward": True},
        pytest.param({"dropout": True}, marks=since(3, 13)),
        pytest.param({"groups": 2, "dropout": True}, marks=since(3, 13)),
    ],
)
def test_the_backward_graph_of_attention_is_its_gradient(form):
    graph = PATTERNS["T-04"].build("f32", **form)
    random = np.random.default_rng(0)
    shapes = {v.name: v.shape for v in graph.inputs}
    qkv = {n: random.standard_normal(shapes[n]) for n in ("query", "key", "value")}
    kept = 1.0
    if "dropout" in form:
        ones = np.ones((*shapes["stats"][:-1], shapes["key"][-2]), np.float32)
        drawn = [v.data for v in graph.constants if v.dtype == "s64"]
        kept = og.reference.run("Dropout", [ones, *drawn, np.float32([0.5])])[0]
        assert set(np.unique(kept)) == {0.0, 2.0}
    result, stats = attention(**qkv, kept=kept)
    diff = random.standard_normal(result.shape)
    known = {**qkv, "stats": stats, "diff_result": diff, "result": result}
    made = graph.compile()(**{n: known[n].astype(np.float32) for n in shapes})
    for (name, x), gradient in zip(qkv.items(), made, strict=True):
        step = 1e-5 * random.standard_normal(x.shape)
        ahead, behind = (attention(**{**qkv, name: x + s}, kept=kept)[0] for s in (step, -step))
        numeric = ((ahead - behind) / 2 * diff).sum()
        np.testing.assert_allclose((gradient * step).sum(), numeric, rtol=1e-4)
