"""oneDNN's backward ops where sums are long, functions bend, or it goes its own way.

`test_torch_reference.py` holds their gradients against torch's, and `test_random.py` oneDNN's.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from graphs import LINKED
from one_op import ISA, Case, assert_agreement, check_agreement, needs_training, run_alone
from op_comparison import compare

import onednn_graph_py as og
from onednn_graph_py.machine import cpu
from onednn_graph_py.ops import OPS
from onednn_graph_py.reference import call_of, evaluate, round_to, run
from onednn_graph_py.reference.tolerance import slack

Arrays = list[np.ndarray]


def noise(chance: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
    return np.asarray(chance.standard_normal(shape) * 2)


def without(attrs: dict[str, Any], *names: str) -> dict[str, Any]:
    return {k: v for k, v in attrs.items() if k not in names}


# -- where functions bend, or several elements are the largest

HARD_SIGMOID = {"alpha": 0.2, "beta": 0.5}
CLAMP = {"min": -1.0, "max": 2.0}
BENDS = [
    ("AbsBackward", {}, {-2.0: -1.0, 0.0: 0.0, 2.0: 1.0}),
    ("ReLUBackward", {"use_dst": False}, {-1.0: 0.0, 0.0: 0.0, 1.0: 1.0}),
    ("ReLUBackward", {"use_dst": True}, {0.0: 0.0, 1.0: 1.0}),
    ("ClampBackward", {**CLAMP, "use_dst": False}, {-1.0: 0.0, 0.0: 1.0, 2.0: 0.0, 3.0: 0.0}),
    ("ClampBackward", {**CLAMP, "use_dst": True}, {-1.0: 0.0, 0.0: 1.0, 2.0: 0.0}),
    ("EluBackward", {"alpha": 0.5, "use_dst": False}, {0.0: 0.5, 1.0: 1.0}),
    ("EluBackward", {"alpha": 0.5, "use_dst": True}, {-0.5: 0.0, 0.0: 0.5, 1.0: 1.0}),
    # 0.2 in f32 is a little more than 0.2, and yet these are the ends.
    ("HardSigmoidBackward", HARD_SIGMOID, {-2.5: 0.0, 0.0: float(np.float32(0.2)), 2.5: 0.0}),
    ("HardSwishBackward", {}, {-4.0: 0.0, -3.0: 0.0, 0.0: 0.5, 3.0: 1.0, 4.0: 1.0}),
    ("SqrtBackward", {"use_dst": False}, {0.0: np.inf, 4.0: 0.25}),
    ("SqrtBackward", {"use_dst": True}, {0.0: np.inf, 4.0: 0.125}),
]


@pytest.mark.parametrize(("kind", "attrs", "slopes"), BENDS)
def test_derivatives_at_bends_are_those_that_onednn_takes(kind, attrs, slopes):
    x = np.repeat(np.float32(list(slopes)), 16)
    arrays = [x, np.full_like(x, 3.0)]
    (made,) = run(kind, arrays, attrs)
    assert made.tolist() == np.repeat(3 * np.float32(list(slopes.values())), 16).tolist()
    assert_agreement(kind, arrays, attrs, [(None, "f32")])


def test_prelu_passes_the_slope_at_0():
    arrays = [np.zeros((2, 8), np.float32), np.full(8, 0.5, np.float32), np.ones((2, 8), "f")]
    diff_src, diff_slope = run("PReLUBackward", arrays, outputs=[(None, "f32")] * 2)
    assert (diff_src == 0.5).all()
    assert (diff_slope == 0.0).all()
    assert_agreement("PReLUBackward", arrays, {}, [(None, "f32")] * 2)


ONE_DIM_POOL = {"pads_begin": (1,), "pads_end": (1,), "data_format": "NCX"}


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([5, 5, 5], [1 + 2, 4, 8]),  # always the first of equals
        ([1, 2, 1], [1, 2 + 4, 8]),
        ([-np.inf, -np.inf, 7], [2, 0, 4 + 8]),  # the first element, which may be padding
    ],
)
def test_max_pooling_gives_the_gradient_to_the_first_of_the_largest(x, expected):
    attrs = {**ONE_DIM_POOL, "kernel": (2,), "strides": (1,), "dilations": (1,)}
    arrays = [np.float32([[x]]), np.float32([[[1, 2, 4, 8]]])]
    (made,) = run("MaxPoolBackward", arrays, attrs)
    assert made.tolist() == [[expected]]
    assert_agreement("MaxPoolBackward", arrays, attrs, [(None, "f32")])


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize("dilations", [(1, 1), (2, 1)])
def test_onednn_agrees_on_ties(dtype, data_format, dilations):
    needs_training(dtype)
    chance = np.random.default_rng(0)
    shape = (2, 7, 6, 9) if data_format == "NXC" else (2, 9, 7, 6)
    attrs = {
        "kernel": (3, 2),
        "strides": (3, 2),
        "pads_begin": (2, 1),
        "pads_end": (1, 1),
        "dilations": dilations,
        "data_format": data_format,
    }
    for low in (0.0, -np.inf):
        x = round_to(np.where(chance.random(shape) < 0.7, low, 1.0), dtype)
        made = call_of("MaxPool", [x], attrs).output(0).shape
        diff_dst = round_to(chance.integers(1, 9, made), dtype)
        assert_agreement("MaxPoolBackward", [x, diff_dst], attrs, [(None, dtype)])


# -- oneDNN agrees

# In which MaxPoolBackward adds up in the type itself, channels last: oneDNN 3.13 has f32 for bf16.
ADDED_UP_AS_STORED = {"f16"} if LINKED >= (3, 13) else {"bf16", "f16"}


def types_of(c: Case, dtype: str) -> tuple[list[str], list[str]]:
    """The data types of inputs and outputs where the main one is `dtype`.

    Parameters and statistics of normalization are f32, the only ones that CPU kernels take.
    """
    schema = OPS[c.kind].at(LINKED)

    def of(ports: str, i: int) -> str:
        port = schema.port(ports, i)
        return "f32" if "Norm" in c.kind and port.type == "T2" else dtype

    return [of("inputs", i) for i in range(len(c.shapes))], [
        of("outputs", i) for i in range(c.outputs)
    ]


def arrays_of(c: Case, dtypes: list[str], chance: np.random.Generator) -> Arrays:
    """Random inputs in the op's domain."""
    made = []
    for i, (shape, dtype) in enumerate(zip(c.shapes, dtypes, strict=True)):
        values = noise(chance, shape)
        if OPS[c.kind].inputs[i].name == "variance" or (c.kind == "SqrtBackward" and i == 0):
            values = np.abs(values) + 0.1
        made.append(round_to(values, dtype))
    return made


