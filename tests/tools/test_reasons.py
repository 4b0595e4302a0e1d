"""Ops that are unsupported, alone or in parts are named, and every change that is told helps."""

import re
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from graphs import LINKED, needs

import onednn_graph_py as og
from gallery import PATTERNS
from onednn_graph_py.machine import current
from onednn_graph_py.machine.cpu import lacks
from onednn_graph_py.machine.pace import Pace
from onednn_graph_py.model.checking.verify import reference_values
from onednn_graph_py.model.planning import pace
from onednn_graph_py.model.planning.group import group_of
from onednn_graph_py.safety.table import slow_fusion
from onednn_graph_py.tools.explaining import probe
from onednn_graph_py.tools.explaining.probe import Probe
from onednn_graph_py.tools.explaining.reasons import reasons
from onednn_recipe.settings import Settings

UNIT = {"strides": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1), "dilations": (1, 1)}
POOL = {"strides": (2, 2), "pads_begin": (0, 0), "pads_end": (0, 0), "kernel": (2, 2)}
ONE = {"qtype": "per_tensor", "zps": [0]}


def noise(*shape, scale=0.3):
    return (scale * np.random.default_rng(0).standard_normal(shape)).astype(np.float32)


def whole(*shape):
    return np.random.default_rng(0).integers(-40, 40, shape).astype(np.int8)


# -- graphs: each function takes a builder and returns its output, ops are named


def second_reader(b):
    y = b.op("MatMul", b.input((4, 16)), noise(16, 8), name="fc")
    b.output(y=y)
    return b.op("ReLU", y, name="act")


def two_activations(b):
    y = b.op("MatMul", b.input((4, 16)), noise(16, 8), name="fc")
    b.output(t=b.op("Tanh", y, name="tanh"))
    return b.op("ReLU", y, name="act")


def add_with_a_second_reader(b):
    y = b.op("MatMul", b.input((4, 16)), noise(16, 8), name="fc")
    z = b.op("Add", y, noise(8), name="bias")
    b.output(e=b.op("Exp", y, name="exp"))
    return b.op("ReLU", z, name="act")


def subtracted_product(b):
    y = b.op("MatMul", b.input((4, 16)), noise(16, 8), name="fc")
    return b.op("Subtract", b.input((4, 8)), y, name="less")


def squared_difference(b):
    y = b.op("SoftMax", b.input((4, 16)), axis=-1, name="soft")
    return b.op("Pow", y, beta=2.0, name="pow")


def bias_twice(b):
    y = b.op("Convolution", b.input((1, 6, 6, 8)), noise(3, 3, 8, 8), noise(8), name="conv", **UNIT)
    return b.op("BiasAdd", y, noise(8), name="bias")


def bias_twice_of_channels_first(b):
    y = b.op(
        "Convolution", b.input((1, 8, 6, 6)), noise(8, 8, 3, 3), noise(8), name="conv",
        data_format="NCX", weights_format="OIX", **UNIT,
    )  # fmt: skip
    return b.op("BiasAdd", y, b.input((8,)), data_format="NCX", name="bias")


def reordered_sum(b):
    y = b.op("Reorder", b.input((4, 16)), name="order")
    return b.op("Add", y, b.input((4, 16)), name="sum")


def reciprocal(b):
    return b.op("Reciprocal", b.input((4, 16)), name="one_over")


def bias_gradient(b):
    return b.op("BiasAddBackward", b.input((2, 4, 4, 8)), name="gradient")


def bias_gradient_of_channels_first(b):
    return b.op("BiasAddBackward", b.input((2, 8, 4, 4)), data_format="NCX", name="gradient")


def power(beta):
    def build(b):
        y = b.op("Sigmoid", b.input((4, 16)), name="sigmoid")
        return b.op("Pow", y, beta=beta, name="pow")

    return build


def power_behind_a_product(b):
    y = b.op("MatMul", b.input((4, 16)), noise(16, 8), name="fc")
    return b.op("Pow", y, beta=2.0, name="pow")


def wide_layer_norm(b):
    y = b.op(
        "LayerNorm", b.input((4, 3, 16)), noise(3, 16), noise(3, 16), name="norm",
        begin_norm_axis=1, keep_stats=False,
    )  # fmt: skip
    return b.op("ReLU", y, name="act")


def bf16_parameters(kind):
    def build(b):
        x = b.input((2, 4, 4, 8), "bf16")
        count = 4 if kind == "BatchNormInference" else 2
        given = [b.constant(np.abs(noise(8)) + 0.5, "bf16") for _ in range(count)]
        more = {"epsilon": 1e-5} if count == 4 else {"keep_stats": False}
        return b.op("ReLU", b.op(kind, x, *given, name="norm", **more), name="act")

    return build


def aligned_corners(b):
    y = b.op(
        "Interpolate", b.input((1, 4, 4, 8)), mode="bilinear", sizes=(8, 8), name="resize",
        coordinate_transformation_mode="align_corners",
    )  # fmt: skip
    return b.op("ReLU", y, name="act")


