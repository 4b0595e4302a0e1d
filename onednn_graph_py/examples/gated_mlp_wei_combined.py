"""A gated MLP whose gate and up weights lie side by side in one buffer.

That is how checkpoints often keep them: a matrix of (ic, 2 * oc), its left half gate and its right
half up. oneDNN reads both where they are: each is a logical tensor of (ic, oc) whose strides are
those of the whole, and a tensor over its half of the buffer, without a copy.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .. import GraphBuilder, Value
from ..base.dtypes import numpy_dtype
from ._attention import scores_type
from ._gated_mlp import SIZES_IN_ALL, draw
from ._run import DATA_TYPES, Case, Pipeline, Skipped, cannot_run, checked

__all__ = ["SIZES_IN_ALL", "run"]


def _build(
    engine_kind: str, data_type: str, mb: int, ic: int, oc: int, between: str
) -> tuple[GraphBuilder, Value]:
    b = GraphBuilder(engine_kind)
    x = b.input((mb, ic), data_type)
    gate, up = (b.input((ic, oc), data_type, strides=(2 * oc, 1)) for _ in range(2))
    down = b.input((oc, ic), data_type)
    gated, raised = (b.matmul(x, half, dtype=between) for half in (gate, up))
    hidden = gated * b.sigmoid(gated) * raised
    if between != data_type:
        hidden = b.type_cast(hidden, dtype=data_type)
    return b, b.matmul(hidden, down)


def _case(name: str, b: GraphBuilder, result: Value, between: str) -> Case:
    (mb, ic), (oc, _) = (v.shape or () for v in (b.inputs[0], b.inputs[3]))
    x, combined, down = draw(mb, ic, oc, numpy_dtype(result.dtype))
    gate, up = np.hsplit(combined, 2)
    arrays = {v.id: a for v, a in zip(b.inputs, (x, gate, up, down), strict=True)}
    facts = [
        f"gate and up: two views of one buffer of {combined.nbytes} bytes",
        f"between the MatMuls: {between}",
    ]
    return Pipeline.of(b, [result]).bind(arrays).case(name, b.graph.get_ops(), facts)


@checked
def run(
    engine_kind: str = "cpu", mb: int = 1, ic: int = 4096, oc: int = 14336
) -> Iterator[Case | Skipped]:
    """Run in each data type; each takes the memory of its three matrices, in turn."""
    for data_type in DATA_TYPES:
        name = f"{data_type}, mb {mb}, ic {ic}, oc {oc}"
        # An f32 result of a bf16 or f16 MatMul is allowed from 3.8 on; down takes the small type.
        between = scores_type(data_type)
        b, result = _build(engine_kind, data_type, mb, ic, oc, between)
        yield cannot_run(name, data_type, b.graph) or _case(name, b, result, between)
