"""One graph under several settings, side by side: `compare`.

Each run has its own process (`worker`), because oneDNN reads some settings only once.
``python -m onednn_graph_py compare`` calls it.
"""

from .compare import compare
from .table import Comparison, Run

__all__ = ["Comparison", "Run", "compare"]
