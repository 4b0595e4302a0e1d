"""``python -m onednn_graph_py compare``."""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from ...base.text.names import printable
from ...base.text.options import (
    add_command,
    add_forms,
    add_seconds,
    add_seed,
    add_timeout,
    at_least,
)
from ...base.text.progress import show_progress
from ..replay.stages import Ended, cases_of, read
from .compare import compare, settings_of
from .table import Comparison

_MORE = """\
Each run has a process of its own. Runs are timed one at a time, in turns. Exit status: 0 if no run
failed, 1 if one is wrong, refused, crashed or too slow, 2 if files or options can't be read. A run
for which oneDNN has no kernel does not count as failed.
"""


def _counts(text: str) -> list[int]:
    return list(map(at_least(1), text.split(",")))


def add_compare(commands: Any) -> None:
    """Add the command to those of a parser."""
    parser = add_command(
        commands,
        "compare",
        "run a graph under several settings, and compare the runs",
        "Run a graph under all combinations of settings, side by side.",
        "graph.json --isa avx2,avx512_core --threads 1,2",
        more=_MORE,
    )
    parser.add_argument("file", nargs="+", help="a graph's JSON file")
    parser.add_argument(
        "--isa",
        type=_words,
        default=[],
        help="highest instruction sets to compare, such as avx2,avx512_core (default: no limit)",
    )
    parser.add_argument(
        "--threads", type=_counts, default=[], help="threads per call to compare, such as 1,2"
    )
    parser.add_argument(
        "--fpmath",
        type=_words,
        default=[],
        help="math modes to compare, such as strict,bf16; bf16:true applies bf16 to integers too",
    )
    add_seconds(parser, 1.0, "time for which to time each run")
    parser.add_argument(
        "--no-verify", action="store_true", help="do not compare with the NumPy reference"
    )
    add_seed(parser)
    add_timeout(parser, 600.0, "for each request to a process")
    add_forms(parser, json="print JSON, one object per line", html="print the table as HTML")
    parser.set_defaults(run=_compare)


def _words(text: str) -> list[str]:
    return text.split(",") if text else []


def _shown(comparisons: Sequence[Comparison], form: str | None) -> str:
    if form == "json":
        return "\n".join(json.dumps(c.to_dict(), allow_nan=False) for c in comparisons)
    if form == "html":
        tables = "".join(c._repr_html_() for c in comparisons)
        return f'<!doctype html><meta charset="utf-8"><title>Comparison</title>{tables}'
    return "\n\n".join(str(c) for c in comparisons)


def _compare(arguments: argparse.Namespace) -> int:
    settings_of(arguments.isa, arguments.threads, arguments.fpmath)  # raises before files are read
    cases = cases_of(arguments.file)
    comparisons: list[Comparison] = []
    unreadable = False
    try:
        for case in cases:
            try:
                document = read(case)
            except Ended as e:
                where = "" if case.path in e.reason else f"{case}: "
                print(printable(f"compare: {where}{e.reason}"), file=sys.stderr)
                unreadable = True
                continue
            comparison = compare(
                document,
                isa=arguments.isa,
                threads=arguments.threads,
                fpmath=arguments.fpmath,
                name=str(case),
                seconds=arguments.seconds,
                verify=not arguments.no_verify,
                seed=arguments.seed,
                timeout=arguments.timeout,
                progress=show_progress,
            )
            comparisons.append(comparison)
            show_progress("")
    except KeyboardInterrupt:
        show_progress("")
        print(
            f"compare: interrupted after {len(comparisons)} of {len(cases)} graphs", file=sys.stderr
        )
        return 130
    if comparisons:
        print(printable(_shown(comparisons, arguments.form)))
    if not all(c.ok for c in comparisons):
        return 1
    return 2 if unreadable else 0