CONV = {"strides": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1), "dilations": (1, 1)}
LONG_SUMS = {
    "AvgPoolBackward": (
        [(1, 20, 20, 8)],
        {
            **without(CONV, "dilations"),
            "kernel": (3, 3),
            "exclude_pad": True,
            "src_shape": (1, 20, 20, 8),
        },
    ),
    "BatchNormTrainingBackward": (
        [(4, 20, 20, 8), (4, 20, 20, 8), (8,), (8,), (8,)],
        {"epsilon": 1e-3},
    ),
    "ConvTransposeBackwardData": ([(1, 8, 8, 16), (3, 3, 16, 64)], CONV),
    "ConvTransposeBackwardWeights": (
        [(2, 20, 20, 16), (2, 20, 20, 8)],
        {**CONV, "weights_shape": (3, 3, 8, 16)},
    ),
    "ConvolutionBackwardData": (
        [(1, 8, 8, 64), (3, 3, 16, 64)],
        {**CONV, "dst_shape": (1, 8, 8, 16)},
    ),
    "ConvolutionBackwardWeights": (
        [(2, 20, 20, 16), (2, 20, 20, 8)],
        {**CONV, "weights_shape": (3, 3, 16, 8)},
    ),
    "InterpolateBackward": (
        [(1, 2, 3, 8), (1, 60, 50, 8)],
        {"mode": "bilinear", "sizes": (60, 50)},
    ),
    "LayerNormBackward": ([(40, 600), (40, 600), (40,), (40,), (600,), (600,)], {}),
    "LogSoftmaxBackward": ([(4, 3000), (4, 3000)], {"axis": 1}),
    "PReLUBackward": ([(9000, 2), (2,), (9000, 2)], {}),
    "SoftMaxBackward": ([(4, 3000), (4, 3000)], {"axis": 1}),
}


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("kind", LONG_SUMS)
def test_onednn_agrees_on_long_sums(kind, dtype):
    needs_training(dtype)
    shapes, attrs = LONG_SUMS[kind]
    outputs = {"BatchNormTrainingBackward": 3, "LayerNormBackward": 3, "PReLUBackward": 2}
    c = Case(kind, tuple(shapes), attrs, outputs.get(kind, 1))
    inputs, made = types_of(c, dtype)
    arrays = arrays_of(c, inputs, np.random.default_rng(1))
    worst = assert_agreement(kind, arrays, attrs, [(None, d) for d in made])
    if dtype == "f32":
        assert worst > 1e-5, "the tolerance is so wide that it tells nothing"


