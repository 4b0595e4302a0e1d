"""Rows of normalization and softmax."""

from functools import partial

from .. import rules, work
from ..row import FLOATS, Attribute, Change, Port
from ..schema import OpSchema
from ..shapes import normalization as shapes
from .common import DATA_FORMAT, EPSILON, NORM_TYPES, OPTIONAL_EPSILON

_DATA = Port("src", "T1")
_RESULT = Port("dst", "T1")
_GRADIENT = Port("diff_dst", "T1")


def _parameters(*names: str, optional: bool = False) -> tuple[Port, ...]:
    return tuple(Port(name, "T2", optional=optional) for name in names)


_AFFINE = _parameters("gamma", "beta", optional=True)
_STATISTICS = _parameters("mean", "variance", optional=True)

_KEEP_STATS = Attribute("keep_stats", "bool", "whether mean and variance are outputs", default=True)
_USE_AFFINE = Attribute("use_affine", "bool", "whether gamma and beta are inputs", default=True)
_BEGIN_NORM_AXIS = Attribute(
    "begin_norm_axis",
    "s64",
    "first of the normalized axes; negative counts from the end",
    default=-1,
)
_BATCH_NORM_NOTES = ("On a CPU all parameters must be f32.",)
_softmax_axis = partial(
    Attribute, "axis", "s64", "the axis that sums to 1; negative counts from the end"
)


