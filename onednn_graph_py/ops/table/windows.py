"""Rows of pooling and interpolation."""

from functools import partial

from .. import rules, work
from ..row import FLOATS, Attribute, Port
from ..schema import OpSchema
from ..shapes import windows as shapes
from .common import (
    AUTO_PAD,
    AUTO_PAD_SPELLING,
    DATA_FORMAT,
    DIFF_SRC,
    PADS_BEGIN,
    PADS_END,
    SRC,
    STRIDES,
)

_KERNEL = Attribute(
    "kernel", "s64[]", "size of the window, per spatial dim", required=True, example=(2, 2)
)
_DILATIONS = Attribute("dilations", "s64[]", "distance between window elements, per spatial dim")
_EXCLUDE_PAD = Attribute(
    "exclude_pad", "bool", "whether the average excludes the padding", required=True, example=True
)
_ROUNDING_TYPE = Attribute(
    "rounding_type",
    "string",
    "how the number of windows is rounded",
    default="floor",
    allowed=("floor", "ceil"),
    unchecked=True,
)
_WINDOW = (STRIDES, PADS_BEGIN, PADS_END)


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
        "AvgPool",
        "The average of each window.",
        infer=shapes.pool,
        work=partial(work.pool, "dst"),
        sample_inputs=((1, 6, 6, 8),),
        attributes=(*_WINDOW, _EXCLUDE_PAD, _KERNEL, DATA_FORMAT, _ROUNDING_TYPE, AUTO_PAD),
        rules=(rules.pads,),
        notes=(AUTO_PAD_SPELLING,),
    ),
    OpSchema(
        "AvgPoolBackward",
        "The gradient of AvgPool.",
        inputs=(Port("diff_dst"), Port("src_shape", "T1", optional=True)),
        outputs=(DIFF_SRC,),
        types={"T": FLOATS, "T1": ("s32",)},
        infer=shapes.avg_pool_backward,
        work=partial(work.pool, "first"),
        traits=("gradient",),
        sample_inputs=((1, 5, 5, 8),),
        sample_attrs={"src_shape": (1, 6, 6, 8)},
        attributes=(
            *_WINDOW,
            _EXCLUDE_PAD,
            _KERNEL,
            AUTO_PAD,
            DATA_FORMAT,
            Attribute("src_shape", "s64[]", "shape of the output"),
        ),
        rules=(rules.pads,),
        notes=(
            AUTO_PAD_SPELLING,
            "On a CPU, a partition with the shape as input 1 instead of the attribute is not "
            "supported.",
        ),
    ),
    OpSchema(
        "MaxPool",
        "The largest element of each window.",
        infer=shapes.pool,
        work=partial(work.pool, "dst"),
        sample_inputs=((1, 6, 6, 8),),
        attributes=(*_WINDOW, _KERNEL, _DILATIONS, DATA_FORMAT, _ROUNDING_TYPE, AUTO_PAD),
        rules=(rules.pads, rules.pool_dilations),
        notes=(AUTO_PAD_SPELLING,),
    ),
    OpSchema(
        "MaxPoolBackward",
        "The gradient of MaxPool: it goes to the first of the largest elements of each window.",
        inputs=(SRC, Port("diff_dst")),
        outputs=(DIFF_SRC,),
        infer=shapes.max_pool_backward,
        work=partial(work.pool, "second"),
        traits=("gradient",),
        sample_inputs=((1, 6, 6, 8), (1, 5, 5, 8)),
        sample_attrs={"dilations": (1, 1)},
        attributes=(*_WINDOW, _KERNEL, AUTO_PAD, _DILATIONS, DATA_FORMAT),
        rules=(rules.pads, rules.pool_dilations),
        notes=(
            AUTO_PAD_SPELLING,
            "Without dilations oneDNN accepts the op but does not compile it; set them to 1.",
        ),
    ),
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
