"""Run graphs from JSON files again, to test whether oneDNN fuses them and computes them right.

`cases_of` finds the graphs; `replay` runs each in its own process, which contains a crash or a hang
of oneDNN; `run_case` runs one in this process. ``python -m onednn_graph_py replay`` calls them.
"""

from .bisect import Divergence, first_divergence
from .run_case import Options, replay, run_case
from .stages import Case, cases_of
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