ROWS = (
    OpSchema(
        "BatchNormInference",
        "Normalizes each channel with given statistics, then scales and shifts it.",
        inputs=(_DATA, *_parameters("gamma", "beta", "mean", "variance")),
        outputs=(_RESULT,),
        types=NORM_TYPES,
        infer=shapes.batch_norm_inference,
        # Product with a factor, sum with a shift, both made of the four parameters beforehand.
        work=work.a_source(2),
        traits=("channelwise",),
        sample_inputs=((2, 4, 4, 8), *((8,),) * 4),
        attributes=(EPSILON, DATA_FORMAT),
        rules=(rules.norm_types,),
        notes=_BATCH_NORM_NOTES,
    ),
    OpSchema(
        "BatchNormForwardTraining",
        "Normalizes each channel with its statistics in the batch, and updates running statistics.",
        inputs=(_DATA, *_parameters("mean", "variance"), *_AFFINE),
        outputs=(
            _RESULT,
            *_parameters("running_mean", "running_variance", "batch_mean", "batch_variance"),
        ),
        types=NORM_TYPES,
        infer=shapes.batch_norm_training,
        work=work.normalization,
        traits=("normalizes",),
        sample_inputs=((2, 4, 4, 8), *((8,),) * 4),
        sample_attrs={"momentum": 0.9},
        attributes=(
            EPSILON,
            Attribute("momentum", "f32", "weight of the old running statistics in the new ones"),
            DATA_FORMAT,
        ),
        rules=(rules.norm_types,),
        notes=(*_BATCH_NORM_NOTES, "oneDNN accepts 4 inputs, but compiles only 3 or 5."),
    ),
    OpSchema(
        "BatchNormTrainingBackward",
        "The gradients of BatchNormForwardTraining.",
        inputs=(
            _DATA,
            _GRADIENT,
            *_parameters("mean", "variance"),
            *_parameters("gamma", optional=True),
        ),
        outputs=(Port("diff_src", "T1"), *_parameters("diff_gamma", "diff_beta", optional=True)),
        types=NORM_TYPES,
        infer=shapes.batch_norm_backward,
        # Normalized again (2), summed with and without the gradient (3), three terms with their
        # factors (5).
        work=work.a_source(10),
        traits=("gradient",),
        sample_inputs=((2, 4, 4, 8), (2, 4, 4, 8), *((8,),) * 3),
        attributes=(EPSILON, DATA_FORMAT),
        rules=(rules.norm_types,),
        notes=(*_BATCH_NORM_NOTES, "oneDNN accepts 2 outputs, but compiles only 1 or 3."),
    ),
    OpSchema(
        "LayerNorm",
        "Normalizes over the last dims of each sample.",
        inputs=(_DATA, *_AFFINE),
        outputs=(_RESULT, *_STATISTICS),
        types=NORM_TYPES,
        infer=shapes.layer_norm,
        work=work.normalization,
        traits=("normalizes",),
        sample_inputs=((4, 16), (16,), (16,)),
        attributes=(_KEEP_STATS, _BEGIN_NORM_AXIS, _USE_AFFINE, OPTIONAL_EPSILON),
        rules=(rules.norm_types, rules.norm_statistics),
        input_counts=(1, 3),
        output_counts=(1, 3),
        notes=("On a CPU: rank 2 to 5, the last dim only, parameters in f32.",),
    ),
    OpSchema(
        "LayerNormBackward",
        "The gradients of LayerNorm.",
        inputs=(_DATA, _GRADIENT, *_parameters("mean", "variance"), *_AFFINE),
        outputs=(Port("diff_src", "T1"), *_parameters("diff_gamma", "diff_beta", optional=True)),
        types=NORM_TYPES,
        infer=shapes.layer_norm_backward,
        # As BatchNormTrainingBackward.
        work=work.a_source(10),
        traits=("gradient",),
        sample_inputs=((4, 16), (4, 16), (4,), (4,), (16,), (16,)),
        attributes=(_BEGIN_NORM_AXIS, _USE_AFFINE, OPTIONAL_EPSILON),
        rules=(rules.norm_types, rules.norm_gradients),
        output_counts=(1, 3),
        notes=("On a CPU: rank 2 to 5, the last dim only, parameters in f32.",),
    ),
    OpSchema(
        "GroupNorm",
        "Normalizes groups of channels of each sample.",
        inputs=(_DATA, *_AFFINE),
        outputs=(_RESULT, *_STATISTICS),
        types=NORM_TYPES,
        infer=shapes.group_norm,
        work=work.normalization,
        traits=("normalizes",),
        sample_inputs=((2, 4, 4, 8), (8,), (8,)),
        attributes=(
            _KEEP_STATS,
            Attribute("groups", "s64", "groups of channels", required=True, example=4),
            _USE_AFFINE,
            OPTIONAL_EPSILON,
            DATA_FORMAT,
        ),
        rules=(rules.norm_types, rules.norm_statistics),
        input_counts=(1, 3),
        output_counts=(1, 3),
    ),
    OpSchema(
        "RMSNorm",
        "Divides by the root of the mean square over the last dims, then scales.",
        inputs=(_DATA, *_parameters("gamma", optional=True)),
        outputs=(_RESULT,),
        types={"T1": FLOATS, "T2": FLOATS},
        infer=shapes.rms_norm,
        work=work.rms,
        traits=("normalizes",),
        sample_inputs=((4, 16), (16,)),
        attributes=(_BEGIN_NORM_AXIS, OPTIONAL_EPSILON),
        rules=(rules.norm_types,),
        since=(3, 11),
    ),
    OpSchema(
        "SoftMax",
        "Exponentials along an axis, scaled to sum to 1.",
        infer=shapes.softmax,
        # Maximum, difference, exponential, sum, quotient.
        work=work.a_source(5),
        traits=("squashes", "steep"),
        attributes=(
            _softmax_axis(default=1),
            Attribute(
                "mode",
                "string",
                "the result along an axis that is all -inf: nan (none), or 0 (inf_as_zero)",
                default="none",
                allowed=("none", "inf_as_zero"),
                since=(3, 8),
            ),
        ),
        combinations=("f32, f32|bf16|f16, f32", "bf16, f32|bf16, f32", "f16, f32|f16, f32"),
        changes=(
            Change(
                (3, 8),
                "an output of another type than the input; the attribute mode",
                inputs=(Port("src", "T1"),),
                outputs=(Port("dst", "T2"),),
                types={"T1": FLOATS, "T2": FLOATS},
                rules=(rules.softmax_types,),
            ),
            Change(
                (3, 9),
                "the output stats: the logarithm of the sum of exponentials",
                outputs=(Port("dst", "T2"), Port("stats", "T3", optional=True)),
                types={"T1": FLOATS, "T2": FLOATS, "T3": ("f32",)},
            ),
        ),
    ),
    OpSchema(
        "SoftMaxBackward",
        "The gradient of SoftMax.",
        inputs=(Port("diff_dst"), Port("dst")),
        outputs=(Port("diff_src"),),
        infer=shapes.softmax_backward,
        # Product, sum, difference, product.
        work=work.a_source(4),
        traits=("gradient",),
        attributes=(_softmax_axis(default=1),),
        combinations=("f32, f32, f32", "bf16, bf16, f32|bf16", "f16, f16, f32|f16"),
        changes=(
            Change(
                (3, 9),
                "an f32 gradient of bf16 and f16 inputs",
                inputs=(Port("diff_dst", "T1"), Port("dst", "T1")),
                outputs=(Port("diff_src", "T2"),),
                types={"T1": FLOATS, "T2": FLOATS},
                rules=(rules.output_types,),
            ),
        ),
    ),
    OpSchema(
        "LogSoftmax",
        "The logarithm of SoftMax.",
        infer=shapes.softmax,
        # Maximum, difference, exponential, sum, difference.
        work=work.a_source(5),
        traits=("steep",),
        attributes=(_softmax_axis(default=-1),),
    ),
    OpSchema(
        "LogSoftmaxBackward",
        "The gradient of LogSoftmax.",
        inputs=(Port("diff_dst"), Port("dst")),
        outputs=(Port("diff_src"),),
        infer=shapes.softmax_backward,
        # Sum, exponential, product, difference.
        work=work.a_source(4),
        traits=("gradient",),
        attributes=(_softmax_axis(default=-1),),
    ),
)