@pytest.mark.parametrize("kind", ["BatchNormTrainingBackward", "LayerNormBackward"])
def test_the_gradient_through_a_mean_of_one_element_is_off_by_its_rounding(kind):
    """It is dy - dy minus little, which is as large as the rounding of dy."""
    batch = kind.startswith("B")
    shape = (1, 1, 1, 64) if batch else (64, 1)
    diff, one = noise(np.random.default_rng(3), shape).astype(np.float32), np.ones(64, np.float32)
    arrays = [np.full_like(diff, 1e-4), diff, 0 * one, one, *([one] if batch else ())]
    attrs = {"epsilon": 1e-5} if batch else {"use_affine": False}
    outputs = [(None, "f32")] * (3 if batch else 1)
    assert_agreement(kind, arrays, attrs, outputs)
    call = call_of(kind, arrays, attrs, outputs)
    allowed = slack(call, 0, arrays, evaluate(call, arrays)[0])
    assert (allowed < 1e-5 * np.abs(diff)).all()


# -- where oneDNN does otherwise


def test_the_gradient_of_a_bias_is_not_supported_alone():
    with pytest.raises(og.UnimplementedError):
        run_alone("BiasAddBackward", [np.ones((2, 4), np.float32)], {}, [((4,), "f32")])


def test_max_pool_backward_needs_dilations_said():
    attrs = {**ONE_DIM_POOL, "kernel": (2,), "strides": (1,)}
    arrays = [np.ones((1, 8, 3), np.float32), np.ones((1, 8, 4), np.float32)]
    assert check_agreement("MaxPoolBackward", arrays, attrs, [(None, "f32")]) is None
    assert_agreement("MaxPoolBackward", arrays, {**attrs, "dilations": (1,)}, [(None, "f32")])


def test_convolution_backward_data_with_groups_does_not_compile():
    arrays = [np.ones((1, 4, 4, 4), np.float32), np.ones((3, 3, 2, 4), np.float32)]
    for groups, channels in ((1, 2), (2, 4)):
        attrs = {**CONV, "groups": groups, "dst_shape": (1, 4, 4, channels)}
        worst = check_agreement("ConvolutionBackwardData", arrays, attrs, [(None, "f32")])
        assert (worst is None) == (groups == 2)


def windows_of_two(dilation: int, size: int) -> tuple[Arrays, dict[str, Any]]:
    """A transposed convolution of one dim with stride 2 and two weights a window."""
    chance = np.random.default_rng(0)
    arrays = [chance.standard_normal(s).astype(np.float32) for s in ((1, size, 3), (2, 3, 2))]
    attrs = {"strides": (2,), "pads_begin": (0,), "pads_end": (0,), "dilations": (dilation,)}
    return arrays, attrs


def test_conv_transpose_backward_data_leaves_dilations_out():
    """A defect of oneDNN: it reads dilations, and then makes a kernel without.

    Where the sizes do not fit those of a kernel without, it does not compile.
    """
    arrays, attrs = windows_of_two(2, 7)  # three windows, from 0, 2 and 4
    (actual,) = run_alone("ConvTransposeBackwardData", arrays, attrs, [((1, 3, 2), "f32")])
    call = call_of("ConvTransposeBackwardData", arrays, attrs)
    assert not compare(actual, evaluate(call, arrays)[0], call, inputs=arrays).ok
    shorter, without_dilations = windows_of_two(1, 7)
    call = call_of("ConvTransposeBackwardData", shorter, without_dilations)
    assert compare(actual, evaluate(call, shorter)[0], call, inputs=shorter).ok


