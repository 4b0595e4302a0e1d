"""A script that any Python can run: it finds the package there, and starts its worker.

Run it as ``python bootstrap.py FD``, with the file descriptor of a connection. It must not import
the package at the top, since the package may be missing or older.
"""

import importlib
import importlib.util
import os
import signal
import sys

MISSING = 81  # exit status: the package is not installed
TOO_OLD = 82  # exit status: the package is installed, but too old to compare


def _start() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller handles Ctrl-C, and ends this process
    here = os.path.dirname(os.path.abspath(__file__))
    # Python puts the folder of this file first, whose modules must not hide others.
    sys.path[:] = [p for p in sys.path if os.path.abspath(p) != here]
    if importlib.util.find_spec("onednn_graph_py") is None:
        sys.exit(MISSING)
    module = "onednn_graph_py"
    for part in ("tools", "comparing", "worker"):
        module += f".{part}"
        if importlib.util.find_spec(module) is None:
            sys.exit(TOO_OLD)
    importlib.import_module(module).serve(int(sys.argv[1]))


if __name__ == "__main__":
    _start()