def half_precision(b):
    y = b.op("MatMul", b.input((4, 16), "f16"), b.constant(noise(16, 8), "f16"), name="fc")
    return b.op("ReLU", y, name="act")


def sum_over_one(b):
    y = b.op("ReduceSum", b.input((4, 1)), axes=[1], name="sum")
    return b.op("ReLU", y, name="act")


def moved_in_between(b):
    y = b.op("MatMul", b.input((4, 16)), noise(16, 8), name="fc")
    y = b.op("StaticReshape", y, shape=(2, 2, 8), special_zero=False, name="fold")
    return b.op("ReLU", y, name="act")


def cast_in_between(b):
    y = b.op("MatMul", b.input((4, 16), "bf16"), b.constant(noise(16, 8), "bf16"), name="fc")
    y = b.op("TypeCast", y, outputs=[(None, "f32")], name="cast")
    return b.op("ReLU", y, name="act")


def attention(b, *, mask=None, dtype="f32", inside="f32", strides=None, shape=(1, 2, 8, 4)):
    q, k, v = (b.input(shape, dtype, name=n, strides=strides) for n in "qkv")
    y = b.op("MatMul", q, k, transpose_b=True, name="scores")
    if inside != dtype:
        y = b.op("TypeCast", y, outputs=[(None, inside)], name="up")
    y = b.op("Divide", y, b.constant(np.full(1, 2.0), inside), name="scale")
    if mask is not None:
        y = b.op("Add", y, b.input(mask, inside, name="mask"), name="masked")
    y = b.op("SoftMax", y, axis=-1, name="soft")
    if inside != dtype:
        y = b.op("TypeCast", y, outputs=[(None, dtype)], name="down")
    return b.op("MatMul", y, v, name="mix")


def attention_of_bf16_and_f32(b):
    return attention(b, dtype="bf16")


def attention_with_probabilities(b):
    y = attention(b)
    b.output(p=b.nodes[2].outputs[0])
    return y


def mask_of_other_rank(b):
    return attention(b, mask=(2, 8, 8))


def attention_that_selects(b):
    q, k, v = (b.input((2, 4, 8, 16)) for _ in range(3))
    scores = q.matmul(k, transpose_b=True, name="scores")
    hidden = b.input((2, 1, 1, 8), "boolean", name="hidden")
    masked = b.select(hidden, b.constant(np.float32([-1e9]), name="low"), scores, name="mask")
    return masked.softmax(axis=-1, name="soft").matmul(v, name="out")


def strided_attention(b):
    return attention(b, shape=(4, 2, 4, 8), strides=(64, 8, 16, 1))


def dequantized(b, value, scale=0.05, name="", **more):
    return b.op("Dequantize", value, scales=[scale], name=name, **{**ONE, **more})


def quantized(b, value, dtype, scale=0.05, name="", **more):
    attrs = {"scales": [scale], **ONE, **more}
    return b.op("Quantize", value, outputs=[(None, dtype)], name=name, **attrs)


def int8_product(b):
    x = dequantized(b, b.input((4, 16), "u8"), name="from_x")
    w = dequantized(b, b.constant(whole(16, 8)), 0.013, "from_w")
    return b.op("MatMul", x, w, name="fc")


def scales_per_channel(b):
    more = {"scales": [0.1] * 8, "zps": [0] * 8, "qtype": "per_channel", "axis": 1}
    return quantized(b, int8_product(b), "s8", name="to_y", **more)


def residual_of_other_sign(b):
    y = int8_product(b)
    r = dequantized(b, b.input((4, 8), "u8"), name="from_r")
    return quantized(b, b.op("Add", y, r, name="sum"), "s8", 0.13, "to_y")


def weights_with_a_zero_point(b):
    x = dequantized(b, b.input((1, 6, 6, 8), "u8"), name="from_x")
    w = dequantized(b, b.constant(whole(3, 3, 8, 8)), 0.01, "from_w", zps=[3])
    return quantized(b, b.op("Convolution", x, w, name="conv", **UNIT), "s8", 0.5, "to_y")


def depthwise_of_s8(b):
    x = dequantized(b, b.input((1, 6, 6, 2), "s8"), name="from_x")
    w = dequantized(b, b.constant(whole(3, 3, 1, 64)), 0.01, "from_w")
    return b.op("Convolution", x, w, groups=2, name="conv", **UNIT)


def int8_pool_and_relu(b):
    x = dequantized(b, b.input((1, 6, 6, 8), "s8"), name="from_x")
    y = b.op("ReLU", b.op("MaxPool", x, name="pool", **POOL), name="act")
    return quantized(b, y, "s8", name="to_y")


def concat_of_other_scales(b):
    x = dequantized(b, b.input((4, 16), "u8"), name="from_x")
    y = dequantized(b, b.input((4, 16), "u8"), 0.07, name="from_y")
    return quantized(b, b.op("Concat", x, y, axis=1, name="join"), "u8", name="to_z")


