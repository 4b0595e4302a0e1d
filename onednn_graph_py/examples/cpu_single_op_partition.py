"""One MatMul, compiled and run without a graph.

A partition of a single op is made straight from the op; the rest goes as for any partition.
"""

from collections.abc import Iterator

import numpy as np

from .. import engine, logical_tensor, op, partition
from ._run import Arrays, Case, Pipeline, Skipped


def product(rows: int, inner: int, columns: int) -> tuple[op, Arrays]:
    """Make a MatMul, and arrays for its inputs by their ids."""

    def matrix(number: int, *dims: int) -> logical_tensor:
        return logical_tensor(number, logical_tensor.f32, dims, logical_tensor.strided)

    a, b = matrix(0, rows, inner), matrix(1, inner, columns)
    random = np.random.default_rng(0)
    left = random.uniform(-1, 1, (rows, inner)).astype(np.float32)
    right = random.uniform(-1, 1, (inner, columns)).astype(np.float32)
    matmul = op(0, op.MatMul, [a, b], [matrix(2, rows, columns)], "matmul")
    return matmul, {0: left, 1: right}


def run(rows: int = 32, inner: int = 1024, columns: int = 2048) -> Iterator[Case | Skipped]:
    """Multiply a (rows, inner) by an (inner, columns) matrix."""
    matmul, arrays = product(rows, inner, columns)
    partitions = [partition(matmul, engine.cpu)]
    device = engine(engine.cpu, 0)
    pipeline = Pipeline(partitions, matmul.get_inputs(), matmul.get_outputs(), device)
    yield pipeline.bind(arrays).case(f"f32, {rows}x{inner} by {inner}x{columns}", [matmul])
