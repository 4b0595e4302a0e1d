"""``./dev patterns``: run the gallery, or write what the package takes of it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from onednn_graph_py.base.text.names import did_you_mean
from onednn_graph_py.base.text.options import help_form
from onednn_graph_py.base.text.progress import show_progress

from . import PATTERNS, pairs
from .measure import measure
from .page import as_markdown
from .pattern import Pattern
from .report import as_html, as_json, as_text

_FORMS = {"json": as_json, "html": as_html, "markdown": as_markdown}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./dev patterns",
        description="Run oneDNN's documented patterns, and say which are fused and compute what "
        "they should.",
        epilog="Exit status: 0; 1 if a pattern failed; 2 if there is none of a name.",
        formatter_class=help_form,
    )
    parser.add_argument("name", nargs="*", help="a pattern such as FP-08 or matmul (default: all)")
    forms = parser.add_mutually_exclusive_group()
    for form in _FORMS:
        forms.add_argument(
            f"--{form}", dest="form", action="store_const", const=form, help="instead of text"
        )
    parser.add_argument("--no-time", action="store_true", help="do not time calls")
    parser.add_argument(
        "--pairs", action="store_true", help=f"run nothing, write {pairs.FILE.name} again"
    )
    return parser


def _chosen(name: str) -> list[Pattern]:
    """Return the patterns of an id or a name.

    Raises
    ------
    ValueError
        There are none.
    """
    found = [p for p in PATTERNS.values() if name.lower() in (p.id.lower(), p.name.lower())]
    if not found:
        known = {n.lower(): n for p in PATTERNS.values() for n in (p.id, p.name)}
        hint = did_you_mean(name.lower(), known, known.__getitem__)
        raise ValueError(f"there is no pattern {name!r}{hint or '; without a name all are run'}")
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = _parser()
    arguments = parser.parse_args(words)
    if arguments.pairs:
        pairs.FILE.write_text(pairs.text(), encoding="utf-8")
        return 0
    try:
        chosen = [pattern for name in arguments.name or PATTERNS for pattern in _chosen(name)]
    except ValueError as e:
        parser.error(str(e))
    of = sum(len(p.cases) for p in chosen)
    results = []
    for pattern in chosen:
        for case in pattern.cases:
            results.append(measure(pattern, case, timed=not arguments.no_time))
            show_progress(f"measuring: {len(results)} of {of}" * (len(results) < of))
    print(_FORMS.get(arguments.form, as_text)(results, PATTERNS))
    return int(any(r.failed for r in results))


if __name__ == "__main__":
    sys.exit(main())
