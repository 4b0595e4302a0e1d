"""The forms of messages between processes, and the loop that answers them: `serve`."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from .orphans import end_without_caller


class Form(NamedTuple):
    """A form of messages: functions that write and read one."""

    write: Callable[[Any], bytes]
    read: Callable[[bytes], Any]


PICKLE = Form(pickle.dumps, pickle.loads)  # the form between processes that import the same package
JSON = Form(lambda message: json.dumps(message).encode(), json.loads)
"""The form between processes that may import different versions of the package."""


def serve(
    descriptor: int, answer: Callable[[Any], Any], *, first: Any = None, form: Form = PICKLE
) -> None:
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
            connection.send_bytes(form.write(first))
            request = form.read(connection.recv_bytes())
        except (EOFError, OSError):  # the other process is gone, or closed the connection
            return
        first = answer(request)