def norm_with_a_zero_point(b):
    x = dequantized(b, b.input((1, 4, 4, 8), "s8"), name="from_x", zps=[5])
    given = [np.abs(noise(8)) + 0.5 for _ in range(4)]
    y = b.op("BatchNormInference", x, *given, epsilon=1e-5, name="norm")
    return quantized(b, b.op("ReLU", y, name="act"), "s8", 0.09, "to_y")


def shape_as_an_input(b):
    shape = b.input((4,), "s32", name="shape")
    x, d = b.input((1, 4, 4, 8)), b.input((1, 9, 9, 4))
    return b.op(
        "ConvTransposeBackwardWeights", x, d, shape, name="gradient",
        outputs=[((3, 3, 4, 8), "f32")], **{**UNIT, "strides": (2, 2), "pads_begin": (0, 0),
        "pads_end": (0, 0)},
    )  # fmt: skip


def product_of_eighth_floats(b):
    x = b.op("Dequantize", b.input((4, 16), "f8_e4m3"), scales=[0.1], name="from_x")
    w = dequantized(b, b.constant(whole(16, 8)), 0.013, "from_w")
    return b.op("MatMul", x, w, name="fc")


def product_of_two_eighth_floats(b):
    x, w = (b.op("Dequantize", b.input(shape, "f8_e4m3"), scales=[0.1], name=name)
            for shape, name in (((4, 16), "from_x"), ((16, 8), "from_w")))  # fmt: skip
    return b.op("MatMul", x, w, name="fc")


def pool_of_channels_last(b):
    y = b.op("MaxPool", b.input((1, 6, 6, 8)), name="pool", **POOL)
    return b.op("Add", y, noise(8), name="sum")


def pool_and_whole_operand(b):
    y = b.op("MaxPool", b.input((1, 8, 6, 6)), data_format="NCX", name="pool", **POOL)
    return b.op("Add", y, b.input((1, 8, 3, 3)), name="sum")


def norm_and_sum(b):
    y = b.op("LayerNorm", b.input((4, 16)), noise(16), noise(16), keep_stats=False, name="norm")
    return b.op("Add", y, b.input((4, 16)), name="sum")


def automatic_padding(b):
    return b.op(
        "ConvTransposeBackwardWeights", b.input((1, 4, 4, 8)), b.input((1, 7, 7, 4)),
        weights_shape=(3, 3, 4, 8), auto_pad="SAME_UPPER", name="gradient",
        **{**UNIT, "strides": (2, 2)},
    )  # fmt: skip


def divided_by_a_product(b):
    y = b.op("Exp", b.op("MatMul", b.input((4, 16)), noise(16, 8), name="fc"), name="exp")
    b.output(e=y)
    return b.op("Divide", b.input((4, 8)), y, name="over")


@dataclass(frozen=True)
class Case:
    """A graph, and what is to be told of one of its ops.

    `said` is part of a change's description; None where nothing helps. `dtype` is what its kernels
    compute in.
    """

    build: object
    op: str
    status: str
    said: str | None
    why: str = ""
    since: tuple = (3, 7)
    until: tuple = (99, 0)
    name: str = ""
    dtype: str = "f32"


# Without it int8 products saturate, so that models run them in parts, and int8 in their place does
# not help.
VNNI = current().has("vnni")
# With these a rule repeats a number, which oneDNN broadcasts slowly as the first operand.
FILLING = ("Minimum", "Maximum")

