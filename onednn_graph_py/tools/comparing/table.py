"""The results of a graph's runs, and a comparison of them as a table."""

from __future__ import annotations

import math
import shutil
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...base.text.names import shortened
from ...base.text.numbers import or_dash, seconds_text
from ...base.text.table import element, html_table, joined, text_table
from ...model.running.model import Step
from ..replay.verdicts import Verdict


@dataclass
class Run:
    """One setting, and the results of its run; None for stages that it did not reach."""

    label: str  # the settings that differ from those of the other runs
    isa: str = ""  # the highest instruction set that oneDNN used
    threads: int | None = None  # threads per call; None also if oneDNN's runtime decides
    # the graph's floating-point math mode, with `:true` if it applies to integers
    fpmath: str | None = None
    verdict: Verdict = Verdict.RAN
    reason: str = ""  # the reason for the verdict
    notes: tuple[str, ...] = ()  # remarks on settings that differ from the requested ones
    partitions: int | None = None  # number of partitions that oneDNN makes of the graph
    steps: tuple[Step, ...] = ()  # the steps that ran, in order; the ops of a step are fused
    # the number of the first run, from 1, before this one that ran the same steps
    same_steps_as: int | None = None
    # error, share: the largest difference to the reference, and the largest fraction of a tolerance
    error: float | None = None
    share: float | None = None
    difference: float | None = None  # the largest difference to the first run's outputs
    # milliseconds, spread, fastest: the median of the calls' times, with equal weight for all
    # rounds; the difference between the first and the third quartile; and the shortest time
    milliseconds: float | None = None
    spread: float | None = None
    fastest: float | None = None
    # its time divided by the first run's: the median of the rounds' ratios
    ratio: float | None = None
    calls: int = 0  # number of timed samples

    def to_dict(self) -> dict[str, Any]:
        """Return the data as a dict for JSON, with infinite numbers as text."""
        fields = {**asdict(self), "verdict": self.verdict.value}
        fields["steps"] = [s._asdict() for s in self.steps]
        return {
            k: str(v) if isinstance(v, float) and not math.isfinite(v) else v
            for k, v in fields.items()
        }


_OTHER = "* "  # the mark before a cell's lines that column 1 does not have

_WIDEST = 34  # the widest column of text, in characters
_SHOWN_LINES = 13
_SHOWN_OPS = 9


def _step(kinds: Sequence[str], implementation: str) -> str:
    shown = " + ".join(shortened(kinds, _SHOWN_OPS))
    return shown if implementation == "oneDNN" else f"{shown} ({implementation})"


def _steps(run: Run, first: Run) -> str:
    if run.same_steps_as is not None and run.steps:
        return f"same as column {run.same_steps_as}"
    shown = [_step(step.ops, step.implementation) for step in run.steps]
    other = [bool(first.steps) and step not in first.steps for step in run.steps]
    marked = [_OTHER * o + text for text, o in zip(shown, other, strict=True)]
    return "\n".join(shortened(marked, _SHOWN_LINES)) or "-"


def _threads(run: Run, first: Run) -> str:
    if run.partitions is None:  # the run ended before this stage
        return "-"
    return "the runtime's own" if run.threads is None else str(run.threads)


def _error(run: Run, first: Run) -> str:
    if run.error is None:
        return "-"
    return f"{run.error:.2g} ({or_dash(run.share, '.1%')} of allowed)"


def _duration(milliseconds: float | None) -> str:
    return "-" if milliseconds is None else seconds_text(milliseconds / 1e3)


def _time(run: Run, first: Run) -> str:
    if run.milliseconds is None:
        return "-"
    return f"{_duration(run.milliseconds)}, spread {_duration(run.spread)}"


Rows = Sequence[tuple[str, Callable[[Run, Run], str]]]

