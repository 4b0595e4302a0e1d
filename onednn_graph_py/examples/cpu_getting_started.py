"""Two blocks of convolution, bias and ReLU: build, partition, compile, run.

The graph is built without a single shape: dims come in when its inputs are compiled for, and
between the two partitions oneDNN picks the memory layout. Working memory comes from an allocator
that counts, where oneDNN takes memory from the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import (
    allocator,
    engine,
    graph,
    logical_tensor,
    make_engine_with_allocator,
    op,
    partition,
    version,
)
from ._bounded import Bounded, Comparison
from ._pipeline import Pipeline, fused_ops, median_milliseconds
from ._report import Case

_SOURCE = (8, 3, 225, 225)
# Weights (output and input channels, height, width) and stride of each block.
_BLOCKS = (((96, 3, 11, 11), 4), ((96, 96, 1, 1), 1))


def _tensor(number: int, constant: bool = False) -> logical_tensor:
    kind = logical_tensor.constant if constant else logical_tensor.variable
    # -1: not even the rank is known while the graph is built.
    return logical_tensor(number, logical_tensor.f32, -1, logical_tensor.lt_undef, kind)


def _add_block(net: graph, source: logical_tensor, stride: int) -> logical_tensor:
    """Add a block behind `source`; its tensors take the five ids that follow."""
    first = source.get_id() + 1
    weights, bias = _tensor(first, constant=True), _tensor(first + 1, constant=True)
    convolved, biased, activated = (_tensor(first + i) for i in (2, 3, 4))

    convolution = op(first, op.Convolution, [source, weights], [convolved], "convolution")
    convolution.set_attr(op.strides, [stride, stride])
    convolution.set_attr(op.pads_begin, [0, 0]).set_attr(op.pads_end, [0, 0])
    convolution.set_attr(op.dilations, [1, 1]).set_attr(op.groups, 1)
    convolution.set_attr(op.data_format, "NCX").set_attr(op.weights_format, "OIX")
    add = op(first + 1, op.BiasAdd, [convolved, bias], [biased], "bias")
    add.set_attr(op.data_format, "NCX")
    relu = op(first + 2, op.ReLU, [biased], [activated], "relu")
    for one in (convolution, add, relu):
        net.add_op(one)
    return activated


def _make_engine() -> tuple[engine, allocator | None]:
    if version()["cpu_runtime"] == "SYCL":
        return engine(engine.cpu, 0), None
    counting = allocator()
    return make_engine_with_allocator(engine.cpu, 0, counting), counting


def _reference(arrays: dict[int, npt.NDArray[Any]]) -> Bounded:
    # Channels last, which is what the reference convolution takes.
    x = Bounded.exact(arrays[0]).moved(lambda a: a.transpose(0, 2, 3, 1))
    for block, (_, stride) in enumerate(_BLOCKS):
        weights = Bounded.exact(arrays[5 * block + 1]).moved(lambda w: w.transpose(2, 3, 1, 0))
        x = x.convolved(weights, stride).stored()
        x = (x + Bounded.exact(arrays[5 * block + 2])).stored().relu()
    return x.moved(lambda a: a.transpose(0, 3, 1, 2))


def run() -> Iterator[Case]:
    """Run with oneDNN's own shapes."""
    net = graph(engine.cpu)
    tensor = _tensor(0)
    for _, stride in _BLOCKS:
        tensor = _add_block(net, tensor, stride)
    net.finalize()
    partitions = net.get_partitions(partition.fusion)

    random = np.random.default_rng(0)
    arrays = {0: random.uniform(-1, 1, _SOURCE).astype(np.float32)}
    for block, (shape, _) in enumerate(_BLOCKS):
        arrays[5 * block + 1] = random.uniform(-1, 1, shape).astype(np.float32)
        arrays[5 * block + 2] = random.uniform(-1, 1, shape[0]).astype(np.float32)

    device, counting = _make_engine()
    inputs = [
        logical_tensor(
            number,
            logical_tensor.f32,
            array.shape,
            logical_tensor.strided,
            logical_tensor.variable if number == 0 else logical_tensor.constant,
        )
        for number, array in arrays.items()
    ]
    pipeline = Pipeline(partitions, inputs, [tensor], device)
    execution = pipeline.bind(arrays)
    execution()
    between = pipeline.steps[0].get_outputs()[0]
    comparison = Comparison.of(execution.output(tensor), _reference(arrays))
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
        expected_partitions=len(_BLOCKS),
        partitions=fused_ops(net.get_ops(), partitions),
        comparisons={"all elements with a float64 convolution in NumPy": comparison},
        milliseconds=milliseconds,
        facts=[f"between the partitions: {between}", memory],
    )
