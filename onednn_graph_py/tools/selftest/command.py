"""``python -m onednn_graph_py selftest``."""

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from ...base.errors import InvalidArgumentsError
from ...base.text.files import write_whole
from ...base.text.names import did_you_mean
from ...base.text.options import add_command, add_forms, at_least, positive
from ...base.text.progress import show_progress
from ...serialization import parse, to_builder
from ..export.cpp_program import to_cpp
from ..export.python_program import to_python
from .draws import FAMILIES, Family
from .report import Report
from .run import reduce_findings, search

_MORE = """\
The graphs are single ops, chains of ops, products of integers, attention and other blocks, in every
data type that runs here, in helper processes that may crash. The command counts the results. wrong,
crashed: a model compiled by default computes wrong numbers, or crashes. avoided: oneDNN itself is
wrong or crashes, the model does not. slow: the model takes more than 1.2 times as long as its
separate ops. refused: oneDNN has no kernel here. NumPy: NumPy computes an op instead. The command
then reduces each kind of wrong or crashing graph to the smallest one, in at most half of the search
time. Exit status: 0 if no model is wrong or crashes by default, 1 if one is or does, 2 if the
options are wrong.
"""
_REDUCING = 0.5  # a share of the time of the search


def add_selftest(commands: Any) -> None:
    """Add the command to those of a parser."""
    selftest = add_command(
        commands,
        "selftest",
        "test whether this oneDNN computes correctly on this CPU",
        "Run random graphs, and compare them with the reference.",
        "--minutes 10 --json -o found.json",
        more=_MORE,
    )
    selftest.add_argument(
        "--minutes", type=positive, default=2.0, help="search time (default: %(default)g)"
    )
    selftest.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="FAMILY",
        help=f"search only this family; repeat the option for more: {', '.join(FAMILIES)}",
    )
    selftest.add_argument(
        "--seed",
        type=at_least(0),
        default=0,
        help="first seed of each family (default: %(default)s)",
    )
    add_forms(selftest, json="print JSON")
    selftest.add_argument(
        "--findings",
        metavar="DIR",
        help="write each reduced graph to files in this folder: JSON, Python, C++",
    )
    selftest.set_defaults(run=_selftest)


def _chosen(names: list[str]) -> dict[str, Family]:
    """Return the families of these names, or all."""
    unknown = [n for n in names if n not in FAMILIES]
    if unknown:
        hint = did_you_mean(unknown[0], FAMILIES) or f"; there are: {', '.join(FAMILIES)}"
        raise InvalidArgumentsError(f"there is no family {unknown[0]!r}{hint}")
    return {n: draw for n, draw in FAMILIES.items() if n in (names or FAMILIES)}


def _told(report: Report, left: float) -> None:
    total = report.total
    show_progress(
        f"{left:.0f} s left, {total.cases} cases, {total.wrong} wrong, {total.crashed} crashed, "
        f"{total.slow} slow"
    )


def _written(report: Report, arguments: argparse.Namespace) -> None:
    """Print the results, and write the files that were asked for."""
    if arguments.findings is not None:
        folder = Path(arguments.findings)
        folder.mkdir(parents=True, exist_ok=True)
        for finding in report.findings:
            if finding.graph:
                builder = to_builder(parse(json.loads(finding.graph)))
                write_whole(folder / f"{finding.name}.json", finding.graph)
                write_whole(folder / f"{finding.name}.py", to_python(builder))
                write_whole(folder / f"{finding.name}.cpp", to_cpp(builder, check=True))
    as_json = arguments.form == "json"
    print(json.dumps(report.as_dict(), indent=1, allow_nan=False) if as_json else report)


def _selftest(arguments: argparse.Namespace) -> int:
    families = _chosen(arguments.only)
    seconds = 60.0 * arguments.minutes
    report = search(families, seconds=seconds, seed=arguments.seed, progress=_told)
    show_progress("")
    progress = partial(print, "selftest:", file=sys.stderr, flush=True)
    reduce_findings(report.findings, families, seconds * _REDUCING, progress=progress)
    _written(report, arguments)
    return 0 if report.ok else 1
