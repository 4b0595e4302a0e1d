"""oneDNN computes what the reference says, for each forward op that runs alone on this CPU."""

import numpy as np
import pytest
from graphs import HELPERS, LINKED, before, needs, python, since
from one_op import ISA, assert_agreement, check_agreement, run_alone
from op_comparison import compare

import onednn_graph_py as og
from onednn_graph_py.machine.cpu import has
from onednn_graph_py.ops import OPS
from onednn_graph_py.reference import call_of, evaluate, round_to

# No CPU kernel runs these alone; Dropout is tested behind a MatMul.
NEVER_ALONE = {"Dropout", "Pow", "Reciprocal"}


def types_of(kind: str, dtype: str, inputs: int, outputs: int) -> tuple[list[str], list[str]]:
    """The data types of all ports, where the main one is `dtype`.

    Parameters and statistics of normalization are f32, the only ones that CPU kernels take.
    """
    schema = OPS[kind].at(LINKED)

    def of(ports: str, i: int) -> str:
        port = schema.port(ports, i)
        allowed = schema.types[port.type]
        f32_only = port.type == "T2" and kind.endswith(("Norm", "Inference", "Training"))
        return dtype if dtype in allowed and not f32_only else allowed[0]

    made = [of("outputs", i) for i in range(outputs)]
    if kind == "TypeCast":
        made = ["bf16" if dtype == "f32" else "f32"]
    return [of("inputs", i) for i in range(inputs)], made


@pytest.mark.parametrize("kind", sorted(NEVER_ALONE - {"Dropout"}))
def test_what_is_left_out_indeed_does_not_run_alone(kind):
    with pytest.raises(og.UnimplementedError):
        run_alone(kind, [np.ones((4, 4), np.float32)], OPS[kind].sample[1], [((4, 4), "f32")])


CONV = {"strides": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1), "dilations": (1, 1)}
POOL = {"strides": (2, 2), "pads_begin": (1, 1), "pads_end": (1, 1), "kernel": (5, 5)}
LONG_SUMS = {
    "MatMul": ([(8, 3000), (3000, 16)], {}),
    "Convolution": ([(1, 8, 8, 64), (3, 3, 64, 16), (16,)], CONV),
    "ConvTranspose": ([(1, 8, 8, 64), (3, 3, 16, 64)], CONV),
    "AvgPool": ([(1, 20, 20, 8)], {**POOL, "exclude_pad": False}),
    "ReduceSum": ([(4, 20000)], {"axes": (1,)}),
    "ReduceMean": ([(4, 20000)], {"axes": (1,)}),
    "ReduceL1": ([(4, 20000)], {"axes": (1,)}),
    "ReduceL2": ([(4, 20000)], {"axes": (1,)}),
    "ReduceProd": ([(4, 50)], {"axes": (1,)}),
    "LayerNorm": ([(4, 3000), (3000,), (3000,)], {"keep_stats": False}),
    "GroupNorm": ([(2, 10, 10, 64), (64,), (64,)], {"groups": 2, "keep_stats": False}),
    "SoftMax": ([(4, 3000)], {"axis": 1}),
    "LogSoftmax": ([(4, 3000)], {"axis": 1}),
}


@pytest.mark.parametrize("shift", [0.0, 10.0])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("kind", LONG_SUMS)
def test_onednn_agrees_on_long_sums(kind, dtype, shift):
    """Also where all terms are of one sign and large, and what is normalized far from 0."""
    needs(dtype)
    shapes, attrs = LONG_SUMS[kind]
    chance = np.random.default_rng(1)
    inputs, outputs = types_of(kind, dtype, len(shapes), 1)
    arrays = [
        round_to(chance.standard_normal(s) + shift, d) for s, d in zip(shapes, inputs, strict=True)
    ]
    if kind == "ReduceProd":
        arrays = [round_to(np.exp(chance.uniform(-1, 1, shapes[0])), dtype)]
    worst = assert_agreement(kind, arrays, attrs, [(None, d) for d in outputs])
    if dtype == "f32":
        assert worst > 1e-4, "the tolerance is so wide that it tells nothing"


