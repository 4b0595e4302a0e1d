"""Rows of the ops that move elements and change their type."""

from .. import rules, work
from ..row import FLOATS, Attribute, Port
from ..schema import OpSchema
from ..shapes import elementwise, movement

ROWS = (
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
)
