"""Start a module of this package as a process that answers over a connection."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import IO

__all__ = ["STARTUP", "ending", "last_words", "started"]

STARTUP = 120.0
"""Seconds for Python to start and the package to be imported, on however busy a machine."""

_KEPT = 2000  # bytes of what a process wrote last


def started(
    module: str,
    *,
    environment: Mapping[str, str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    errors: IO[bytes] | None = None,
) -> tuple[subprocess.Popen[bytes], Connection]:
    """Start ``python -m MODULE FD``.

    Parameters
    ----------
    module : str
        Takes the number of its end of the connection as argument.
    environment : mapping of str to str, optional
        The caller's otherwise.
    folder : path, optional
        Where it runs, and which Python searches first; the caller's otherwise.
    errors : file, optional
        Takes its standard error; the caller's otherwise.

    Returns
    -------
    process : subprocess.Popen
    connection : multiprocessing.connection.Connection
        Raises EOFError or OSError once the process has ended.

    Raises
    ------
    OSError
        No process can be started.
    """
    mine, its = Pipe()
    try:
        # Not multiprocessing's own processes: they would import the caller's script again.
        process = subprocess.Popen(
            [sys.executable, "-m", module, str(its.fileno())],
            env=None if environment is None else dict(environment),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=[its.fileno()],
        )
    except BaseException:
        mine.close()
        raise
    finally:
        its.close()
    return process, mine


def ending(status: int) -> str:
    """Describe how a process ended, by its exit status; negative is a signal."""
    if status >= 0:
        return f"the process ended with exit status {status}"
    try:
        return f"the process was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"the process was ended by signal {-status}"


def last_words(errors: IO[bytes]) -> str:
    """The last line that a process wrote to its standard error, behind a colon; empty if none."""
    size = errors.seek(0, 2)
    errors.seek(max(0, size - _KEPT))
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return f": {lines[-1].strip()}" if lines else ""