CASES = [
    Case(second_reader, "fc", "alone", "do not return 'y'", "returned as 'y'"),
    Case(second_reader, "act", "alone", "compute MatMul 'fc' twice"),
    Case(two_activations, "act", "alone", "compute MatMul 'fc' twice", "read by"),
    Case(add_with_a_second_reader, "fc", "alone", "compute MatMul 'fc' twice"),
    Case(subtracted_product, "less", "alone", "-1 times the second (Multiply + Add)"),
    Case(bias_twice, "bias", "alone", "write BiasAdd 'bias' as an Add"),
    Case(bias_twice_of_channels_first, "bias", "alone", "write BiasAdd 'bias' as an Add"),
    Case(reordered_sum, "order", "alone", "set auto_broadcast of Add 'sum' to none"),
    Case(reciprocal, "one_over", "unsupported", "as a Divide", "no cpu kernel for Reciprocal"),
    Case(bias_gradient, "gradient", "unsupported", "ReduceSum"),
    Case(bias_gradient_of_channels_first, "gradient", "unsupported", "ReduceSum"),
    Case(power(1.7), "pow", "unsupported", None, "no cpu kernel for Pow", name="power 1.7"),
    Case(power(2.0), "pow", "alone", None, "fuse with Sigmoid 'sigmoid'", name="power 2.0"),
    Case(power(-0.5), "pow", "alone", None, name="power -0.5"),
    Case(wide_layer_norm, "norm", "unsupported", "with two dims"),
    *(
        Case(
            bf16_parameters(kind), "norm", "unsupported", "f32", name=f"bf16 parameters {kind}",
            dtype="bf16",
        )
        for kind in ("LayerNorm", "BatchNormInference")
    ),
    Case(aligned_corners, "resize", "unsupported", "half_pixel"),
    Case(sum_over_one, "sum", "unsupported", "StaticReshape", "compile failed"),
    Case(moved_in_between, "act", "alone", "move ReLU 'act' before"),
    Case(cast_in_between, "act", "alone", "ops connected with ReLU 'act' in bf16", dtype="bf16"),
    Case(attention_of_bf16_and_f32, "mix", "alone", "in bf16", dtype="bf16"),
    Case(attention_with_probabilities, "soft", "alone", "do not return 'p'"),
    Case(mask_of_other_rank, "scores", "in parts", "1x2x8x8", "another rank", until=(3, 13)),
    Case(
        attention_that_selects, "scores", "in parts",
        "give 'hidden', 'low' of Select 'mask' the whole shape 2x4x8x8", "input 0 of another shape",
        until=(3, 13),
    ),
    Case(strided_attention, "scores", "in parts", "row-major", "strided inputs", until=(3, 8)),
    Case(scales_per_channel, "fc", "in parts", "per_tensor", "scales per channel"),
    Case(residual_of_other_sign, "fc", "in parts", "result of Quantize 'to_y' u8", "u8 and s8 mix"),
    Case(
        weights_with_a_zero_point, "conv", "in parts", "set zps",
        "the zero point of weights" if VNNI and LINKED < (3, 8) else "compile failed",
    ),
    Case(
        depthwise_of_s8, "conv", "in parts", "input 0 of Dequantize 'from_x' u8",
        "one channel a group" if VNNI else "this CPU has no VNNI",
    ),
    Case(
        int8_pool_and_relu, "pool", "in parts", None if lacks("bf16") else "in bf16", "rounds"
    ),
    Case(concat_of_other_scales, "join", "alone", "the scale and zero point of"),
    Case(concat_of_other_scales, "from_x", "alone", "the scale and zero point of"),
    Case(norm_with_a_zero_point, "from_x", "alone", "set zps of Dequantize 'from_x' to 0"),
    Case(shape_as_an_input, "gradient", "unsupported", "with its shape as an attribute"),
    Case(pool_of_channels_last, "pool", "in parts", None, "channels-last"),
    Case(pool_and_whole_operand, "pool", "in parts", None, "more than one wide dim"),
    # A TypeCast between them is no way around: 3.7 is wrong then too.
    Case(norm_and_sum, "norm", "in parts", None, "layer normalization", until=(3, 8)),
    Case(
        norm_and_sum, "norm", "in parts", None if lacks("bf16") else "bf16", "compile failed",
        since=(3, 13),
    ),
    Case(automatic_padding, "gradient", "unsupported", "with its paddings written out"),
    Case(divided_by_a_product, "over", "alone", None),
]  # fmt: skip


def name_of(case):
    build = getattr(case.build, "__name__", "")
    return case.name or f"{build}, {case.op}"


def built(build):
    b = og.GraphBuilder()
    b.output(result=build(b))
    return b


def picture(b):
    """Everything that a graph is, to see that it has not changed."""
    nodes = [(n.id, n.kind, n.name, tuple(v.id for v in (*n.inputs, *n.outputs))) for n in b.nodes]
    values = [v for n in b.nodes for v in (*n.inputs, *n.outputs)]
    attrs = [dict(n.attrs) for n in b.nodes]
    leaves = [(v.id, v.shape, v.dtype, v.name, id(v.data)) for v in (*b.inputs, *b.constants)]
    outputs = {name: v.id for name, v in b.outputs.items()}
    types = [(v.shape, v.dtype) for v in values]
    return nodes, attrs, leaves, outputs, types, b.fpmath_mode, b.apply_to_int


