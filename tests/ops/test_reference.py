"""The reference's frame: rounding, running an op, tolerances, comparison."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from op_comparison import compare

import onednn_graph_py as og
from onednn_graph_py import reference
from onednn_graph_py.ops import OPS
from onednn_graph_py.reference import call_of, evaluate, round_to, run, tolerance
from onednn_graph_py.reference.registry import reference as register
from onednn_graph_py.reference.rounding import NUMPY_DTYPES, dtype_name
from onednn_graph_py.reference.tolerance import slack

NEWEST = (3, 13)

# -- rounding


def neighbours(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """All finite numbers of a 16-bit or 8-bit type in order, and whether their last bit is 0."""
    target = NUMPY_DTYPES[dtype]
    words = np.arange(2 ** (8 * target.itemsize), dtype=f"u{target.itemsize}")
    with np.errstate(invalid="ignore"):
        values = words.view(target).astype(np.float64)
    finite = np.isfinite(values)
    values, order = np.unique(values[finite], return_index=True)
    return values, words[finite][order] % 2 == 0


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f8_e4m3", "f8_e5m2"])
def test_floats_are_rounded_to_the_nearest_and_ties_to_even(dtype):
    values, even = neighbours(dtype)
    low, high, middle = values[:-1], values[1:], (values[:-1] + values[1:]) / 2
    assert np.array_equal(round_to(values, dtype).astype(np.float64), values)
    nearest = np.where(even[:-1], low, high)
    assert np.array_equal(round_to(middle, dtype).astype(np.float64), nearest)
    # A little off the middle there is no tie; 8-bit floats see what is left of it in f16.
    little = (high - low) * (0.01 if dtype.startswith("f8") else 2.0**-30)
    assert np.array_equal(round_to(middle - little, dtype).astype(np.float64), low)
    assert np.array_equal(round_to(middle + little, dtype).astype(np.float64), high)


@pytest.mark.parametrize(
    ("dtype", "largest", "beyond", "result"),
    [
        ("f32", 3.4028234663852886e38, 3.5e38, np.inf),
        ("bf16", 3.3895313892515355e38, 3.4e38, np.inf),
        ("f16", 65504.0, 65520.0, np.inf),
        ("f8_e5m2", 57344.0, 61440.0, np.inf),
        ("f8_e4m3", 448.0, 464.5, np.nan),
    ],
)
def test_floats_beyond_the_range_become_infinite_or_nan(dtype, largest, beyond, result):
    made = round_to([largest, beyond, -beyond, np.inf, np.nan], dtype).astype(np.float64)
    inverse = result if np.isnan(result) else -result
    assert np.array_equal(made, [largest, result, inverse, result, np.nan], equal_nan=True)


@pytest.mark.parametrize("dtype", ["f8_e4m3", "f8_e5m2"])
def test_8_bit_floats_are_made_from_f16(dtype):
    """As oneDNN does, so what f16 can't tell from a tie is one."""
    tie = {"f8_e4m3": 1.0625, "f8_e5m2": 1.125}[dtype]
    assert round_to(tie + 2.0**-20, dtype).astype(np.float64) == 1.0
    assert round_to(tie + 2.0**-10, dtype).astype(np.float64) == 2 * tie - 1


def test_the_zero_keeps_its_sign_and_denormals_stay():
    assert np.signbit(round_to(-0.0, "bf16").astype(np.float32))
    assert round_to(1e-45, "f32") == np.float32(1e-45)
    assert round_to(9.2e-41, "bf16").astype(np.float64) == 2.0**-133


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("s8", -128, 127), ("u8", 0, 255), ("s4", -8, 7), ("u4", 0, 15), ("s32", -(2**31), 2**31 - 1)],
)
def test_integers_saturate_and_ties_go_to_even(dtype, low, high):
    given = [low - 1.0, high + 1.0, -np.inf, np.inf, 0.5, 1.5, 2.5, 2.51]
    made = round_to(given, dtype)
    assert made.dtype == NUMPY_DTYPES[dtype]
    assert made.astype(np.int64).tolist() == [low, high, low, high, 0, 2, 2, 3]
    assert round_to(np.array([2**40, -(2**40)]), dtype).astype(np.int64).tolist() == [high, low]


