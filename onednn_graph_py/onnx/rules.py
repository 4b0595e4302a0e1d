"""Groups of nodes that become the one op that they stand for."""

from __future__ import annotations

import onnx_ir as ir

__all__ = ["rewrite"]


def rewrite(model: ir.Model) -> None:
    """Rewrite a model in place."""
