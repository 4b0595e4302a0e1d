"""Rows of the quantization ops."""

from .. import rules, work
from ..row import Attribute, Port
from ..schema import OpSchema
from ..shapes import quantization as shapes

_EIGHT_BITS = ("u8", "s8", "f8_e5m2", "f8_e4m3")


def _qtype(*allowed: str) -> Attribute:
    return Attribute(
        "qtype",
        "string",
        "the parts with their own scales",
        default="per_tensor",
        allowed=allowed,
        unchecked=True,
    )


_AXIS = Attribute(
    "axis", "s64", "the channels' axis, for per_channel; negative counts from the end", default=1
)
_STATIC = (
    _qtype("per_tensor", "per_channel"),
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
    OpSchema(
        "Quantize",
        "round(src / scale) + zero point, saturated.",
        inputs=(Port("src", "T1"),),
        outputs=(Port("dst", "T2"),),
        types={"T1": ("f32",), "T2": _EIGHT_BITS},
        infer=shapes.quantize,
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
        infer=shapes.quantize,
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
        infer=shapes.dynamic_quantize,
        work=work.quantization,
        traits=("converts", "quantizes"),
        sample_inputs=((4, 16), (1,)),
        attributes=(_qtype("per_tensor", "per_channel"), _AXIS),
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
        infer=shapes.dynamic_quantize,
        work=work.quantization,
        traits=("converts", "dequantizes"),
        sample_inputs=((4, 16), (1,)),
        attributes=(
            _qtype("per_tensor", "per_channel", "per_group"),
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
)
