"""Models against the reference, and inputs that make results mean something."""

import ml_dtypes
import numpy as np
import pytest
from graphs import may_run_masks_in_parts, needs

import onednn_graph_py as og
from onednn_graph_py.base.dtypes import pack_int4
from onednn_graph_py.model.checking.expected import Expected, reference_values
from onednn_graph_py.model.checking.telling import telling
from onednn_graph_py.model.checking.verify import verify


def attention(b, dtype="f32"):
    q, k, v = (b.input((2, 4, 16, 8), dtype, name=n) for n in "qkv")
    mask = b.input((1, 1, 16, 16), dtype, name="mask")
    scores = q.matmul(k, transpose_b=True) / 8**0.5 + mask
    b.output(scores.softmax(axis=-1) @ v)


def quantized(b):
    x = b.input((4, 16), "u8", name="x")
    w = b.input((16, 8), "s8", name="w")
    scaled = {"qtype": "per_tensor", "zps": [0]}
    y = x.dequantize(scales=[0.05], **scaled) @ w.dequantize(scales=[0.02], **scaled)
    b.output(y.relu().quantize(dtype="u8", scales=[0.03], zps=[5], qtype="per_tensor"))


@may_run_masks_in_parts
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_a_right_model_is_found_right(dtype):
    needs(dtype)
    b = og.GraphBuilder()
    attention(b, dtype)
    verified = b.compile().verify()
    assert verified
    assert verified.ok
    assert [o.dtype for o in verified.outputs] == [dtype]
    assert verified.outputs[0].count == 2 * 4 * 16 * 8
    assert verified.max_error < 0.1
    # Where it runs in parts, bf16 is rounded where the reference rounds it.
    assert verified.max_error > 0 or dtype == "bf16"
    assert verified.share < 1
    assert "right; the largest error is" in str(verified)


def test_inputs_may_be_given_in_order_or_by_name():
    b = og.GraphBuilder()
    x = b.input((3,), name="x")
    y = b.input((3,), name="y")
    b.output(x - y)
    model = b.compile()
    a, c = np.float32([1, 2, 3]), np.float32([3, 5, 7])
    assert model.verify(a, c)
    assert model.verify(a, y=c)
    with pytest.raises(og.InvalidArgumentsError, match="missing inputs: y"):
        model.verify(a)


@pytest.mark.parametrize("change", [1e-3, -1e-3, np.nan, np.inf])
def test_one_wrong_element_is_found_and_named(change):
    b = og.GraphBuilder()
    attention(b)
    inputs = og.fill_inputs(b)
    (i,) = (v.id for v in b.outputs.values())
    made = reference_values(b, inputs)[i]
    assert Expected(b, inputs).compare({i: made})
    wrong = made.copy()
    wrong[1, 2, 3, 4] += np.float32(change)
    verified = Expected(b, inputs).compare({i: wrong}, {i: "weighted"})
    assert not verified
    assert verified.outputs[0].wrong == 1
    assert verified.outputs[0].index == (1, 2, 3, 4)
    assert str(verified).startswith("weighted: 1 of 1024 elements are wrong; the worst, at [1, 2,")


@pytest.mark.filterwarnings("ignore:.*runs in parts")  # where int8 products saturate
def test_a_quantized_output_may_be_a_step_off_only_near_the_middle_of_two():
    b = og.GraphBuilder()
    quantized(b)
    assert b.compile().verify()
    inputs = og.fill_inputs(b)
    (value,) = b.outputs.values()
    made = reference_values(b, inputs)[value.id]
    one_more = made + (made < 255).astype(np.uint8)
    verified = Expected(b, inputs).compare({value.id: one_more})
    assert verified.outputs[0].wrong > 0.9 * made.size


def test_what_follows_from_a_step_at_a_tie_is_allowed():
    """Behind a Quantize a whole step counts, where rounding may bring one about."""
    b = og.GraphBuilder()
    x = b.input((8,))
    q = x.quantize(dtype="s8", scales=[1.0], zps=[0], qtype="per_tensor")
    b.output(q)
    values = np.float32([0.5, 1.5, 2.49, -0.5, -1.25, 3.0, 7.75, 2.5])
    made = reference_values(b, [values])[q.id]
    other = made.copy()
    other[0] = 1 - made[0]  # the other side of the tie
    assert Expected(b, [values]).compare({q.id: other})
    other[5] += 1  # 3.0 is no tie
    verified = Expected(b, [values]).compare({q.id: other})
    assert [o.wrong for o in verified.outputs] == [1]


