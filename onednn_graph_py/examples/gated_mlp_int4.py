"""A gated MLP with weights of 4-bit integers, decompressed inside the one partition.

Weights are u4; a row has a scale and a u8 zero point for every `group` columns. DynamicDequantize
turns them into the numbers that MatMul takes, and oneDNN fuses it: only the integers lie in memory.
The sizes are those of oneDNN's own example: one token, 4096 features, 14336 hidden ones, groups of
128.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from .. import blocks
from ..building.builder import GraphBuilder
from ..building.value import Value
from ..dtypes import numpy_dtype
from ..errors import InvalidArgumentsError
from . import _gated_mlp
from ._arguments import DATA_TYPES, check_arguments
from ._bounded import Bounded, Comparison
from ._built import BuiltRun
from ._gated_mlp import Random, Weights, expected, source
from ._report import Case, Skipped
from ._skips import cannot_run

# At oneDNN's sizes a run takes seconds: on a CPU oneDNN has only its reference kernel for this.
SIZES_IN_ALL = _gated_mlp.SIZES_IN_ALL

Integers = npt.NDArray[np.uint8]
_NAMES = ("gate", "up", "down")


@dataclass(frozen=True)
class _Matrix:
    """Compressed weights.

    Parameters
    ----------
    integers : numpy.ndarray of uint8
        The integers, from 0 to 15.
    scales : numpy.ndarray
        The scales, one for each group of a row.
    zero_points : numpy.ndarray of uint8
        The zero points, one for each group of a row.
    """

    integers: Integers
    scales: npt.NDArray[Any]
    zero_points: Integers

    @staticmethod
    def draw(random: Random, negative: npt.NDArray[np.bool_], scales: npt.NDArray[Any]) -> _Matrix:
        """Draw numbers from 1 to 15 times the scale, negative in the groups that are to be."""
        rows, groups = scales.shape
        group = negative.shape[1] // groups
        integers = random.integers(4, 16, (rows, groups * group), dtype=np.uint8)
        zero_points = random.integers(0, 4, (rows, groups), dtype=np.uint8)
        # 15 - q for q.
        integers ^= np.where(negative, np.uint8(15), np.uint8(0))
        zero_points ^= np.where(negative[:, ::group], np.uint8(15), np.uint8(0))
        return _Matrix(integers, scales, zero_points)

    def weights(self) -> Weights:
        """Decompress, some columns at a time."""
        rows, columns = self.integers.shape
        group = columns // self.scales.shape[1]
        dtype = self.scales.dtype

        def portion(part: slice) -> Bounded:
            groups = slice(part.start // group, -(-part.stop // group))
            scales = np.repeat(self.scales[:, groups].astype(np.float64), group, axis=1)
            zero_points = np.repeat(self.zero_points[:, groups].astype(np.int64), group, axis=1)
            numbers = Bounded.exact(self.integers[:, part]).dequantized(scales, zero_points)
            return numbers if dtype == np.float32 else numbers.stored(dtype)

        return Weights((rows, columns), portion, group)


def _draw(random: Random, ic: int, oc: int, group: int, dtype: npt.DTypeLike) -> dict[str, _Matrix]:
    hidden_groups, groups = oc // group, ic // group
    # x is 3 / 128 in the mean, and a weight 8 scales.
    unit = 1 / (ic * 3 / 128 * 8)

    def scales(rows: int, largest: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
        # The scales of a group differ from row to row by a fifth at most.
        return np.asarray(random.uniform(0.8, 1, (rows, len(largest))) * largest).astype(dtype)

    negative = np.repeat(random.random(hidden_groups) < 0.5, group)
    of_gate = scales(ic, random.uniform(1, 4, hidden_groups) * unit)
    of_up = scales(ic, random.uniform(0.5, 1.5, hidden_groups) * unit)
    of_down = scales(oc, random.uniform(1 / 1024, 1 / 256, groups))
    columns = np.broadcast_to(negative, (ic, oc))
    rows = np.broadcast_to(negative[:, None], (oc, ic))
    return {
        "gate": _Matrix.draw(random, columns, of_gate),
        "up": _Matrix.draw(random, np.broadcast_to(False, (ic, oc)), of_up),
        "down": _Matrix.draw(random, rows, of_down),
    }


def _build(engine_kind: str, data_type: str, mb: int, ic: int, oc: int, group: int) -> GraphBuilder:
    # This mode makes oneDNN compute with compressed weights in the type of x.
    mode = "strict" if data_type == "f32" else data_type
    b = GraphBuilder(engine_kind, mode, apply_to_int=True)
    x = b.input((mb, ic), data_type, name="x")
    weights: list[Value] = []
    scales: list[Value] = []
    zero_points: list[Value] = []
    for name in _NAMES:
        rows, columns = (oc, ic) if name == "down" else (ic, oc)
        weights.append(b.input((rows, columns), "u4", name=name))
        scales.append(b.input((rows, columns // group), data_type, name=f"{name}_scales"))
        zero_points.append(b.input((rows, columns // group), "u8", name=f"{name}_zero_points"))
    b.output(y=blocks.gated_mlp(x, *weights, scales=scales, zero_points=zero_points))
    return b


def _case(name: str, builder: GraphBuilder, mb: int, ic: int, oc: int, group: int) -> Case:
    random = np.random.default_rng(0)
    dtype = numpy_dtype(builder.inputs[0].dtype)
    drawn = _draw(random, ic, oc, group, dtype)
    # Smaller than for weights of floating point, so that the scales are larger.
    rows = source(random, mb, ic, np.float32) / 4
    arrays: dict[str, npt.NDArray[Any]] = {"x": rows.astype(dtype)}
    for key, matrix in drawn.items():
        arrays[key] = matrix.integers.astype(ml_dtypes.uint4)
        arrays[f"{key}_scales"] = matrix.scales
        arrays[f"{key}_zero_points"] = matrix.zero_points

    done = BuiltRun(builder, arrays)
    weights = (drawn[key].weights() for key in _NAMES)
    compared = Comparison.of(done.output("y"), expected(arrays["x"], dtype, *weights))
    return done.case(
        name,
        {"all elements with NumPy in float64": compared},
        facts=[
            f"weights: {3 * ic * oc // 2} bytes, and"
            f" {3 * ic * oc // group * (dtype.itemsize + 1)} of scales and zero points"
        ],
    )


def run(
    engine_kind: str = "cpu", mb: int = 1, ic: int = 4096, oc: int = 14336, group: int = 128
) -> Iterator[Case | Skipped]:
    """Run in each data type of x and of the results.

    Raises
    ------
    InvalidArgumentsError
        A size is not positive, `group` does not divide `ic` and `oc`, or there is no such kind of
        engine.
    """
    check_arguments("gated_mlp_int4", engine_kind, mb=mb, ic=ic, oc=oc, group=group)
    if ic % group or oc % group:
        raise InvalidArgumentsError(
            f"gated_mlp_int4: group must divide ic and oc, {ic} and {oc}, got {group}"
        )
    for data_type in DATA_TYPES:
        name = f"{data_type}, mb {mb}, ic {ic}, oc {oc}, group {group}"
        builder = _build(engine_kind, data_type, mb, ic, oc, group)
        yield cannot_run(name, data_type, builder.graph) or _case(name, builder, mb, ic, oc, group)
