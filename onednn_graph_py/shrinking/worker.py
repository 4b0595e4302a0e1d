"""The process that tries graphs: ``python -m onednn_graph_py.shrinking.worker FD``.

Each call is made in a fork of it, which starts in no time and leaves nothing behind: no cache of
oneDNN is warm, and what crashes or hangs ends alone. The process itself never calls oneDNN, whose
threads a fork would not have.
"""

from __future__ import annotations

import os
import pickle
import resource
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Literal

from .process import Answer

__all__ = ["serve"]


def serve(descriptor: int) -> None:
    """Take calls from a connection and answer them, until it ends."""
    connection = Connection(descriptor)
    # CPython warns of any fork while there are threads; those here are NumPy's, idle ones.
    warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*fork")
    while True:
        try:
            request = connection.recv_bytes()
        except EOFError:
            return
        path, packed, timeout = pickle.loads(request)
        sys.path[:] = path
        try:
            function, arguments = pickle.loads(packed)
        except Exception:
            connection.send(("raised", traceback.format_exc()))
            continue
        answer = _called(connection, function, arguments, timeout)
        if answer is None:
            return
        connection.send(answer)


def _called(
    connection: Connection, function: Callable[..., Any], arguments: Any, timeout: float
) -> Answer | None:
    """Make a call in a fork; None if the caller has gone."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _child(writing, function, arguments)
    os.close(writing)
    sent, until = b"", time.monotonic() + timeout
    ended: Literal["itself", "hang", "caller"] | None = None
    while ended is None:
        left = max(0.0, until - time.monotonic())
        ready = select.select([reading, connection.fileno()], [], [], left)[0]
        if connection.fileno() in ready:  # nothing is asked before the answer, so it is closed
            ended = "caller"
        elif not ready:
            ended = "hang"
        elif piece := os.read(reading, 1 << 16):
            sent += piece
        else:
            ended = "itself"
    os.close(reading)
    if ended != "itself":
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if ended == "caller":
        return None
    if ended == "hang":
        return "hang", None
    if sent and status == 0:
        answer: Answer = pickle.loads(sent)
        return answer
    return ("signal", -status) if status < 0 else ("exit", status)


def _child(writing: int, function: Callable[..., Any], arguments: Any) -> None:
    """Make the call, write what became of it, and end without any clean-up."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    answer: Answer
    try:
        answer = "returned", function(*arguments)
    except BaseException:
        answer = "raised", traceback.format_exc()
    left = memoryview(pickle.dumps(answer))
    while left:
        left = left[os.write(writing, left) :]
    os._exit(0)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
