"""The loop that answers messages between processes, which are pickled: `serve`."""

import pickle
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from .orphans import end_without_caller


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
