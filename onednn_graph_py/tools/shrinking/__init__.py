"""Find the smallest graph that still shows the symptom of a large one.

`shrink` finds it. `Shows` tests whether a graph shows a symptom, in a process that may crash.
``python -m onednn_graph_py shrink`` does both for a file.
"""

from .outcome import SYMPTOMS, Outcome
from .shows import Shows
from .shrink import Progress, shrink

__all__ = ["SYMPTOMS", "Outcome", "Progress", "Shows", "shrink"]
