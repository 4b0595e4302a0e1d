"""The loop of a helper process, which ends when its caller does, however that ended: `serve`."""

import contextlib
import ctypes
import os
import pickle
import select
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

_GRACE = 0.5  # seconds for a process to end by itself, after its caller has

_PR_SET_PDEATHSIG = 1  # of Linux's prctl(2)


def end_without_caller(descriptor: int) -> None:
    """End this process soon after nobody has the other end of a connection or pipe any more.

    A thread watches it, as the process may be in a long call of oneDNN.
    """
    poller = select.poll()
    poller.register(descriptor, 0)  # what is reported anyway: that the other end is closed

    def watch() -> None:
        poller.poll()
        time.sleep(_GRACE)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="end without caller").start()


def die_with_parent() -> None:
    """Have Linux kill this process when its parent's thread that started it ends."""
    with contextlib.suppress(OSError, AttributeError):  # another system
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def serve(descriptor: int, answer: Callable[[Any], Any], *, first: Any = None) -> None:
    """Answer requests from a connection until it ends, also in the midst of a request.

    - `descriptor`: the number of the connection, as `Process` passes it
    - `answer`: takes a request, and returns the answer
    - `first`: the message sent before any request, so that the time of a request begins after
      start-up
    """
    end_without_caller(descriptor)
    connection = Connection(descriptor)
    while True:
        try:
            connection.send_bytes(pickle.dumps(first))
            request = pickle.loads(connection.recv_bytes())
        except (EOFError, OSError):  # the other process is gone, or closed the connection
            return
        first = answer(request)
