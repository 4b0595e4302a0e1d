"""Run as a file, by any Python: finds the package there, and hands over to its worker.

``python bootstrap.py FD``, with the number of a connection. Nothing of the package may be imported
at the top: it may not be there, or be an older one.
"""

import importlib
import importlib.util
import os
import sys

__all__ = ["MISSING", "TOO_OLD"]

MISSING = 81
"""Exit status: the package is not installed."""
TOO_OLD = 82
"""Exit status: it is, and can't compare."""


def _start() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    # Python puts the folder of this file first, whose modules are not for all to import.
    sys.path[:] = [p for p in sys.path if os.path.abspath(p) != here]
    if importlib.util.find_spec("onednn_graph_py") is None:
        sys.exit(MISSING)
    for module in ("onednn_graph_py.comparing", "onednn_graph_py.comparing.worker"):
        if importlib.util.find_spec(module) is None:
            sys.exit(TOO_OLD)
    importlib.import_module("onednn_graph_py.comparing.worker").serve(int(sys.argv[1]))


if __name__ == "__main__":
    _start()
