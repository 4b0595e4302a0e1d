"""The command line: ``python -m onednn_graph_py COMMAND``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .capture.command import add_capture
from .comparing.command import add_compare
from .errors import InvalidArgumentsError, OneDNNError
from .explaining.command import add_explain
from .export.command import add_export
from .hardware.command import add_devices
from .inspect.log_command import add_log
from .ops import OPS, overview
from .ops.describe import signature, text
from .ops.terms import linked_version
from .probing import capabilities
from .replay.command import add_replay
from .selftest.command import add_selftest
from .shrinking.command import add_shrink
from .text.names import did_you_mean
from .text.options import add_forms
from .text.progress import show_progress

__all__ = ["main"]

_RENAMED = {"run": "replay", "reduce": "shrink"}


def _ops(arguments: argparse.Namespace) -> int:
    if not arguments.name:
        print(overview(linked_version()))
        return 0
    known = {kind.lower(): kind for kind in OPS}
    for i, name in enumerate(arguments.name):
        kind = known.get(name.lower())
        if kind is None:
            hint = did_you_mean(name.lower(), known, known.__getitem__)
            raise InvalidArgumentsError(f"oneDNN has no op {name!r}{hint}")
        print(("\n" if i else "") + f"{kind}{signature(OPS[kind])}\n\n{text(OPS[kind])}")
    return 0


def _capabilities(arguments: argparse.Namespace) -> int:
    def progress(done: int, of: int) -> None:
        show_progress(f"probing: {done} of {of}" * (done < of))

    found = capabilities(refresh=arguments.refresh, progress=progress)
    print(found._repr_html_() if arguments.html else found)
    return 0


def _patterns(arguments: argparse.Namespace) -> int:
    from .patterns import PATTERNS
    from .patterns.measure import measure
    from .patterns.report import FORMS

    chosen, status = [], 0
    for name in arguments.name or PATTERNS:
        found = [p for p in PATTERNS.values() if name.lower() in (p.id.lower(), p.name.lower())]
        if not found:
            known = [n for p in PATTERNS.values() for n in (p.id, p.name)]
            hint = did_you_mean(name, known, str)
            raise InvalidArgumentsError(f"there is no pattern {name!r}{hint}")
        chosen += found
    of = sum(len(p.cases) for p in chosen)
    results = []
    for pattern in chosen:
        for case in pattern.cases:
            results.append(measure(pattern, case, timed=not arguments.no_time))
            status |= results[-1].failed
            show_progress(f"measuring: {len(results)} of {of}" * (len(results) < of))
    print(FORMS[arguments.form or "text"](results, PATTERNS))
    return int(status)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m onednn_graph_py", description="oneDNN's Graph API from the command line."
    )
    commands = parser.add_subparsers(
        title="commands", dest="command", metavar="COMMAND", required=True
    )
    ops = commands.add_parser("ops", help="list all operations, or describe some")
    ops.add_argument("name", nargs="*", help="an op such as Convolution (default: list all)")
    ops.set_defaults(run=_ops)
    found = commands.add_parser(
        "capabilities", help="show which ops run unfused on this machine, with which data types"
    )
    found.add_argument(
        "--refresh", action="store_true", help="probe again instead of using stored results"
    )
    found.add_argument("--html", action="store_true", help="print a heat map as HTML")
    found.set_defaults(run=_capabilities)
    add_devices(commands)
    gallery = commands.add_parser(
        "patterns",
        help="build and run the documented fusion patterns, and report each result",
    )
    gallery.add_argument("name", nargs="*", help="a pattern such as FP-08 or matmul (default: all)")
    names = {"json": "JSON", "html": "HTML", "markdown": "Markdown"}
    add_forms(gallery, **{form: f"print the results as {name}" for form, name in names.items()})
    gallery.add_argument("--no-time", action="store_true", help="do not time calls")
    gallery.set_defaults(run=_patterns)
    add_replay(commands)
    add_compare(commands)
    add_shrink(commands)
    add_capture(commands)
    add_export(commands)
    add_log(commands)
    add_explain(commands)
    add_selftest(commands)
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Do what the command line asks; return the exit status."""
    words = list(sys.argv[1:] if words is None else words)
    if words and words[0] in _RENAMED:
        old, words[0] = words[0], _RENAMED[words[0]]
        print(f"{old}: this command is now called {words[0]}", file=sys.stderr)
    arguments = _parser().parse_args(words)
    try:
        status: int = arguments.run(arguments)
    except BrokenPipeError:  # __main__ knows what to do
        raise
    except (OneDNNError, OSError) as e:  # of a file or an option
        print(f"{arguments.command}: {e}", file=sys.stderr)
        return 2
    return status
