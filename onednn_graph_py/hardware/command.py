"""``python -m onednn_graph_py devices``."""

from __future__ import annotations

import argparse
import json

from .find import devices

__all__ = ["add_devices"]


def _devices(arguments: argparse.Namespace) -> int:
    found = devices()
    print(json.dumps(found.to_dict(), indent=2) if arguments.json else found)
    return 0


def add_devices(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of a parser."""
    parser = commands.add_parser("devices", help="list devices, and explain what is missing")
    parser.add_argument("--json", action="store_true", help="print JSON, with memory in bytes")
    parser.set_defaults(run=_devices)
