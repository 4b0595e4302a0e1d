"""``python -m onednn_graph_py log``."""

from __future__ import annotations

import argparse
import json
import sys

from ...base.text.files import lines_of
from ...base.text.options import add_command, add_forms
from .verbose_log import read_verbose_log
from .verbose_summary import summarize


def _log(arguments: argparse.Namespace) -> int:
    piped = arguments.file == "-"
    where = sys.stdin.fileno() if piped else arguments.file
    # Programs may write any bytes into a log.
    with open(where, encoding="utf-8", errors="replace", closefd=not piped) as f:
        summary = summarize(read_verbose_log(lines_of(f)), problems=arguments.problems)
    print(json.dumps(summary.to_dict(), indent=2) if arguments.form == "json" else summary)
    return 0


def add_log(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of a parser."""
    parser = add_command(
        commands,
        "log",
        "show where time went, from a log that ONEDNN_VERBOSE wrote",
        "Add up the times in the log of a program that ran with ONEDNN_VERBOSE=profile.",
        "program.log --problems",
    )
    parser.add_argument("file", help="the log file; - reads standard input")
    parser.add_argument(
        "--problems", action="store_true", help="show different shapes in separate rows"
    )
    add_forms(parser, json="print JSON, with milliseconds")
    parser.set_defaults(run=_log)
