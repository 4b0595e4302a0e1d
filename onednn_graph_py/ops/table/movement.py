"""Rows of the reductions, of ops that move elements or quantize them, and of marks."""

from functools import partial

from .. import rules, work
from ..row import FLOATS, Attribute, Port
from ..schema import OpSchema
from ..shapes import elementwise, movement

_reduction = partial(
    OpSchema,
    inputs=(Port("src", "T1"), Port("axes", "T2", optional=True)),
    outputs=(Port("dst", "T1"),),
    types={"T1": FLOATS, "T2": ("s32",)},
    infer=movement.reduce,
    work=work.a_source(1),
    traits=("reduces",),
    sample_attrs={"axes": (1,)},
    attributes=(
        Attribute("axes", "s64[]", "the axes to reduce; negative counts from the end"),
        Attribute("keep_dims", "bool", "whether reduced dims stay, as 1", default=False),
    ),
    rules=(rules.axes_once,),
    notes=(
        "oneDNN gives the attribute axes a default, so it never reads axes from an input; and it "
        "does not compile an empty list.",
    ),
)

_EIGHT_BITS = ("u8", "s8", "f8_e5m2", "f8_e4m3")
_qtype = partial(
    Attribute,
    "qtype",
    "string",
    "the parts with their own scales",
    default="per_tensor",
    unchecked=True,
)
_AXIS = Attribute(
    "axis", "s64", "the channels' axis, for per_channel; negative counts from the end", default=1
)
_STATIC = (
    _qtype(allowed=("per_tensor", "per_channel")),
    _AXIS,
    Attribute(
        "scales", "f32[]", "one for the tensor, or per channel", required=True, example=(0.1,)
    ),
    Attribute("zps", "s64[]", "zero points, as many as scales; none for f8"),
)
_STATIC_NOTES = (
    "Alone, per channel with zero points other than 0, oneDNN does not compile it on a CPU; models "
    "scale and shift by separate ops.",
)


