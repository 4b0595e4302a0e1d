"""Two blocks of convolution, bias and ReLU on a SYCL queue, with events between them.

The queue and the memory are dpctl's; oneDNN's engine, stream and allocator are made from them. The
same code runs on a CPU and on a GPU: only the device that the queue is made for differs.
"""

from __future__ import annotations

from collections.abc import Iterator

from ._convolutions import ConvolutionBlocks
from ._device import only_partitioned
from ._pipeline import Pipeline, fused_ops, median_milliseconds
from ._report import Case, Skipped
from ._usm import SyclExecution, SyclQueue, without_sycl


def run(engine_kind: str = "cpu") -> Iterator[Case | Skipped]:
    """Run with oneDNN's own shapes."""
    name = f"f32, {engine_kind}"
    blocks = ConvolutionBlocks(engine_kind)
    missing = without_sycl(engine_kind)
    if missing is not None:
        yield only_partitioned(name, blocks.net, missing)
        return
    partitions = blocks.net.get_partitions()
    arrays = blocks.draw()
    queue = SyclQueue(engine_kind)
    pipeline = Pipeline(partitions, blocks.inputs(arrays), [blocks.output], queue.engine)
    execution = SyclExecution(pipeline, queue, arrays)
    execution()
    compared = blocks.compared(arrays, execution.output(blocks.output))
    yield Case(
        name=name,
        expected_partitions=blocks.expected_partitions,
        partitions=fused_ops(blocks.net.get_ops(), partitions),
        comparisons=compared,
        milliseconds=median_milliseconds(execution),
        facts=queue.facts(),
    )
