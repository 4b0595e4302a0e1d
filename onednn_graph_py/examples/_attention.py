"""The parts that the attention examples share: sizes, inputs, and a graph of the mirror."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import engine, graph, logical_tensor, op
from ..dtypes import numpy_dtype
from ..errors import InvalidArgumentsError
from ..linked import linked_version
from ._expected import compare_entries, normal
from ._pipeline import Pipeline, fused_ops, median_milliseconds
from ._report import Case

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


class Attention:
    """Five ops of the mirror: MatMul, Divide, Add of a mask, SoftMax and MatMul.

    The inputs are query, key, value, scale and mask, with ids from 0 to 4.

    Parameters
    ----------
    engine_kind, data_type : str
    query, key, mask : tuple of int
        Shapes; a value's is a key's.
    wide : str
        The data type of scale and mask.
    strides : tuple of int, optional
        Of query, key and value; row-major by default.
    """

    def __init__(
        self,
        engine_kind: str,
        data_type: str,
        query: tuple[int, ...],
        key: tuple[int, ...],
        mask: tuple[int, ...],
        wide: str,
        strides: tuple[int, ...] | None = None,
    ) -> None:
        self.between = scores_type(data_type)

        def tensor(number: int, dtype: str, shape: tuple[int, ...]) -> logical_tensor:
            return logical_tensor(number, dtype, shape, logical_tensor.strided)

        def vectors(number: int, shape: tuple[int, ...]) -> logical_tensor:
            if strides is None:
                return tensor(number, data_type, shape)
            return logical_tensor(number, data_type, shape, strides)

        q, k, v = vectors(0, query), vectors(1, key), vectors(2, key)
        scale, added = tensor(3, wide, (1,)), tensor(4, wide, mask)
        matrices = (*query[:-1], key[-2])
        products, scaled, masked = (tensor(n, self.between, matrices) for n in (5, 6, 7))
        weights = tensor(8, data_type, matrices)
        self.output = tensor(9, data_type, query)
        self.inputs = [q, k, v, scale, added]

        multiply = op(0, op.MatMul, [q, k], [products], "query by key")
        multiply.set_attr(op.transpose_b, True)
        divide = op(1, op.Divide, [products, scale], [scaled], "scale")
        add = op(2, op.Add, [scaled, added], [masked], "mask")
        softmax = op(3, op.SoftMax, [masked], [weights], "softmax")
        softmax.set_attr(op.axis, -1)
        combine = op(4, op.MatMul, [weights, v], [self.output], "weights by value")
        self.net = graph(engine_kind)
        for one in (multiply, divide, add, softmax, combine):
            self.net.add_op(one)
        self.net.finalize()

    def case(self, name: str, arrays: Mapping[int, Array], facts: Sequence[str] = ()) -> Case:
        """Run with these inputs, by id, and report on it."""
        partitions, ops = self.net.get_partitions(), self.net.get_ops()
        device = engine(self.net.get_engine_kind(), 0)
        execution = Pipeline(partitions, self.inputs, [self.output], device).bind(arrays)
        execution()
        compared = compare_entries(ops, arrays, {9: execution.output(self.output)})
        return Case(
            name=name,
            expected_partitions=1,
            partitions=fused_ops(ops, partitions),
            comparisons={"all elements with NumPy in float64": compared},
            milliseconds=median_milliseconds(execution),
            facts=[*facts, f"between MatMul and SoftMax: {self.between}"],
        )
