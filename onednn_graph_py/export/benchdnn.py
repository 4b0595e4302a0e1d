"""A graph as a command of benchdnn, oneDNN's own test driver."""

from __future__ import annotations

import os
import shlex

from ..building.builder import GraphBuilder
from ..serialization import parse, save

__all__ = ["benchdnn_command", "to_benchdnn"]


def benchdnn_command(path: str | os.PathLike[str], *, mode: str = "C") -> list[str]:
    """Return the command that replays a saved graph with benchdnn.

    Parameters
    ----------
    path : path
        A file that `GraphBuilder.save` or oneDNN wrote.
    mode : str
        benchdnn's mode: ``C`` for correctness, ``P`` for performance, ``R`` just to run.

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


def to_benchdnn(builder: GraphBuilder, path: str | os.PathLike[str]) -> str:
    """Save a graph as JSON, and return the command line that makes benchdnn replay it.

    Raises
    ------
    InvalidGraphError
        The graph has no ops.
    OSError
        The file can't be written.
    """
    save(builder, path)
    return shlex.join(benchdnn_command(path))
