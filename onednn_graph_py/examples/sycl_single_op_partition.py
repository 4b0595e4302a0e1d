"""One MatMul on a SYCL queue, compiled and run without a graph.

It runs on a GPU where oneDNN finds one, and on SYCL's CPU device otherwise.
"""

from collections.abc import Iterator
from dataclasses import replace

from .. import partition
from ._run import Case, Pipeline, Skipped, fused_ops
from ._usm import SyclExecution, SyclQueue, without_sycl
from .cpu_single_op_partition import product


def run(rows: int = 32, inner: int = 1024, columns: int = 2048) -> Iterator[Case | Skipped]:
    """Multiply a (rows, inner) by an (inner, columns) matrix."""
    matmul, arrays = product(rows, inner, columns)
    kind = "cpu" if without_sycl("gpu") else "gpu"
    name = f"f32, {rows}x{inner} by {inner}x{columns}, {kind}"
    partitions = [partition(matmul, kind)]
    missing = without_sycl(kind)
    if missing is not None:
        yield Skipped(name, missing, fused_ops([matmul], partitions))
        return
    queue = SyclQueue(kind)
    pipeline = Pipeline(partitions, matmul.get_inputs(), matmul.get_outputs(), queue.engine)
    case = SyclExecution(pipeline, queue, arrays).case(name, [matmul])
    yield replace(case, facts=queue.facts())
