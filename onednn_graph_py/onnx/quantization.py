"""Quantized ops in the form that oneDNN fuses."""

from __future__ import annotations

import onnx_ir as ir

__all__ = ["rewrite"]


def rewrite(model: ir.Model, requantize: str, dynamic_quantization: str) -> None:
    """Rewrite a model in place."""
