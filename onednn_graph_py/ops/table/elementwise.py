"""Rows of the ops that work on each element of one tensor or two, and of their gradients."""

from functools import partial

from .. import work
from ..row import FLOATS, Attribute, Change, Port
from ..schema import OpSchema
from ..shapes import elementwise as shapes
from .common import AUTO_BROADCAST, DATA_FORMAT, DIFF_DST, DIFF_SRC, DST, SRC, USE_DST

_UNARY: tuple[str, ...] = ("elementwise", "epilogue")
_RECTIFIER: tuple[str, ...] = (*_UNARY, "rectifies")
_SIGMOID: tuple[str, ...] = (*_UNARY, "squashes", "steep")


_forward = partial(OpSchema, infer=shapes.same, work=work.a_result(1), traits=_UNARY)


def _backward(
    of: str,
    attributes: tuple[Attribute, ...] = (),
    first: str = "src",
    changes: tuple[Change, ...] = (),
) -> OpSchema:
    return OpSchema(
        f"{of}Backward",
        f"The gradient of {of} with respect to its input.",
        inputs=(Port(first), DIFF_DST),
        outputs=(DIFF_SRC,),
        infer=shapes.same,
        work=work.a_result(2),
        traits=("elementwise", "gradient"),
        attributes=(*attributes, USE_DST) if first == "src/dst" else attributes,
        changes=changes,
    )


def _required(name: str, meaning: str, example: float) -> Attribute:
    return Attribute(name, "f32", meaning, required=True, example=example)


_CLAMP = (_required("min", "smallest value", -1.0), _required("max", "largest value", 1.0))
_ELU = (_required("alpha", "factor of exp(x) - 1 below 0", 0.5),)
_HARD_SIGMOID = (_required("alpha", "slope", 0.2), _required("beta", "value at 0", 0.5))
_SOFT_PLUS = (Attribute("beta", "f32", "sharpness of the bend at 0", default=1.0),)
_GELU = (
    Attribute(
        "mode",
        "string",
        "computed by the error function (gelu_erf), or approximated by tanh (gelu_tanh)",
        default="gelu_erf",
        allowed=("gelu_erf", "gelu_tanh"),
        since=(3, 9),
        before="for gelu_tanh write x * 0.5 * (1 + np.tanh(0.7978846 * (x + 0.044715 * x**3)))",
    ),
)
_GELU_CHANGES = (Change((3, 9), "the attribute mode, with gelu_tanh"),)


_WITH_INTEGERS = (*FLOATS, "s32")

_MIXED_PORTS = (Port("src_0", "T1"), Port("src_1", "T2"))
_MIXED_OUTPUT = (Port("dst", "T3"),)
_MIXED = {"T1": FLOATS, "T2": FLOATS, "T3": FLOATS}
_MIXED_COMBINATIONS = (
    "f32, f32, f32",
    "bf16, bf16, bf16",
    "f16, f16, f16",
    "f32, bf16|f16, f32",
    "bf16|f16, f32, f32",
)


_binary = partial(
    OpSchema,
    inputs=(Port("src_0"), Port("src_1")),
    infer=shapes.binary,
    work=work.a_result(1),
    attributes=(AUTO_BROADCAST,),
    traits=("elementwise", "binary", "epilogue"),
)
_ADD_CHANGES = (
    Change(
        (3, 8),
        "inputs and output may differ in type",
        inputs=_MIXED_PORTS,
        outputs=_MIXED_OUTPUT,
        types=_MIXED,
    ),
    Change((3, 9), "s32", types={"T1": _WITH_INTEGERS, "T2": _WITH_INTEGERS, "T3": _WITH_INTEGERS}),
)
_ADD_COMBINATIONS = (*_MIXED_COMBINATIONS, "s32, s32, s32")


