"""Two blocks of convolution, bias and ReLU: build, partition, compile, run.

The graph is built without a single shape: compiling it gives dims to its inputs, and oneDNN picks
the memory layout between the two partitions. Working memory comes from an allocator that counts,
where oneDNN takes memory from the program.
"""

from __future__ import annotations

from collections.abc import Iterator

from .. import allocator, engine, make_engine_with_allocator, partition, version
from ._convolutions import ConvolutionBlocks
from ._pipeline import Pipeline, fused_ops, median_milliseconds
from ._report import Case


def _make_engine() -> tuple[engine, allocator | None]:
    if version()["cpu_runtime"] == "SYCL":
        return engine(engine.cpu, 0), None
    counting = allocator()
    return make_engine_with_allocator(engine.cpu, 0, counting), counting


def run() -> Iterator[Case]:
    """Run with oneDNN's own shapes."""
    blocks = ConvolutionBlocks("cpu")
    partitions = blocks.net.get_partitions(partition.fusion)
    arrays = blocks.draw()
    device, counting = _make_engine()
    pipeline = Pipeline(partitions, blocks.inputs(arrays), [blocks.output], device)
    execution = pipeline.bind(arrays)
    execution()
    between = pipeline.steps[0].get_outputs()[0]
    compared = blocks.compared(arrays, execution.output(blocks.output))
    milliseconds = median_milliseconds(execution)
    if counting is None:
        memory = "allocator: none, because this oneDNN takes its memory from SYCL"
    else:
        taken = counting.statistics()
        memory = (
            f"allocator: {taken['allocations']} allocations,"
            f" at most {taken['peak_bytes'] / 2**20:.1f} MiB at once"
        )
    yield Case(
        name="f32",
        expected_partitions=blocks.expected_partitions,
        partitions=fused_ops(blocks.net.get_ops(), partitions),
        comparisons=compared,
        milliseconds=milliseconds,
        facts=[f"between the partitions: {between}", memory],
    )
