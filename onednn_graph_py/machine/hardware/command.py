"""``python -m onednn_graph_py devices``."""

import argparse
import json
from typing import Any

from ...base.text.options import add_command, add_forms
from .find import devices


def _devices(arguments: argparse.Namespace) -> int:
    every = devices()
    print(json.dumps(every.to_dict(), indent=2) if arguments.form == "json" else every)
    return 0


def add_devices(commands: Any) -> None:
    """Add the command to those of a parser."""
    parser = add_command(
        commands,
        "devices",
        "list devices, and explain what is missing",
        "List the devices that oneDNN can run on here; for those that are missing, say why.",
        "--json",
    )
    add_forms(parser, json="print JSON, with memory in bytes")
    parser.set_defaults(run=_devices)
