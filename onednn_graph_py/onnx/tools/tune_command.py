"""``python -m onednn_graph_py tune``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ...base.errors import InvalidArgumentsError
from ...base.text.options import add_command, add_forms, at_least
from ...serialization import load
from ...tools import tuning
from .command import require_packages
from .sizes import chosen_shapes, parsed


def _tune(arguments: argparse.Namespace) -> int:
    if arguments.file.endswith(".onnx"):
        require_packages()
        from ..file_model import load as load_onnx

        model = load_onnx(arguments.file, threads=arguments.threads, tune="full")
        sizes = parsed(arguments.set)
        model.compile(chosen_shapes(model.input_dims, sizes)[0])
    elif arguments.set:
        raise InvalidArgumentsError("--set: only an ONNX model has open dims to set")
    else:
        loaded = load(Path(arguments.file))
        getattr(loaded, "builder", loaded).compile(threads=arguments.threads, tune="full")
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
        "find the fastest form of each group of a model, and keep it",
        "Time each group of a model in all forms that fit it, however long that takes, and print "
        "all times of this machine. Models compiled later use them.",
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
    parser.add_argument("--threads", type=at_least(1), help="threads per call")
    add_forms(parser, json="print JSON")
    parser.set_defaults(run=_tune)
