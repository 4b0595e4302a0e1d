"""The parts that the gated MLP examples share: their data and the expected results.

A gated MLP is ``(swish(x @ gate) * (x @ up)) @ down``, with ``swish(y) = y * sigmoid(y)``; `ic` is
the width of x, `oc` that of the tensors in between.

The bound of a sum's error grows with the magnitudes of its terms. Over thousands of terms of both
signs it would exceed the sum itself, and hide any fault. Here all terms of a sum have one sign:
each column of `gate` has its own, and the same row of `down` has it as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ._bounded import Bounded

# The sizes that --all runs instead of oneDNN's 4096 and 14336, with a sixteenth of the weights.
SIZES_IN_ALL = {"ic": 1024, "oc": 3584}

Random = np.random.Generator
# The number of weights to convert to float64 at a time, which takes at most 8 arrays of 16 MiB.
_PORTION = 2**21


@dataclass(frozen=True)
class Weights:
    """A matrix that is read some columns at a time, as all in float64 might not fit into memory.

    Parameters
    ----------
    shape : tuple of int
    columns : callable
        Takes a slice of columns, and returns them.
    group : int
        The number of columns that can't be separated.
    """

    shape: tuple[int, int]
    columns: Callable[[slice], Bounded]
    group: int = 1

    @staticmethod
    def of(array: npt.NDArray[Any]) -> Weights:
        """Take weights that have no error."""
        rows, columns = array.shape
        return Weights((rows, columns), lambda part: Bounded.exact(array[:, part]))

    def multiplied_by(self, x: Bounded) -> Bounded:
        """Compute ``x @ self``; the result is not stored yet."""
        rows, columns = self.shape
        step = max(_PORTION // rows // self.group, 1) * self.group
        starts = range(0, columns, step)
        parts = [x.matmul(self.columns(slice(start, start + step))) for start in starts]
        return Bounded(
            np.concatenate([part.value for part in parts], -1),
            np.concatenate([part.error for part in parts], -1),
        )


def expected(
    x: npt.NDArray[Any], dtype: npt.DTypeLike, gate: Weights, up: Weights, down: Weights
) -> Bounded:
    """Compute the result, with every tensor in between stored as `dtype`.

    A kernel that stores those tensors with more digits is nearer to this result.
    """
    source = Bounded.exact(x)
    gated = gate.multiplied_by(source).stored(dtype)
    raised = up.multiplied_by(source).stored(dtype)
    swish = (gated * gated.sigmoid().stored(dtype)).stored(dtype)
    return down.multiplied_by((swish * raised).stored(dtype)).stored(dtype)


def source(random: Random, mb: int, ic: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Draw x, with rows of different magnitude."""
    rows = random.uniform(0.5, 1.5, (mb, 1))
    return (random.uniform(1 / 16, 1 / 8, (mb, ic)) * rows).astype(dtype)


def fill_gate_and_up(
    random: Random, gate: npt.NDArray[Any], up: npt.NDArray[Any]
) -> npt.NDArray[np.float32]:
    """Fill both with weights that make ``x @ gate`` a few units large; return the signs."""
    ic, oc = (int(dim) for dim in gate.shape)
    signs = np.where(random.random(oc) < 0.5, np.float32(-1), np.float32(1))
    # The mean of x is 3/32, and that of the weights 3/4 of their column's largest.
    unit = 1 / (ic * 3 / 32 * 3 / 4)
    _fill(random, gate, signs * random.uniform(0.25, 4, oc).astype(np.float32) * np.float32(unit))
    _fill(random, up, random.uniform(0.5, 1.5, oc).astype(np.float32) * np.float32(unit))
    return signs


def fill_down(random: Random, down: npt.NDArray[Any], signs: npt.NDArray[np.float32]) -> None:
    """Fill `down`, whose rows are of the given signs."""
    columns = random.uniform(1 / 128, 1 / 32, int(down.shape[1])).astype(np.float32)
    _fill(random, down, signs[:, None] * columns)


def _fill(random: Random, array: npt.NDArray[Any], largest: npt.NDArray[np.float32]) -> None:
    # Fill a few rows at a time, to need little memory beside the array's.
    step = max(_PORTION // array.shape[1], 1)
    for start in range(0, len(array), step):
        part = array[start : start + step]
        limits = largest[start : start + step] if largest.ndim == 2 else largest
        part[...] = (random.random(part.shape, np.float32) / 2 + np.float32(0.5)) * limits
