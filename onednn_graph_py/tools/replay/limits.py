"""Reasons why a graph can't run here: a kernel or data type is missing, or memory."""

from __future__ import annotations

import math

import numpy as np

from ...machine.cpu import lacks
from ...model.building.builder import GraphBuilder
from ...model.building.value import is_whole
from ...reference.rounding import NUMPY_DTYPES
from ...serialization import OpRecord


def why_unsupported(op: OpRecord, engine_kind: str = "cpu") -> str:
    """Return why an op has no kernel: a feature that this CPU lacks, or just that there is none."""
    name = f"op {op.id} ({op.kind})"
    if op.kind == "Wildcard":
        return f"{name}: a Wildcard stands for an op that oneDNN does not know"
    dtypes = dict.fromkeys(t.dtype for t in (*op.inputs, *op.outputs))
    for dtype in dtypes:
        missing = lacks(dtype) if engine_kind != "gpu" else None
        if missing is not None:
            return f"{name}: hardware: {missing}"
    return f"{name}: oneDNN has no kernel for it in {', '.join(dtypes)}"


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
