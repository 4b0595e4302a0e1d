"""The row of MatMul."""

from .. import rules, work
from ..row import FLOATS, Attribute, Change, Port
from ..schema import OpSchema
from ..shapes import products as shapes

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
)
