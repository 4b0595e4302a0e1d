"""``python -m onednn_graph_py ops``."""

import argparse
from typing import Any

from ..base.errors import InvalidArgumentsError
from ..base.linked import linked_version
from ..base.text.names import did_you_mean
from ..base.text.options import add_command, add_output
from .describe import signature, text
from .lookup import overview
from .table import OPS


def _ops(arguments: argparse.Namespace) -> int:
    if not arguments.name:
        print(overview(linked_version()))
        return 0
    known = {kind.lower(): kind for kind in OPS}
    for i, name in enumerate(arguments.name):
        kind = known.get(name.lower())
        if kind is None:
            hint = did_you_mean(name.lower(), known, known.__getitem__) or "; ops lists all"
            raise InvalidArgumentsError(f"oneDNN has no op {name!r}{hint}")
        print(("\n" if i else "") + f"{kind}{signature(OPS[kind])}\n\n{text(OPS[kind])}")
    return 0


def add_ops(commands: Any) -> None:
    """Add the command to those of a parser."""
    parser = add_command(
        commands,
        "ops",
        "list all operations, or describe some",
        "List oneDNN's operations, or describe some: inputs, attributes, data types, versions.",
        "MatMul SoftMax",
    )
    parser.add_argument("name", nargs="*", help="an op such as Convolution (default: list all)")
    add_output(parser)
    parser.set_defaults(run=_ops)
