"""Scaled dot-product attention in f32, bf16 and f16: five ops, one partition.

MatMul, Divide, Add of a mask, SoftMax and MatMul become one fused kernel. The sizes are those of
oneDNN's own example and can be given instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import engine, graph, logical_tensor, op, version
from ..dtypes import numpy_dtype
from ._arguments import check_arguments
from ._expected import compare_entries
from ._pipeline import Pipeline, fused_ops, median_milliseconds
from ._report import Case, Skipped
from ._skips import cannot_run


def _scores_type(data_type: logical_tensor.data_type) -> logical_tensor.data_type:
    """Choose the data type of the tensors between the first MatMul and SoftMax."""
    linked = version()
    # oneDNN allows an f32 result of a bf16 MatMul from 3.8 on; later versions fuse that best.
    if (linked["major"], linked["minor"]) >= (3, 8):
        return logical_tensor.f32
    return data_type


def _mask(queries: int, sequence: int, batch: int) -> npt.NDArray[np.float32]:
    """Make a mask with which each query sees itself and earlier keys, less so the further away.

    In every other batch entry the last quarter of the keys is padding.
    """
    query, key = np.mgrid[:queries, :sequence]
    causal = np.where(key <= query, (key - query) / 16, -np.inf)
    padded = np.where(key < max(sequence - sequence // 4, 1), causal, -np.inf)
    return np.stack([padded if entry % 2 else causal for entry in range(batch)])[:, None].astype(
        np.float32
    )


class _Attention:
    """The graph, and arrays for its inputs."""

    def __init__(
        self,
        engine_kind: str,
        data_type: logical_tensor.data_type,
        batch: int,
        sequence: int,
        heads: int,
        head_size: int,
        queries: int,
    ) -> None:
        self.data_type, self.scores_type = data_type, _scores_type(data_type)

        def tensor(number: int, kind: logical_tensor.data_type, *dims: int) -> logical_tensor:
            return logical_tensor(number, kind, dims, logical_tensor.strided)

        rows = (batch, heads, queries, head_size)
        vectors = (batch, heads, sequence, head_size)
        matrices = (batch, heads, queries, sequence)
        query = tensor(0, data_type, *rows)
        key, value = (tensor(number, data_type, *vectors) for number in (1, 2))
        scale = tensor(3, data_type, 1)
        mask = tensor(4, data_type, batch, 1, queries, sequence)
        products, scaled, masked = (
            tensor(number, self.scores_type, *matrices) for number in (5, 6, 7)
        )
        weights = tensor(8, data_type, *matrices)
        self.output = tensor(9, data_type, *rows)
        self.inputs = [query, key, value, scale, mask]

        multiply = op(0, op.MatMul, [query, key], [products], "query by key")
        multiply.set_attr(op.transpose_b, True)
        divide = op(1, op.Divide, [products, scale], [scaled], "scale")
        add = op(2, op.Add, [scaled, mask], [masked], "mask")
        softmax = op(3, op.SoftMax, [masked], [weights], "softmax")
        softmax.set_attr(op.axis, -1)
        combine = op(4, op.MatMul, [weights, value], [self.output], "weights by value")
        self.net = graph(engine_kind)
        for one in (multiply, divide, add, softmax, combine):
            self.net.add_op(one)
        self.net.finalize()

    def draw(self) -> dict[int, npt.NDArray[Any]]:
        """Make arrays for the inputs, by id."""
        random = np.random.default_rng(0)
        dtype = numpy_dtype(self.data_type)
        query, key, value, _, mask = (lt.get_dims() for lt in self.inputs)
        batch, _, queries, sequence = mask
        return {
            0: random.standard_normal(query, np.float32).astype(dtype),
            1: random.standard_normal(key, np.float32).astype(dtype),
            2: random.uniform(-1, 1, value).astype(dtype),
            3: np.full(1, math.sqrt(query[-1]), dtype),
            4: _mask(queries, sequence, batch).astype(dtype),
        }


def _case(name: str, attention: _Attention) -> Case:
    partitions = attention.net.get_partitions()
    device = engine(attention.net.get_engine_kind(), 0)
    pipeline = Pipeline(partitions, attention.inputs, [attention.output], device)
    arrays = attention.draw()
    execution = pipeline.bind(arrays)
    execution()
    return Case(
        name=name,
        expected_partitions=1,
        partitions=fused_ops(attention.net.get_ops(), partitions),
        comparisons={
            "all elements with NumPy in float64": compare_entries(
                attention.net.get_ops(), arrays, {9: execution.output(attention.output)}
            )
        },
        milliseconds=median_milliseconds(execution),
        facts=[f"between MatMul and SoftMax: {attention.scores_type.name}"],
    )


def run(
    engine_kind: str = "cpu",
    mb: int = 32,
    seq: int = 384,
    heads: int = 16,
    head_size: int = 64,
    query_num: int | None = None,
) -> Iterator[Case | Skipped]:
    """Run in each data type; `query_num` queries, as many as keys by default.

    Raises
    ------
    InvalidArgumentsError
        A size is not positive, or there is no such kind of engine.
    """
    queries = seq if query_num is None else query_num
    check_arguments(
        "sdpa", engine_kind, mb=mb, seq=seq, heads=heads, head_size=head_size, query_num=queries
    )
    for data_type in (logical_tensor.f32, logical_tensor.bf16, logical_tensor.f16):
        name = f"{data_type.name}, {mb}x{seq}, {heads} heads of {head_size}"
        if queries != seq:
            name += f", {queries} queries"
        attention = _Attention(engine_kind, data_type, mb, seq, heads, head_size, queries)
        skipped = cannot_run(name, data_type.name, attention.net)
        yield skipped or _case(name, attention)