def test_onednn_agrees_on_normalizing_two_nearly_equal_elements():
    """The result is about 1 and -1, but the mean is subtracted with an error."""
    x = (1 + np.random.default_rng(0).standard_normal((5000, 2)) / 8).astype(np.float32)
    attrs = {"epsilon": 1e-6, "use_affine": False, "keep_stats": False}
    assert_agreement("LayerNorm", [x], attrs, [(None, "f32")])


# -- where definitions leave room, or oneDNN goes its own way


def test_running_statistics_are_halves_where_momentum_is_left_out():
    chance = np.random.default_rng(0)
    x = chance.standard_normal((2, 4, 4, 8)).astype(np.float32)
    old = [np.full(8, v, np.float32) for v in (3.0, 5.0)]
    outputs = [(None, "f32")] * 5
    assert_agreement("BatchNormForwardTraining", [x, *old], {"epsilon": 1e-3}, outputs)


def test_max_pool_of_infinities_below_is_the_lowest_number():
    attrs = {"strides": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0), "kernel": (2, 2)}
    x = np.full((1, 3, 3, 8), -np.inf, np.float32)
    assert_agreement("MaxPool", [x], attrs, [(None, "f32")])


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_output_padding_does_not_change_where_windows_are(auto_pad):
    attrs = {**CONV, "strides": (2, 3), "auto_pad": auto_pad, "output_padding": (1, 2)}
    chance = np.random.default_rng(0)
    arrays = [chance.standard_normal(s).astype(np.float32) for s in ((1, 3, 4, 2), (5, 5, 3, 2))]
    assert_agreement("ConvTranspose", arrays, attrs, [(None, "f32")])


@pytest.mark.parametrize("exclude_pad", [True, False])
@pytest.mark.parametrize("rounding_type", ["floor", "ceil"])
def test_averages_count_padding_as_exclude_pad_says(exclude_pad, rounding_type):
    attrs = {
        "strides": (2, 2),
        "pads_begin": (1, 1),
        "pads_end": (1, 1),
        "kernel": (3, 3),
        "exclude_pad": exclude_pad,
        "rounding_type": rounding_type,
    }
    arrays = [np.ones((1, 4, 4, 8), np.float32)]
    if rounding_type == "ceil" and not exclude_pad:
        # The padding that ceil adds can't be told from the other then, so oneDNN does not do it.
        assert check_agreement("AvgPool", arrays, attrs, [(None, "f32")]) is None
    else:
        assert_agreement("AvgPool", arrays, attrs, [(None, "f32")])


@pytest.mark.parametrize(
    ("size", "new_size"), [(4, 8), (8, 4), (5, 7), (7, 3), (6, 9), (9, 6), (3, 1), (10, 4)]
)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_interpolation_agrees_at_borders_and_halves(mode, size, new_size):
    x = np.arange(3 * size, dtype=np.float32).reshape(1, size, 3) ** 2
    assert_agreement("Interpolate", [x], {"mode": mode, "sizes": (new_size,)}, [(None, "f32")])


@since(3, 9)
@pytest.mark.parametrize("mode", ["none", "inf_as_zero"])
def test_softmax_of_nothing_and_its_statistics(mode):
    x = np.float32([[-np.inf] * 4, [0, 1, 2, -np.inf]])
    outputs = [(None, "f32"), (None, "f32")]
    assert_agreement("SoftMax", [x], {"axis": -1, "mode": mode}, outputs)


@since(3, 9)
def test_gelu_by_tanh_agrees():
    x = np.linspace(-8, 8, 1000, dtype=np.float32)
    assert_agreement("GELU", [x], {"mode": "gelu_tanh"}, [(None, "f32")])


@since(3, 8)
@pytest.mark.parametrize(
    ("kind", "inputs", "output"),
    [
        ("MatMul", ("bf16", "bf16"), "f32"),
        ("SoftMax", ("f32",), "bf16"),
        ("SoftMax", ("bf16",), "f32"),
        ("Add", ("f32", "bf16"), "f32"),
        ("Multiply", ("bf16", "f32"), "f32"),
    ],
)
def test_outputs_of_another_type_agree(kind, inputs, output):
    needs("bf16")
    chance = np.random.default_rng(0)
    arrays = [round_to(chance.standard_normal((16, 16)), d) for d in inputs]
    assert_agreement(kind, arrays, {}, [(None, output)])


