"""All patterns of quantized tensors, except attention's."""

from __future__ import annotations

from .pattern import Pattern
from .quantized_conv_transpose import PATTERNS as CONV_TRANSPOSE
from .quantized_convolution import PATTERNS as CONVOLUTION
from .quantized_matmul import PATTERNS as MATMUL
from .quantized_movement import PATTERNS as MOVEMENT
from .quantized_norm import PATTERNS as NORM
from .quantized_pool import PATTERNS as POOL

__all__ = ["PATTERNS"]

PATTERNS: tuple[Pattern, ...] = (*CONVOLUTION, *CONV_TRANSPOSE, *MATMUL, *POOL, *MOVEMENT, *NORM)
