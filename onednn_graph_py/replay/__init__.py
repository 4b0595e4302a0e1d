"""Graphs from JSON files run again: whether oneDNN takes them, fuses them, computes them right.

`cases_of` finds what to run, `replay` runs each in a process of its own, which a crash or a hang
of oneDNN can't leave, and `run_case` runs one here. ``python -m onednn_graph_py replay`` does all
of it.
"""

from .bisect import Divergence, first_divergence
from .cases import Case, cases_of
from .pool import replay
from .run_case import Options, run_case
from .verdicts import Result, Verdict

__all__ = [
    "Case",
    "Divergence",
    "Options",
    "Result",
    "Verdict",
    "cases_of",
    "first_divergence",
    "replay",
    "run_case",
]
