"""One MatMul, compiled and run without a graph.

A partition of a single op is made straight from the op; the rest goes as for any partition.
"""

from collections.abc import Iterator

import numpy as np

from .. import engine, logical_tensor, op, partition
from ._run import Case, Pipeline, Skipped


def run(rows: int = 32, inner: int = 1024, columns: int = 2048) -> Iterator[Case | Skipped]:
    """Multiply a (rows, inner) by an (inner, columns) matrix."""

    def matrix(number: int, *dims: int) -> logical_tensor:
        return logical_tensor(number, logical_tensor.f32, dims, logical_tensor.strided)

    a, b = matrix(0, rows, inner), matrix(1, inner, columns)
    product = matrix(2, rows, columns)
    matmul = op(0, op.MatMul, [a, b], [product], "matmul")
    partitions = [partition(matmul, engine.cpu)]

    random = np.random.default_rng(0)
    left = random.uniform(-1, 1, (rows, inner)).astype(np.float32)
    right = random.uniform(-1, 1, (inner, columns)).astype(np.float32)

    pipeline = Pipeline(partitions, [a, b], [product], engine(engine.cpu, 0))
    yield pipeline.bind({0: left, 1: right}).case(
        f"f32, {rows}x{inner} by {inner}x{columns}", [matmul]
    )
