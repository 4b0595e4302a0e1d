"""The command line: ``python -m onednn_graph_py COMMAND``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .capture.command import add_capture
from .comparing.command import add_compare
from .errors import OneDNNError
from .explaining.command import add_explain
from .export.command import add_export
from .hardware.command import add_devices
from .inspect.log_command import add_log
from .onnx.command import add_onnx
from .ops.command import add_ops
from .patterns.command import add_patterns
from .probing.command import add_capabilities
from .replay.command import add_replay
from .selftest.command import add_selftest
from .shrinking.command import add_shrink
from .text.names import printable
from .text.progress import show_progress

__all__ = ["main"]

_RENAMED = {"run": "replay", "reduce": "shrink"}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m onednn_graph_py", description="oneDNN's Graph API from the command line."
    )
    commands = parser.add_subparsers(
        title="commands", dest="command", metavar="COMMAND", required=True
    )
    add_ops(commands)
    add_capabilities(commands)
    add_devices(commands)
    add_patterns(commands)
    add_replay(commands)
    add_compare(commands)
    add_shrink(commands)
    add_capture(commands)
    add_export(commands)
    add_log(commands)
    add_explain(commands)
    add_onnx(commands)
    add_selftest(commands)
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Run the command of a command line; return the exit status."""
    words = list(sys.argv[1:] if words is None else words)
    if words and words[0] in _RENAMED:
        old, words[0] = words[0], _RENAMED[words[0]]
        print(f"{old}: this command is now called {words[0]}", file=sys.stderr)
    arguments = _parser().parse_args(words)
    try:
        status: int = arguments.run(arguments)
    except BrokenPipeError:  # __main__ handles it
        raise
    except KeyboardInterrupt:
        show_progress("")
        print(f"{arguments.command}: interrupted", file=sys.stderr)
        return 130
    except (OneDNNError, OSError) as e:  # errors about a file or an option
        print(printable(f"{arguments.command}: {e}"), file=sys.stderr)
        return 2
    return status
