"""``python -m onednn_graph_py capabilities``."""

from __future__ import annotations

import argparse

from ..text.progress import show_progress
from . import capabilities

__all__ = ["add_capabilities"]


def _capabilities(arguments: argparse.Namespace) -> int:
    def progress(done: int, of: int) -> None:
        show_progress(f"probing: {done} of {of}" * (done < of))

    found = capabilities(refresh=arguments.refresh, progress=progress)
    print(found._repr_html_() if arguments.html else found)
    return 0


def add_capabilities(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of a parser."""
    parser = commands.add_parser(
        "capabilities", help="show which ops run unfused on this machine, with which data types"
    )
    parser.add_argument(
        "--refresh", action="store_true", help="probe again instead of using stored results"
    )
    parser.add_argument("--html", action="store_true", help="print a heat map as HTML")
    parser.set_defaults(run=_capabilities)
