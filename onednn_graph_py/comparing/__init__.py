"""One graph under several settings and oneDNN installs, side by side: `compare`.

Each run has a process of its own (`worker`), because oneDNN reads some settings once, and because
another oneDNN is another Python environment's. ``python -m onednn_graph_py compare`` does it all.
"""

from .compare import compare
from .comparison import Comparison
from .run import Run

__all__ = ["Comparison", "Run", "compare"]