def test_conv_transpose_backward_weights_pads_as_convolution_does():
    """A defect of oneDNN: the paddings are those of Convolution over src, not of ConvTranspose."""
    chance = np.random.default_rng(0)
    arrays = [chance.standard_normal(s).astype(np.float32) for s in ((1, 5, 2), (1, 15, 3))]
    attrs = {
        "strides": (3,),
        "pads_begin": (0,),
        "pads_end": (0,),
        "dilations": (1,),
        "weights_shape": (4, 3, 2),
        "auto_pad": "SAME_UPPER",
    }
    kind = "ConvTransposeBackwardWeights"
    (actual,) = run_alone(kind, arrays, attrs, [((4, 3, 2), "f32")])
    call = call_of(kind, arrays, attrs)
    assert not compare(actual, evaluate(call, arrays)[0], call, inputs=arrays).ok
    # Two windows over 5 elements want 4 + 3 of them, so 2 of padding; of these 1 comes before.
    explicit = {**attrs, "auto_pad": "None", "pads_begin": (1,), "pads_end": (0,)}
    call = call_of(kind, arrays, explicit)
    assert compare(actual, evaluate(call, arrays)[0], call, inputs=arrays).ok


@pytest.mark.parametrize(("dtype", "large"), [("bf16", 256), ("f16", 2048)])
def test_max_pool_backward_adds_up_in_the_type_itself(dtype, large):
    """Channels last: what each of many windows adds to an element that they share is rounded."""
    needs_training(dtype)
    x = np.zeros((1, 9, 16), np.float32)
    x[:, 4] = 1.0  # in all five windows
    # Beside the large ones, in whichever order, each 1 is at most half of a last place.
    diff_dst = np.broadcast_to(np.float32([large, 1, 1, 1, large])[:, None], (1, 5, 16))
    arrays = [round_to(x, dtype), round_to(diff_dst, dtype)]
    attrs = {**ONE_DIM_POOL, "kernel": (5,), "strides": (1,), "dilations": (1,)}
    attrs |= {"pads_begin": (0,), "pads_end": (0,)}
    last = {**attrs, "data_format": "NXC"}
    (actual,) = run_alone("MaxPoolBackward", arrays, last, [((1, 9, 16), dtype)])
    rounded_once = round_to(2.0 * large + 3, dtype)
    assert rounded_once == 2 * large + 4
    each = dtype in ADDED_UP_AS_STORED
    assert (actual[:, 4] == (2 * large if each else rounded_once)).all()
    first = [np.ascontiguousarray(a.swapaxes(1, 2)) for a in arrays]
    assert_agreement("MaxPoolBackward", first, attrs, [(None, dtype)])


def test_nearest_neighbours_backward_may_miss_the_forward_ones_at_a_tie():
    """Its AVX-512 kernel has a formula of its own in f32, and misses one from 26 elements to 7."""
    chance = np.random.default_rng(0)
    arrays = [chance.standard_normal((1, n, 3)).astype(np.float32) for n in (26, 7)]
    attrs = {"mode": "nearest", "sizes": (7,)}
    (actual,) = run_alone("InterpolateBackward", arrays, attrs, [((1, 26, 3), "f32")])
    (expected,) = run("InterpolateBackward", arrays, attrs)
    wrong = np.unique(np.nonzero(actual != expected)[1])
    assert wrong.tolist() == ([12, 13] if cpu.has(ISA, "avx512") else [])


@pytest.mark.skipif("avx" not in ISA, reason=f"about the kernels of x86-64, this is {ISA}")
@pytest.mark.parametrize(
    ("kind", "attrs"),
    [
        ("AbsBackward", {}),
        ("EluBackward", {"alpha": 0.5, "use_dst": False}),
        ("HardSwishBackward", {}),
        ("ReLUBackward", {"use_dst": False}),
    ],
)
def test_onednn_passes_the_gradient_where_src_is_nan(kind, attrs):
    arrays = [np.full(64, np.nan, np.float32), np.full(64, 3.0, np.float32)]
    (actual,) = run_alone(kind, arrays, attrs, [((64,), "f32")])
    assert (actual == 3.0).all()
    (made,) = run(kind, arrays, attrs)
    assert (made != 3.0).all()
