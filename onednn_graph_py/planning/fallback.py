"""Substitutes for kernels that oneDNN lacks: NumPy, or another view of the same memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..building.value import Node, Value, row_major
from ..dtypes import pack_int4, unpack_int4
from ..reference import round_to, run

__all__ = ["reference_function", "view_of"]

Array = npt.NDArray[Any]
_PACKED = ("s4", "u4")


def _read(array: Array, value: Value, shape: tuple[int, ...]) -> Array:
    """Convert an array to the form that the reference takes."""
    if value.dtype in _PACKED:
        return round_to(unpack_int4(array, shape, value.dtype), value.dtype)
    return array.astype(bool) if value.dtype == "boolean" else array


def reference_function(
    node: Node, shapes: Mapping[int, tuple[int, ...]]
) -> Callable[[Sequence[Array], Sequence[Array]], None]:
    """Make a function that computes an op in NumPy.

    It takes the inputs and the outputs to fill, with 4-bit integers packed.

    Parameters
    ----------
    node : Node
    shapes : mapping of int to tuple of int
        The shapes of its tensors, by id.
    """
    made = [(shapes[v.id], v.dtype) for v in node.outputs]

    def compute(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        given = [_read(a, v, shapes[v.id]) for a, v in zip(inputs, node.inputs, strict=True)]
        results = run(node.kind, given, node.attrs, outputs=made)
        for target, result, value in zip(outputs, results, node.outputs, strict=True):
            packed = value.dtype in _PACKED
            target[...] = pack_int4(result.astype(np.int8), value.dtype) if packed else result

    return compute


def view_of(
    node: Node, source: _core.logical_tensor, shape: tuple[int, ...]
) -> _core.logical_tensor | None:
    """Describe the result of a reshape or transpose as a view of the input's memory.

    Parameters
    ----------
    node : Node
    source : logical_tensor
        The op's input.
    shape : tuple of int
        The shape of its output.

    Returns
    -------
    logical_tensor or None
        None for other ops, and where elements would have to move.
    """
    value = node.outputs[0] if node.outputs else None
    if value is None or value.dtype in _PACKED or not shape or not source.get_dims():
        return None
    if source.get_layout_type() != _core.logical_tensor.layout_type.strided:
        return None
    dims, strides = source.get_dims(), source.get_strides()
    if node.kind == "StaticTranspose":
        order = [int(i) for i in node.attrs["order"]]
        return _core.logical_tensor(value.id, value.dtype, shape, [strides[i] for i in order])
    if node.kind == "StaticReshape" and all(
        n == 1 or have == dense
        for n, have, dense in zip(dims, strides, row_major(dims), strict=True)
    ):
        return _core.logical_tensor(value.id, value.dtype, shape, row_major(shape))
    return None
