"""What each op means, in NumPy: to check oneDNN's results, never for speed.

>>> import numpy as np
>>> from onednn_graph_py.reference import run
>>> run("MatMul", [np.float32([[1, 2]]), np.float32([[3], [4]])])
[array([[11.]], dtype=float32)]
"""

from __future__ import annotations

from .registry import implemented
from .rounding import round_to
from .run import evaluate, run

__all__ = ["evaluate", "implemented", "round_to", "run"]
