"""An int8 convolution with ReLU, fused from Dequantize to Quantize.

The graph says how integers stand for numbers (u8 source with one scale, s8 weights with a scale
for each output channel) and computes with those numbers; oneDNN fuses all of it into one integer
kernel.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .. import engine, graph, logical_tensor, op
from ..machine.cpu import largest_int8_weight
from ._run import Case, Pipeline

_IMAGES, _SIDE, _INPUTS, _OUTPUTS = 8, 56, 256, 64
_ZERO_POINT = 10
_SOURCE_SCALE = 0.1


def run() -> Iterator[Case]:
    """Run with oneDNN's own shapes."""
    random = np.random.default_rng(0)
    source = random.integers(0, 256, (_IMAGES, _SIDE, _SIDE, _INPUTS), dtype=np.uint8)
    largest = largest_int8_weight()
    weights = random.integers(
        -largest, largest, (1, 1, _INPUTS, _OUTPUTS), dtype=np.int8, endpoint=True
    )
    weights_scales = random.uniform(0.005, 0.02, _OUTPUTS).astype(np.float32)
    bias = random.uniform(-100, 100, _OUTPUTS).astype(np.float32)

    # The scale is such that the largest result just fits.
    numbers = np.float32(_SOURCE_SCALE) * (source.astype(np.float32) - _ZERO_POINT)
    largest_result = (numbers @ (weights[0, 0] * weights_scales) + bias).max()
    result_scale = np.float32(largest_result / (255 - _ZERO_POINT))

    def tensor(
        number: int,
        data_type: logical_tensor.data_type,
        dims: tuple[int, ...],
        constant: bool = False,
    ) -> logical_tensor:
        kind = logical_tensor.constant if constant else logical_tensor.variable
        return logical_tensor(number, data_type, dims, logical_tensor.strided, kind)

    results = (_IMAGES, _SIDE, _SIDE, _OUTPUTS)
    source_u8 = tensor(0, logical_tensor.u8, source.shape)
    source_f32 = tensor(1, logical_tensor.f32, source.shape)
    weights_s8 = tensor(2, logical_tensor.s8, weights.shape, constant=True)
    weights_f32 = tensor(3, logical_tensor.f32, weights.shape, constant=True)
    bias_f32 = tensor(4, logical_tensor.f32, bias.shape, constant=True)
    convolved = tensor(5, logical_tensor.f32, results)
    activated = tensor(6, logical_tensor.f32, results)
    result_u8 = tensor(7, logical_tensor.u8, results)

    dequantize = op(0, op.Dequantize, [source_u8], [source_f32], "dequantize source")
    dequantize.set_attr(op.qtype, "per_tensor")
    dequantize.set_attr(op.scales, [_SOURCE_SCALE]).set_attr(op.zps, [_ZERO_POINT])
    dequantize_weights = op(1, op.Dequantize, [weights_s8], [weights_f32], "dequantize weights")
    dequantize_weights.set_attr(op.qtype, "per_channel").set_attr(op.axis, 3)
    dequantize_weights.set_attr(op.scales, weights_scales).set_attr(op.zps, [0] * _OUTPUTS)
    convolution = op(
        2, op.Convolution, [source_f32, weights_f32, bias_f32], [convolved], "convolution"
    )
    convolution.set_attr(op.strides, [1, 1]).set_attr(op.dilations, [1, 1])
    convolution.set_attr(op.pads_begin, [0, 0]).set_attr(op.pads_end, [0, 0])
    convolution.set_attr(op.groups, 1)
    convolution.set_attr(op.data_format, "NXC").set_attr(op.weights_format, "XIO")
    relu = op(3, op.ReLU, [convolved], [activated], "relu")
    quantize = op(4, op.Quantize, [activated], [result_u8], "quantize")
    quantize.set_attr(op.qtype, "per_tensor")
    quantize.set_attr(op.scales, [result_scale]).set_attr(op.zps, [_ZERO_POINT])

    net = graph(engine.cpu)
    for one in (dequantize, dequantize_weights, convolution, relu, quantize):
        net.add_op(one)
    net.finalize()

    inputs = [source_u8, weights_s8, bias_f32]
    pipeline = Pipeline(net.get_partitions(), inputs, [result_u8], engine(engine.cpu, 0))
    execution = pipeline.bind({0: source, 2: weights, 4: bias})
    positive = np.count_nonzero(execution.output(result_u8) > _ZERO_POINT) / np.prod(results)
    yield execution.case(
        "u8 source, s8 weights",
        net.get_ops(),
        [f"range: {positive:.0%} of the results are above zero"],
        what="all elements with NumPy in float64, in quantization steps",
    )
