"""``python -m onednn_graph_py export``."""

import argparse
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...base.text.options import add_command, add_output, add_seed
from ...model.building.builder import GraphBuilder
from ...serialization import load
from .benchdnn import benchdnn_command
from .cpp_program import to_cpp
from .python_program import to_python

_FORMS: dict[str, Callable[[GraphBuilder, int], str]] = {
    "python": lambda b, seed: to_python(b, "builder", seed=seed),
    "mirror": lambda b, seed: to_python(b, "mirror", seed=seed),
    "cpp": lambda b, seed: to_cpp(b, seed=seed),
    "cpp-check": lambda b, seed: to_cpp(b, seed=seed, check=True),
}


def _export(arguments: argparse.Namespace) -> int:
    if arguments.format == "benchdnn":
        print(shlex.join(benchdnn_command(arguments.file)))
    else:
        text = _FORMS[arguments.format](load(Path(arguments.file)), arguments.seed)
        print(text, end="")
    return 0


def add_export(commands: Any) -> None:
    """Add the command to those of a parser."""
    parser = add_command(
        commands,
        "export",
        "write a graph's JSON as a program",
        "Write a graph that oneDNN dumped as a program in Python or C++, or for benchdnn.",
        "graph.json --format cpp -o graph.cpp",
    )
    parser.add_argument("file", help="a graph's JSON file")
    parser.add_argument(
        *("--format", "--to"),
        choices=[*_FORMS, "benchdnn"],
        metavar="FORM",
        default="python",
        help="python: Python with GraphBuilder; mirror: Python with dnnl::graph's classes; "
        "cpp: C++17; cpp-check: the same, which also compares its results with the reference's; "
        "benchdnn: the command that replays the file (default: %(default)s)",
    )
    add_output(parser)
    add_seed(parser)
    parser.set_defaults(run=_export)
