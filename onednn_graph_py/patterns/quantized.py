"""All patterns of quantized tensors but attention's."""

from __future__ import annotations

from . import (
    quantized_conv_transpose,
    quantized_convolution,
    quantized_matmul,
    quantized_movement,
    quantized_norm,
    quantized_pool,
)

__all__ = ["PATTERNS"]

PATTERNS = (
    *quantized_convolution.PATTERNS,
    *quantized_conv_transpose.PATTERNS,
    *quantized_matmul.PATTERNS,
    *quantized_pool.PATTERNS,
    *quantized_movement.PATTERNS,
    *quantized_norm.PATTERNS,
)