def test_integers_keep_all_their_digits():
    assert round_to(np.array([2**53 + 1]), "s64")[0] == 2**53 + 1
    assert round_to(1e300, "s64") > 2**62


def test_round_to_refuses_what_is_no_data_type():
    with pytest.raises(og.InvalidArgumentsError, match=r"dtype must be one of 'f32', .* got 'f64'"):
        round_to([1.0], "f64")


def test_numpy_dtypes_are_those_of_the_linked_onednn():
    for name in og.logical_tensor.data_type.__members__:
        if name in NUMPY_DTYPES:
            assert og.dtypes.numpy_dtype(name) == NUMPY_DTYPES[name]


# -- what there is


def test_every_op_has_a_reference_but_those_without_meaning():
    assert set(OPS) - reference.implemented() == {"End", "Wildcard"}
    assert reference.implemented() <= set(OPS)


@pytest.mark.parametrize("kind", ["End", "Wildcard"])
def test_ops_without_meaning_say_so(kind):
    outputs = [((2,), "f32")] * (kind == "Wildcard")
    with pytest.raises(og.UnimplementedError, match=f"does not compute {kind}: it "):
        run(kind, [np.zeros(2, np.float32)], outputs=outputs)


def test_a_kind_has_one_reference():
    with pytest.raises(ValueError, match="ReLU has a reference already"):
        register("ReLU")(lambda call, x: x)


# -- running


def test_results_are_rounded_once():
    a, b = round_to([1.0], "bf16"), round_to([2.0**-8 + 2.0**-15], "bf16")
    (made,) = run("Add", [a, b])
    assert made.dtype == ml_dtypes.bfloat16
    assert made.astype(np.float64) == 1 + 2.0**-7


def test_output_types_follow_from_the_inputs_or_are_given():
    x = np.float32([1 + 2.0**-9])
    assert run("GenIndex", [x], {"axis": 0})[0].dtype == np.int32
    assert run("GreaterEqual", [x, x])[0].dtype == np.bool_
    assert run("TypeCast", [x], outputs=[(None, "bf16")])[0].dtype == ml_dtypes.bfloat16
    with pytest.raises(og.InvalidArgumentsError, match=r"TypeCast: output 0 .*give outputs"):
        run("TypeCast", [x])


def test_given_shapes_must_be_those_that_follow():
    x = np.zeros((2, 3), np.float32)
    assert run("ReLU", [x], outputs=[((2, 3), "f32")])[0].shape == (2, 3)
    with pytest.raises(og.InvalidShapeError, match="output 0"):
        run("ReLU", [x], outputs=[((3, 2), "f32")])


def test_inputs_are_rounded_to_given_types():
    made = run("Square", [[1.0 + 2.0**-10]], dtypes=["bf16"])
    assert made[0].dtype == ml_dtypes.bfloat16
    assert made[0].astype(np.float64) == 1.0
    assert run("ReLU", [np.float64([1.5])], dtypes=["f32"])[0].dtype == np.float32


def test_wrong_input_types_are_refused():
    with pytest.raises(og.InvalidArgumentsError, match=r"ReLU: input 0: .*float64; give dtypes"):
        run("ReLU", [np.zeros(2)])
    with pytest.raises(og.InvalidArgumentsError, match=r"dtypes must have 2 entries.*got 1"):
        run("Add", [[1.0], [2.0]], dtypes=["f32"])
    with pytest.raises(og.InvalidGraphOpError, match="must be f32 or bf16 or f16, got s8"):
        run("ReLU", [np.zeros(2, np.int8)])


def test_4_bit_integers_come_one_an_element():
    x = np.array([-8, 7, 3], ml_dtypes.int4)
    (made,) = run(
        "DynamicDequantize", [x, np.float32([0.5])], {"qtype": "per_tensor"}, version=NEWEST
    )
    assert made.tolist() == [-4.0, 3.5, 1.5]


def test_number_attributes_are_those_that_onednn_stores():
    x = np.zeros((3,), np.float32)
    call = call_of("HardSigmoid", [x], {"alpha": 0.2, "beta": 0.1})
    assert evaluate(call, [x])[0].tolist() == [float(np.float32(0.1))] * 3


