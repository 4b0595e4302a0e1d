"""``python -m onednn_graph_py log``."""

from __future__ import annotations

import argparse
import json
import sys

from .verbose_log import read_verbose_log
from .verbose_summary import summarize

__all__ = ["add_log"]


def _log(arguments: argparse.Namespace) -> int:
    try:
        if arguments.file == "-":
            # A log may hold bytes of any program.
            with open(sys.stdin.fileno(), encoding="utf-8", errors="replace", closefd=False) as f:
                summary = summarize(read_verbose_log(f), problems=arguments.problems)
        else:
            with open(arguments.file, encoding="utf-8", errors="replace") as f:
                summary = summarize(read_verbose_log(f), problems=arguments.problems)
    except OSError as e:
        print(f"log: {e}", file=sys.stderr)
        return 2
    print(json.dumps(summary.to_dict(), indent=2) if arguments.json else summary)
    return 0


def add_log(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of the command line."""
    parser = commands.add_parser(
        "log", help="show where time went, from a log that ONEDNN_VERBOSE wrote"
    )
    parser.add_argument("file", help="the log file; - reads standard input")
    parser.add_argument(
        "--problems", action="store_true", help="show different shapes in separate rows"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with milliseconds")
    parser.set_defaults(run=_log)
