"""A gated MLP whose gate and up weights lie side by side in one buffer.

That is how checkpoints often keep them: a matrix of (ic, 2 * oc), its left half gate and its right
half up. oneDNN reads both where they are: each is a logical tensor of (ic, oc) whose strides are
those of the whole, and a tensor over its half of the buffer, without a copy.
"""

from collections.abc import Iterator

import numpy as np

from .. import GraphBuilder
from ..base.dtypes import numpy_dtype
from ._attention import scores_type
from ._gated_mlp import SIZES_IN_ALL, draw
from ._run import DATA_TYPES, BuiltRun, Case, Skipped, cannot_run

__all__ = ["SIZES_IN_ALL", "run"]


def _build(engine_kind: str, data_type: str, mb: int, ic: int, oc: int) -> GraphBuilder:
    # An f32 result of a bf16 or f16 MatMul is allowed from 3.8 on; down takes the small type.
    between = scores_type(data_type)
    b = GraphBuilder(engine_kind)
    x = b.input((mb, ic), data_type, name="x")
    gated, raised = (
        b.matmul(x, b.input((ic, oc), data_type, name=n, strides=(2 * oc, 1)), dtype=between)
        for n in ("gate", "up")
    )
    down = b.input((oc, ic), data_type, name="down")
    hidden = gated * b.sigmoid(gated) * raised
    if between != data_type:
        hidden = b.type_cast(hidden, dtype=data_type)
    b.output(y=b.matmul(hidden, down))
    return b


def _case(name: str, b: GraphBuilder, mb: int, ic: int, oc: int) -> Case:
    data_type = b.inputs[0].dtype
    x, combined, down = draw(mb, ic, oc, numpy_dtype(data_type))
    gate, up = np.hsplit(combined, 2)
    facts = [
        f"gate and up: two views of one buffer of {combined.nbytes} bytes",
        f"between the MatMuls: {scores_type(data_type)}",
    ]
    return BuiltRun(b, {"x": x, "gate": gate, "up": up, "down": down}).case(name, facts)


def run(
    engine_kind: str = "cpu", mb: int = 1, ic: int = 4096, oc: int = 14336
) -> Iterator[Case | Skipped]:
    """Run in each data type; each takes the memory of its three matrices, in turn."""
    for data_type in DATA_TYPES:
        name = f"{data_type}, mb {mb}, ic {ic}, oc {oc}"
        b = _build(engine_kind, data_type, mb, ic, oc)
        yield cannot_run(name, data_type, b.graph) or _case(name, b, mb, ic, oc)
