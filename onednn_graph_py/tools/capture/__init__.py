"""Graphs of running programs: the JSON files that oneDNN writes when it partitions.

`dump` makes the oneDNN of this process write them, `capture` that of another program of any kind
(torch, a C++ program, this package); ``python -m onednn_graph_py capture`` calls `capture`.
"""

from .dump import dump
from .program import Captured, capture

__all__ = ["Captured", "capture", "dump"]
