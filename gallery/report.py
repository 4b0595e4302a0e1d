"""Show the gallery's results as a table: text, JSON or HTML."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict

from onednn_graph_py._core import get_effective_cpu_isa
from onednn_graph_py.base.linked import version
from onednn_graph_py.base.text.names import shortened
from onednn_graph_py.base.text.numbers import or_dash, seconds_text
from onednn_graph_py.base.text.table import Markup, element, html_table, joined, text_table
from onednn_graph_py.machine.store import processor

from .measure import VERDICTS, Result
from .pattern import Pattern

__all__ = [
    "LIMITED",
    "Patterns",
    "as_html",
    "as_json",
    "as_text",
    "columns",
    "machine",
    "summary",
    "worst",
]

Patterns = Mapping[str, Pattern]

LIMITED = ("lacks hardware", "needs newer oneDNN")
"""The verdicts on cases that can't run here."""

_SHOWN_OPS = 4
_SHOWN_PARTITIONS = 3


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
    if result.verdict in (*LIMITED, "error"):
        return "-"
    made = "refused" if result.partitions is None else str(result.partitions)
    if result.partitions == result.documented:
        return made
    documented = "refusal" if result.documented is None else result.documented
    return f"{made} ({documented} documented)"


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else seconds_text(value / 1e3)


def _verdict(result: Result) -> str:
    # Why hardware lacks something is the same for all, and is in the footer.
    noted = result.note and result.verdict not in LIMITED
    return f"{result.verdict}: {result.note}" if noted else result.verdict


_COLUMNS: Mapping[str, Callable[[Result], str]] = {
    "pattern": lambda r: f"{r.pattern} {r.name}",
    "data types": lambda r: r.dtypes,
    "case": lambda r: r.case,
    "partitions": _partitions,
    "fused ops": lambda r: _fused(r) or "-",
    "largest error": lambda r: or_dash(r.max_error, ".2g"),
    "time": lambda r: _milliseconds(r.fused_ms),
    "time unfused": lambda r: _milliseconds(r.unfused_ms),
    "GPU partitions": lambda r: or_dash(r.gpu_partitions),
    "verdict": _verdict,
}


def columns(results: Iterable[Result]) -> dict[str, Callable[[Result], str]]:
    """Return the cells of a result by heading, without headings that have nothing below them."""
    partitioned = any(r.gpu_partitions is not None for r in results)
    return {k: cell for k, cell in _COLUMNS.items() if k != "GPU partitions" or partitioned}


# -- what it comes to


def worst(results: Iterable[Result]) -> dict[str, tuple[Result, float]]:
    """Return the largest error of each destination's data type, of what is right.

    With it the largest fraction of a tolerance, which another result may have.
    """
    by_type: dict[str, list[Result]] = {}
    for result in results:
        if result.max_error is not None and not result.failed:
            by_type.setdefault(result.destination, []).append(result)
    return {
        dtype: (max(found, key=lambda r: r.max_error or 0.0), max(r.share or 0.0 for r in found))
        for dtype, found in sorted(by_type.items())
    }


def summary(results: Sequence[Result]) -> tuple[str, ...]:
    """Return the footer: counts of verdicts, the hardware's limits, worst errors and failures."""
    counts = Counter(r.verdict for r in results)
    ran = sum(n for v, n in counts.items() if v not in LIMITED)
    of_verdict = ", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v] and v not in LIMITED)
    lines = [f"{ran} cases ran: {of_verdict}" if ran else "no case ran"]
    for verdict in (v for v in LIMITED if counts[v]):
        why = dict.fromkeys(r.note for r in results if r.verdict == verdict)
        lines.append(f"{counts[verdict]} more, {verdict}: {'; '.join(why)}")
    largest = worst(results)
    if largest:
        lines.append("largest error by the destination's data type:")
    for dtype, (r, share) in largest.items():
        lines.append(
            f"  {dtype}: {r.max_error:.2g} ({r.pattern} {r.dtypes}, {r.case}); at most {share:.0%} "
            "of its tolerance"
        )
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
    shown = columns(results)
    lines = text_table([tuple(shown), *([cell(r) for cell in shown.values()] for r in results)])
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
    shown = columns(results)
    for result in results:
        pattern = patterns.get(result.pattern)
        rule = f"{pattern.title}. {pattern.rule}" if pattern else ""
        first, *others, verdict = (cell(result) for cell in shown.values())
        colour = f"color:{_COLOURS.get(result.verdict, '#c62828')}"
        rows.append(
            (element("td", first, title=rule), *others, element("td", verdict, style=colour))
        )
    style = "text-align:left;border-spacing:8px 1px;font-size:85%"
    parts = [
        Markup('<!doctype html><meta charset="utf-8"><title>Fusion patterns</title>'),
        element("p", machine()),
        html_table(tuple(shown), rows, style=style),
        element("p", joined(summary(results), "<br>")),
    ]
    return "".join(parts)
