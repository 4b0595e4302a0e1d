"""Rows of the ops that resize spatial dims."""

from .. import rules, work
from ..row import FLOATS, Attribute, Port
from ..schema import OpSchema
from ..shapes import interpolation as shapes
from .common import DATA_FORMAT

_TYPES = {"T1": FLOATS, "T2": ("s32",)}
_ATTRIBUTES = (
    Attribute(
        "mode",
        "string",
        "method of interpolation",
        required=True,
        example="nearest",
        allowed=("nearest", "linear", "bilinear", "trilinear"),
    ),
    Attribute("sizes", "s64[]", "sizes of the output, per spatial dim"),
    Attribute("scales", "f32[]", "sizes of the output divided by the input's, per spatial dim"),
    Attribute(
        "coordinate_transformation_mode",
        "string",
        "whether coordinates are those of the elements' centres, or align the corner elements",
        default="half_pixel",
        allowed=("half_pixel", "align_corners"),
    ),
    DATA_FORMAT,
)
_NOTES = (
    "Exactly one of the attributes sizes and scales must be given, even with sizes as an input.",
    "Only half_pixel runs on a CPU.",
)

ROWS = (
    OpSchema(
        "Interpolate",
        "Resizes the spatial dims.",
        inputs=(Port("src", "T1"), Port("sizes", "T2", optional=True)),
        outputs=(Port("dst", "T1"),),
        types=_TYPES,
        infer=shapes.interpolate,
        work=work.interpolate,
        sample_inputs=((1, 4, 4, 8),),
        sample_attrs={"sizes": (8, 8)},
        attributes=_ATTRIBUTES,
        rules=(rules.sizes_or_scales,),
        notes=_NOTES,
    ),
    OpSchema(
        "InterpolateBackward",
        "The gradient of Interpolate.",
        inputs=(Port("src", "T1"), Port("diff_dst", "T1"), Port("sizes", "T2", optional=True)),
        outputs=(Port("diff_src", "T1"),),
        types=_TYPES,
        infer=shapes.interpolate_backward,
        work=work.interpolate_backward,
        traits=("gradient",),
        sample_inputs=((1, 4, 4, 8), (1, 8, 8, 8)),
        sample_attrs={"sizes": (8, 8)},
        attributes=_ATTRIBUTES,
        rules=(rules.sizes_or_scales,),
        notes=_NOTES,
    ),
)
