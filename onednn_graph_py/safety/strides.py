"""Strides that make elements share memory.

A broadcast view, for one, has stride 0: oneDNN divides by it, or concludes a wrong size from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ..errors import InvalidShapeError
from .calls import Op, Tensor

__all__ = ["check_strides"]


def _overlap(tensor: Tensor) -> bool:
    if tensor.strides is None or tensor.shape is None or 0 in tensor.shape:
        return False
    reach = 0  # offset of the last element so far
    for stride, d in sorted(zip(tensor.strides, tensor.shape, strict=True)):
        if d == 1:
            continue
        if stride <= reach:
            return True
        reach += (d - 1) * stride
    return False


def check_strides(op: Op, given: Mapping[int, Tensor]) -> None:
    """Check all tensors of an op, of which `given` by id counts before what the op says.

    Raises
    ------
    InvalidShapeError
        Elements of one overlap.
    """
    sides: tuple[tuple[Literal["inputs", "outputs"], tuple[Tensor, ...]], ...]
    sides = (("inputs", op.inputs), ("outputs", op.outputs))
    for ports, tensors in sides:
        for i, said in enumerate(tensors):
            tensor = given.get(said.id, said)
            if _overlap(tensor):
                raise InvalidShapeError(
                    f"{op.label}: {op.port(ports, i)} must have strides that keep its elements "
                    f"apart, got {tensor.mirror!r}; pass a copy, or a smaller array that the op "
                    "broadcasts"
                )
