"""The parts that the attention examples share: sizes and inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..dtypes import numpy_dtype
from ..errors import InvalidArgumentsError
from ..linked import linked_version
from ._expected import normal

Array = npt.NDArray[Any]


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
    return normal(random, shape, numpy_dtype(data_type))


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