def modelled(b, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # another op may still run in parts
        return b.compile(warn=False, **options)


def parts_of(step):
    """The names of the ops for which those of a planned step stand."""
    return {part.name for node in step.nodes for part in node.parts or (node,)}


def check_change(b, reason, change):
    """Make the change; the op then runs in oneDNN with those that are named, and rightly."""
    changed = change.apply(b)
    model = modelled(changed)
    steps = model.specialization(tuple(v.shape for v in model.inputs)).plan.steps
    mine = [s for s in steps if {reason.op, f"{reason.op}_again"} & parts_of(s)]
    assert mine, f"{change.description}: nothing stands for {reason.op}: {model.steps()}"
    assert all(s.implementation == "oneDNN" for s in mine)
    together = {name for s in mine for name in parts_of(s)}
    fused = change.result.partition("fuses with ")[2]
    for name in re.findall(r"'([^']+)'", fused):
        assert {name, f"{name}_again"} & together, f"{change}: {name} is not in {mine}"
    if reason.status != "unsupported":
        assert fused, change
    checked = model.verify()
    assert checked.ok, f"{reason.kind} {reason.op}: {change.description}: {checked}"


def check_exact(b, change):
    """What a change is said not to alter it does not, where both take the same inputs."""
    changed = change.apply(b)
    spec = [(v.shape, v.dtype) for v in b.inputs]
    if not change.exact or [(v.shape, v.dtype) for v in changed.inputs] != spec:
        return False
    arrays = og.fill_inputs(b, 1)
    before, after = reference_values(b, arrays), reference_values(changed, arrays)
    for name, value in changed.outputs.items():
        old = before[b.outputs[name].id].astype(np.float64)
        new = after[value.id].astype(np.float64)
        if old.shape == new.shape:
            np.testing.assert_allclose(new, old, rtol=0.02, atol=0.02, err_msg=change.description)
    return True


@pytest.mark.parametrize("case", [c for c in CASES if c.since <= LINKED < c.until], ids=name_of)
def test_what_stays_apart_is_named_and_each_change_helps(case):
    needs(case.dtype)
    b = built(case.build)
    model = modelled(b)
    if case.status == "in parts" and len(model.steps()) == 1:
        assert model.verify()
        pytest.skip(f"{current()} is right in one partition")
    before = picture(b)
    found = reasons(b)
    mine = [r for r in found if r.op == case.op]
    (reason,) = mine
    assert reason.status == case.status
    assert case.why in reason.why, reason.why
    assert reason.where.endswith(".py:" + reason.where.rpartition(":")[2]) and reason.kind
    if case.said is None:
        # On a CPU without bf16 there may be nothing to try.
        in_vain = "and none helps", "no known change could help"
        assert not reason.changes and reason.why.endswith(in_vain), reason
    else:
        told = [c.description for c in reason.changes]
        assert any(case.said in d for d in told), told
    for r in found:
        for change in r.changes:
            check_change(b, r, change)
            check_exact(b, change)
            # It is as good for a graph that was built in the same way.
            alike = change.apply(built(case.build))
            assert [n.kind for n in alike.nodes] == [n.kind for n in change.apply(b).nodes]
    assert picture(b) == before


@pytest.mark.parametrize("op", ["fc", "act"])
def test_a_data_type_that_this_cpu_lacks(op):
    b = built(half_precision)
    mine = [r for r in reasons(b) if r.op == op]
    missing = lacks("f16")
    if missing is None:
        assert not mine  # it fuses
        return
    (reason,) = mine
    assert (reason.status, reason.why) == ("unsupported", missing)
    told = {c.description: c for c in reason.changes}
    assert any(" alone in f32, with TypeCasts" in d for d in told)
    assert any("all 2 ops connected" in d and "in f32" in d for d in told)
    assert not any("f16" in d.replace("bf16", "") for d in told)
    for change in reason.changes:
        check_change(b, reason, change)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (product_of_eighth_floats, "input 0 of Dequantize 'from_x' s8"),
        (product_of_two_eighth_floats, None),
    ],
)
def test_8_bit_floats_that_this_cpu_lacks(build, said):
    b = built(build)
    mine = [r for r in reasons(b) if r.op == "fc"]
    missing = lacks("f8_e4m3")
    if missing is None and not mine:
        return  # it fuses
    (reason,) = mine
    assert missing is None or missing in reason.why
    told = [c.description for c in reason.changes]
    assert not told if said is None else any(said in d for d in told)
    for change in reason.changes:
        check_change(b, reason, change)


def channel_of_a_softmax(b):
    y = b.op("SoftMax", b.input((4, 16, 64)), axis=-1, name="soft")
    return b.op("Multiply", y, b.input((64,), name="z"), name="scaled")


def gate(b):
    y = b.op("ReLU", b.input((4, 16, 64)), name="act")
    return b.op("Multiply", y, b.input((4, 16, 64)), name="gate")


def reciprocal_and_product(b):
    y = b.op("Reciprocal", b.input((4, 16, 64)), name="one_over")
    return b.op("Multiply", y, b.input((4, 16, 64)), name="scaled")


@pytest.mark.parametrize(
    ("build", "op", "said"),
    [
        (channel_of_a_softmax, "soft", "give 'z' of Multiply 'scaled' the whole shape 4x16x64"),
        (gate, "act", None),
    ],
)
def test_what_is_slow_in_one_partition_says_so_and_each_change_helps(build, op, said):
    b = built(build)
    assert slow_fusion(group_of(b.nodes), current())
    (reason,) = reasons(b)
    assert check_slow_splits(b, (), (reason,))
    assert (reason.op, reason.status) == (op, "in parts")
    assert "reference kernel" in reason.why
    told = [c.description for c in reason.changes if c.exact]
    assert told == ([] if said is None else [said])
    for change in reason.changes:
        check_change(b, reason, change)
        check_exact(b, change)


