"""A graph as a command of benchdnn, oneDNN's own test driver."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace

from ...model.building.builder import GraphBuilder
from ...ops.lookup import row
from ...ops.terms import OLDEST, AttributeValue
from ...serialization import AttributeRecord, OpRecord, from_builder, parse, save


def benchdnn_command(path: str | os.PathLike[str], *, mode: str = "C") -> list[str]:
    """Return the command that replays a saved graph with benchdnn.

    Parameters
    ----------
    path : path
        A file that `GraphBuilder.save` or oneDNN wrote.
    mode : str
        benchdnn's mode: ``C`` for correctness, ``P`` for performance, ``I`` only
        to partition and compile.

    Returns
    -------
    list of str
        The command's words; ``shlex.join`` makes one line of them.

    Raises
    ------
    GraphFormatError
        The file is not a graph.
    OSError
        The file can't be read.
    """
    document = parse(path)
    return [
        "benchdnn",
        "--graph",
        f"--mode={mode}",
        f"--engine={document.engine_kind}",
        f"--case={os.path.abspath(os.fspath(path))}",
    ]


def _stated(op: OpRecord) -> OpRecord:
    """Return an op that states its defaults: benchdnn asks for most of them.

    Attributes that later versions added are left out, as an older benchdnn refuses them.
    """
    known = row(op.kind)
    defaults: dict[str, AttributeValue] = {
        a.name: a.default for a in known.attributes if a.default is not None and a.since == OLDEST
    }
    kernel = op.values.get("kernel")
    if known.attribute("dilations") is not None and isinstance(kernel, tuple):
        defaults["dilations"] = (1,) * len(kernel)
    types = {a.name: a.type for a in known.attributes}
    added = {n: AttributeRecord(types[n], v) for n, v in defaults.items() if n not in op.attrs}
    return replace(op, attrs={**op.attrs, **added})


def to_benchdnn(builder: GraphBuilder, path: str | os.PathLike[str]) -> str:
    """Save a graph as JSON, and return the command line that makes benchdnn replay it.

    The file states attributes that have their default values too, without which benchdnn refuses
    some ops or crashes.

    Raises
    ------
    InvalidGraphError
        The graph has no ops.
    OSError
        The file can't be written.
    """
    document = from_builder(builder)
    save(replace(document, graph=tuple(map(_stated, document.graph))), path)
    return shlex.join(benchdnn_command(path))