@since(3, 11)
def test_rms_norm_takes_the_root_of_the_mean_square_and_epsilon_together():
    """The documents have the root of (the root of the mean square, and epsilon)."""
    x = np.random.default_rng(0).standard_normal((4, 16)).astype(np.float32)
    assert_agreement("RMSNorm", [x], {"epsilon": 0.5}, [(None, "f32")])


@since(3, 13)
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_a_broadcast_squared_difference_rounds_the_difference(dtype):
    """oneDNN 3.13 makes two ops of it, so its error is far above that of one rounding."""
    needs(dtype)
    chance = np.random.default_rng(0)
    a, b = (round_to(chance.standard_normal(s), dtype) for s in ((40, 50), (50,)))
    (actual,) = run_alone("SquaredDifference", [a, b], {}, [((40, 50), dtype)])
    difference = a.astype(np.float64) - b.astype(np.float64)
    rounded = round_to(difference, dtype).astype(np.float64)
    assert np.array_equal(actual, round_to(rounded**2, dtype))
    assert (actual != round_to(difference**2, dtype)).mean() > 0.2


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_a_squared_difference_of_equal_shapes_is_rounded_once(dtype):
    needs(dtype)
    chance = np.random.default_rng(0)
    a, b = (round_to(chance.standard_normal((40, 50)), dtype) for _ in range(2))
    assert_agreement("SquaredDifference", [a, b], {}, [(None, dtype)])


SELECT = """
import sys
sys.path.insert(0, {tests!r})
import numpy as np
from one_op import run_alone

chance = np.random.default_rng(0)
condition = (np.arange(6) % 2 == 1).reshape(1, 6, 1)
data = chance.standard_normal((3, 6, 1)).astype(np.float32)
other = chance.standard_normal({other}).astype(np.float32)
arrays = [condition, data, other]
for n in (2, 3):
    given = [a.reshape(a.shape[:n]) for a in arrays]
    (made,) = run_alone("Select", given, {{}}, [(data.shape[:n], "f32")])
    print(np.array_equal(made, np.where(*given)))
"""


@before(3, 13)
@pytest.mark.parametrize("other", [(1, 6, 1), (1, 1, 1)])
def test_select_by_channel_of_data_without_spatial_extent_is_wrong(other):
    """A defect of oneDNN 3.7: two operands broadcast along the batch, all spatial dims 1.

    In a process of its own, as what comes out depends on what ran before.
    """
    program = SELECT.format(tests=str(HELPERS), other=other)
    assert python(program).stdout.split() == ["True", "False"]


NAN_LOST = {
    "ReLU": ({}, 0.0),
    "Clamp": ({"min": -1.0, "max": 1.0}, -1.0),
    "Exp": ({}, np.inf),
    "HardSigmoid": ({"alpha": 0.25, "beta": 0.5}, 1.0),
}


@pytest.mark.skipif("avx" not in ISA, reason=f"about the kernels of x86-64, this is {ISA}")
@pytest.mark.parametrize("kind", NAN_LOST)
def test_onednn_loses_nan_where_the_reference_keeps_it(kind):
    attrs, instead = NAN_LOST[kind]
    x = np.full(64, np.nan, np.float32)
    (actual,) = run_alone(kind, [x], attrs, [((64,), "f32")])
    assert (actual == np.float32(instead)).all()
    assert np.isnan(evaluate(call_of(kind, [x], attrs), [x])[0]).all()


@pytest.mark.skipif(not has(ISA, "avx512"), reason=f"about the AVX-512 kernel, this is {ISA}")
def test_onednn_makes_nan_of_infinity_where_gelu_is_infinite():
    x = np.full(64, np.inf, np.float32)
    assert np.isnan(run_alone("GELU", [x], {}, [((64,), "f32")])[0]).all()
    assert (evaluate(call_of("GELU", [x]), [x])[0] == np.inf).all()


# -- Dropout, which runs behind a MatMul


