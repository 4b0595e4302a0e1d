"""ONNX models with oneDNN: ``onednn_graph_py.onnx.load("model.onnx")``."""

from . import lowering  # noqa: F401  # fills the table
from .model import OnnxModel, load

__all__ = ["OnnxModel", "load"]
