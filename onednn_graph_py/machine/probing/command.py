"""``python -m onednn_graph_py capabilities``."""

from __future__ import annotations

import argparse

from ...base.text.options import add_command, add_forms
from ...base.text.progress import show_progress
from . import capabilities


def _capabilities(arguments: argparse.Namespace) -> int:
    def progress(done: int, of: int) -> None:
        show_progress(f"probing: {done} of {of}" * (done < of))

    found = capabilities(refresh=arguments.refresh, progress=progress)
    print(found._repr_html_() if arguments.form == "html" else found)
    return 0


def add_capabilities(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of a parser."""
    parser = add_command(
        commands,
        "capabilities",
        "show which ops run unfused on this machine, with which data types",
        "Run every op alone with every data type, as far as this CPU can; the results are kept.",
        "--html -o ops.html",
    )
    parser.add_argument(
        "--refresh", action="store_true", help="probe again instead of using stored results"
    )
    add_forms(parser, html="print a heat map as HTML")
    parser.set_defaults(run=_capabilities)
