"""``python -m onednn_graph_py replay``."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ...base.text.names import printable
from ...base.text.numbers import or_dash
from ...base.text.options import add_command, add_forms, add_seed, add_timeout, at_least
from ...base.text.progress import show_progress
from .run_case import Options, replay
from .stages import cases_of
from .verdicts import Result, Verdict

_BAR = 24


def line(result: Result) -> str:
    """Return a line with verdict, partitions, error, time and case, and the reason below it."""
    partitions = "-"
    if result.partitions is not None:
        partitions = f"{result.supported}/{result.partitions}"
    error = or_dash(result.error, ".2g")
    text = f"{result.verdict!s:<12}{partitions:>6} {error:>9} {result.seconds:7.2f} s"
    if result.milliseconds is not None:
        text += f" {result.milliseconds:9.3f} ms"
    text += f"  {result.case}"
    for more in (result.reason, result.diverges):
        text += "".join(f"\n    {part}" for part in more.splitlines())
    return printable(text)


def json_line(result: Result) -> str:
    """Return a result as a JSON object on one line."""
    # JSON has no infinity.
    fields = {
        k: str(v) if v in (float("inf"), float("-inf")) else v for k, v in result.as_dict().items()
    }
    return json.dumps(fields)


def summary(results: Sequence[Result]) -> str:
    """Count the cases of each verdict."""
    counts = Counter(r.verdict for r in results)
    parts = ", ".join(f"{counts[v]} {v}" for v in Verdict if counts[v])
    return f"{len(results)} cases: {parts}" if results else "0 cases"


def exit_status(results: Sequence[Result]) -> int:
    """Return 0 if no case failed, 1 if one did, 2 if the only fault is unreadable files."""
    failed = {r.verdict for r in results if r.verdict.failed}
    if not failed:
        return 0
    return 2 if failed == {Verdict.UNREADABLE} else 1


def bar(done: int, total: int, failed: int) -> str:
    """Draw a progress bar; it is empty when all cases are done."""
    if done == total:
        return ""
    full = _BAR * done // total
    return f"[{'#' * full}{'.' * (_BAR - full)}] {done} of {total}, {failed} failed"


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
    parser.add_argument("place", nargs="+", help="a file, a folder, or a pattern such as '*.json'")
    parser.add_argument("--partition-only", action="store_true", help="only partition the graphs")
    parser.add_argument("--verify", action="store_true", help="compare with the NumPy reference")
    parser.add_argument(
        "--bisect", action="store_true", help="find the first wrong op; implies --verify"
    )
    parser.add_argument(
        "--as-is", action="store_true", help="do not work around known oneDNN defects"
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
    cases = cases_of(arguments.place)
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
