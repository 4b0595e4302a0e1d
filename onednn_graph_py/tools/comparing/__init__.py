"""One graph under several settings and oneDNN installs, side by side: `compare`.

Each run has its own process (`worker`), because oneDNN reads some settings only once, and because
another oneDNN is in another Python environment. ``python -m onednn_graph_py compare`` calls it.
"""

from .compare import compare
from .table import Comparison, Run

__all__ = ["Comparison", "Run", "compare"]
