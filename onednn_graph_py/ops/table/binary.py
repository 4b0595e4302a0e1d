"""Rows of the ops on two tensors, element by element."""

from collections.abc import Mapping

from .. import work
from ..row import FLOATS, Change, Port
from ..schema import OpSchema
from ..shapes import elementwise as shapes
from .common import AUTO_BROADCAST, DATA_FORMAT, DST, T

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


def _binary(
    kind: str,
    summary: str,
    inputs: tuple[Port, ...] = (Port("src_0"), Port("src_1")),
    outputs: tuple[Port, ...] = (DST,),
    types: Mapping[str, tuple[str, ...]] = T,
    combinations: tuple[str, ...] = (),
    changes: tuple[Change, ...] = (),
    traits: tuple[str, ...] = ("elementwise", "binary", "epilogue"),
) -> OpSchema:
    return OpSchema(
        kind,
        summary,
        inputs=inputs,
        outputs=outputs,
        types=types,
        infer=shapes.binary,
        work=work.a_result(1),
        attributes=(AUTO_BROADCAST,),
        traits=traits,
        combinations=combinations,
        changes=changes,
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
    _binary("Add", "The sum.", combinations=_ADD_COMBINATIONS, changes=_ADD_CHANGES),
    _binary(
        "Divide",
        "Input 0 divided by input 1.",
        _MIXED_PORTS,
        _MIXED_OUTPUT,
        _MIXED,
        combinations=_MIXED_COMBINATIONS,
    ),
    _binary(
        "GreaterEqual",
        "Whether input 0 is greater than or equal to input 1.",
        (Port("src_0", "T1"), Port("src_1", "T1")),
        (Port("dst", "T2"),),
        {"T1": _WITH_INTEGERS, "T2": ("boolean",)},
        traits=("elementwise", "binary"),
    ),
    _binary("Maximum", "The larger of both inputs, element by element."),
    _binary("Minimum", "The smaller of both inputs, element by element."),
    _binary(
        "Multiply",
        "The product.",
        _MIXED_PORTS,
        _MIXED_OUTPUT,
        _MIXED,
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
