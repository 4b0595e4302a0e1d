"""A comparison as a table: text, Markdown, HTML."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable, Sequence
from html import escape

from ..replay.verdicts import Verdict
from .run import Run, Runs

__all__ = ["as_html", "as_markdown", "as_text"]

Cell = list[str]
"""Its lines; what begins with `_OTHER` is not in the first column."""

_OTHER = "* "
_WIDEST = 34  # characters of a column of text
_SHOWN_STEPS = 12
_SHOWN_OPS = 8
_BUSY = 0.5  # load average a CPU above which times mean little

_COLOURS = {Verdict.PASSED: "#2e7d32", Verdict.SPLIT: "#8d6e00"}
_WRONG = "#c62828"


def _number(value: float | None, form: str = ".2g") -> str:
    return "-" if value is None else format(value, form)


def _step(kinds: Sequence[str], implementation: str) -> str:
    shown = " + ".join(kinds[:_SHOWN_OPS])
    if len(kinds) > _SHOWN_OPS:
        shown += f" + {len(kinds) - _SHOWN_OPS} more"
    return shown if implementation == "oneDNN" else f"{shown} ({implementation})"


def _steps(run: Run, first: Run) -> Cell:
    if not run.steps:
        return ["-"]
    if run.same_steps_as is not None:
        return [f"same as column {run.same_steps_as}"]
    lines = []
    for step in run.steps[:_SHOWN_STEPS]:
        other = bool(first.steps) and step not in first.steps
        lines.append(f"{_OTHER if other else ''}{_step(step.ops, step.implementation)}")
    if len(run.steps) > _SHOWN_STEPS:
        lines.append(f"{len(run.steps) - _SHOWN_STEPS} more")
    return lines


def _kernels(run: Run, first: Run) -> Cell:
    names = list(dict.fromkeys(name for step in run.kernels for name in step))
    if not names:
        return ["-"]
    known = {name for step in first.kernels for name in step}
    shown = [
        f"{_OTHER}{name}" if first.kernels and name not in known else name
        for name in names[:_SHOWN_STEPS]
    ]
    return shown + ([f"{len(names) - _SHOWN_STEPS} more"] if len(names) > _SHOWN_STEPS else [])


def _threads(run: Run, first: Run) -> Cell:
    if run.partitions is None:  # it did not come so far
        return ["-"]
    return [f"{run.runtime}'s own" if run.threads is None else str(run.threads)]


def _error(run: Run, first: Run) -> Cell:
    if run.error is None:
        return ["-"]
    return [f"{run.error:.2g} ({_number(run.share, '.1%')} of allowed)"]


def _time(run: Run, first: Run) -> Cell:
    if run.milliseconds is None:
        return ["-"]
    return [f"{run.milliseconds:.4g} ms, spread {_number(run.spread)}"]


def _fastest(run: Run, first: Run) -> Cell:
    return ["-" if run.fastest is None else f"{run.fastest:.4g} ms"]


def _ratio(run: Run, first: Run) -> Cell:
    return [_number(run.ratio, ".2f")]


Rows = Sequence[tuple[str, Callable[[Run, Run], Cell]]]

_ROWS: Rows = (
    ("oneDNN", lambda run, first: [f"{run.onednn} ({run.runtime})"]),
    ("ISA", lambda run, first: [run.isa or "-"]),
    ("threads", _threads),
    ("fpmath", lambda run, first: [run.fpmath or "-"]),
    ("verdict", lambda run, first: [str(run.verdict)]),
    (
        "partitions",
        lambda run, first: ["-" if run.partitions is None else str(run.partitions)],
    ),
    ("fused", _steps),
    ("kernels", _kernels),
    ("error", _error),
    ("from column 1", lambda run, first: [_number(run.difference)]),
    ("time", _time),
    ("fastest call", _fastest),
    ("ratio to column 1", _ratio),
)


def _heading(comparison: Runs) -> list[str]:
    return [comparison.graph, f"on {comparison.processor}"]


def _columns(comparison: Runs) -> list[str]:
    return [f"{i}: {run.label}" for i, run in enumerate(comparison.runs, 1)]


def _footer(comparison: Runs) -> list[str]:
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
        if comparison.load > _BUSY:
            lines.append(
                f"The machine was busy (load average {comparison.load:.1f} a CPU): compare the "
                "fastest calls, or try again when it is idle."
            )
    if _marked(comparison):
        lines.append(f"{_OTHER.strip()} not in column 1")
    return lines


def _rows(comparison: Runs) -> Rows:
    """Those that there is something for."""
    named = any(run.kernels for run in comparison.runs)
    return [(name, cell) for name, cell in _ROWS if named or name != "kernels"]


def _marked(comparison: Runs) -> bool:
    first = comparison.runs[0]
    cells = (cell(run, first) for run in comparison.runs for _, cell in _rows(comparison))
    return any(line.startswith(_OTHER) for lines in cells for line in lines)


# -- text


def _wrapped(lines: Sequence[str]) -> Cell:
    made: Cell = []
    for line in lines:
        made += textwrap.wrap(line, _WIDEST, subsequent_indent="    ") or [""]
    return made


def _block(names: Cell, columns: Sequence[Sequence[Cell]]) -> list[str]:
    """Some columns with the names of the rows."""
    table = [[[n], *(c[i] for c in columns)] for i, n in enumerate(names)]
    widths = [max(len(line) for cells in table for line in cells[k]) for k in range(len(table[0]))]
    lines = []
    for cells in table:
        for k in range(max(len(cell) for cell in cells)):
            parts = [cell[k] if k < len(cell) else "" for cell in cells]
            row = "  ".join(p.ljust(w) for p, w in zip(parts, widths, strict=True))
            lines.append(row.rstrip())
    return lines


def as_text(comparison: Runs) -> str:
    """For a terminal: as many columns side by side as there is room for."""
    rows = _rows(comparison)
    names = ["", *(name for name, _ in rows)]
    first = comparison.runs[0]
    columns = [
        [_wrapped([label]), *(_wrapped(cell(run, first)) for _, cell in rows)]
        for label, run in zip(_columns(comparison), comparison.runs, strict=True)
    ]
    room = max(shutil.get_terminal_size((110, 24)).columns, 60) - max(map(len, names))
    lines = _heading(comparison)
    block: list[Sequence[Cell]] = []
    used = 0
    for column in columns:
        width = 2 + max(len(line) for cell in column for line in cell)
        if block and used + width > room:
            lines += ["", *_block(names, block)]
            block, used = [], 0
        block.append(column)
        used += width
    lines += ["", *_block(names, block), "", *_footer(comparison)]
    return "\n".join(lines).rstrip()


# -- Markdown


def _in_markdown(text: str) -> str:
    # A star would begin emphasis, and a bar a column.
    return text.replace("|", "\\|").replace("*", "\\*").replace("\n", " ")


def as_markdown(comparison: Runs) -> str:
    """For a page."""
    first = comparison.runs[0]
    graph, *machine = map(_in_markdown, _heading(comparison))
    lines = [f"## {graph}", "", *machine]
    lines += ["", "| | " + " | ".join(map(_in_markdown, _columns(comparison))) + " |"]
    lines.append("|" + " --- |" * (len(comparison.runs) + 1))
    for name, cell in _rows(comparison):
        cells = ["<br>".join(map(_in_markdown, cell(run, first))) for run in comparison.runs]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += ["", *(f"- {_in_markdown(line)}" for line in _footer(comparison))]
    return "\n".join(lines).rstrip()


# -- HTML


def _html_cell(name: str, lines: Cell, run: Run) -> str:
    made = []
    for line in lines:
        text = escape(line)
        if line.startswith(_OTHER):
            text = f"<b>{text}</b>"
        made.append(text)
    colour = "inherit"
    if name == "verdict":
        colour = _WRONG if run.verdict.failed else _COLOURS.get(run.verdict, colour)
    return f'<td style="color:{colour}">{"<br>".join(made)}</td>'


def as_html(comparison: Runs) -> str:
    """For a notebook or a browser."""
    first = comparison.runs[0]
    head = "".join(f"<th>{escape(label)}</th>" for label in _columns(comparison))
    body = "".join(
        f"<tr><th>{escape(name)}</th>"
        + "".join(_html_cell(name, cell(run, first), run) for run in comparison.runs)
        + "</tr>"
        for name, cell in _rows(comparison)
    )
    style = "text-align:left;vertical-align:top;border-spacing:8px 1px"
    footer = "<br>".join(escape(line) for line in _footer(comparison))
    return (
        f"<p>{'<br>'.join(escape(line) for line in _heading(comparison))}</p>"
        f'<table style="{style}"><tr><th></th>{head}</tr>{body}</table><p>{footer}</p>'
    )