def test_the_version_decides_what_an_op_is():
    x = np.float32([[0.0, 0.0]])
    with pytest.raises(og.UnimplementedError, match=r"RMSNorm needs oneDNN >= 3\.11"):
        run("RMSNorm", [x], version=(3, 7))
    two = [(None, "f32")] * 2
    y, stats = run("SoftMax", [x], {"axis": 1}, outputs=two, version=(3, 9))
    assert y.tolist() == [[0.5, 0.5]]
    assert stats == np.float32(np.log(2))
    with pytest.raises(og.InvalidGraphOpError, match="must have 1 output"):
        run("SoftMax", [x], {"axis": 1}, outputs=two, version=(3, 7))


def test_lists_of_12_defaults_are_understood():
    """As in the graphs that oneDNN dumps."""
    x = np.random.default_rng(0).standard_normal((1, 4, 4, 2)).astype(np.float32)
    attrs = {"strides": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0), "kernel": (2, 2)}
    (given,) = run("MaxPool", [x], {**attrs, "dilations": (1,) * 12})
    (left_out,) = run("MaxPool", [x], attrs)
    assert np.array_equal(given, left_out)


def test_no_warning_comes_of_infinities():
    x = np.float32([-np.inf, 0.0, np.inf, np.nan])
    assert run("Log", [x])[0][1] == -np.inf
    assert run("Divide", [x, np.zeros(4, np.float32)])[0][2] == np.inf


# -- tolerances

SQUARE = np.float32(np.random.default_rng(0).uniform(-1, 1, (16, 16)))
WINDOW = {"strides": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1), "dilations": (1, 1)}


@pytest.mark.parametrize(
    ("kind", "shapes", "attrs", "terms"),
    [
        ("MatMul", [(3, 40), (40, 5)], {}, 40),
        ("MatMul", [(40, 3), (40, 5)], {"transpose_a": True}, 40),
        ("Convolution", [(1, 8, 8, 6), (3, 3, 6, 4)], WINDOW, 54),
        ("Convolution", [(1, 8, 8, 6), (3, 3, 3, 4)], {**WINDOW, "groups": 2}, 27),
        ("ConvTranspose", [(1, 8, 8, 6), (3, 3, 2, 6)], {**WINDOW, "groups": 2}, 27),
        (
            "ConvolutionBackwardWeights",
            [(2, 8, 8, 6), (2, 8, 8, 4)],
            {**WINDOW, "weights_shape": (3, 3, 6, 4)},
            128,
        ),
        ("ReduceSum", [(3, 5, 7)], {"axes": (0, 2)}, 21),
        ("SoftMax", [(3, 5)], {"axis": 1}, 5),
        ("LayerNorm", [(3, 5), (5,), (5,)], {}, 5),
        ("BatchNormForwardTraining", [(2, 3, 3, 4), (4,), (4,)], {"epsilon": 1e-5}, 18),
        ("BiasAddBackward", [(2, 3, 3, 4)], {}, 18),
        ("Exp", [(3,)], {}, 0),
        ("ReLU", [(3,)], {}, 0),
    ],
)
def test_the_length_of_sums_follows_from_shapes_and_attributes(kind, shapes, attrs, terms):
    inputs = [np.zeros(s, np.float32) for s in shapes]
    assert tolerance(call_of(kind, inputs, attrs)).terms == terms


def test_tolerances_grow_with_the_length_and_not_without_sums():
    def of(k: int) -> float:
        arrays = [np.zeros((2, k), np.float32), np.zeros((k, 2), np.float32)]
        return tolerance(call_of("MatMul", arrays)).accumulation

    assert of(10) < of(100) < of(1000) < 1100 * 2.0**-24
    assert of(10**8) == np.inf
    for kind in ("ReLU", "MaxPool", "StaticTranspose"):
        shapes, attrs = OPS[kind].sample
        limits = tolerance(call_of(kind, [np.zeros(s, np.float32) for s in shapes], attrs))
        assert limits == reference.Tolerance(0.0, 0.0, 0)


def test_sums_kept_in_f16_may_be_further_off():
    def of(mode: str) -> float:
        call = call_of("MatMul", [SQUARE, SQUARE], {"accumulation_mode": mode}, version=NEWEST)
        return tolerance(call).accumulation

    assert of("f16") > 1000 * of("strict")
    assert of("strict") == of("f32")


# -- comparison


