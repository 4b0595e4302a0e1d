"""What benchdnn, oneDNN's own test driver, says of the graphs of known defects: `measured`.

``python -m matrix.benchdnn`` prints it as JSON, of this oneDNN.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from pathlib import Path

import memory_cases
from _benchdnn import Answer, run

import onednn_graph_py as og
from onednn_graph_py.machine import current
from onednn_recipe.recipe import Recipe

from . import benchdnn_build
from .page import graph_file
from .programs import BYTES, SECONDS, titles

__all__ = ["driver", "measured"]


def driver(build: bool = False) -> Path | None:
    """Return the benchdnn of this oneDNN, None if there is none.

    Parameters
    ----------
    build : bool
        Build it if that was not done before. There is none of a oneDNN that was not built here.
    """
    recipe = Recipe()
    if recipe.settings.root is not None:
        return None
    ready = benchdnn_build.ensure(recipe) if build else benchdnn_build.finished(recipe)
    version = "{major}.{minor}.{patch}".format(**og.version())
    if ready is None or (ready.onednn.version, "OpenMP") != (version, current().runtime):
        return None
    return ready.program


def measured(program: Path) -> dict[str, str]:
    """Return its answer to the first graph of each row, such as ``FAILED (errors:4 total:8)``."""
    found = {}
    for row in (*titles(), *memory_cases.ROWS):
        path = graph_file(row)
        if path.exists():
            found[row] = _answer(program, path)
    return found


def _answer(program: Path, path: Path) -> str:
    def said(mode: str, *knobs: str) -> Answer:
        return run(program, path, mode, knobs, threads=current().threads, timeout=SECONDS)

    checked = said("C")
    # Its own reference may be what crashes, which it does not need to time a call.
    if checked.verdict == "CRASHED" and said("P", "--fix-times-per-prb=1").verdict != "CRASHED":
        return "UNSURE (it crashes only where it compares)"
    # Its sources' folder is this machine's.
    return re.sub(r"/\S*/(?=tests/benchdnn/)", "", str(checked))


def main() -> None:
    """Print what is measured."""
    # Of what it runs too; with some defects oneDNN takes more and more.
    resource.setrlimit(resource.RLIMIT_DATA, (BYTES, BYTES))
    program = driver()
    json.dump({} if program is None else measured(program), sys.stdout)


if __name__ == "__main__":
    main()
