"""``python -m onednn_graph_py patterns``."""

from __future__ import annotations

import argparse

from ..errors import InvalidArgumentsError
from ..text.names import did_you_mean
from ..text.options import add_command, add_forms
from ..text.progress import show_progress
from . import PATTERNS
from .measure import measure
from .page import as_markdown
from .report import as_html, as_json, as_text

__all__ = ["add_patterns"]

_FORMS = {"text": as_text, "json": as_json, "html": as_html, "markdown": as_markdown}


def _patterns(arguments: argparse.Namespace) -> int:
    chosen, status = [], 0
    for name in arguments.name or PATTERNS:
        found = [p for p in PATTERNS.values() if name.lower() in (p.id.lower(), p.name.lower())]
        if not found:
            known = {n.lower(): n for p in PATTERNS.values() for n in (p.id, p.name)}
            hint = (
                did_you_mean(name.lower(), known, known.__getitem__)
                or "; without a name all are run"
            )
            raise InvalidArgumentsError(f"there is no pattern {name!r}{hint}")
        chosen += found
    of = sum(len(p.cases) for p in chosen)
    results = []
    for pattern in chosen:
        for case in pattern.cases:
            results.append(measure(pattern, case, timed=not arguments.no_time))
            status |= results[-1].failed
            show_progress(f"measuring: {len(results)} of {of}" * (len(results) < of))
    print(_FORMS[arguments.form or "text"](results, PATTERNS))
    return int(status)


def add_patterns(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of a parser."""
    parser = add_command(
        commands,
        "patterns",
        "build and run the documented fusion patterns, and report each result",
        "Run oneDNN's documented patterns, and say which are fused and compute what they should.",
        "FP-08 attention",
        more="Exit status: 0; 1 if a pattern failed; 2 if there is none of a name.",
    )
    parser.add_argument("name", nargs="*", help="a pattern such as FP-08 or matmul (default: all)")
    names = {"json": "JSON", "html": "HTML", "markdown": "Markdown"}
    add_forms(parser, **{form: f"print the results as {name}" for form, name in names.items()})
    parser.add_argument("--no-time", action="store_true", help="do not time calls")
    parser.set_defaults(run=_patterns)
