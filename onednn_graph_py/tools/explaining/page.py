"""An explanation as HTML, for notebooks and browsers.

The page's only colours are greys that are visible on light and dark backgrounds.
"""

from __future__ import annotations

from ...base.text.markup import Markup, element, joined
from ...base.text.table import html_table
from .facts import Facts, StepFacts
from .reasons import Reason
from .words import HEADER, NUMBERS, cells, heading, place_known, step_lines, title_lines

__all__ = ["to_html"]

_TABLE = "border-collapse:collapse"
_CELL = "text-align:left;padding:2px 8px;border-bottom:1px solid rgba(128,128,128,0.4)"
_SHARE = HEADER.index("share")


def _row(number: int, step: StepFacts) -> list[str]:
    """Return a step's cells; a bar in the background of one shows the share of time."""
    made = list(cells(number, step))
    if step.share is not None:
        end = f"{100 * step.share:.1f}%"
        grey = "rgba(128,128,128,0.35)"
        bar = f"background:linear-gradient(to right,{grey} {end},transparent {end})"
        made[_SHARE] = element("td", made[_SHARE], style=f"{_CELL};text-align:right;{bar}")
    return made


def _details(number: int, step: StepFacts) -> Markup:
    title = element("summary", f"step {number}: {heading(step)}")
    return element("details", title, html_table((), step_lines(step), cell=_CELL, style=_TABLE))


def _reason(reason: Reason) -> Markup:
    name = f"{reason.kind} {reason.op!r}" if reason.op else reason.kind
    parts = [element("b", name), f", {reason.status}: {reason.why}"]
    if place_known(reason.where):
        parts += [Markup("<br>"), element("small", reason.where)]
    changes = [f"{c.description} ({c.result})" for c in reason.changes]
    items = (element("li", text) for text in (*changes, *reason.elsewhere))
    return element("li", *parts, element("ul", *items))


def to_html(of: Facts) -> str:
    """Format a table of steps, each step in full behind its title, and the reasons."""
    first, *rest = title_lines(of)
    parts = [element("p", joined((element("b", first), *rest), "<br>"))]
    parts += [element("p", note) for note in of.notes]
    if of.steps:
        rows = [_row(i + 1, s) for i, s in enumerate(of.steps)]
        parts.append(html_table(HEADER, rows, right=NUMBERS, cell=_CELL, style=_TABLE))
        parts += [_details(i + 1, s) for i, s in enumerate(of.steps)]
    if of.reasons:
        parts.append(element("p", element("b", "Why not fused")))
        parts.append(element("ul", *map(_reason, of.reasons)))
    return element("div", *parts)