_ROWS: Rows = (
    ("ISA", lambda run, first: run.isa or "-"),
    ("threads", _threads),
    ("fpmath", lambda run, first: run.fpmath or "-"),
    ("verdict", lambda run, first: str(run.verdict)),
    ("partitions", lambda run, first: or_dash(run.partitions)),
    ("fused", _steps),
    ("error", _error),
    ("from column 1", lambda run, first: or_dash(run.difference, ".2g")),
    ("time", _time),
    ("fastest call", lambda run, first: _duration(run.fastest)),
    ("ratio to column 1", lambda run, first: or_dash(run.ratio, ".2f")),
)


def _heading(comparison: Comparison) -> list[str]:
    return [comparison.graph, f"on {comparison.processor}, oneDNN {comparison.onednn}"]


def _columns(comparison: Comparison) -> list[str]:
    return [f"{i}: {run.label}" for i, run in enumerate(comparison.runs, 1)]


def _footer(comparison: Comparison) -> list[str]:
    """Return the lines below the table, for which cells have no room."""
    lines = []
    for i, run in enumerate(comparison.runs, 1):
        lines += [f"{i}: {text}" for text in (run.reason, *run.notes) if text]
    if any(run.milliseconds is not None for run in comparison.runs):
        lines.append(
            f"Times: {comparison.seconds:g} s each, in {comparison.rounds} rounds in which the "
            "runs take turns, one at a time; medians and quartiles; ratios are medians of the "
            "rounds' ratios."
        )
    cells = (cell for row in _rows(comparison) for cell in row)
    if any(line.startswith(_OTHER) for cell in cells for line in cell.split("\n")):
        lines.append(f"{_OTHER.strip()} not in column 1")
    return lines


def _rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return the rows: the name, and a cell for each run."""
    first = comparison.runs[0]
    return [(name, *(cell(run, first) for run in comparison.runs)) for name, cell in _ROWS]


def _wrapped(cell: str) -> str:
    lines = (textwrap.wrap(line, _WIDEST, subsequent_indent="    ") for line in cell.split("\n"))
    return "\n".join("\n".join(wrapped) for wrapped in lines)


@dataclass(frozen=True)
class Comparison:
    """One graph under several settings; it prints as a table with a column for each.

    Parameters
    ----------
    graph : str
        The file's name.
    runs : tuple of Run
        In the order of the settings.
    processor, onednn : str
        The CPU, and the version and runtime of oneDNN.
    seconds : float
        The time for which each run was timed, in seconds.
    rounds : int
        Number of rounds in which the runs took turns.
    """

    graph: str
    runs: tuple[Run, ...]
    processor: str
    onednn: str
    seconds: float
    rounds: int

    @property
    def ok(self) -> bool:
        """Whether no run failed: none is wrong, refused, crashed or too slow."""
        return not any(run.verdict.failed for run in self.runs)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a dict for `json.dumps`."""
        return {
            "graph": self.graph,
            "processor": self.processor,
            "onednn": self.onednn,
            "seconds": self.seconds,
            "rounds": self.rounds,
            "runs": [run.to_dict() for run in self.runs],
        }

    def __str__(self) -> str:
        # For a terminal, with as many columns side by side as fit.
        rows = [("", *_columns(self)), *_rows(self)]
        names, *columns = zip(*((row[0], *map(_wrapped, row[1:])) for row in rows), strict=True)
        room = max(shutil.get_terminal_size((110, 24)).columns, 60) - max(map(len, names))
        blocks: list[list[tuple[str, ...]]] = []
        used = 0
        for column in columns:
            width = 2 + max(len(line) for cell in column for line in cell.split("\n"))
            if not blocks or used + width > room:
                blocks.append([names])
                used = 0
            blocks[-1].append(column)
            used += width
        lines = _heading(self)
        for block in blocks:
            lines += ["", *text_table(zip(*block, strict=True))]
        return "\n".join([*lines, "", *_footer(self)]).rstrip()

    def _repr_html_(self) -> str:
        table = html_table(("", *_columns(self)), _rows(self), style="text-align:left")
        above, below = (element("p", joined(f(self), "<br>")) for f in (_heading, _footer))
        return above + table + below