ROWS = (
    _reduction("ReduceL1", "The sum of absolute values over some axes.", work=work.a_source(2)),
    _reduction("ReduceL2", "The root of the sum of squares over some axes.", work=work.a_source(2)),
    _reduction("ReduceMax", "The largest element over some axes."),
    _reduction("ReduceMean", "The mean over some axes."),
    _reduction("ReduceMin", "The smallest element over some axes."),
    _reduction("ReduceProd", "The product over some axes."),
    _reduction("ReduceSum", "The sum over some axes."),
    OpSchema(
        "Concat",
        "Joins tensors along an axis.",
        inputs=(Port("src_i", variadic=True),),
        infer=movement.concat,
        work=work.none,
        traits=("keeps",),
        sample_inputs=((4, 16), (4, 16)),
        attributes=(
            Attribute(
                "axis", "s64", "the axis; negative counts from the end", required=True, example=1
            ),
        ),
        input_counts=tuple(range(1, 65)),
    ),
    OpSchema(
        "Reorder",
        "Copies into another memory layout.",
        infer=elementwise.same,
        work=work.none,
        traits=("moves", "keeps", "elementwise"),
        notes=("A reorder into an opaque layout copies the bytes unchanged: wrong results.",),
    ),
    OpSchema(
        "StaticReshape",
        "Gives a tensor another shape; elements keep their row-major order.",
        infer=movement.reshape,
        work=work.none,
        traits=("moves", "keeps"),
        attributes=(
            Attribute(
                "shape",
                "s64[]",
                "the new shape; one dim may be -1 and is then inferred",
                required=True,
                example=(16, 4),
            ),
            Attribute(
                "special_zero",
                "bool",
                "whether a 0 in shape copies the input's dim instead of meaning a size of 0",
                required=True,
                example=False,
            ),
        ),
    ),
    OpSchema(
        "StaticTranspose",
        "Permutes the axes.",
        infer=movement.transpose,
        work=work.none,
        traits=("moves", "keeps"),
        attributes=(
            Attribute(
                "order",
                "s64[]",
                "for each axis of the output, the input's axis; negative counts from the end",
                required=True,
                example=(1, 0),
            ),
        ),
    ),
    OpSchema(
        "TypeCast",
        "Converts to another data type, rounding to nearest even.",
        inputs=(Port("src", "T1"),),
        outputs=(Port("dst", "T2"),),
        types={"T1": FLOATS, "T2": FLOATS},
        infer=elementwise.same,
        work=work.none,
        traits=("keeps", "elementwise", "converts"),
        rules=(rules.type_cast_types,),
        combinations=("bf16|f16, f32", "f32, bf16|f16"),
    ),
    OpSchema(
        "Quantize",
        "round(src / scale) + zero point, saturated.",
        inputs=(Port("src", "T1"),),
        outputs=(Port("dst", "T2"),),
        types={"T1": ("f32",), "T2": _EIGHT_BITS},
        infer=movement.quantize,
        work=work.quantization,
        traits=("converts", "quantizes"),
        attributes=_STATIC,
        rules=(rules.static_quantization,),
        notes=_STATIC_NOTES,
    ),
    OpSchema(
        "Dequantize",
        "(src - zero point) * scale.",
        inputs=(Port("src", "T1"),),
        outputs=(Port("dst", "T2"),),
        types={"T1": _EIGHT_BITS, "T2": ("f32",)},
        infer=movement.quantize,
        work=work.quantization,
        traits=("converts", "dequantizes"),
        attributes=_STATIC,
        rules=(rules.static_quantization,),
        notes=_STATIC_NOTES,
    ),
    OpSchema(
        "DynamicQuantize",
        "round(src / scale) + zero point, saturated; scales and zero points are inputs.",
        inputs=(Port("src", "T1"), Port("scales", "T1"), Port("zps", "T2", optional=True)),
        outputs=(Port("dst", "T3"),),
        types={"T1": ("f32",), "T2": ("u8", "s8", "s32"), "T3": ("u8", "s8")},
        infer=movement.dynamic_quantize,
        work=work.quantization,
        traits=("converts", "quantizes"),
        sample_inputs=((4, 16), (1,)),
        attributes=(_qtype(allowed=("per_tensor", "per_channel")), _AXIS),
        rules=(rules.dynamic_quantization,),
    ),
    OpSchema(
        "DynamicDequantize",
        "(src - zero point) * scale; scales and zero points are inputs.",
        inputs=(Port("src", "T1"), Port("scales", "T2"), Port("zps", "T3", optional=True)),
        outputs=(Port("dst", "T2"),),
        types={
            "T1": ("u8", "s8", "s4", "u4"),
            "T2": ("bf16", "f16", "f32"),
            "T3": ("u4", "s4", "u8", "s8", "s32"),
        },
        infer=movement.dynamic_quantize,
        work=work.quantization,
        traits=("converts", "dequantizes"),
        sample_inputs=((4, 16), (1,)),
        attributes=(
            _qtype(allowed=("per_tensor", "per_channel", "per_group")),
            _AXIS,
            Attribute("group_shape", "s64[]", "size of a group along each dim, for per_group"),
        ),
        rules=(rules.dynamic_quantization,),
        combinations=(
            "s8, f16|bf16|f32, s8|u8|s32, as scales",
            "u8, f16|bf16|f32, s8|u8|s32, as scales",
            "s4, f16|bf16|f32, s4|u4|s32, as scales",
            "u4, f16|bf16|f32, s4|u4|s32, as scales",
        ),
    ),
    OpSchema(
        "Wildcard",
        "Stands for an op that oneDNN does not know; it is a partition that is not supported.",
        inputs=(Port("src", "any", optional=True, variadic=True),),
        outputs=(Port("dst", "any", optional=True, variadic=True),),
        types={},
        infer=elementwise.nothing,
        work=work.none,
        traits=("marks",),
    ),
    OpSchema(
        "End",
        "Marks a tensor as used outside the graph, so that its partition outputs it.",
        outputs=(),
        types={"T": ("f32", "f16", "bf16", "s8", "u8", "s32", "undef")},
        infer=elementwise.nothing,
        work=work.none,
        traits=("marks",),
    ),
)
