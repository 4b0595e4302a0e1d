"""``python -m onednn_graph_py explain``."""

import argparse
import json
from pathlib import Path
from typing import Any

from ...base.text.options import add_command, add_forms, add_seconds, add_timeout
from ...serialization import load
from .explain import explain


def _explain(arguments: argparse.Namespace) -> int:
    explanation = explain(
        load(Path(arguments.file)),
        seconds=arguments.seconds,
        what_if=not arguments.no_what_if,
        timeout=arguments.timeout,
    )
    if arguments.form == "json":
        print(json.dumps(explanation.to_dict(), indent=2))
    elif arguments.form == "html":
        print(explanation._repr_html_())
    else:
        print(explanation)
    return 0


def add_explain(commands: Any) -> None:
    """Add the command to those of a parser."""
    parser = add_command(
        commands,
        "explain",
        "show a graph's partitions, kernels and speed, and why ops did not fuse",
        "Show a graph's partitions, kernels, memory and speed, and what would help ops to fuse.",
        "graph.json --html -o graph.html",
        more="Exit status: 0, also if the graph does not run here; 2 if something can't be read.",
    )
    parser.add_argument("file", help="a graph's JSON file")
    add_forms(parser, json="print the explanation as JSON", html="print the explanation as HTML")
    parser.add_argument("--no-what-if", action="store_true", help="do not try changes to the graph")
    add_seconds(parser, 0.2, "time for which to time calls, 0 for none")
    add_timeout(parser, 120.0, "for finding kernel names")
    parser.set_defaults(run=_explain)
