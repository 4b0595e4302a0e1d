"""oneDNN's documented fusion patterns, each as a short function over `GraphBuilder`.

``python -m onednn_graph_py patterns`` builds and runs them here, and tells what becomes of each.
"""

from .pattern import Case, Deviation, Pattern

__all__ = ["Case", "Deviation", "Pattern"]
