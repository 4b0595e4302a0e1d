"""Results of the gallery as a page of Markdown: a heat map, and the cases folded by pattern."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from onednn_graph_py.base.text.numbers import counted
from onednn_graph_py.base.text.table import Markup, element

from .markdown import in_markdown, markdown_table
from .measure import FAILURES, VERDICTS, Result
from .report import LIMITED, Patterns, columns, machine, worst

__all__ = ["as_markdown"]

_INTRODUCTION = """\
---
hide-toc: true
---

# Fusion patterns

This page shows how oneDNN fuses each pattern that its documents list, by data type. It is for
anyone who wants to know whether a chain of ops runs as one partition, how exactly and how fast.

`./dev patterns --markdown` wrote it on this machine:
{machine}.
"""

_EXPLANATION = """\
## Patterns by data type

A cell stands for the cases of a pattern whose result has that data type, and links to them. It
shows the first of the verdicts above that one of its cases has, and how many cases have it, of
those that ran.
"""

_CASES = """\
A click on a pattern shows its cases. Times are of one call of the model as compiled by default, and
unfused (one op in each partition).
"""

# In the order in which cells show them. Documents that say "refused" are right about it.
_MARKS = {
    **dict.fromkeys(FAILURES, "✗"),
    "deviates": "≠",
    "runs in parts": "½",
    "fused": "✓",
    "refused": "✓",
    "lacks hardware": "□",
    "needs newer oneDNN": "↑",
}
_TYPES = ("f32", "bf16", "f16", "s8", "u8")
_OTHER = "other"
_CATEGORIES = {
    "operation": "Categories of ops",
    "floating point": "Floating-point patterns",
    "quantized": "Quantized patterns",
    "training": "Training patterns",
    "data model": "Data types, layouts and shapes",
}


def _anchor(pattern: str, dtype: str = "") -> str:
    return re.sub(r"[^\w-]+", "-", f"{pattern}-{dtype}" if dtype else pattern)


def _type_of(result: Result) -> str:
    """The data type of the result, which is the last that the case names."""
    last = result.dtypes.split()[-1]
    return last if last in _TYPES else _OTHER


def _verdicts(results: Iterable[Result]) -> str:
    found = Counter(r.verdict for r in results)
    return ", ".join(f"{found[v]} {v}" for v in VERDICTS if found[v])


def _of_class(name: str, verdict: str, *content: str, **attributes: str) -> Markup:
    return element(name, *content, **{"class": verdict.replace(" ", "-"), **attributes})


def _cell(label: str, anchor: str, results: Sequence[Result]) -> Markup:
    """A cell of the map: a mark and numbers, and the rest in its title."""
    if not results:
        return element("td")
    shown = next(v for v in _MARKS if any(r.verdict == v for r in results))
    same = sum(_MARKS[r.verdict] == _MARKS[shown] for r in results)
    ran = sum(r.verdict not in LIMITED for r in results)
    of = f"/{ran}" if same < ran else ""
    share = f"--share:{same / ran:.0%}" if of else ""
    title = f"{label}: {_verdicts(results)}"
    link = {"href": f"#{anchor}", "title": title, "aria-label": title}
    text = element("a", f"{_MARKS[shown]} {same}{of}", **link)
    return _of_class("td", shown, text, style=share)


def _map(groups: dict[str, dict[str, list[Result]]]) -> list[str]:
    """The lines of the map: a row for each pattern, a column for each data type."""
    types = (*_TYPES, _OTHER)
    head = (element("th", text, scope="col") for text in ("pattern", *types))
    lines = ['<div class="heat-map" tabindex="0"><table>', element("thead", element("tr", *head))]
    for title, patterns in groups.items():
        heading = element("th", title, scope="rowgroup", colspan=str(len(types) + 1))
        lines += ["<tbody>", element("tr", heading)]
        for number, results in patterns.items():
            # With spaces, so that it breaks into lines.
            name = f"{number} {results[0].name.replace('_', ' ')}"
            cells = [element("th", element("a", name, href=f"#{_anchor(number)}"), scope="row")]
            for dtype in types:
                here = [r for r in results if _type_of(r) == dtype]
                cells.append(_cell(f"{name}, {dtype}", _anchor(number, dtype), here))
            lines.append(element("tr", *cells))
        lines.append("</tbody>")
    return [*lines, "</table></div>"]


def _legend(results: Sequence[Result]) -> list[str]:
    """What the marks mean, and how many cases have each verdict."""
    head = (element("th", text, scope="col") for text in ("verdict", "cases", "meaning"))
    lines = ['<div class="heat-map"><table>', element("thead", element("tr", *head)), "<tbody>"]
    for verdict, mark in _MARKS.items():
        found = [r for r in results if r.verdict == verdict]
        if not found:
            continue
        reasons = "; ".join(dict.fromkeys(r.note for r in found if verdict in LIMITED))
        meaning = ": ".join(filter(None, (VERDICTS[verdict], reasons)))
        cells = (element("td", str(len(found))), element("td", meaning))
        lines.append(element("tr", _of_class("td", verdict, f"{mark} {verdict}"), *cells))
    return [*lines, "</tbody>", "</table></div>"]


def _section(results: Sequence[Result], patterns: Patterns) -> list[str]:
    """A pattern's cases, behind a title that counts them."""
    number, name = results[0].pattern, results[0].name
    title = f"{counted(len(results), 'case')}: {_verdicts(results)}"
    lines = ["<details>", element("summary", element("b", f"{number} {name}"), f", {title}"), ""]
    # A link to what is inside of a closed element opens it.
    about: str = element("a", id=_anchor(number))
    pattern = patterns.get(number)
    if pattern is not None:
        about += f"`{pattern.title}`. {pattern.rule} (oneDNN's {pattern.page})"
    lines += [about, ""]
    order = (*_TYPES, _OTHER)
    ordered = sorted(results, key=lambda r: order.index(_type_of(r)))
    cells_of = columns(results)
    headings = dict.fromkeys(("data types", "case", "verdict", *cells_of))
    shown = {heading: cells_of[heading] for heading in headings if heading != "pattern"}
    rows, seen = [], set()
    for result in ordered:
        cells = [cell(result) for cell in shown.values()]
        dtype = _type_of(result)
        if dtype not in seen:
            place = element("a", id=_anchor(number, dtype))
            cells[0] = Markup(place + in_markdown(cells[0]))
        seen.add(dtype)
        rows.append(cells)
    return [*lines, *markdown_table(tuple(shown), rows), "", "</details>", ""]


