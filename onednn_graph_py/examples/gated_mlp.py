"""A gated MLP with swish, as in Llama: three MatMuls and what lies between, one partition.

MatMul (gate), Sigmoid and Multiply (swish), MatMul (up), Multiply, MatMul (down). The sizes are
those of oneDNN's own example: one token, 4096 features, 14336 hidden ones.
"""

from collections.abc import Iterator

import numpy as np

from .. import blocks
from ..base.dtypes import numpy_dtype
from ..model.building.builder import GraphBuilder
from ._gated_mlp import SIZES_IN_ALL, draw
from ._run import DATA_TYPES, BuiltRun, Case, Skipped, cannot_run

__all__ = ["SIZES_IN_ALL", "run"]


def _build(engine_kind: str, data_type: str, mb: int, ic: int, oc: int) -> GraphBuilder:
    b = GraphBuilder(engine_kind)
    x = b.input((mb, ic), data_type, name="x")
    gate = b.input((ic, oc), data_type, name="gate")
    up = b.input((ic, oc), data_type, name="up")
    down = b.input((oc, ic), data_type, name="down")
    b.output(y=blocks.gated_mlp(x, gate, up, down))
    return b


def _case(name: str, builder: GraphBuilder, mb: int, ic: int, oc: int) -> Case:
    x, gate_and_up, down = draw(mb, ic, oc, numpy_dtype(builder.inputs[0].dtype))
    gate, up = (np.ascontiguousarray(half) for half in np.hsplit(gate_and_up, 2))
    return BuiltRun(builder, {"x": x, "gate": gate, "up": up, "down": down}).case(name)


def run(
    engine_kind: str = "cpu", mb: int = 1, ic: int = 4096, oc: int = 14336
) -> Iterator[Case | Skipped]:
    """Run in each data type; each takes the memory of its three matrices, in turn."""
    for data_type in DATA_TYPES:
        name = f"{data_type}, mb {mb}, ic {ic}, oc {oc}"
        builder = _build(engine_kind, data_type, mb, ic, oc)
        yield cannot_run(name, data_type, builder.graph) or _case(name, builder, mb, ic, oc)
