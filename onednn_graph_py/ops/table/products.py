"""Rows of MatMul and the convolutions."""

from functools import partial

from .. import rules, work
from ..row import FLOATS, Attribute, Change, Port
from ..schema import OpSchema
from ..shapes import products as shapes
from .common import AUTO_PAD, AUTO_PAD_SPELLING, DATA_FORMAT, PADS_BEGIN, PADS_END, STRIDES

_GEOMETRY = (
    STRIDES,
    PADS_BEGIN,
    PADS_END,
    Attribute(
        "dilations",
        "s64[]",
        "distance between window elements, per spatial dim",
        required=True,
        example=(1, 1),
    ),
    AUTO_PAD,
    Attribute("groups", "s64", "number of groups of channels", default=1),
    DATA_FORMAT,
)

_CONVOLUTION = (
    *_GEOMETRY,
    Attribute(
        "weights_format",
        "string",
        "order of the weights' dims: spatial, input channels, output channels, or the reverse",
        default="XIO",
        allowed=("XIO", "OIX"),
    ),
)
_TRANSPOSED = (
    *_GEOMETRY,
    Attribute(
        "weights_format",
        "string",
        "order of the weights' dims: spatial, output channels, input channels, or the reverse",
        default="XOI",
        allowed=("XOI", "IOX"),
    ),
)

_OUTPUT_PADDING = Attribute(
    "output_padding", "s64[]", "elements added at the output's end, per spatial dim"
)
_WEIGHTS_SHAPE = Attribute("weights_shape", "s64[]", "shape of the output")

_BACKWARD_TYPES = {"T1": FLOATS, "T2": ("s32",)}
_FOR_WEIGHTS = (
    Port("src", "T1"),
    Port("diff_dst", "T1"),
    Port("weights_shape", "T2", optional=True),
)

_TRANSPOSED_NOTES = (
    AUTO_PAD_SPELLING,
    "The documents call the weights formats OIX and XIO; the library accepts only IOX and XOI.",
    "In the library, grouped IOX weights are (IC, OC / groups, spatial), not (IC / groups, OC, "
    "spatial) as documented.",
)
_NO_OUTPUT_PADDING = "The documents list output_padding, but the library rejects it."
_SHAPE_AS_INPUT = (
    "On a CPU, a partition with the shape as the last input instead of the attribute is not "
    "supported."
)


