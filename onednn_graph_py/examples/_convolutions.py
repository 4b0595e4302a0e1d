"""The network of oneDNN's getting-started examples: two blocks of convolution, bias and ReLU.

The graph is built without a single shape; compiling it gives dims to its inputs.
"""

import numpy as np

from .. import engine, graph, logical_tensor, op, partition
from ._run import Array, Arrays, Case, Execution, Pipeline

_SOURCE = (8, 3, 225, 225)
# Weights (output and input channels, height, width) and stride of each block.
_BLOCKS = (((96, 3, 11, 11), 4), ((96, 96, 1, 1), 1))


class ConvolutionBlocks:
    """The finalized graph for an engine of some kind, with its inputs and output."""

    def __init__(self, engine_kind: str) -> None:
        self.net = graph(engine_kind)
        tensor = _tensor(0)
        for _, stride in _BLOCKS:
            tensor = _add_block(self.net, tensor, stride)
        self.net.finalize()
        self.output = tensor

    def draw(self) -> dict[int, Array]:
        """Make arrays for the inputs, by id."""
        random = np.random.default_rng(0)
        arrays = {0: random.uniform(-1, 1, _SOURCE).astype(np.float32)}
        for block, (shape, _) in enumerate(_BLOCKS):
            arrays[5 * block + 1] = random.uniform(-1, 1, shape).astype(np.float32)
            arrays[5 * block + 2] = random.uniform(-1, 1, shape[0]).astype(np.float32)
        return arrays

    def pipeline(self, arrays: Arrays, device: engine) -> Pipeline:
        """Compile for inputs with the shapes of these arrays."""
        kinds = (logical_tensor.constant, logical_tensor.variable)
        inputs = [
            logical_tensor(
                number, logical_tensor.f32, array.shape, logical_tensor.strided, kinds[number == 0]
            )
            for number, array in arrays.items()
        ]
        partitions = self.net.get_partitions(partition.fusion)
        return Pipeline(partitions, inputs, [self.output], device)

    def case(self, name: str, execution: Execution) -> Case:
        """Check an execution."""
        return execution.case(name, self.net.get_ops(), expected_partitions=len(_BLOCKS))


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
