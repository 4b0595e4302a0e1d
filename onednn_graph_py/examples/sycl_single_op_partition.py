"""One MatMul on a SYCL queue, compiled and run without a graph.

It runs on a GPU where oneDNN finds one, and on SYCL's CPU device otherwise.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from .. import logical_tensor, op, partition
from ._run import Case, Pipeline, Skipped, fused_ops
from ._usm import SyclExecution, SyclQueue, without_sycl


def run(rows: int = 32, inner: int = 1024, columns: int = 2048) -> Iterator[Case | Skipped]:
    """Multiply a (rows, inner) by an (inner, columns) matrix."""

    def matrix(number: int, *dims: int) -> logical_tensor:
        return logical_tensor(number, logical_tensor.f32, dims, logical_tensor.strided)

    a, b = matrix(0, rows, inner), matrix(1, inner, columns)
    product = matrix(2, rows, columns)
    matmul = op(0, op.MatMul, [a, b], [product], "matmul")
    kind = "cpu" if without_sycl("gpu") else "gpu"
    name = f"f32, {rows}x{inner} by {inner}x{columns}, {kind}"
    partitions = [partition(matmul, kind)]
    missing = without_sycl(kind)
    if missing is not None:
        yield Skipped(name, missing, fused_ops([matmul], partitions))
        return

    random = np.random.default_rng(0)
    left = random.uniform(-1, 1, (rows, inner)).astype(np.float32)
    right = random.uniform(-1, 1, (inner, columns)).astype(np.float32)

    queue = SyclQueue(kind)
    pipeline = Pipeline(partitions, [a, b], [product], queue.engine)
    made = SyclExecution(pipeline, queue, {0: left, 1: right}).case(name, [matmul])
    yield replace(made, facts=queue.facts())