def test_what_was_measured_to_be_slow_says_how_slow(monkeypatch):
    b = og.GraphBuilder()
    x, y, z = (b.input((2, 3, 8)) for _ in range(3))
    b.output(b.op("Multiply", b.op("Add", x, y, name="sum"), z, name="scaled"))
    assert reasons(b) == ()
    monkeypatch.setattr(pace, "known", lambda *_: pace.Kept(Pace(5e-3, 1e-4)))
    (reason,) = reasons(b)
    assert check_slow_splits(b, (), (reason,))
    assert (reason.op, reason.status) == ("sum", "in parts")
    assert "fused, it takes 50 times as long as its separate ops" in reason.why
    assert not reason.changes  # everything was measured to be as slow


def test_what_is_slow_but_runs_in_one_partition_has_no_reason():
    """Where it is wanted, and where an op has no kernel by itself."""
    b = built(gate)
    assert reasons(b, slow_fusions="run") == ()
    (told,) = b.compile().explain(seconds=0).reasons
    assert told.op == "act"
    assert b.compile(slow_fusions="run").explain(seconds=0).reasons == ()
    b = built(reciprocal_and_product)
    assert slow_fusion(group_of(b.nodes), current())
    assert len(modelled(b).steps()) == 1
    assert reasons(b) == ()


def test_a_change_after_which_it_would_be_slow_fuses_nothing():
    needs("bf16")
    b = og.GraphBuilder()
    ones = b.constant(np.ones(16, np.float32), "bf16")
    y = b.op("GroupNorm", b.input((4, 16, 64), "bf16"), ones, ones, groups=1, data_format="NCX",
             keep_stats=False, name="norm")  # fmt: skip
    b.output(b.op("Square", y, name="square"))
    norm, square = reasons(b)
    assert (square.op, square.changes) == ("square", ())
    (change,) = norm.changes
    assert (change.description, change.result) == (
        "make gamma, beta of GroupNorm 'norm' f32",
        "supported",
    )
    changed = change.apply(b)
    assert slow_fusion(group_of(changed.nodes), current())
    assert len(modelled(changed, slow_fusions="run").steps()) == 1
    check_change(b, norm, change)


def test_what_is_slow_as_rules_write_it_says_so():
    b = og.GraphBuilder()
    ones = np.ones(16, np.float32)
    y = b.op("GroupNorm", b.input((4, 16, 64)), ones, ones, groups=1, data_format="NCX",
             keep_stats=False, name="norm")  # fmt: skip
    b.output(b.op("Pow", y, beta=2.0, name="pow"))
    (norm,) = reasons(b)
    assert (norm.op, norm.status, norm.changes) == ("norm", "in parts", ())
    assert norm.why.startswith(
        "oneDNN fuses GroupNorm + Square, as which GroupNorm + Pow is written, but it runs in parts"
    )
    assert check_slow_splits(b, (), (norm,))
    assert len(modelled(b, slow_fusions="run").steps()) == 1
    assert reasons(b, slow_fusions="run") == ()


@pytest.mark.parametrize(
    ("beta", "ops"),
    [
        (2.0, ("Square",)),
        (0.5, ("Sqrt",)),
        (3.0, ("Square", "Multiply")),
        (4.0, ("Square", "Square")),
        (-1.0, ("Divide",)),
        (-0.5, ("Sqrt", "Divide")),
        (-2.0, ("Square", "Divide")),
    ],
)
def test_powers_that_rules_write_as_products_are_supported(beta, ops):
    b = built(power(beta))
    model = modelled(b)
    steps = [s for s in model.steps() if "pow" in s.names]
    assert tuple(kind for s in steps for kind in s.ops if kind not in FILLING) == ops
    assert {s.implementation for s in steps} == {"oneDNN"} and model.verify()
    assert "unsupported" not in {r.status for r in reasons(b)}


@pytest.mark.parametrize("build", [power_behind_a_product, squared_difference])
def test_powers_fuse_as_squares(build):
    b = built(build)
    model = modelled(b)
    (step,) = model.steps()
    assert (step.ops[1], step.names[1], step.implementation) == ("Square", "pow", "oneDNN")
    assert model.verify() and reasons(b) == ()


def test_what_no_oneDNN_knows_has_a_reason_and_no_change():
    b = og.GraphBuilder()
    x = b.input((4, 16))
    b.output(b.op("Wildcard", x, outputs=[((4, 16), "f32")], name="other"))
    (reason,) = reasons(b)
    assert (reason.op, reason.status, reason.changes) == ("other", "unsupported", ())
    assert "Wildcard" in reason.why


def test_a_graph_that_fuses_has_no_reasons():
    b = og.GraphBuilder()
    b.output((b.input((4, 16)) @ noise(16, 8)).relu())
    assert reasons(b) == ()


def test_an_op_says_where_it_was_made():
    b = built(reciprocal)
    (reason,) = [r for r in reasons(b) if r.op == "one_over"]
    file, _, line = reason.where.rpartition(":")
    assert file == __file__
    assert 'name="one_over"' in Path(file).read_text().splitlines()[int(line) - 1]


