"""Two blocks of convolution, bias and ReLU on a SYCL queue, with events between them.

The queue and the memory are dpctl's; oneDNN's engine, stream and allocator are made from them. The
same code runs on a CPU and on a GPU: only the device that the queue is made for differs.
"""

from collections.abc import Iterator
from dataclasses import replace

from ._convolutions import ConvolutionBlocks
from ._run import Case, Skipped, only_partitioned
from ._usm import SyclExecution, SyclQueue, without_sycl


def run(engine_kind: str = "cpu") -> Iterator[Case | Skipped]:
    """Run with oneDNN's own shapes."""
    name = f"f32, {engine_kind}"
    blocks = ConvolutionBlocks(engine_kind)
    missing = without_sycl(engine_kind)
    if missing is not None:
        yield only_partitioned(name, blocks.net, missing)
        return
    arrays = blocks.draw()
    queue = SyclQueue(engine_kind)
    execution = SyclExecution(blocks.pipeline(arrays, queue.engine), queue, arrays)
    yield replace(blocks.case(name, execution), facts=queue.facts())
