"""Ops that onnx's reference evaluator computes wrong, or refuses."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_hardmax import Hardmax
from onnx.reference.ops.op_log_softmax import LogSoftmax
from onnx.reference.ops.op_softmax import Softmax
from onnx.reference.ops.op_tile import Tile as OnnxTile
from onnx.reference.ops.op_topk import TopK_11

from ..base.errors import InvalidIndexError
from .host_steps import elements

Array = npt.NDArray[Any]


class GatherElements(OpRun):  # type: ignore[misc]
    """Onnx 1.23 fails where indices and data have different sizes, and 64 or more of them."""

    op_domain = ""

    def _run(self, data: Array, indices: Array, axis: int | None = None) -> tuple[Array]:
        return (elements("GatherElements", (axis or 0) % data.ndim, data, indices),)


class Tile(OnnxTile):  # type: ignore[misc]
    """Onnx 1.23 takes repeats of dims that are not there, whose result may take all memory."""

    op_domain = ""

    def _run(self, x: Array, repeats: Array) -> tuple[Array]:
        if repeats.shape != (x.ndim,):
            raise InvalidIndexError(f"Tile: {repeats.size} repeats for {x.ndim} dims")
        made: tuple[Array] = super()._run(x, repeats)
        return made


class TopK(TopK_11):  # type: ignore[misc]
    """Onnx 1.23 counts to k, which may take all memory, before it finds fewer elements."""

    op_domain = ""

    def _run(
        self, data: Array, k: Any, axis: int = -1, largest: int = 1, sorted: int = 1
    ) -> tuple[Array, Array]:
        there = data.shape[axis]
        if np.max(k) > there:
            raise InvalidIndexError(f"TopK: k is {np.max(k)}, and there are {there} elements")
        made: tuple[Array, Array] = super()._run(data, np.atleast_1d(k), axis, largest, sorted)
        return made


class LpNormalization(OpRun):  # type: ignore[misc]
    """Onnx 1.23 adds elements with their signs for p = 1."""

    op_domain = ""

    def _run(self, x: Array, axis: int = -1, p: int = 2) -> tuple[Array]:
        norm = np.linalg.norm(x.astype(np.float64), p, axis, keepdims=True)
        return (np.where(norm == 0, 0, x / norm).astype(x.dtype),)


def _flattening(kind: type[OpRun]) -> type[OpRun]:
    """Return an op's class that knows the opsets before 13.

    There it takes all dims from its axis on as one; onnx's reference takes the axis alone.
    """

    def _run(self: Any, x: Array, **linked: int) -> tuple[Array]:
        if self.run_params["opsets"][""] >= 13:
            made: tuple[Array] = kind._run(self, x, **linked)
            return made
        given = [a.i for a in self.onnx_node.attribute if a.name == "axis"]
        first = given[0] if given else 1
        rows = x.shape[:first] if first >= 0 else x.shape[: x.ndim + first]
        flat = x.reshape(math.prod(rows), math.prod(x.shape[len(rows) :]))
        found = (Softmax if kind is LogSoftmax else kind)._run(self, flat, axis=-1)[0]
        return ((np.log(found) if kind is LogSoftmax else found).reshape(x.shape),)

    return type(kind.__name__, (kind,), {"_run": _run, "op_domain": ""})


CORRECTED: dict[str, type[Any]] = {
    "GatherElements": GatherElements,
    "LpNormalization": LpNormalization,
    "Tile": Tile,
    "TopK": TopK,
    **{k.__name__: _flattening(k) for k in (Softmax, LogSoftmax, Hardmax)},
}
"""The classes of these ops."""
