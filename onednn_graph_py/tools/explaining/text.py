"""An explanation as text."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.text.names import printable
from ...base.text.table import text_table
from ..inspect.labels import visible
from .facts import Facts
from .words import HEADER, NUMBERS, cells, heading, place_known, step_lines, title_lines

__all__ = ["to_text"]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align the columns, without those in which all cells are empty."""
    shown = [i for i in range(len(HEADER)) if any(row[i] for row in rows)]
    right = [k for k, i in enumerate(shown) if i in NUMBERS]
    return text_table([[row[i] for i in shown] for row in (HEADER, *rows)], right=right)


def to_text(of: Facts) -> str:
    """Format a table of steps, each step in full, and the reasons."""
    parts = ["\n".join([*title_lines(of), *(f"note: {visible(n, 400)}" for n in of.notes)])]
    if of.steps:
        parts.append("\n".join(_table([cells(i + 1, s) for i, s in enumerate(of.steps)])))
    for i, step in enumerate(of.steps):
        lines = [f"step {i + 1}: {heading(step)}"]
        lines += [f"  {what:9} {line}" for what, line in step_lines(step)]
        parts.append("\n".join(lines))
    for reason in of.reasons:
        name = f"{reason.kind} {visible(reason.op)!r}" if reason.op else reason.kind
        lines = [f"{name}, {reason.status}: {reason.why}"]
        lines += [f"  to fuse it: {c.description} ({c.result})" for c in reason.changes]
        lines += [f"  to fuse it: {text}" for text in reason.elsewhere]
        lines += [f"  made at {printable(reason.where)}"] if place_known(reason.where) else []
        parts.append("\n".join(lines))
    return "\n\n".join(parts)
