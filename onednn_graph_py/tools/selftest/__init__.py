"""Tests of whether the linked oneDNN computes correctly on this CPU, by random graphs.

Each family draws graphs by seeds (`FAMILIES`), `search` judges them in other processes, and
``python -m onednn_graph_py selftest`` does that for some minutes and reports its findings.
"""

from .draft import Drawn
from .draws import FAMILIES, Family
from .report import Count, Finding, Report
from .run import search

__all__ = ["FAMILIES", "Count", "Drawn", "Family", "Finding", "Report", "search"]