def test_a_comparison_may_err_only_where_both_sides_are_as_near_as_rounding():
    b = og.GraphBuilder()
    x, y = b.input((3,)), b.input((3,))
    compared = b.op("GreaterEqual", y, b.op("SoftPlus", x, beta=1.0))
    b.output(compared, b.op("GreaterEqual", x, y))
    values = np.float32([-60, 1, -60]), np.float32([0, 2, -60])
    made = {v.id: reference_values(b, values)[v.id] for v in b.outputs.values()}
    for place in range(3):  # 0 is as near to SoftPlus of -60 as oneDNN's error is large
        other = {i: a.copy() for i, a in made.items()}
        other[compared.id][place] ^= True
        found = Expected(b, values).compare(other)
        assert [o.wrong for o in found.outputs] == [int(place > 0), 0]
    exact = {i: a ^ (i != compared.id) for i, a in made.items()}  # equal inputs are no near ones
    assert [o.wrong for o in Expected(b, values).compare(exact).outputs] == [0, 3]


def test_a_fused_partition_that_is_wrong_is_found():
    """A model whose weights are not those of its graph."""
    b = og.GraphBuilder()
    x = b.input((4, 8))
    w = b.input((8, 8))
    b.output((x @ w).relu())
    inputs = og.fill_inputs(b)
    (value,) = b.outputs.values()
    wrong = np.maximum(inputs[0] @ np.roll(inputs[1], 1, axis=1), 0)
    assert not Expected(b, inputs).compare({value.id: wrong})


def test_constants_of_four_bits_are_unpacked():
    b = og.GraphBuilder(fpmath_mode="strict", apply_to_int=True)
    x = b.input((4, 8))
    w = b.constant(np.arange(-32, 32).reshape(8, 8) % 8, "s4")
    scales = b.constant(np.full((1,), 0.5, np.float32))
    b.output(x @ w.dynamic_dequantize(scales, qtype="per_tensor"))
    assert b.compile(warn=False).verify()


def filled(make, **names):
    b = og.GraphBuilder()
    make(b)
    return dict(zip((v.name for v in b.inputs), og.fill_inputs(b, **names), strict=True))


def test_filled_inputs_are_seeded_and_typed():
    first, again, other = (filled(quantized, seed=s) for s in (1, 1, 2))
    assert first["x"].dtype == np.uint8
    assert first["w"].dtype == np.int8
    assert all(np.array_equal(first[n], again[n]) for n in first)
    assert not np.array_equal(first["x"], other["x"])
    assert filled(lambda b: attention(b, "bf16"))["q"].dtype == ml_dtypes.bfloat16


def test_a_mask_lets_through_or_holds_back():
    mask = filled(attention)["mask"][0, 0]
    assert set(np.unique(mask)) == {np.float32(0), np.float32(-1e4)}
    assert np.array_equal(mask == 0, np.tri(16, dtype=bool))


def test_statistics_scales_and_divisors_are_ones_that_occur():
    def normalized(b):
        x = b.input((2, 4, 4, 8), name="x")
        g, s, m, v = (b.input((8,), name=n) for n in ("gamma", "beta", "mean", "variance"))
        y = x.batch_norm_inference(g, s, m, v, epsilon=1e-5)
        b.output(y / b.input((8,), name="divisor"))

    made = filled(normalized)
    assert (made["variance"] > 0.4).all()
    assert (made["divisor"] > 0.4).all()

    def dequantized(b):
        w = b.input((8, 8), "s8", name="w")
        s = b.input((8,), name="scales")
        z = b.input((8,), "s8", name="zps")
        b.output(w.dynamic_dequantize(s, z, qtype="per_channel", axis=1))

    made = filled(dequantized)
    assert (np.log2(made["scales"]) % 1 == 0).all()
    assert ((made["zps"] >= 0) & (made["zps"] <= 3)).all()


def test_what_is_only_reshaped_is_filled_for_who_reads_it_then():
    def reshaped(b):
        x = b.input((4, 8), name="x")
        d = b.input((2, 4), name="divisor")
        b.output(x / d.static_reshape(shape=(8,), special_zero=False))

    assert (filled(reshaped)["divisor"] > 0.4).all()


def test_unknown_dims_must_be_given():
    def unknown(b):
        b.output(b.input((-1, 4), name="x").relu())

    with pytest.raises(og.InvalidShapeError, match=r"input 'x': its shape must be given"):
        filled(unknown)
    assert filled(unknown, shapes={"x": (3, 4)})["x"].shape == (3, 4)


def test_unfused_and_fused_are_verified_alike():
    b = og.GraphBuilder()
    attention(b)
    model = b.compile(policy="debug")
    og.assert_fused(model, 5)
    assert verify(model)
    with pytest.raises(og.InvalidArgumentsError, match="policy must be one of 'fusion', 'debug'"):
        b.compile(policy="none")


