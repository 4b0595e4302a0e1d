"""The definition of each op in NumPy, to check oneDNN's results; it is not optimized for speed.

>>> import numpy as np
>>> from onednn_graph_py.reference import run
>>> run("MatMul", [np.float32([[1, 2]]), np.float32([[3], [4]])])
[array([[11.]], dtype=float32)]
"""

# Each of these modules registers the ops that it computes.
from . import elementwise as elementwise
from . import movement as movement
from . import normalization as normalization
from . import products as products
from . import windows as windows

# isort: split
from .registry import implemented
from .rounding import round_to
from .run import call_of, evaluate, run
from .tolerance import Tolerance, tolerance

__all__ = ["Tolerance", "call_of", "evaluate", "implemented", "round_to", "run", "tolerance"]
