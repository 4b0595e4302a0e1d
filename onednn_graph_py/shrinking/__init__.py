"""The smallest graph that still shows what is wrong with a large one.

`shrink` makes it, `Shows` tells whether a graph shows a symptom, in a process that may crash, and
``python -m onednn_graph_py shrink`` does both for a file.
"""

from .outcome import SYMPTOMS, Outcome
from .shows import Shows
from .shrink import Progress, shrink

__all__ = ["SYMPTOMS", "Outcome", "Progress", "Shows", "shrink"]
