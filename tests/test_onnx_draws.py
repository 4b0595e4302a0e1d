"""Random ONNX graphs, as onnxruntime computes them."""

import os

import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onednn_graph_py.onnx")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from onnx_draws import verdict_of


def check(seeds):
    outcomes = {seed: verdict_of(seed) for seed in seeds}
    assert {s: o for s, o in outcomes.items() if o[0] not in ("right", "empty")} == {}
    assert sum(o[0] == "right" for o in outcomes.values()) > 0.9 * len(outcomes)


def test_random_graphs_are_what_onnxruntime_computes():
    check(range(100))


@pytest.mark.slow
def test_new_random_graphs_are_what_onnxruntime_computes():
    first = int.from_bytes(os.urandom(4), "big")
    print(f"seeds from {first}")
    check(range(first, first + 20_000))