def square_call():
    call = call_of("MatMul", [SQUARE, SQUARE])
    return call, evaluate(call, [SQUARE, SQUARE])[0]


def test_a_product_in_f32_agrees_and_one_in_f16_does_not():
    call, exact = square_call()
    for inputs in (None, [SQUARE, SQUARE]):
        right = compare(SQUARE @ SQUARE, exact, call, inputs=inputs)
        assert right.ok
        assert right.ratio < 1
        half = SQUARE.astype(np.float16)
        assert not compare((half @ half).astype(np.float32), exact, call, inputs=inputs).ok


def test_one_wrong_element_is_found():
    call, exact = square_call()
    wrong = (SQUARE @ SQUARE).copy()
    wrong[3, 5] += 1e-4
    found = compare(wrong, exact, call, inputs=[SQUARE, SQUARE])
    assert (found.ok, found.wrong, found.count, found.index) == (False, 1, 256, (3, 5))
    assert found.max_error == pytest.approx(1e-4, rel=0.01)
    assert found.actual == wrong[3, 5]
    assert found.expected == exact[3, 5]
    assert found.allowed < 1e-5
    assert found.ratio == pytest.approx(found.max_error / found.allowed)
    assert str(found).startswith("1 of 256 elements are wrong; the worst, at (3, 5), is ")


def test_small_elements_have_small_tolerances_where_inputs_are_given():
    a = SQUARE.copy()
    a[0] *= np.float32(1e-6)
    call = call_of("MatMul", [a, SQUARE])
    exact = evaluate(call, [a, SQUARE])[0]
    wrong = exact.astype(np.float32)
    wrong[0, 0] *= np.float32(1.01)
    assert compare(wrong, exact, call).ok
    assert not compare(wrong, exact, call, inputs=[a, SQUARE]).ok


@pytest.mark.parametrize("kind", ["SoftMax", "Exp"])
def test_an_infinite_input_leaves_tolerances_finite(kind):
    x = SQUARE.copy()
    x[:, 10:] = -np.inf
    attrs, outputs = {}, None
    if kind == "SoftMax":
        attrs, outputs = {"axis": -1, "mode": "inf_as_zero"}, [(None, "f32")] * 2
    call = call_of(kind, [x], attrs, outputs, version=NEWEST)
    for i, exact in enumerate(evaluate(call, [x])):
        allowed = slack(call, i, [x], exact)
        assert allowed.shape == exact.shape
        assert np.isfinite(exact).all()
        assert (allowed < 1e-3).all()


def test_a_sum_that_cancels_may_be_off_by_what_its_terms_lose():
    a = np.float32([[1e4, 1.0, -1e4]])
    b = np.float32([[1.0], [1e-3], [1.0]])
    call = call_of("MatMul", [a, b])
    exact = evaluate(call, [a, b])[0]
    assert compare(np.float32([[0.0]]), exact, call, inputs=[a, b]).ok
    assert not compare(np.float32([[0.1]]), exact, call, inputs=[a, b]).ok


def test_normalized_data_far_from_0_may_lose_what_its_mean_takes():
    x = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32) + 1000
    attrs = {"use_affine": False, "keep_stats": False}
    call = call_of("LayerNorm", [x], attrs)
    exact = evaluate(call, [x])[0]
    centred = x - x.mean(-1, keepdims=True)
    naive = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + np.float32(1e-5))
    found = compare(naive, exact, call, inputs=[x])
    assert found.ok
    assert found.max_error > 1e-5
    assert not compare(naive * np.float32(1.01), exact, call, inputs=[x]).ok


def test_exact_ops_must_be_exact():
    x = np.float32([[1.0, 2.0]])
    call = call_of("ReLU", [x])
    exact = evaluate(call, [x])[0]
    assert compare(x, exact, call).ok
    assert not compare(np.nextafter(x, np.float32(9)), exact, call).ok


def test_16_bit_outputs_are_one_rounding_off_and_no_more():
    x = round_to(np.random.default_rng(0).uniform(0.1, 4, 1000), "bf16")
    call = call_of("Sqrt", [x])
    exact = evaluate(call, [x])[0]
    right = round_to(exact, "bf16")
    assert compare(right, exact, call, inputs=[x]).ok
    next_up = (right.view(np.uint16) + 1).view(ml_dtypes.bfloat16)
    found = compare(next_up, exact, call, inputs=[x])
    assert found.wrong > 990


