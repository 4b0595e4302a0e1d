"""Show the gallery's results as a table: text, JSON, HTML or Markdown."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict

from .._core import get_effective_cpu_isa
from ..linked import version
from ..machine.store import processor
from ..text.markup import Markup, element, joined
from ..text.names import shortened
from ..text.numbers import or_dash
from ..text.table import html_table, markdown_table, text_table
from .measure import VERDICTS, Result
from .pattern import Pattern

__all__ = ["FORMS", "as_html", "as_json", "as_markdown", "as_text", "machine", "summary"]

Patterns = Mapping[str, Pattern]

_HEADINGS = (
    "pattern",
    "dtypes",
    "case",
    "partitions",
    "fused ops",
    "max error",
    "ms fused / unfused",
    "CPU / GPU",
    "verdict",
)
_SHOWN_OPS = 4
_SHOWN_PARTITIONS = 3
_LIMITED = ("lacks hardware", "needs newer oneDNN")


def machine() -> str:
    """Describe this machine: oneDNN, its runtimes, its instruction set, and the CPU."""
    linked = version()
    gpu = linked.gpu_runtime
    gpu = "no GPU runtime" if gpu.lower() == "none" else f"{gpu} for GPUs"
    isa = get_effective_cpu_isa().name
    release = f"oneDNN {linked.release} ({linked.cpu_runtime} for CPUs, {gpu})"
    return f"{release}, {isa}, {processor()}"


# -- cells


def _fused(result: Result) -> str:
    """Return a line for each partition; equal ones that follow each other share one."""
    shown = (" + ".join(shortened(kinds, _SHOWN_OPS)) for kinds in result.fused)
    runs = ((name, len(list(same))) for name, same in itertools.groupby(shown))
    cells = [name if n == 1 else f"{n} x ({name})" for name, n in runs]
    return ", ".join(shortened(cells, _SHOWN_PARTITIONS))


def _partitions(result: Result) -> str:
    if result.verdict in (*_LIMITED, "error"):
        return "-"
    made = "refused" if result.partitions is None else str(result.partitions)
    if result.partitions == result.documented:
        return made
    documented = "refusal" if result.documented is None else result.documented
    return f"{made} ({documented} documented)"


def _times(result: Result) -> str:
    if result.fused_ms is None:
        return "-"
    return f"{result.fused_ms:.3g} / {or_dash(result.unfused_ms, '.3g')}"


def _cells(result: Result) -> tuple[str, ...]:
    # The footer says what the hardware lacks, which is the same for all.
    noted = result.note and result.verdict not in _LIMITED
    told = f"{result.verdict}: {result.note}" if noted else result.verdict
    return (
        f"{result.pattern} {result.name}",
        result.dtypes,
        result.case,
        _partitions(result),
        _fused(result) or "-",
        or_dash(result.max_error, ".2g"),
        _times(result),
        f"{or_dash(result.partitions)} / {or_dash(result.gpu_partitions)}",
        told,
    )


# -- what it comes to


def _worst(results: Iterable[Result]) -> Iterator[str]:
    """Yield the largest error of right results, for each data type of a destination."""
    by_type: dict[str, list[Result]] = {}
    for result in results:
        if result.max_error is not None and not result.failed:
            by_type.setdefault(result.destination, []).append(result)
    for dtype, found in sorted(by_type.items()):
        worst = max(found, key=lambda r: r.max_error or 0.0)
        share = max(r.share or 0.0 for r in found)
        yield (
            f"{dtype}: {worst.max_error:.2g} ({worst.pattern} {worst.dtypes}, {worst.case}); at "
            f"most {share:.0%} of its tolerance"
        )


def summary(results: Sequence[Result]) -> tuple[str, ...]:
    """Return the footer: counts of verdicts, the hardware's limits, worst errors and failures."""
    counts = Counter(r.verdict for r in results)
    ran = sum(n for v, n in counts.items() if v not in _LIMITED)
    of_verdict = ", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v] and v not in _LIMITED)
    lines = [f"{ran} cases ran: {of_verdict}" if ran else "no case ran"]
    for verdict in (v for v in _LIMITED if counts[v]):
        why = dict.fromkeys(r.note for r in results if r.verdict == verdict)
        lines.append(f"{counts[verdict]} more, {verdict}: {'; '.join(why)}")
    worst = list(_worst(results))
    if worst:
        lines.append("largest error by the destination's data type:")
        lines += [f"  {line}" for line in worst]
    # Failures come last, where they are seen even if only the end of a log is kept.
    lines += [
        f"{r.verdict}: {r.pattern} {r.name}, {r.dtypes}, {r.case}: {r.note}"
        for r in results
        if r.failed
    ]
    return tuple(lines)


