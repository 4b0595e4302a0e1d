"""``python -m onednn_graph_py replay``."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ...base.errors import InvalidArgumentsError
from ...base.text.options import add_command, add_forms, add_seed, add_set, add_timeout, at_least
from ...base.text.progress import show_progress
from .cases import cases_of
from .pool import replay
from .report import bar, exit_status, json_line, line, summary
from .run_case import Options
from .verdicts import Result

_MORE = """\
A line has the verdict, the partitions (supported/all), the largest error and the time. Exit status:
0 if no graph failed, 1 if one did, 2 if files or options can't be read.
"""


def add_replay(commands: Any) -> None:
    """Add the command to those of a parser."""
    parser = add_command(
        commands,
        "replay",
        "run graphs from JSON files again",
        "Compile and run graphs that oneDNN dumped, each in a process; print a line for each.",
        "graphs/ --verify",
        more=_MORE,
    )
    parser.add_argument("place", nargs="*", help="a file, a folder, or a pattern such as '*.json'")
    add_set(
        parser,
        "rewrite the graph as benchdnn does: in-shapes=0:2x3*ba, op-attrs=0:strides:2x2, "
        "dt=bf16, dt=0:u8+2:s8, op-kind=0:GELU, mb=4, attr-fpmath=bf16, property=1:constant, "
        "engine=cpu, expected-n-partitions=1; commas separate several values",
    )
    parser.add_argument(
        "--batch",
        action="append",
        default=[],
        metavar="FILE",
        help="run the graphs that a batch file of benchdnn names",
    )
    parser.add_argument("--partition-only", action="store_true", help="only partition the graphs")
    parser.add_argument("--verify", action="store_true", help="compare with the NumPy reference")
    parser.add_argument(
        "--bisect", action="store_true", help="find the first wrong op; implies --verify"
    )
    parser.add_argument(
        "--as-is",
        action="store_true",
        help="do not work around known oneDNN defects",
    )
    parser.add_argument("--bench", action="store_true", help="time calls")
    parser.add_argument("--threads", type=at_least(1), help="threads per call")
    parser.add_argument(
        "--jobs",
        type=at_least(1),
        default=1,
        help="number of graphs that run at a time (default: %(default)s)",
    )
    add_seed(parser)
    add_timeout(parser, 600.0, "per graph")
    add_forms(parser, json="print JSON, one object per line")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    options = Options(
        partition_only=arguments.partition_only,
        verify=arguments.verify or arguments.bisect,
        bisect=arguments.bisect,
        bench=arguments.bench,
        threads=arguments.threads,
        seed=arguments.seed,
        as_is=arguments.as_is,
    )
    cases = cases_of(arguments.place, arguments.set, arguments.batch)
    if not cases:
        raise InvalidArgumentsError("no file is given")
    results: list[Result] = []
    failed = 0
    try:
        for _, result in replay(cases, options, jobs=arguments.jobs, timeout=arguments.timeout):
            results.append(result)
            failed += result.verdict.failed
            show_progress("")
            print(json_line(result) if arguments.form == "json" else line(result), flush=True)
            show_progress(bar(len(results), len(cases), failed))
    except KeyboardInterrupt:
        show_progress("")
        print(f"replay: interrupted after {summary(results)}", file=sys.stderr)
        return 130
    if arguments.form != "json" and len(results) > 1:
        print(summary(results))
    return exit_status(results)