ROWS = (
    OpSchema(
        "MatMul",
        "The matrix product of the last two dims, batched over the others, plus the bias.",
        inputs=(Port("src"), Port("weights"), Port("bias", optional=True)),
        infer=shapes.matmul,
        work=work.matmul,
        traits=("product",),
        sample_inputs=((4, 16), (16, 8)),
        attributes=(
            Attribute("transpose_a", "bool", "swap the last two dims of src first", default=False),
            Attribute(
                "transpose_b", "bool", "swap the last two dims of weights first", default=False
            ),
            Attribute(
                "accumulation_mode",
                "string",
                "the data type of sums",
                default="strict",
                allowed=("strict", "relaxed", "any", "f32", "s32", "f16"),
                since=(3, 10),
            ),
        ),
        combinations=("f32, f32, f32, f32", "bf16, bf16, bf16, f32|bf16", "f16, f16, f16, f32|f16"),
        changes=(
            Change(
                (3, 8),
                "an f32 output of bf16 and f16 inputs",
                outputs=(Port("dst", "T1"),),
                types={"T": FLOATS, "T1": FLOATS},
                rules=(rules.output_types,),
            ),
            Change((3, 10), "the attribute accumulation_mode"),
        ),
    ),
    OpSchema(
        "Convolution",
        "Slides windows of weights over the spatial dims (cross-correlation) and adds the bias.",
        inputs=(Port("src"), Port("weights"), Port("bias", optional=True)),
        infer=shapes.convolution,
        work=partial(work.windows, "outputs", 0, "inputs", 1),
        traits=("product",),
        sample_inputs=((1, 6, 6, 8), (3, 3, 8, 16)),
        attributes=_CONVOLUTION,
        rules=(rules.pads,),
        notes=(AUTO_PAD_SPELLING,),
    ),
    OpSchema(
        "ConvolutionBackwardData",
        "The gradient of Convolution with respect to src.",
        inputs=(
            Port("diff_dst", "T1"),
            Port("weights", "T1"),
            Port("dst_shape", "T2", optional=True),
        ),
        outputs=(Port("diff_src", "T1"),),
        types=_BACKWARD_TYPES,
        infer=shapes.convolution_backward_data,
        work=partial(work.windows, "inputs", 0, "inputs", 1),
        traits=("product", "gradient"),
        sample_inputs=((1, 4, 4, 16), (3, 3, 8, 16)),
        sample_attrs={"dst_shape": (1, 6, 6, 8)},
        attributes=(
            _OUTPUT_PADDING,
            Attribute("dst_shape", "s64[]", "shape of the output"),
            *_CONVOLUTION,
        ),
        rules=(rules.pads,),
        notes=(AUTO_PAD_SPELLING, _SHAPE_AS_INPUT),
    ),
    OpSchema(
        "ConvolutionBackwardWeights",
        "The gradient of Convolution with respect to the weights.",
        inputs=_FOR_WEIGHTS,
        outputs=(Port("diff_weights", "T1"),),
        types=_BACKWARD_TYPES,
        infer=shapes.convolution_backward_weights,
        work=partial(work.windows, "inputs", 1, "outputs", 0),
        traits=("product", "gradient"),
        sample_inputs=((1, 6, 6, 8), (1, 4, 4, 16)),
        sample_attrs={"weights_shape": (3, 3, 8, 16)},
        attributes=(_WEIGHTS_SHAPE, *_CONVOLUTION),
        rules=(rules.pads,),
        notes=(AUTO_PAD_SPELLING, _SHAPE_AS_INPUT),
    ),
    OpSchema(
        "ConvTranspose",
        "The transposed convolution: each element of src spreads a window of weights.",
        inputs=(Port("src"), Port("weights"), Port("bias", optional=True)),
        infer=shapes.convolution,
        work=partial(work.windows, "inputs", 0, "inputs", 1),
        traits=("product",),
        sample_inputs=((1, 4, 4, 8), (3, 3, 16, 8)),
        attributes=(_OUTPUT_PADDING, *_TRANSPOSED),
        rules=(rules.pads,),
        notes=_TRANSPOSED_NOTES,
    ),
    OpSchema(
        "ConvTransposeBackwardData",
        "The gradient of ConvTranspose with respect to src.",
        inputs=(Port("diff_dst"), Port("weights")),
        outputs=(Port("diff_src"),),
        infer=shapes.conv_transpose_backward_data,
        work=partial(work.windows, "outputs", 0, "inputs", 1),
        traits=("product", "gradient"),
        sample_inputs=((1, 6, 6, 16), (3, 3, 16, 8)),
        attributes=_TRANSPOSED,
        rules=(rules.pads,),
        notes=(*_TRANSPOSED_NOTES, _NO_OUTPUT_PADDING),
    ),
    OpSchema(
        "ConvTransposeBackwardWeights",
        "The gradient of ConvTranspose with respect to the weights.",
        inputs=_FOR_WEIGHTS,
        outputs=(Port("diff_weights", "T1"),),
        types=_BACKWARD_TYPES,
        infer=shapes.convolution_backward_weights,
        work=partial(work.windows, "inputs", 0, "outputs", 0),
        traits=("product", "gradient"),
        sample_inputs=((1, 4, 4, 8), (1, 6, 6, 16)),
        sample_attrs={"weights_shape": (3, 3, 16, 8)},
        attributes=(_WEIGHTS_SHAPE, *_TRANSPOSED),
        rules=(rules.pads,),
        notes=(*_TRANSPOSED_NOTES, _NO_OUTPUT_PADDING, _SHAPE_AS_INPUT),
    ),
)
