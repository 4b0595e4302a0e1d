"""The parts that the attention examples share: sizes, inputs, and expected results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..dtypes import numpy_dtype
from ..errors import InvalidArgumentsError
from ..linked import linked_version
from ._bounded import Bounded, Comparison

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]


def check_groups(example: str, q_heads: int, kv_heads: int) -> None:
    """Raise InvalidArgumentsError unless each key head serves the same number of query heads."""
    if q_heads % kv_heads:
        raise InvalidArgumentsError(
            f"{example}: kv_heads must divide q_heads, {q_heads}, got {kv_heads}"
        )


def scores_type(data_type: str) -> str:
    """Choose the data type of the tensors between the first MatMul and SoftMax."""
    # oneDNN allows an f32 result of a bf16 MatMul from 3.8 on; later versions fuse that best.
    return "f32" if linked_version() >= (3, 8) else data_type


def random_array(random: np.random.Generator, shape: Sequence[int], data_type: str) -> Array:
    """Draw normally distributed values."""
    return random.standard_normal(tuple(shape), np.float32).astype(numpy_dtype(data_type))


def root_scale(head_size: int, data_type: str) -> Array:
    """The divisor of the scores: the root of the head size."""
    return np.full(1, math.sqrt(head_size), numpy_dtype(data_type))


def padding_mask(shape: Sequence[int], data_type: str) -> Array:
    """Make a mask that hides the last quarter of the keys, and favours the later visible ones.

    Parameters
    ----------
    shape : sequence of int
        The mask's shape; the keys' dim comes last.
    data_type : str
    """
    keys = shape[-1]
    row = np.where(np.arange(keys) < max(3 * keys // 4, 1), np.arange(keys) / keys, -np.inf)
    return np.ascontiguousarray(np.broadcast_to(row, tuple(shape)).astype(numpy_dtype(data_type)))


def swapped(matrix: Bounded) -> Bounded:
    """Transpose the last two dims."""
    return matrix.moved(lambda a: a.swapaxes(-1, -2))


def entry_of(arrays: Arrays, number: int) -> dict[str, Array]:
    """One entry of the batch; all at once would fill the memory in float64."""
    return {name: one if name == "scale" else one[number] for name, one in arrays.items()}


def expected_scores(arrays: Arrays, between: str) -> Bounded:
    """Compute the scores to which SoftMax is applied.

    Parameters
    ----------
    arrays : mapping of str to numpy.ndarray
        ``query``, ``key``, ``scale`` and ``mask``, whose leading dims broadcast.
    between : str
        The data type in which each op stores its result.
    """
    stored = numpy_dtype(between)
    query, key, mask = (Bounded.exact(arrays[name]) for name in ("query", "key", "mask"))
    scores = query.matmul(swapped(key)).stored(stored)
    scores = scores.scaled(1 / arrays["scale"].astype(np.float64)).stored(stored)
    return (scores + mask).stored(stored)


def expected_attention(arrays: Arrays, data_type: str) -> Bounded:
    """Compute the result of attention for the arrays of `expected_scores` and ``value``."""
    dtype = numpy_dtype(data_type)
    weights = expected_scores(arrays, scores_type(data_type)).softmax().stored(dtype)
    return weights.matmul(Bounded.exact(arrays["value"])).stored(dtype)


def compare_attention(got: Array, arrays: Arrays, data_type: str) -> Comparison:
    """Compare a whole batch, entry by entry."""
    return Comparison.together(
        Comparison.of(result, expected_attention(entry_of(arrays, number), data_type))
        for number, result in enumerate(got)
    )
