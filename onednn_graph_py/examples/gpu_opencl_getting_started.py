"""Two blocks of convolution, bias and ReLU on a GPU, through OpenCL.

The graph is built and partitioned for a GPU in any case. Running it takes a oneDNN with an OpenCL
GPU runtime, and an Intel GPU.
"""

from collections.abc import Iterator

from .. import engine, version
from ._convolutions import ConvolutionBlocks
from ._run import Case, Skipped, only_partitioned, without_device


def _missing() -> str | None:
    """Say what is missing to run on a GPU through OpenCL, or None if nothing is."""
    linked = version()
    if linked.gpu_runtime == "OpenCL":
        return without_device("gpu")
    return (
        "needs an Intel GPU and a oneDNN with an OpenCL GPU runtime, oneDNN "
        f"{linked.release} here is built with {linked.gpu_runtime}"
    )


def run() -> Iterator[Case | Skipped]:
    """Run with oneDNN's own shapes."""
    blocks = ConvolutionBlocks("gpu")
    missing = _missing()
    if missing is not None:
        yield only_partitioned("f32", blocks.net, missing)
        return
    arrays = blocks.draw()
    pipeline = blocks.pipeline(arrays, engine(engine.gpu, 0))
    yield blocks.case("f32", pipeline.bind(arrays))
