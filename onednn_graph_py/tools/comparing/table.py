"""A comparison, which is shown as a table: text, Markdown or HTML."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.text.markup import element, joined
from ...base.text.names import shortened
from ...base.text.numbers import or_dash, seconds_text
from ...base.text.table import html_table, text_table
from .run import Run

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
    return _lines(shown, other)


def _lines(texts: Sequence[str], other: Sequence[bool]) -> str:
    marked = [_OTHER * o + text for text, o in zip(texts, other, strict=True)]
    return "\n".join(shortened(marked, _SHOWN_LINES)) or "-"


def _threads(run: Run, first: Run) -> str:
    if run.partitions is None:  # the run ended before this stage
        return "-"
    return f"{run.runtime}'s own" if run.threads is None else str(run.threads)


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


def _fastest(run: Run, first: Run) -> str:
    return _duration(run.fastest)


Rows = Sequence[tuple[str, Callable[[Run, Run], str]]]

_ROWS: Rows = (
    ("oneDNN", lambda run, first: f"{run.onednn} ({run.runtime})"),
    ("ISA", lambda run, first: run.isa or "-"),
    ("threads", _threads),
    ("fpmath", lambda run, first: run.fpmath or "-"),
    ("verdict", lambda run, first: str(run.verdict)),
    ("partitions", lambda run, first: or_dash(run.partitions)),
    ("fused", _steps),
    ("error", _error),
    ("from column 1", lambda run, first: or_dash(run.difference, ".2g")),
    ("time", _time),
    ("fastest call", _fastest),
    ("ratio to column 1", lambda run, first: or_dash(run.ratio, ".2f")),
)


def _heading(comparison: Comparison) -> list[str]:
    return [comparison.graph, f"on {comparison.processor}"]


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
    if _marked(comparison):
        lines.append(f"{_OTHER.strip()} not in column 1")
    return lines


def _rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return the rows: the name, and a cell for each run."""
    first = comparison.runs[0]
    return [(name, *(cell(run, first) for run in comparison.runs)) for name, cell in _ROWS]


def _marked(comparison: Comparison) -> bool:
    cells = (cell for row in _rows(comparison) for cell in row)
    return any(line.startswith(_OTHER) for cell in cells for line in cell.split("\n"))


def _wrapped(cell: str) -> str:
    lines = (textwrap.wrap(line, _WIDEST, subsequent_indent="    ") for line in cell.split("\n"))
    return "\n".join("\n".join(wrapped) for wrapped in lines)


@dataclass(frozen=True)
class Comparison:
    """One graph under several settings; it prints as a table with a column for each.

    Parameters
    ----------
    graph : str
        The file's name, and the options that rewrote it.
    runs : tuple of Run
        In the order of the settings.
    processor : str
        The CPU.
    seconds : float
        The time for which each run was timed, in seconds.
    rounds : int
        Number of rounds in which the runs took turns.
    """

    graph: str
    runs: tuple[Run, ...]
    processor: str
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
