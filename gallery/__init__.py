"""oneDNN's documented fusion patterns, each as a short function over `GraphBuilder`.

``./dev patterns`` builds and runs them here, and reports each result.
"""

from . import (
    attention,
    attention_training,
    categories,
    conv_transpose,
    conv_transpose_weights,
    data_model,
    floating_point,
    quantized,
    training,
)
from .pattern import Case, Deviation, Pattern, patterns

__all__ = ["PATTERNS", "Case", "Deviation", "Pattern"]

PATTERNS = patterns(
    categories.PATTERNS,
    attention.PATTERNS,
    floating_point.PATTERNS,
    quantized.PATTERNS,
    training.PATTERNS,
    attention_training.PATTERNS,
    conv_transpose.PATTERNS,
    conv_transpose_weights.PATTERNS,
    data_model.PATTERNS,
)
"""All patterns by id."""
