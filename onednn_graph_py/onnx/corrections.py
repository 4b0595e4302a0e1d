"""Ops that onnx's reference evaluator computes wrong, or refuses."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from onnx.reference.op_run import OpRun

from .lowering.lookups import elements

__all__ = ["CORRECTED"]


class GatherElements(OpRun):  # type: ignore[misc]
    """Onnx 1.23 fails where indices and data have different sizes, and 64 or more of them."""

    op_domain = ""

    def _run(
        self, data: npt.NDArray[Any], indices: npt.NDArray[Any], axis: int | None = None
    ) -> tuple[npt.NDArray[Any]]:
        chosen = (axis or 0) % data.ndim
        return (elements("GatherElements", chosen, data, indices),)


CORRECTED = [GatherElements]
"""For the argument ``new_ops`` of the evaluator."""
