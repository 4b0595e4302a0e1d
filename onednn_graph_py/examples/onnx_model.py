"""An ONNX model runs in oneDNN, and says what runs where.

A residual network that names the three likeliest of ten classes; onnx.parser makes it, and the
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


def _model() -> Any:
    from onnx import numpy_helper, parser

    shapes: list[tuple[int, ...]] = []
    nodes: list[str] = []

    def weight(*shape: int) -> str:
        shapes.append(shape)
        return f"weight{len(shapes) - 1}"

    def node(op: str, *inputs: str, attributes: str = "") -> str:
        made = f"{op.lower()}{len(nodes)}"
        nodes.append(f"[{made}] {made} = {op} {attributes}({', '.join(inputs)})")
        return made

    def convolution(x: str, channels: int, stride: int = 1) -> str:
        attributes = f"<pads = [1, 1, 1, 1], strides = [{stride}, {stride}]> "
        operands = (x, weight(CHANNELS, channels, 3, 3), weight(CHANNELS))
        return node("Conv", *operands, attributes=attributes)

    x = node("Relu", convolution("images", 3, stride=2))
    for _ in range(BLOCKS):
        inner = node("Relu", convolution(x, CHANNELS))
        x = node("Relu", node("Add", convolution(inner, CHANNELS), x))
    flat = node("Flatten", node("GlobalAveragePool", x))
    scores = node("Softmax", node("Gemm", flat, weight(CHANNELS, CLASSES), weight(CLASSES)))
    model = parser.parse_model(
        f"""<ir_version: 9, opset_import: ["": 20]>
        classifier (float[n, 3, {SIDE}, {SIDE}] images)
            => (float[n, {BEST}] probabilities, int64[n, {BEST}] classes)
        <int64[1] count = {{{BEST}}}>
        {{ {" ".join(nodes)} probabilities, classes = TopK ({scores}, count) }}"""
    )
    random = np.random.default_rng(0)
    for number, shape in enumerate(shapes):
        scale = math.sqrt(2 / math.prod(shape[1:]))
        values = (random.standard_normal(shape) * scale).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, f"weight{number}"))
    return model


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
