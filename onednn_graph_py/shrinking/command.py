"""``python -m onednn_graph_py reduce``."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ..errors import InvalidArgumentsError, OneDNNError
from ..serialization import parse, to_json
from .outcome import SYMPTOMS
from .shows import Shows
from .shrink import Progress, elements_of, shrink

__all__ = ["add_reduce"]

_DESCRIPTION = """\
Make a graph from a JSON file smaller while it still shows a symptom. mismatch: oneDNN's fused
partitions, without workarounds for known defects, compute something else than the reference. crash:
the process that runs the graph crashes. hang: that process does not end in time. unsupported:
oneDNN has no kernel for an op here. refused: oneDNN or this package rejects the graph. Exit status:
0 if the graph showed the symptom, 1 if it did not, 2 if the file can't be read.
"""


def _positive(text: str) -> float:
    number = float(text)
    if not number > 0:
        raise argparse.ArgumentTypeError(f"must be positive, got {text}")
    return number


def add_reduce(commands: Any) -> None:
    """Add the command to those of a parser."""
    reduce = commands.add_parser(
        "reduce", help="make a graph smaller while it shows a symptom", description=_DESCRIPTION
    )
    reduce.add_argument("file", help="a graph's JSON file")
    reduce.add_argument(
        "--while",
        dest="symptom",
        required=True,
        choices=SYMPTOMS,
        help="the symptom that the smaller graph must still show",
    )
    reduce.add_argument(
        "-o", dest="out", metavar="OUT", help="output file (default: standard output)"
    )
    reduce.add_argument(
        "--seed", type=int, default=0, help="seed for generated inputs (default: %(default)s)"
    )
    reduce.add_argument(
        "--timeout",
        type=_positive,
        default=60.0,
        help="time limit per try, in seconds (default: %(default)g)",
    )
    reduce.add_argument(
        "--tries", type=int, default=2000, help="largest number of tries (default: %(default)s)"
    )
    reduce.set_defaults(run=_reduce)


def _told(progress: Progress) -> None:
    text = f"{progress.tries} tries: {progress.ops} ops, {progress.elements} elements"
    print(f"\r{text:<60}", end="", file=sys.stderr, flush=True)


def _reduce(arguments: argparse.Namespace) -> int:
    try:
        document = parse(arguments.file)
    except (OneDNNError, OSError) as e:
        print(f"reduce: {e}", file=sys.stderr)
        return 2
    shown = sys.stderr.isatty()
    tried = 0

    def progress(now: Progress) -> None:
        nonlocal tried
        tried = now.tries
        if shown:
            _told(now)

    with Shows(arguments.symptom, seed=arguments.seed, timeout=arguments.timeout) as shows:
        try:
            made = shrink(document, shows, tries=arguments.tries, progress=progress)
        except InvalidArgumentsError as e:
            print(f"reduce: {arguments.file}: {e}", file=sys.stderr)
            return 1
        finally:
            if shown:
                print(file=sys.stderr)
        outcome = shows.outcome(made)
    print(
        f"reduce: {len(document.graph)} ops, {elements_of(document)} elements -> "
        f"{len(made.graph)} op{'s' * (len(made.graph) > 1)} "
        f"({', '.join(op.kind for op in made.graph)}), "
        f"{elements_of(made)} elements, after {tried} tries\n{outcome}",
        file=sys.stderr,
    )
    text = to_json(made)
    if arguments.out is None:
        print(text)
        return 0
    try:
        with open(arguments.out, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as e:
        print(f"reduce: {e}", file=sys.stderr)
        return 2
    return 0
