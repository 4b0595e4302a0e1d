"""Rows of the reductions."""

from .. import rules, work
from ..row import FLOATS, Attribute, Port
from ..schema import OpSchema
from ..shapes import movement as shapes


def _reduction(kind: str, summary: str, operations: int = 1) -> OpSchema:
    return OpSchema(
        kind,
        summary,
        inputs=(Port("src", "T1"), Port("axes", "T2", optional=True)),
        outputs=(Port("dst", "T1"),),
        types={"T1": FLOATS, "T2": ("s32",)},
        infer=shapes.reduce,
        work=work.a_source(operations),
        traits=("reduces",),
        sample_attrs={"axes": (1,)},
        attributes=(
            Attribute("axes", "s64[]", "the axes to reduce; negative counts from the end"),
            Attribute("keep_dims", "bool", "whether reduced dims stay, as 1", default=False),
        ),
        rules=(rules.axes_once,),
        notes=(
            "oneDNN gives the attribute axes a default, so it never reads axes from an input; "
            "and it does not compile an empty list.",
        ),
    )


ROWS = (
    _reduction("ReduceL1", "The sum of absolute values over some axes.", 2),
    _reduction("ReduceL2", "The root of the sum of squares over some axes.", 2),
    _reduction("ReduceMax", "The largest element over some axes."),
    _reduction("ReduceMean", "The mean over some axes."),
    _reduction("ReduceMin", "The smallest element over some axes."),
    _reduction("ReduceProd", "The product over some axes."),
    _reduction("ReduceSum", "The sum over some axes."),
)
