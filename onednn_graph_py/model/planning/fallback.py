"""Compute ops in NumPy for which oneDNN lacks a kernel."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.dtypes import pack_int4
from ...reference import run
from ..building.constant_arrays import unpacked
from ..building.value import Node, Value

Array = npt.NDArray[Any]
_PACKED = ("s4", "u4")


def _read(array: Array, value: Value, shape: tuple[int, ...]) -> Array:
    """Convert an array to the form that the reference takes."""
    if value.dtype in _PACKED:
        return unpacked(array, shape, value.dtype, value.strides)
    return array.astype(bool) if value.dtype == "boolean" else array


def reference_function(
    node: Node, shapes: Mapping[int, tuple[int, ...]]
) -> Callable[[Sequence[Array], Sequence[Array]], None]:
    """Make a function that computes an op in NumPy, for these shapes of its tensors by id.

    It takes the inputs and the outputs to fill, with 4-bit integers packed.
    """
    if node.kind == "Reorder":
        return _copied  # also of data types of which oneDNN moves nothing
    made = [(shapes[v.id], v.dtype) for v in node.outputs]

    def compute(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        given = [_read(a, v, shapes[v.id]) for a, v in zip(inputs, node.inputs, strict=True)]
        results = run(node.kind, given, node.attrs, outputs=made)
        for target, result, value in zip(outputs, results, node.outputs, strict=True):
            packed = value.dtype in _PACKED
            target[...] = pack_int4(result.astype(np.int8), value.dtype) if packed else result

    return compute


def _copied(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    outputs[0][...] = inputs[0]
