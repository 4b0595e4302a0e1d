"""An int8 convolution with ReLU, fused from Dequantize to Quantize.

The graph says how integers stand for numbers (u8 source with one scale, s8 weights with a scale
for each output channel) and computes with those numbers; oneDNN fuses all of it into one integer
kernel.
"""

from collections.abc import Iterator

import numpy as np

from .. import GraphBuilder
from ..machine.cpu import largest_int8_weight
from ._run import BuiltRun, Case

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

    b = GraphBuilder()
    x = b.input(source.shape, "u8", name="source")
    x = x.dequantize(scales=[_SOURCE_SCALE], zps=[_ZERO_POINT], qtype="per_tensor")
    w = b.constant(weights).dequantize(
        scales=weights_scales.tolist(), zps=[0] * _OUTPUTS, qtype="per_channel", axis=3
    )
    convolved = b.convolution(
        x, w, b.constant(bias), strides=[1, 1], dilations=[1, 1], pads_begin=[0, 0],
        pads_end=[0, 0], groups=1, data_format="NXC", weights_format="XIO",
    )  # fmt: skip
    result = convolved.relu().quantize(
        scales=[float(result_scale)], zps=[_ZERO_POINT], qtype="per_tensor", dtype="u8"
    )
    b.output(result=result)

    done = BuiltRun(b, {"source": source}, "run")
    positive = np.mean(done.output("result") > _ZERO_POINT)
    yield done.case(
        "u8 source, s8 weights", [f"range: {positive:.0%} of the results are above zero"]
    )
