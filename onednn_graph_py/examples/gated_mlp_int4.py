"""A gated MLP with weights of 4-bit integers, decompressed inside the one partition.

Weights are u4; a row has a scale and a u8 zero point for every `group` columns. DynamicDequantize
turns them into the numbers that MatMul takes, and oneDNN fuses it: only the integers lie in memory.
The sizes are those of oneDNN's own example: one token, 4096 features, 14336 hidden ones, groups of
128.
"""

from collections.abc import Iterator

import ml_dtypes
import numpy as np

from .. import blocks
from ..base.dtypes import numpy_dtype
from ..base.errors import InvalidArgumentsError
from ..model.building.builder import GraphBuilder
from ..model.building.value import Value
from . import _gated_mlp
from ._run import DATA_TYPES, Array, BuiltRun, Case, Skipped, cannot_run, normal

# At oneDNN's sizes a run takes seconds: on a CPU oneDNN has only its reference kernel for this.
SIZES_IN_ALL = _gated_mlp.SIZES_IN_ALL

_NAMES = ("gate", "up", "down")


def _shapes(ic: int, oc: int) -> dict[str, tuple[int, int]]:
    return dict(zip(_NAMES, ((ic, oc), (ic, oc), (oc, ic)), strict=True))


def _build(engine_kind: str, data_type: str, mb: int, ic: int, oc: int, group: int) -> GraphBuilder:
    # This mode makes oneDNN compute with compressed weights in the type of x.
    mode = "strict" if data_type == "f32" else data_type
    b = GraphBuilder(engine_kind, mode, apply_to_int=True)
    x = b.input((mb, ic), data_type, name="x")
    weights: list[Value] = []
    scales: list[Value] = []
    zero_points: list[Value] = []
    for name, (rows, columns) in _shapes(ic, oc).items():
        weights.append(b.input((rows, columns), "u4", name=name))
        scales.append(b.input((rows, columns // group), data_type, name=f"{name}_scales"))
        zero_points.append(b.input((rows, columns // group), "u8", name=f"{name}_zero_points"))
    b.output(y=blocks.gated_mlp(x, *weights, scales=scales, zero_points=zero_points))
    return b


def _case(name: str, builder: GraphBuilder, mb: int, ic: int, oc: int, group: int) -> Case:
    random = np.random.default_rng(0)
    dtype = numpy_dtype(builder.inputs[0].dtype)
    arrays: dict[str, Array] = {"x": normal(random, (mb, ic), dtype)}
    for key, (rows, columns) in _shapes(ic, oc).items():
        groups = (rows, columns // group)
        # The difference of two such integers is about 6.5, and products of x and weights about 1.
        scales = random.uniform(0.5, 1.5, groups) / (6.5 * rows**0.5)
        integers = random.integers(0, 16, (rows, columns), dtype=np.uint8)
        arrays[key] = integers.astype(ml_dtypes.uint4)
        arrays[f"{key}_scales"] = scales.astype(dtype)
        arrays[f"{key}_zero_points"] = random.integers(0, 16, groups, dtype=np.uint8)
    return BuiltRun(builder, arrays).case(
        name,
        [
            f"weights: {3 * ic * oc // 2} bytes, and"
            f" {3 * ic * oc // group * (dtype.itemsize + 1)} of scales and zero points"
        ],
    )


def run(
    engine_kind: str = "cpu", mb: int = 1, ic: int = 4096, oc: int = 14336, group: int = 128
) -> Iterator[Case | Skipped]:
    """Run in each data type of x and of the results."""
    if ic % group or oc % group:
        raise InvalidArgumentsError(
            f"gated_mlp_int4: group must divide ic and oc, {ic} and {oc}, got {group}"
        )
    for data_type in DATA_TYPES:
        name = f"{data_type}, mb {mb}, ic {ic}, oc {oc}, group {group}"
        builder = _build(engine_kind, data_type, mb, ic, oc, group)
        yield cannot_run(name, data_type, builder.graph) or _case(name, builder, mb, ic, oc, group)
