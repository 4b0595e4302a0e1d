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
    parser = add_command(
        commands,
        "capture",
        "run a program and keep the graphs that it partitions",
        "Run a program and keep the graphs that any oneDNN in it, such as torch's, partitions.",
        "-o graphs -- python script.py",
        more=_MORE,
    )
    parser.usage = "%(prog)s [-h] [-o DIR] [--] PROGRAM [ARGUMENT ...]"
    parser.add_argument(
        *("-o", "--output"),
        dest="folder",
        metavar="DIR",
        default="graphs",
        help="output folder (default: %(default)s)",
    )
    parser.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="PROGRAM",
        help="program to run, and its arguments",
    )
    parser.set_defaults(run=_capture)


def _capture(arguments: argparse.Namespace) -> int:
    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    if not words:
        print("capture: no program is given", file=sys.stderr)
        return 125
    try:
        captured = capture(words, arguments.folder)
    except (OneDNNError, OSError) as e:
        print(f"capture: {error_text(e)}", file=sys.stderr)
        if not isinstance(e, OSError) or e.filename is None or str(e.filename) != words[0]:
            return 125
        return 127 if isinstance(e, FileNotFoundError) else 126
    print(_told(captured, arguments.folder), file=sys.stderr)
    return captured.status if captured.status >= 0 else 128 - captured.status


def _told(captured: Captured, folder: str) -> str:
    if not captured.files:
        return f"capture: no graphs: {captured.why_none}"
    return (
        f"capture: {counted(captured.graphs, 'graph')} in {len(captured.files)} files in {folder}"
    )
