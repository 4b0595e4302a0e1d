"""``python -m onednn_graph_py tune``."""

from __future__ import annotations

import argparse
import json

from ...base.text.options import add_command, add_forms, at_least
from ...serialization import load
from ...tools import tuning
from .command import require_packages
from .sizes import chosen_shapes, parsed


def _tune(arguments: argparse.Namespace) -> int:
    if arguments.file.endswith(".onnx"):
        require_packages()
        from ..model import load as load_onnx

        model = load_onnx(arguments.file, threads=arguments.threads, tune="full")
        model.compile(chosen_shapes(model.input_dims, parsed(arguments.set))[0])
    else:
        load(arguments.file).compile(threads=arguments.threads, tune="full")
    if arguments.form == "json":
        print(json.dumps([m._asdict() for m in tuning.measurements()], indent=2))
    else:
        print(tuning.show())
    return 0


def add_tune(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of a parser."""
    parser = add_command(
        commands,
        "tune",
        "measure in which form each group of a model is fastest, and remember it",
        "Measure each group of a model in all forms that fit it, however long that takes, and "
        "print all that is measured on this machine. Models that are compiled later use it.",
        "model.onnx --set batch=1",
        more="Exit status: 0; 2 if the file or an option can't be read.",
    )
    parser.add_argument("file", help="an ONNX model, or a graph's JSON file")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=SIZE",
        help="sizes of an ONNX model's open dims, such as batch=1",
    )
    parser.add_argument("--threads", type=at_least(1), help="threads of a call")
    add_forms(parser, json="print JSON")
    parser.set_defaults(run=_tune)
