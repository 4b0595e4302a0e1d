"""Estimate the memory that a graph needs, before running it."""

from __future__ import annotations

import math

import numpy as np

from ...model.building.builder import GraphBuilder
from ...model.building.value import is_whole
from ...reference.rounding import NUMPY_DTYPES

__all__ = ["bytes_needed"]

# The reference computes an op in float64, with its inputs and their perturbations.
_WIDE = 8 * 6
# Tensors are kept three times: from oneDNN, exact, and perturbed.
_KEPT = 3


def bytes_needed(builder: GraphBuilder, *, verify: bool) -> int:
    """Estimate the bytes that a run needs; unknown dims count as 1."""
    total = largest = 0
    for value in (*builder.inputs, *(v for n in builder.nodes for v in n.outputs)):
        shape = value.shape if value.shape is not None and is_whole(value.shape) else ()
        count = math.prod(shape)
        total += count * np.dtype(NUMPY_DTYPES[value.dtype]).itemsize
        largest = max(largest, count)
    return _KEPT * total + _WIDE * largest if verify else total + 8 * largest