ROWS = (
    _forward("Abs", "The absolute value."),
    _backward("Abs"),
    _forward("Clamp", "Limits each element to the range from min to max.", attributes=_CLAMP),
    _backward("Clamp", _CLAMP, "src/dst"),
    _forward("Elu", "x above 0, alpha * (exp(x) - 1) below 0.", attributes=_ELU, traits=_RECTIFIER),
    _backward("Elu", _ELU, "src/dst"),
    _forward("Exp", "e to the power of x.", traits=(*_UNARY, "steep")),
    _forward(
        "GELU",
        "The Gaussian error linear unit: x times the normal distribution's probability below x.",
        attributes=_GELU,
        changes=_GELU_CHANGES,
        traits=_RECTIFIER,
    ),
    _backward("GELU", _GELU, changes=_GELU_CHANGES),
    _forward(
        "HardSigmoid",
        "alpha * x + beta, limited to the range from 0 to 1.",
        attributes=_HARD_SIGMOID,
        traits=(*_UNARY, "squashes"),
    ),
    _backward("HardSigmoid", _HARD_SIGMOID),
    _forward("HardSwish", "x * min(max(x + 3, 0), 6) / 6.", traits=_RECTIFIER),
    _backward("HardSwish"),
    _forward(
        "LeakyReLU",
        "x above 0, alpha * x below 0.",
        attributes=(_required("alpha", "slope below 0", 0.1),),
        traits=_RECTIFIER,
    ),
    _forward("Log", "The natural logarithm."),
    _forward("Mish", "x * tanh(log(1 + exp(x))).", traits=_RECTIFIER),
    _backward("Mish"),
    _forward(
        "Pow",
        "x to the power of beta.",
        attributes=(_required("beta", "the exponent", 2.0),),
        notes=("No CPU kernel runs it: its partition is never supported.",),
    ),
    OpSchema(
        "PReLU",
        "x above 0, slope * x below 0, with a learned slope.",
        inputs=(SRC, Port("slope")),
        infer=shapes.prelu,
        work=work.a_result(1),
        traits=("channelwise", "rectifies"),
        sample_inputs=((2, 4, 4, 8), (8,)),
        attributes=(
            DATA_FORMAT,
            Attribute(
                "per_channel_broadcast",
                "bool",
                "whether a slope of one dim has an entry for each channel",
                default=True,
            ),
        ),
    ),
    OpSchema(
        "PReLUBackward",
        "The gradients of PReLU with respect to its input and its slope.",
        inputs=(SRC, Port("slope"), DIFF_DST),
        outputs=(DIFF_SRC, Port("diff_slope")),
        infer=shapes.prelu_backward,
        work=work.a_source(3),
        traits=("gradient",),
        sample_inputs=((2, 4, 4, 8), (8,), (2, 4, 4, 8)),
        attributes=(DATA_FORMAT,),
    ),
    _forward(
        "Reciprocal",
        "1 / x.",
        notes=("On a CPU it runs only fused with a Multiply.",),
        traits=("elementwise",),
    ),
    _forward("ReLU", "x above 0, 0 elsewhere.", traits=_RECTIFIER),
    _backward("ReLU", first="src/dst"),
    _forward("Round", "The nearest integer; ties go to the even one."),
    _forward("Sigmoid", "1 / (1 + exp(-x)).", traits=_SIGMOID),
    _backward("Sigmoid", first="src/dst"),
    _forward(
        "SoftPlus", "log(1 + exp(beta * x)) / beta.", attributes=_SOFT_PLUS, traits=_RECTIFIER
    ),
    _backward("SoftPlus", _SOFT_PLUS),
    _forward("Sqrt", "The square root."),
    _backward("Sqrt", first="src/dst"),
    _forward("Square", "x * x."),
    _forward("Tanh", "The hyperbolic tangent.", traits=_SIGMOID),
    _backward("Tanh", first="src/dst"),
    OpSchema(
        "GenIndex",
        "The index of each position along an axis.",
        inputs=(Port("src", "T1"),),
        outputs=(Port("dst", "T2"),),
        types={"T1": FLOATS, "T2": ("s32",)},
        infer=shapes.gen_index,
        work=work.none,
        attributes=(
            Attribute("axis", "s64", "the axis; negative counts from the end", True, example=1),
        ),
    ),
    OpSchema(
        "Dropout",
        "Sets random elements to 0, and scales the others to keep the mean.",
        inputs=(
            SRC,
            Port("seed", "T_seed"),
            Port("offset", "T_offset"),
            Port("probability", "T_p"),
        ),
        outputs=(DST, Port("mask", "T_mask", optional=True)),
        types={
            "T": FLOATS,
            "T_seed": ("s64",),
            "T_offset": ("s64",),
            "T_p": ("f32",),
            "T_mask": ("u8",),
        },
        infer=shapes.first,
        work=work.a_source(2),
        sample_inputs=((4, 16), (1,), (1,), (1,)),
        since=(3, 12),
        notes=(
            "The documents say that seed and offset are u64; the library needs s64.",
            "No CPU kernel runs it alone: its partition is not supported.",
        ),
    ),
    _binary("Add", "The sum.", combinations=_ADD_COMBINATIONS, changes=_ADD_CHANGES),
    _binary(
        "Divide",
        "Input 0 divided by input 1.",
        inputs=_MIXED_PORTS,
        outputs=_MIXED_OUTPUT,
        types=_MIXED,
        combinations=_MIXED_COMBINATIONS,
    ),
    _binary(
        "GreaterEqual",
        "Whether input 0 is greater than or equal to input 1.",
        inputs=(Port("src_0", "T1"), Port("src_1", "T1")),
        outputs=(Port("dst", "T2"),),
        types={"T1": _WITH_INTEGERS, "T2": ("boolean",)},
        traits=("elementwise", "binary"),
    ),
    _binary("Maximum", "The larger of both inputs, element by element."),
    _binary("Minimum", "The smaller of both inputs, element by element."),
    _binary(
        "Multiply",
        "The product.",
        inputs=_MIXED_PORTS,
        outputs=_MIXED_OUTPUT,
        types=_MIXED,
        combinations=_MIXED_COMBINATIONS,
    ),
    _binary(
        "SquaredDifference",
        "The square of the difference of both inputs.",
        traits=("elementwise", "binary"),
    ),
    _binary(
        "Subtract", "Input 0 minus input 1.", combinations=_ADD_COMBINATIONS, changes=_ADD_CHANGES
    ),
    OpSchema(
        "Select",
        "Elements of input 1 where the condition is true, of input 2 elsewhere.",
        inputs=(Port("cond", "T1"), Port("src_0", "T2"), Port("src_1", "T2")),
        outputs=(Port("dst", "T2"),),
        types={"T1": ("boolean",), "T2": FLOATS},
        infer=shapes.select,
        work=work.none,
        traits=("elementwise",),
        attributes=(AUTO_BROADCAST,),
        notes=("Inputs 1 and 2 broadcast with each other; the condition broadcasts to both.",),
    ),
    OpSchema(
        "BiasAdd",
        "Adds its bias to each channel.",
        inputs=(Port("src"), Port("bias")),
        infer=shapes.bias_add,
        work=work.a_result(1),
        traits=("channelwise",),
        sample_inputs=((2, 4, 4, 8), (8,)),
        attributes=(DATA_FORMAT,),
    ),
    OpSchema(
        "BiasAddBackward",
        "The gradient of BiasAdd with respect to the bias: the sum over all other axes.",
        inputs=(Port("diff_dst"),),
        outputs=(Port("diff_bias"),),
        infer=shapes.bias_add_backward,
        work=work.a_source(1),
        traits=("gradient",),
        sample_inputs=((2, 4, 4, 8),),
        attributes=(DATA_FORMAT,),
        notes=("No CPU kernel runs it alone: its partition is not supported.",),
    ),
)
