"""Compare what calls of tiny ONNX models cost with onnxruntime, and with the model's own call.

Each network has 1 to 30 ops on 16 to 96 elements, so that what is around the kernels counts. All
take turns round by round on one thread, and the best round of each counts. Figures are CPU time,
which other processes disturb less than wall time.

    pip install onnx onnxruntime .
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import onnx
import onnx.parser
import onnxruntime

from onednn_graph_py.onnx.file_model import load
from onednn_graph_py.onnx.model import entry_of

HEAD = '<ir_version: 8, opset_import: ["": 17]> g '
AIM = 1.1
"""The time of a call over onnxruntime's."""
AIM_OVER = 2.0
"""The microseconds of a call over those of the model's own call."""


def dense(layers: int) -> tuple[str, dict[str, tuple[int, ...]]]:
    """Products with a residual: x + silu(x @ w + b), 5 ops a layer."""
    nodes, weights, last = [], {}, "x"
    for i in range(layers):
        weights |= {f"w{i}": (64, 64), f"b{i}": (64,)}
        made = "y" if i == layers - 1 else f"x{i}"
        nodes.append(
            f"m{i} = MatMul({last}, w{i}) a{i} = Add(m{i}, b{i}) s{i} = Sigmoid(a{i}) "
            f"u{i} = Mul(a{i}, s{i}) {made} = Add(u{i}, {last})"
        )
        last = made
    return f"(float[1,64] x) => (float[1,64] y) {{ {' '.join(nodes)} }}", weights


NETWORKS: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "ReLU": ("(float[16] x) => (float[16] y) { y = Relu(x) }", {}),
    "a layer": (
        "(float[1,96] x) => (float[1,32] y) { y = Gemm(x, w, b) }",
        {"w": (96, 32), "b": (32,)},
    ),
    "voice activity, 8 ops": (
        "(float[1,96] x) => (float[1,1] y) { a = Gemm(x, w, b) c = Relu(a) d = Gemm(c, v, e) "
        "f = Relu(d) g = Gemm(f, s, t) h = Relu(g) i = Gemm(h, p, q) y = Sigmoid(i) }",
        {
            "w": (96, 32),
            "b": (32,),
            "v": (32, 32),
            "e": (32,),
            "s": (32, 16),
            "t": (16,),
            "p": (16, 1),
            "q": (1,),
        },
    ),
    "a wake word, 7 ops": (
        "(float[1,16,6] x) => (float[1,2] y) { a = Conv<pads=[1,1]>(x, w, b) c = Relu(a) "
        "d = Conv<pads=[1,1]>(c, v, e) f = Relu(d) h = Flatten(f) i = Gemm(h, p, q) "
        "y = Softmax(i) }",
        {"w": (16, 16, 3), "b": (16,), "v": (16, 16, 3), "e": (16,), "p": (96, 2), "q": (2,)},
    ),
    "Clip with computed limits, 6 ops": (
        "(float[4,16] x) => (float[4,16] y) { low = ReduceMin<keepdims=0>(x) "
        "high = ReduceMax<keepdims=0>(x) a = Mul(x, k) c = Clip(a, low, high) d = Add(c, k) "
        "y = Tanh(d) }",
        {"k": (16,)},
    ),
    "residual, 30 ops": dense(6),
    "an island: CumSum": ("(float[16] x, int64 at) => (float[16] y) { y = CumSum(x, at) }", {}),
}


def model_of(text: str, weights: dict[str, tuple[int, ...]]) -> onnx.ModelProto:
    """Parse a network, and draw its weights."""
    model = onnx.parser.parse_model(HEAD + text)
    draw = np.random.default_rng(0)
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(draw.standard_normal(s).astype(np.float32) * 0.3, n)
        for n, s in weights.items()
    )
    return model


def microseconds(call: Callable[[], object], calls: int) -> float:
    """Return the CPU time of a call."""
    begin = time.thread_time()
    for _ in range(calls):
        call()
    return (time.thread_time() - begin) / calls * 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--calls", type=int, default=300, help="calls a round (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=20, help="default: %(default)s")
    options = parser.parse_args()
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    print(f"{'CPU us':36}{'onnxruntime':>12}{'OnnxModel':>11}{'ratio':>7}{'over model':>16}")
    for name, (text, weights) in NETWORKS.items():
        model = model_of(text, weights)
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), settings, providers=["CPUExecutionProvider"]
        )
        loaded = load(model, threads=1)
        inputs = loaded.random_inputs()
        arrays = list(inputs.values())
        (expected,), made = session.run(None, inputs), loaded(*arrays)
        np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-5)
        calls = {
            "onnxruntime": lambda s=session, i=inputs: s.run(None, i),
            "OnnxModel": lambda m=loaded, a=arrays: m(*a),
        }
        own = entry_of(loaded, None).program.model
        if own is not None:
            calls["own"] = lambda m=own, a=arrays: m(*a)
        best = dict.fromkeys(calls, float("inf"))
        for _ in range(options.rounds):
            for which, call in calls.items():
                best[which] = min(best[which], microseconds(call, options.calls))
        ratio = best["OnnxModel"] / best["onnxruntime"]
        line = f"{name:36}{best['onnxruntime']:12.2f}{best['OnnxModel']:11.2f}{ratio:7.2f}"
        missed = ratio > AIM
        if own is not None:
            over = best["OnnxModel"] - best["own"]
            missed = missed or over > AIM_OVER
            line += f"{over:16.2f}"
        print(line + ("  missed" if missed else ""))


if __name__ == "__main__":
    main()
