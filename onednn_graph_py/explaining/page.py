"""An explanation as HTML, for notebooks and browsers.

No colour is set but for greys that are seen on light and dark pages, so text is as the page has it.
"""

from __future__ import annotations

import html

from .facts import Facts, StepFacts
from .words import HEADER, cells, heading, place_known, step_lines, title_lines

__all__ = ["to_html"]

_LINE = "border-bottom:1px solid rgba(128,128,128,0.4)"
_TABLE = '<table style="border-collapse:collapse">'
_TEXT_COLUMNS = 4


def _cell(tag: str, text: str, i: int, extra: str = "") -> str:
    side = "left" if i < _TEXT_COLUMNS or i == len(HEADER) - 1 else "right"
    style = f"text-align:{side};padding:2px 8px;{_LINE};{extra}"
    return f'<{tag} style="{style}">{html.escape(text)}</{tag}>'


def _bar(share: float) -> str:
    """The share of time as the background of its cell."""
    end = f"{100 * share:.1f}%"
    grey = "rgba(128,128,128,0.35)"
    return f"background:linear-gradient(to right,{grey} {end},transparent {end})"


def _row(number: int, step: StepFacts) -> str:
    made = []
    for i, text in enumerate(cells(number, step)):
        shaded = HEADER[i] == "share" and step.share is not None
        made.append(_cell("td", text, i, _bar(step.share or 0.0) if shaded else ""))
    return f"<tr>{''.join(made)}</tr>"


def _details(number: int, step: StepFacts) -> str:
    lines = "".join(
        f"<tr>{_cell('td', what, 0)}{_cell('td', line, 1)}</tr>" for what, line in step_lines(step)
    )
    title = html.escape(f"step {number}: {heading(step)}")
    return f"<details><summary>{title}</summary>{_TABLE}{lines}</table></details>"


def to_html(of: Facts) -> str:
    """A table of steps, each step in full behind its title, and the reasons.

    Parameters
    ----------
    of : Facts
    """
    first, *rest = title_lines(of)
    told = "".join(f"<br>{html.escape(line)}" for line in rest)
    parts = [f"<p><b>{html.escape(first)}</b>{told}</p>"]
    parts += [f"<p>{html.escape(note)}</p>" for note in of.notes]
    if of.steps:
        head = "".join(_cell("th", text, i) for i, text in enumerate(HEADER))
        body = "".join(_row(i + 1, s) for i, s in enumerate(of.steps))
        parts.append(f"{_TABLE}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
        parts += [_details(i + 1, s) for i, s in enumerate(of.steps)]
    if of.reasons:
        items = []
        for reason in of.reasons:
            name = f"{reason.kind} {reason.op!r}" if reason.op else reason.kind
            changes = "".join(
                f"<li>{html.escape(f'{c.description} ({c.result})')}</li>" for c in reason.changes
            )
            changes += "".join(f"<li>{html.escape(text)}</li>" for text in reason.elsewhere)
            why = html.escape(f", {reason.status}: {reason.why}")
            where = (
                f"<br><small>{html.escape(reason.where)}</small>"
                if place_known(reason.where)
                else ""
            )
            items.append(f"<li><b>{html.escape(name)}</b>{why}{where}<ul>{changes}</ul></li>")
        parts.append(f"<p><b>Why not fused</b></p><ul>{''.join(items)}</ul>")
    return f"<div>{''.join(parts)}</div>"
