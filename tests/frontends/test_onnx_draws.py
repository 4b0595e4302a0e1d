"""Random ONNX graphs, as onnxruntime computes them."""

import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onednn_graph_py.onnx")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from front_end_draws import check, new_seeds
from onnx_draws import verdict_of


def test_random_graphs_are_what_onnxruntime_computes():
    check(verdict_of, range(100))


@pytest.mark.slow
def test_new_random_graphs_are_what_onnxruntime_computes():
    check(verdict_of, new_seeds(8_000))
