"""Graphs of GraphBuilder that benchdnn is given: attention, MLP, layers, int8 chains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import onednn_graph_py as og

__all__ = ["GRAPHS"]


def _weights(*shape: int) -> npt.NDArray[Any]:
    return np.random.default_rng(0).standard_normal(shape, np.float32) / 16


def attention(dtype: str) -> og.GraphBuilder:
    """Scaled dot products of 4 heads with an additive mask."""
    b = og.GraphBuilder()
    query, key, value = (b.input((2, 4, 32, 16), dtype, name=n) for n in ("query", "key", "value"))
    mask = b.input((2, 1, 1, 32), dtype, name="mask")
    b.output(og.blocks.sdpa(query, key, value, mask=mask))
    return b


def gated_mlp() -> og.GraphBuilder:
    """With SiLU."""
    b = og.GraphBuilder()
    gate, up, down = _weights(64, 128), _weights(64, 128), _weights(128, 64)
    b.output(og.blocks.gated_mlp(b.input((8, 64), name="x"), gate, up, down))
    return b


def linear() -> og.GraphBuilder:
    """MatMul, bias and GELU."""
    b = og.GraphBuilder()
    x = b.input((8, 64), name="x")
    b.output(og.blocks.linear(x, _weights(64, 32), _weights(32), activation="gelu"))
    return b


def convolution() -> og.GraphBuilder:
    """Convolution, bias and ReLU.

    With batch norm between, benchdnn's comparison fails: it allows 4e-6 relative to each value,
    and the folded weights round otherwise where large summands cancel.
    """
    b = og.GraphBuilder()
    x = b.input((2, 4, 14, 14), name="x")
    y = x.convolution(
        _weights(8, 4, 3, 3), _weights(8),
        strides=(1, 1), pads_begin=(1, 1), pads_end=(1, 1), dilations=(1, 1),
        data_format="NCX", weights_format="OIX",
    )  # fmt: skip
    b.output(y.relu())
    return b


def int8_convolutions() -> og.GraphBuilder:
    """Two convolutions of u8 by s8 with ReLU, quantized between."""
    b = og.GraphBuilder()
    x = b.input((2, 8, 14, 14), "u8", name="x")
    for i in range(2):
        with b.scope(f"layer{i}"):
            weights = np.random.default_rng(i).integers(-99, 99, (8, 8, 3, 3)).astype(np.int8)
            y = og.blocks.dequantize(x, 0.05).convolution(
                og.blocks.dequantize(b.constant(weights), 0.01),
                strides=(1, 1), pads_begin=(1, 1), pads_end=(1, 1), dilations=(1, 1),
                data_format="NCX", weights_format="OIX",
            ).relu()  # fmt: skip
            x = og.blocks.quantize(y, "u8", 0.05)
    b.output(x)
    return b


def int8_linear() -> og.GraphBuilder:
    """MatMul of u8 by s8 with a scale for each column."""
    b = og.GraphBuilder()
    weights = np.random.default_rng(0).integers(-99, 99, (64, 32)).astype(np.int8)
    scales = np.linspace(0.01, 0.05, 32).tolist()
    x = og.blocks.dequantize(b.input((8, 64), "u8", name="x"), 0.1, 3)
    y = x.matmul(og.blocks.dequantize(b.constant(weights), scales, axis=1))
    b.output(og.blocks.quantize(y, "s8", 0.5))
    return b


def two_outputs() -> og.GraphBuilder:
    """Results that other ops read as well, and a tensor that is read twice."""
    b = og.GraphBuilder()
    x = b.input((4, 16), name="x")
    y = (x + x).relu()
    b.output(first=y, second=y.softmax(axis=1))
    return b


GRAPHS: dict[str, Callable[[], og.GraphBuilder]] = {
    "built: attention f32": lambda: attention("f32"),
    "built: attention bf16": lambda: attention("bf16"),
    "built: gated MLP": gated_mlp,
    "built: linear": linear,
    "built: convolution": convolution,
    "built: int8 convolutions": int8_convolutions,
    "built: int8 linear": int8_linear,
    "built: two outputs": two_outputs,
}