def test_an_expectation_that_is_rounded_already_allows_for_that():
    x = np.float32(np.random.default_rng(0).uniform(0.1, 4, 1000))
    call = call_of("Tanh", [x])
    rounded = evaluate(call, [x])[0].astype(np.float32)
    assert compare(np.nextafter(rounded, np.float32(9)), rounded, call).ok
    assert not compare(rounded * np.float32(1.001), rounded, call).ok


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_rounding_the_expectation_first_adds_one_rounding_and_no_more(dtype):
    a, b = (round_to(SQUARE, dtype), round_to(SQUARE.T, dtype))
    call = call_of("Subtract", [a, b])
    exact = evaluate(call, [a, b])[0]
    found = [compare(exact, e, call, inputs=[a, b]) for e in (exact, round_to(exact, dtype))]
    assert found[0].allowed <= 2.0 ** (-23 if dtype == "f32" else -7)
    assert found[1].allowed <= 4 * 2.0 ** (-23 if dtype == "f32" else -7)


@pytest.mark.parametrize("dtype", ["s8", "u8"])
def test_integers_may_be_one_off_near_ties_only(dtype):
    x = np.float32([2.4999998, 2.5, 2.5000002, 2.4, 2.6, 300.0])
    attrs = {"scales": (1.0,), "zps": (0,)}
    call = call_of("Quantize", [x], attrs, [(None, dtype)])
    exact = evaluate(call, [x])[0]
    top = {"s8": 127, "u8": 255}[dtype]
    for near in itertools.product([2, 3], repeat=3):
        found = compare(np.array([*near, 2, 3, top], dtype_of(dtype)), exact, call, inputs=[x])
        assert found.ok, found
    for i, wrong in ((0, 1), (2, 4), (3, 3), (4, 2), (5, top - 1)):
        values = [2, 2, 3, 2, 3, top]
        values[i] = wrong
        found = compare(np.array(values, dtype_of(dtype)), exact, call, inputs=[x])
        assert (found.ok, found.wrong, found.index) == (False, 1, (i,))


def test_sums_of_integers_are_exact():
    a = np.int32([2**30, 5])
    call = call_of("Add", [a, a], version=NEWEST)
    exact = evaluate(call, [a, a])[0]
    assert not compare(np.int32([2**31 - 2, 10]), exact, call, inputs=[a, a]).ok
    assert compare(np.int32([2**31 - 1, 10]), exact, call, inputs=[a, a]).ok  # saturated


def dtype_of(name: str) -> np.dtype:
    assert dtype_name(NUMPY_DTYPES[name]) == name
    return NUMPY_DTYPES[name]


def test_infinities_and_nan_must_be_where_they_should():
    x = np.float32([0.0, 1.0, -1.0])
    call = call_of("Log", [x])
    exact = evaluate(call, [x])[0]
    assert compare(np.float32([-np.inf, 0.0, np.nan]), exact, call).ok
    assert compare(np.float32([np.nan, 0.0, np.nan]), exact, call).max_error == np.inf
    for wrong in ([np.inf, 0.0, np.nan], [-np.inf, np.nan, np.nan], [-np.inf, 0.0, 0.0]):
        assert compare(np.float32(wrong), exact, call).wrong == 1


def test_a_result_at_the_end_of_the_range_may_be_infinite():
    x = np.float32([88.72283])
    call = call_of("Exp", [x])
    exact = evaluate(call, [x])[0]
    assert np.isfinite(exact.astype(np.float32))
    assert compare(np.float32([np.inf]), exact, call, inputs=[x]).ok
    assert not compare(np.float32([1e38]), exact, call, inputs=[x]).ok


def test_nothing_agrees_with_nothing():
    x = np.zeros((0, 3), np.float32)
    call = call_of("ReLU", [x])
    found = compare(x, evaluate(call, [x])[0], call)
    assert found.ok
    assert found.count == 0


def test_shapes_must_be_equal():
    call, exact = square_call()
    with pytest.raises(ValueError, match=r"actual has shape \(16, 1\), expected has \(16, 16\)"):
        compare(SQUARE[:, :1], exact, call)
