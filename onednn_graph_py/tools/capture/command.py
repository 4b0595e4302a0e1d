"""``python -m onednn_graph_py capture``."""

import argparse
import sys
from typing import Any

from ...base.errors import OneDNNError
from ...base.text.files import error_text
from ...base.text.numbers import counted
from ...base.text.options import add_command
from .program import Captured, capture

_MORE = """\
Exit status: the program's; 128 and the signal's number if a signal ended it; 125 if nothing could
be captured, 126 if the program can't be run, 127 if it does not exist.
"""


def add_capture(commands: Any) -> None:
    """Add the command to those of a parser."""
    made = add_command(
        commands,
        "capture",
        "run a program and keep the graphs that it partitions",
        "Run a program and keep the graphs that any oneDNN in it, such as torch's, partitions.",
        "-o graphs -- python script.py",
        more=_MORE,
    )
    made.usage = "%(prog)s [-h] [-o DIR] [--] PROGRAM [ARGUMENT ...]"
    made.add_argument(
        *("-o", "--output"),
        dest="folder",
        metavar="DIR",
        default="graphs",
        help="output folder (default: %(default)s)",
    )
    made.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="PROGRAM",
        help="program to run, and its arguments",
    )
    made.set_defaults(run=_capture)


def _capture(arguments: argparse.Namespace) -> int:
    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    if not words:
        print("capture: no program is given", file=sys.stderr)
        return 125
    try:
        found = capture(words, arguments.folder)
    except (OneDNNError, OSError) as e:
        print(f"capture: {error_text(e)}", file=sys.stderr)
        if not isinstance(e, OSError) or e.filename is None or str(e.filename) != words[0]:
            return 125
        return 127 if isinstance(e, FileNotFoundError) else 126
    print(_told(found, arguments.folder), file=sys.stderr)
    return found.status if found.status >= 0 else 128 - found.status


def _told(found: Captured, folder: str) -> str:
    if not found.files:
        return f"capture: no graphs: {found.why_none}"
    return f"capture: {counted(found.graphs, 'graph')} in {len(found.files)} files in {folder}"
