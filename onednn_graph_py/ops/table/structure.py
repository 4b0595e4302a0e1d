"""Rows of the ops that only describe the graph."""

from .. import work
from ..row import Port
from ..schema import OpSchema
from ..shapes import elementwise as shapes

ROWS = (
    OpSchema(
        "Wildcard",
        "Stands for an op that oneDNN does not know; it is a partition that is not supported.",
        inputs=(Port("src", "any", optional=True, variadic=True),),
        outputs=(Port("dst", "any", optional=True, variadic=True),),
        types={},
        infer=shapes.nothing,
        work=work.none,
        traits=("marks",),
    ),
    OpSchema(
        "End",
        "Marks a tensor as used outside the graph, so that its partition outputs it.",
        outputs=(),
        types={"T": ("f32", "f16", "bf16", "s8", "u8", "s32", "undef")},
        infer=shapes.nothing,
        work=work.none,
        traits=("marks",),
    ),
)
