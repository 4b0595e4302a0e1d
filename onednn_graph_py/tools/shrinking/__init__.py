"""Find the smallest graph that still shows the symptom of a large one.

`shrink` finds it. `Shows` tests whether a graph shows a symptom, in a process that may crash.
``python -m onednn_graph_py shrink`` does both for a file.
"""

from .shrink import Progress, shrink
from .trial import SYMPTOMS, Outcome, Shows

__all__ = ["SYMPTOMS", "Outcome", "Progress", "Shows", "shrink"]
