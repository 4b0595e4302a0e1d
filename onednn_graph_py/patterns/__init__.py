"""oneDNN's documented fusion patterns, each as a short function over `GraphBuilder`.

``python -m onednn_graph_py patterns`` builds and runs them here, and tells what becomes of each.
"""

from . import attention, categories, floating_point
from .pattern import Case, Deviation, Pattern, patterns

__all__ = ["PATTERNS", "Case", "Deviation", "Pattern"]

PATTERNS = patterns(categories.PATTERNS, attention.PATTERNS, floating_point.PATTERNS)
"""All patterns by id."""