def as_markdown(results: Sequence[Result], patterns: Patterns) -> str:
    """A page that a site shows: its heat map has classes named after verdicts."""
    groups: dict[str, dict[str, list[Result]]] = {}
    for result in results:
        pattern = patterns.get(result.pattern)
        title = _CATEGORIES[pattern.category] if pattern else "Others"
        groups.setdefault(title, {}).setdefault(result.pattern, []).append(result)
    lines = [_INTRODUCTION.format(machine=machine()), *_legend(results), "", _EXPLANATION]
    lines += [*_map(groups), "", "## The cases", "", _CASES]
    for title, found in groups.items():
        lines += [f"### {title}", ""]
        for cases in found.values():
            lines += _section(cases, patterns)
    failed = [f"- {r.pattern} {r.dtypes}, {r.case}: {r.note}" for r in results if r.failed]
    if failed:
        lines += ["## Failures", "", *failed, ""]
    lines += [
        "## Largest errors",
        "",
        "Of the cases that are right, by the data type of the result.",
        "",
    ]
    lines += markdown_table(
        ("data type", "largest error", "in", "largest share of a tolerance"),
        [
            (dtype, f"{r.max_error:.2g}", f"{r.pattern} {r.dtypes}, {r.case}", f"{share:.0%}")
            for dtype, (r, share) in worst(results).items()
        ],
    )
    return "\n".join(lines)
