"""Graphs of running programs: the JSON files that oneDNN writes when it partitions.

`dump` has the oneDNN of this process write them, `capture` that of another program, whatever it
is (torch, a C++ program, this package); ``python -m onednn_graph_py capture`` calls it.
"""

from .dump import dump
from .program import Captured, capture

__all__ = ["Captured", "capture", "dump"]
