"""Two blocks of convolution, bias and ReLU: build, partition, compile, run.

The graph is built without a single shape: compiling it gives dims to its inputs, and oneDNN picks
the memory layout between the two partitions. Working memory comes from an allocator that counts,
where oneDNN takes memory from the program.
"""

from collections.abc import Iterator
from dataclasses import replace

from .. import allocator, engine, make_engine_with_allocator, version
from ._convolutions import ConvolutionBlocks
from ._run import Case


def _make_engine() -> tuple[engine, allocator | None]:
    if version()["cpu_runtime"] == "SYCL":
        return engine(engine.cpu, 0), None
    counting = allocator()
    return make_engine_with_allocator(engine.cpu, 0, counting), counting


def run() -> Iterator[Case]:
    """Run with oneDNN's own shapes."""
    blocks = ConvolutionBlocks("cpu")
    arrays = blocks.draw()
    device, counting = _make_engine()
    pipeline = blocks.pipeline(arrays, device)
    case = blocks.case("f32", pipeline.bind(arrays))
    if counting is None:
        memory = "allocator: none, because this oneDNN takes its memory from SYCL"
    else:
        statistics = counting.statistics()
        memory = (
            f"allocator: {statistics['allocations']} allocations,"
            f" at most {statistics['peak_bytes'] / 2**20:.1f} MiB at once"
        )
    between = pipeline.steps[0].get_outputs()[0]
    yield replace(case, facts=[f"between the partitions: {between}", memory])
