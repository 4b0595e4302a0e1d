"""The process that runs cases one after the other, and may crash: ``python -m ...worker FD``."""

from __future__ import annotations

import sys
from multiprocessing.connection import Connection

from .run_case import run_case

__all__ = ["serve"]


def serve(descriptor: int) -> None:
    """Take cases with their options from a connection, and answer with results, until it ends.

    Before the first one comes None: the case's time does not begin before that.
    """
    connection = Connection(descriptor)
    connection.send(None)
    while True:
        try:
            case, options = connection.recv()
            connection.send(run_case(case, options))
        except (EOFError, BrokenPipeError):  # who asked is gone, or wants no more
            return


if __name__ == "__main__":
    serve(int(sys.argv[1]))