@pytest.mark.parametrize("mode", ["bf16", "f16", "tf32", "any"])
def test_a_math_mode_allows_what_rounding_the_factors_does_and_no_more(mode):
    def graph(fpmath_mode):
        b = og.GraphBuilder("cpu", fpmath_mode)
        x, w = b.input((16, 96), name="x"), b.input((96, 40), name="w")
        b.output((x @ w).relu())
        return b

    inputs = og.fill_inputs(graph("strict"))
    narrow = {"bf16": "bf16", "any": "bf16", "f16": "f16", "tf32": "f16"}[mode]
    x, w = (og.reference.round_to(a, narrow).astype(np.float32) for a in inputs)
    made = np.maximum(x @ w, 0)
    allowing, strict = graph(mode), graph("strict")
    allowed = {next(iter(allowing.outputs.values())).id: made}
    assert Expected(allowing, inputs).compare(allowed)
    assert not Expected(strict, inputs).compare({next(iter(strict.outputs.values())).id: made})
    off = np.abs(made - np.maximum(inputs[0] @ inputs[1], 0)).max()
    assert not Expected(allowing, inputs).compare({i: a + 8 * off for i, a in allowed.items()})


def test_what_a_function_cuts_off_has_no_error():
    b = og.GraphBuilder()
    x = b.input((3,), "f32", name="x")
    b.output(x.hard_sigmoid(alpha=1.0, beta=1.0))
    given = [np.float32([3e38, -3e38, -0.5])]
    (value,) = b.outputs.values()
    assert Expected(b, given).compare({value.id: np.float32([1, 0, 0.5])})
    found = Expected(b, given).compare({value.id: np.float32([0.9, 0.1, 0.5])})
    assert found.outputs[0].wrong == 2


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scale", [1.0, 16.0, 64.0, 256.0])
def test_default_inputs_show_each_scale_and_bias_of_a_channel(scale, seed):
    """Whatever the seed, though a residual may be less than a step of the result."""
    b = og.GraphBuilder()
    x, w, r = b.input((1, 4), "u8"), b.input((4, 3), "s8"), b.input((1, 3), "s8")
    per_tensor = {"scales": [1.0], "qtype": "per_tensor"}
    y = b.matmul(x.dequantize(**per_tensor), w.dequantize(**per_tensor), b.input((3,)))
    y = y + r.dequantize(scales=[1.0, 2.0, 3.0], qtype="per_channel", axis=1)
    b.output(y.quantize(dtype="s8", scales=[scale], qtype="per_tensor"))
    (value,), (add,) = b.outputs.values(), (n for n in b.nodes if n.kind == "Add")
    shown = np.zeros(6, bool)
    for arrays in telling(b, lambda i: og.fill_inputs(b, seed + i)):
        known = reference_values(b, arrays)
        made = known[value.id]
        residual, bias = arrays[2].astype(float), arrays[3]
        total = known[add.outputs[0].id].astype(float)
        of_scale = total - residual * [0, 1, 2]
        of_bias = total - bias + bias[0]
        for i, other in enumerate((of_scale, of_bias)):
            shown[3 * i : 3 * i + 3] |= (np.clip(np.rint(other / scale), -128, 127) != made)[0]
    assert shown.tolist() == [False, True, True] * 2  # the first entry is what others are put to


def test_default_inputs_of_large_models_are_drawn_once():
    b = og.GraphBuilder()
    b.output(b.input((512, 512)) @ b.input((512, 512)) + b.input((512,)))
    assert len(list(telling(b, lambda i: og.fill_inputs(b, i)))) == 1


def test_packed_integers_are_verified():
    b = og.GraphBuilder()
    x, w = b.input((3, 8)), b.input((8, 4), "s4")
    scales = b.constant(np.arange(1, 9, dtype=np.float32).reshape(2, 4))
    b.output(x @ w.dynamic_dequantize(scales, qtype="per_group", group_shape=(4, 1)))
    model = b.compile()
    x, w = og.fill_inputs(b)
    assert model.verify(x, w)
    assert model.verify(x, pack_int4(w.astype(np.int8), "s4"))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", ["f8_e4m3", "f8_e5m2"])
def test_numbers_beyond_an_8_bit_float_are_verified(dtype):
    b = og.GraphBuilder()
    b.output(b.input((8,)).quantize(dtype=dtype, scales=[1.0], qtype="per_tensor"))
    given = np.float32([480, 1e30, -1e30, np.inf, -np.inf, np.nan, 448, 57344])
    verified = b.compile().verify(given)
    assert verified
    assert str(verified).endswith("onednn_graph_py.reference, in NumPy's float64.")