def test_shapes_that_only_a_call_tells():
    def graph():
        b = og.GraphBuilder()
        y = b.op("LayerNorm", b.input((-1, 3, 16)), noise(3, 16), noise(3, 16), name="norm",
                 begin_norm_axis=1, keep_stats=False)  # fmt: skip
        b.output(b.op("Pow", y, beta=2.0, name="pow"))
        return b

    b = graph()
    known = {r.op: r for r in reasons(b, shapes=[(4, 3, 16)])}
    assert any("with two dims" in c.description for c in known["norm"].changes)
    assert b.inputs[0].shape == (-1, 3, 16)
    assert og.explain(b).reasons == ()
    with pytest.raises(og.InvalidArgumentsError, match="the graph has 1 inputs, got 2 shapes"):
        reasons(b, shapes=[(4, 3, 16), (1,)])
    with pytest.raises(og.OneDNNError):
        reasons(b, shapes=[(4, 3, 17)])


def behind_sigmoid(b):
    y = b.op("Sigmoid", b.input((4, 16)), name="sigmoid")
    return b.op("Reciprocal", y, name="one_over")


def test_a_change_is_for_its_graph_and_those_alike():
    b = built(behind_sigmoid)
    (reason,) = [r for r in reasons(b) if r.op == "one_over"]
    change, times_one = reason.changes
    alike = change.apply(built(behind_sigmoid))
    assert [n.kind for n in alike.nodes if n.kind not in FILLING] == ["Sigmoid", "Divide"]
    alike = times_one.apply(built(behind_sigmoid))
    assert [n.kind for n in alike.nodes] == ["Sigmoid", "Reciprocal", "Multiply"]
    with pytest.raises(og.InvalidArgumentsError, match="graph: op 1 must be a Reciprocal, got"):
        change.apply(built(second_reader))


def test_constants_are_shared_and_names_and_places_kept():
    b = built(second_reader)
    change = next(c for r in reasons(b) for c in r.changes if "do not return" in c.description)
    changed = change.apply(b)
    assert changed.constants[0].data is b.constants[0].data
    assert [n.name for n in changed.nodes] == ["fc", "act"]
    assert [n.where for n in changed.nodes] == [n.where for n in b.nodes]
    assert list(changed.outputs) == ["result"]
    assert [v.name for v in changed.inputs] == [v.name for v in b.inputs]


def test_settings_of_the_graph_are_kept():
    b = og.GraphBuilder(fpmath_mode="bf16", apply_to_int=True)
    b.output(reciprocal(b))
    (reason,) = reasons(b)
    changed = reason.changes[0].apply(b)
    assert (changed.fpmath_mode.name, changed.apply_to_int) == ("bf16", True)


def test_a_graph_for_a_gpu_needs_none():
    b = og.GraphBuilder("gpu")
    b.output(reciprocal(b))
    (reason,) = reasons(b)
    assert reason.status == "unsupported" and "no gpu kernel for Reciprocal" in reason.why
    assert "CPU" not in reason.why
    assert len(reason.changes) == 2
    for change in reason.changes:
        assert change.result == "supported"
        (partition,) = change.apply(b).graph.get_partitions()
        assert partition.is_supported()


def test_a_large_graph_is_asked_about_in_part():
    """Only what is near an op is built anew at each try, and the whole graph to confirm it."""
    b = og.GraphBuilder()
    y = b.input((4, 16))
    for i in range(30):
        y = b.op("MatMul", y, noise(16, 16), name=f"fc{i}")
        if i == 17:
            b.output(middle=y)
        y = b.op("ReLU", y, name=f"act{i}")
    b.output(result=y)
    found = reasons(b)
    assert [r.op for r in found] == ["fc17", "act17"]
    for reason in found:
        assert any("do not return 'middle'" in c.description for c in reason.changes)
        for change in reason.changes:
            check_change(b, reason, change)


# Its last product is five ops away from what it would fuse with: so small a part is too small.
NEARER = [c for c in CASES if c.since <= LINKED < c.until and c.build != attention_of_bf16_and_f32]


@pytest.mark.parametrize("case", NEARER, ids=name_of)
def test_a_part_of_a_graph_tells_what_the_whole_does(case, monkeypatch):
    def told():
        return [
            (r.op, r.status, [(c.description, c.result) for c in r.changes]) for r in reasons(b)
        ]

    b = built(case.build)
    whole = told()
    monkeypatch.setattr(probe, "_NEAR", 1)
    assert told() == whole


