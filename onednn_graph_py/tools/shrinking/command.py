"""``python -m onednn_graph_py shrink``."""

import argparse
import sys
from typing import Any

from ...base.errors import InvalidArgumentsError
from ...base.text.numbers import counted
from ...base.text.options import add_command, add_output, add_seed, add_timeout
from ...base.text.progress import show_progress
from ...serialization import parse, to_json
from .shrink import Progress, elements_of, shrink
from .trial import SYMPTOMS, Shows

_MORE = """\
mismatch: oneDNN's fused partitions, without workarounds for known defects, compute something else
than the reference. crash: the process that runs the graph crashes. hang: that process does not end
in time. unsupported: oneDNN has no kernel for an op here. refused: oneDNN or this package rejects
the graph. Exit status: 0 if the graph showed the symptom, 1 if it did not, 2 if the file can't be
read.
"""


def add_shrink(commands: Any) -> None:
    """Add the command to those of a parser."""
    parser = add_command(
        commands,
        "shrink",
        "make a graph smaller while it shows a symptom",
        "Remove ops, dims and attributes from a graph while it still shows a symptom.",
        "graph.json --while mismatch -o small.json",
        more=_MORE,
    )
    parser.add_argument("file", help="a graph's JSON file")
    parser.add_argument(
        "--while",
        dest="symptom",
        required=True,
        choices=SYMPTOMS,
        help="the symptom that the smaller graph must still show",
    )
    add_output(parser)
    add_seed(parser)
    add_timeout(parser, 60.0, "per try")
    parser.add_argument(
        "--tries", type=int, default=2000, help="largest number of tries (default: %(default)s)"
    )
    parser.set_defaults(run=_shrink)


def _shrink(arguments: argparse.Namespace) -> int:
    document = parse(arguments.file)
    tried = 0

    def progress(now: Progress) -> None:
        nonlocal tried
        tried = now.tries
        show_progress(f"{now.tries} tries: {now.ops} ops, {now.elements} elements")

    with Shows(arguments.symptom, seed=arguments.seed, timeout=arguments.timeout) as shows:
        try:
            smallest = shrink(document, shows, tries=arguments.tries, progress=progress)
        except InvalidArgumentsError as e:
            print(f"shrink: {arguments.file}: {e}", file=sys.stderr)
            return 1
        finally:
            show_progress("")
        outcome = shows.outcome(smallest)
    print(
        f"shrink: {len(document.graph)} ops, {elements_of(document)} elements -> "
        f"{counted(len(smallest.graph), 'op')} "
        f"({', '.join(op.kind for op in smallest.graph)}), "
        f"{elements_of(smallest)} elements, after {tried} tries\n{outcome.with_reason()}",
        file=sys.stderr,
    )
    print(to_json(smallest))
    return 0