# -- forms


def as_text(results: Sequence[Result], patterns: Patterns) -> str:
    """Return a table for a terminal."""
    del patterns
    lines = text_table([_HEADINGS, *(_cells(r) for r in results)])
    return "\n".join([machine(), "", *lines, "", *summary(results)])


def as_json(results: Sequence[Result], patterns: Patterns) -> str:
    """Return all measurements as JSON, with null for missing and infinite numbers."""

    def plain(value: object) -> object:
        return None if isinstance(value, float) and not math.isfinite(value) else value

    cases = [{k: plain(v) for k, v in asdict(r).items()} for r in results]
    used = dict.fromkeys(r.pattern for r in results)
    about = {
        i: {"name": p.name, "title": p.title, "category": p.category, "rule": p.rule}
        for i in used
        if (p := patterns.get(i)) is not None
    }
    counts = Counter(r.verdict for r in results)
    document = {
        "machine": machine(),
        "verdicts": {v: counts[v] for v in VERDICTS},
        "patterns": about,
        "cases": cases,
    }
    return json.dumps(document, indent=1, allow_nan=False)


_COLOURS = {
    "fused": "#2e7d32",
    "refused": "#2e7d32",
    "runs in parts": "#8d6e00",
    "deviates": "#8d6e00",
    "lacks hardware": "#757575",
    "needs newer oneDNN": "#757575",
}


def as_html(results: Sequence[Result], patterns: Patterns) -> str:
    """Return a table for a browser, with each pattern's rule as the tooltip of its name."""
    rows = []
    for result in results:
        pattern = patterns.get(result.pattern)
        rule = f"{pattern.title}. {pattern.rule}" if pattern else ""
        first, *others, verdict = _cells(result)
        colour = f"color:{_COLOURS.get(result.verdict, '#c62828')}"
        rows.append(
            (element("td", first, title=rule), *others, element("td", verdict, style=colour))
        )
    style = "text-align:left;border-spacing:8px 1px;font-size:85%"
    parts = [
        Markup('<!doctype html><meta charset="utf-8"><title>Fusion patterns</title>'),
        element("p", machine()),
        html_table(_HEADINGS, rows, style=style),
        element("p", joined(summary(results), "<br>")),
    ]
    return "".join(parts)


def as_markdown(results: Sequence[Result], patterns: Patterns) -> str:
    """Return a page with a section for each pattern: its rule, and a table of its cases."""
    lines = [
        "# Fusion patterns",
        "",
        "The partitions that oneDNN makes of its documented fusion patterns, reported by",
        "`python -m onednn_graph_py patterns --markdown` on:",
        "",
        machine(),
        "",
        "CPU / GPU are numbers of partitions. Times are those of one call, as compiled by default",
        "and with one op in each partition. Verdicts:",
        "",
        *(f"- {verdict}: {meaning}" for verdict, meaning in VERDICTS.items()),
        "",
        *(f"{line}  " if not line.startswith("  ") else f"- {line.strip()}"
          for line in summary(results)),
    ]  # fmt: skip
    for number in dict.fromkeys(r.pattern for r in results):
        pattern = patterns.get(number)
        if pattern is not None:
            lines += ["", f"## {number} {pattern.name}", "", f"`{pattern.title}`", ""]
            lines += [f"{pattern.rule} (oneDNN: {pattern.page})", ""]
        shown = [_cells(r)[1:] for r in results if r.pattern == number]
        lines += markdown_table(_HEADINGS[1:], shown)
    return "\n".join(lines)


FORMS: Mapping[str, Callable[[Sequence[Result], Patterns], str]] = {
    "text": as_text,
    "json": as_json,
    "html": as_html,
    "markdown": as_markdown,
}
"""The forms of the table, by the name of the command line's option."""