def test_equal_layers_are_searched_once(monkeypatch):
    asked = []
    ask = Probe.ask
    monkeypatch.setattr(Probe, "ask", lambda *given: asked.append(1) or ask(*given))

    def count(layers):
        b = og.GraphBuilder()
        y = b.input((4, 16))
        for i in range(layers):
            y = b.op("Reciprocal", b.op("MatMul", y, noise(16, 16)), name=f"one_over{i}")
            y = b.op("SoftMax", y, axis=-1)
        b.output(result=y)
        asked.clear()
        mine = [r for r in reasons(b) if r.kind == "Reciprocal"]
        assert [r.op for r in mine] == [f"one_over{i}" for i in range(layers)]
        told = [r for r in mine if r.changes]
        for r in told:
            said = r.changes[0].description
            assert said.startswith(f"write Reciprocal {r.op!r} as a Divide (")
        check_change(b, told[-1], told[-1].changes[0])
        others = {r.why for r in mine if not r.changes}
        assert others == {f"as Reciprocal {told[-1].op!r}, whose surroundings look the same"}
        return len(asked)

    assert count(4) == count(24)


# -- the gallery and oneDNN's own graphs


def sizes_of(b):
    """Shapes for the inputs of which some dim is not known."""
    if all(-1 not in v.shape for v in b.inputs):
        return ()
    return tuple(tuple(4 if d < 0 else d for d in v.shape) for v in b.inputs)


def chosen_cases():
    """Of each pattern its first case, and the first of which oneDNN does something else."""
    for pattern in PATTERNS.values():
        here = [c for c in pattern.cases if c.needs <= LINKED]
        odd = [c for c in here if c.expected(LINKED) != c.partitions]
        for case in [*here[:1], *odd[:1]]:
            yield pytest.param(pattern, case, id=f"{pattern.id} {case.dtypes} {case.name}")


@pytest.mark.parametrize(("pattern", "case"), list(chosen_cases()))
def test_a_pattern_that_does_not_fuse_has_a_reason(pattern, case):
    try:
        b = pattern.graph(case)
    except og.OneDNNError:
        assert case.expected(LINKED) is None
        return
    before, sizes = picture(b), sizes_of(b)
    found = reasons(b, shapes=sizes)
    assert picture(b) == before
    places = {n.where: n.kind for n in b.nodes}
    for reason in found:
        assert reason.kind in {n.kind for n in b.nodes} and reason.where in places and reason.why
    steps = modelled(b).steps(*sizes)
    if len(steps) == 1 and steps[0].implementation == "oneDNN" and not steps[0].why:
        assert found == ()
    elif case.partitions == 1:
        # Ops that rules of shapes write in another way have no reason.
        assert found or {k for s in steps for k in s.ops} - {n.kind for n in b.nodes}, steps
    elif any(s.implementation != "oneDNN" for s in steps):
        assert "unsupported" in [r.status for r in found]
    check_slow_splits(b, sizes, found)


def check_slow_splits(b, sizes, found):
    """What runs apart only because it is slow together has a reason that says how slow."""

    def apart(**options):
        whys = [s.why for s in modelled(b, **options).steps(*sizes)]
        return {re.sub(r"\b(op|partition) \d+", r"\1", why) for why in whys}

    slow = apart() - apart(slow_fusions="run")
    for why in slow:
        told = why.replace("oneDNN would fuse", "oneDNN fuses").partition(": ")
        assert [r for r in found if r.status == "in parts" and r.why.startswith(told[0])
                and told[2] in r.why], (why, found)  # fmt: skip
    return slow


GRAPHS = {
    # Each with the op that stays apart on a CPU without f8 and f16; None where all fuses.
    "op/f32/reciprocal.json": "Reciprocal",
    "op/f32/prelu_bwd_dw_5d.json": "PReLUBackward",
    "op/f32/matmul_2d_4d.json": None,
    "pattern/f32/maxpool_sum_relu_fusion.json": "MaxPool",
    "pattern/f8/f8_matmul.json": "MatMul",
    "pattern/int8/int8_matmul_mul_add_mul_fusion.json": "Dequantize",
    "complex_fusion/mha/MHA-LLaMa-inf-fp32-bs1.json": "SoftMax",
    "complex_fusion/mha/MHA-distill_bert-inf-fp32-bs1.json": None,
    "complex_fusion/mha/sdpa-compressed-k-int8-gs32.json": "MatMul",
    "complex_fusion/mha/MHA_forward-Bert_large-train-fp32-bs4.json": "SoftMax",
}
SOURCES = sorted((Settings.from_env().cache_dir / "src").glob("onednn-3.7.2/tests/benchdnn/inputs"))


@pytest.mark.skipif(not SOURCES, reason="oneDNN 3.7.2's sources are not in the cache")
@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_of_oneDNNs_own_tests(name):
    b = og.load(SOURCES[-1] / "graph" / name)
    before = picture(b)
    found = reasons(b)
    assert picture(b) == before
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        steps = b.compile(warn=False).steps()
    if GRAPHS[name] is None:
        # What a rule expands for a Select is no op of the graph.
        assert len([s for s in steps if s.ops != ("Expand",)]) == 1 and found == ()
        assert steps[-1].implementation == "oneDNN" and steps[-1].why == ""
    elif len(steps) > 1 or steps[0].implementation != "oneDNN" or steps[0].why:
        assert GRAPHS[name] in [r.kind for r in found], (steps, found)
    else:
        assert found == ()
