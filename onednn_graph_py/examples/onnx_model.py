"""An ONNX model runs in oneDNN, and says what runs where.

A residual network that names the three likeliest of ten classes; onnx.helper makes it, and the
number of images is open. Only TopK runs outside of oneDNN. The example sets the results beside
NumPy and onnxruntime, or onnx's reference without it, and prints the report. Needs onnx. The
command ``python -m onednn_graph_py onnx FILE`` shows the same of a file.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..model.checking.expected import Expected
from ._run import Case, Skipped, median_milliseconds

CHANNELS, SIDE, BLOCKS, CLASSES, BEST = 32, 32, 3, 10, 3


class _Writer:
    """An ONNX graph that is being written."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def weight(self, *shape: int) -> str:
        from onnx import numpy_helper

        name = f"weight{len(self.weights)}"
        scale = math.sqrt(2 / math.prod(shape[1:]))
        values = (self.random.standard_normal(shape) * scale).astype(np.float32)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        from onnx import helper

        made = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [made], name=made, **attributes))
        return made

    def convolution(self, x: str, channels: int, stride: int = 1) -> str:
        weight = self.weight(CHANNELS, channels, 3, 3)
        bias = self.weight(CHANNELS)
        return self.node("Conv", x, weight, bias, pads=[1] * 4, strides=[stride] * 2)


def _model() -> Any:
    from onnx import TensorProto, helper, numpy_helper

    w = _Writer()
    x = w.node("Relu", w.convolution("images", 3, stride=2))
    for _ in range(BLOCKS):
        inner = w.node("Relu", w.convolution(x, CHANNELS))
        x = w.node("Relu", w.node("Add", w.convolution(inner, CHANNELS), x))
    flat = w.node("Flatten", w.node("GlobalAveragePool", x))
    scores = w.node("Gemm", flat, w.weight(CHANNELS, CLASSES), w.weight(CLASSES))
    w.weights.append(numpy_helper.from_array(np.array([BEST]), "count"))
    outputs = ["probabilities", "classes"]
    w.nodes.append(helper.make_node("TopK", [w.node("Softmax", scores), "count"], outputs))
    graph = helper.make_graph(
        w.nodes,
        "classifier",
        [
            helper.make_tensor_value_info(
                "images", TensorProto.FLOAT, ["count_images", 3, SIDE, SIDE]
            )
        ],
        [
            helper.make_tensor_value_info(outputs[0], TensorProto.FLOAT, ["count_images", BEST]),
            helper.make_tensor_value_info(outputs[1], TensorProto.INT64, ["count_images", BEST]),
        ],
        w.weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def _run(images: int) -> Case:
    from ..onnx import load

    model = load(_model())
    x = np.random.default_rng(1).standard_normal((images, 3, SIDE, SIDE)).astype(np.float32)
    got = model(x)
    builder = model.builder({"images": x.shape})
    ids = [value.id for value in builder.outputs.values()]
    compared = Expected(builder, [x]).compare(dict(zip(ids, got, strict=True)))
    report = model.report()
    (program,) = report.programs
    fused = list(dict.fromkeys(s.ops for s in program.steps if s.implementation == "oneDNN"))
    verified = model.verify(x)
    faults = [] if program.share > 0.99 else [f"only {program.share:.0%} runs in oneDNN"]
    return Case(
        name=f"{images} {'image' if images == 1 else 'images'} of {SIDE}x{SIDE}",
        expected_partitions=None,
        partitions=fused,
        comparisons={"all elements with NumPy in float64": compared},
        milliseconds=median_milliseconds(lambda: model(x)),
        facts=[*str(verified).splitlines(), *str(report).splitlines()],
        faults=faults
        + ([] if verified else ["the results differ from those of the other runtime"]),
    )


def run() -> Iterator[Case | Skipped]:
    """Run with one image and with several."""
    for images in (1, 8):
        missing = [n for n in ("onnx", "onnx_ir") if not importlib.util.find_spec(n)]
        if missing:
            yield Skipped(f"{images} images", f"{', '.join(missing)} not installed")
        else:
            yield _run(images)