def dropped(rows: int, columns: int, seed: int, offset: int, p: float) -> tuple[np.ndarray, ...]:
    """Dropout of ones, and the mask, by oneDNN."""
    a = og.logical_tensor(0, "f32", (rows, 1), "strided")
    b = og.logical_tensor(1, "f32", (1, columns), "strided")
    ones = og.logical_tensor(2, "f32", (rows, columns), "strided")
    scalars = [
        og.logical_tensor(3 + i, d, (), "strided", "host_scalar")
        for i, d in enumerate(("s64", "s64", "f32"))
    ]
    dst = og.logical_tensor(6, "f32", (rows, columns), "strided")
    mask = og.logical_tensor(7, "u8", (rows, columns), "strided")
    g = og.graph("cpu")
    g.add_op(og.op(0, "MatMul", [a, b], [ones]))
    g.add_op(og.op(1, "Dropout", [ones, *scalars], [dst, mask]))
    g.finalize()
    (partition,) = g.get_partitions()
    engine = og.engine("cpu", 0)
    values = dict(zip((3, 4, 5), (seed, offset, p), strict=True))
    ports = {lt.get_id(): lt for lt in (a, b, *scalars)}
    inputs = [ports[lt.get_id()] for lt in partition.get_input_ports()]
    tensors = [
        og.tensor.make_scalar_tensor(lt, values[lt.get_id()])
        if lt.get_id() in values
        else og.tensor(lt, engine, np.ones(lt.get_dims(), np.float32))
        for lt in inputs
    ]
    results = np.zeros((rows, columns), np.float32), np.zeros((rows, columns), np.uint8)
    compiled = partition.compile(inputs, [dst, mask], engine)
    stream = og.stream(engine)
    outputs = [og.tensor(lt, engine, r) for lt, r in zip((dst, mask), results, strict=True)]
    compiled.execute(stream, tensors, outputs)
    stream.wait()
    return results


def expected_dropout(rows, columns, seed, offset, p):
    arrays = [np.ones((rows, columns), np.float32), np.int64(seed), np.int64(offset), np.float32(p)]
    call = call_of("Dropout", arrays, {}, [(None, "f32"), (None, "u8")])
    return call, [np.asarray(a) for a in arrays], evaluate(call, arrays)


@since(3, 12)
@pytest.mark.parametrize(
    ("rows", "columns", "seed", "offset", "p"),
    [
        (1, 64, 5, 4, 0.5),
        (7, 13, 77, 3, 0.25),
        (33, 65, 2**40 + 9, 2**37 + 123, 0.9),
        (5, 5, -3, -9, 0.5),
        (64, 64, 1, 1, 0.0),
        (64, 64, 1, 1, 1.0),
    ],
)
def test_dropout_drops_the_same_elements(rows, columns, seed, offset, p):
    actual, _ = dropped(rows, columns, seed, offset, p)
    call, arrays, (exact, _) = expected_dropout(rows, columns, seed, offset, p)
    found = compare(actual, exact, call, inputs=arrays)
    assert found.ok, found


@since(3, 12)
def test_dropout_with_offset_0_drops_elements_by_four():
    """A defect of oneDNN 3.13: the four elements of a draw share one of its numbers."""
    actual, _ = dropped(1, 400, 5, 0, 0.5)
    fours = actual.reshape(-1, 4)
    assert (fours == fours[:, :1]).all()
    _, _, (exact, _) = expected_dropout(1, 400, 5, 0, 0.5)
    fours = exact.reshape(-1, 4)
    assert (fours != fours[:, :1]).any()


@since(3, 12)
def test_dropout_leaves_its_mask_unwritten():
    """A defect of oneDNN 3.13 behind a MatMul on a CPU."""
    actual, mask = dropped(1, 400, 5, 4, 0.5)
    assert actual.any()
    assert not mask.any()


def test_scales_of_groups_on_an_axis_of_one_are_those_of_the_input_channels():
    scales = np.arange(1, 17).tolist()
    attrs = {"qtype": "per_channel", "axis": 1, "scales": scales, "zps": [0] * 16}
    (made,) = og.reference.run("Dequantize", [np.ones((16, 1, 3), np.uint8)], attrs)
    np.testing.assert_array_equal(made, np.repeat(scales, 3).reshape(16, 1, 3))
