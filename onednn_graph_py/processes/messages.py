"""What goes over a connection, and the end of it that answers."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

__all__ = ["JSON", "PICKLE", "Form", "serve"]


class Form(NamedTuple):
    """How messages are written and read."""

    write: Callable[[Any], bytes]
    read: Callable[[bytes], Any]


PICKLE = Form(pickle.dumps, pickle.loads)
"""Between processes that import the same package."""
JSON = Form(lambda message: json.dumps(message).encode(), json.loads)
"""Between processes that may import different versions of it."""


def serve(
    descriptor: int, answer: Callable[[Any], Any], *, first: Any = None, form: Form = PICKLE
) -> None:
    """Answer requests from a connection until it ends.

    Parameters
    ----------
    descriptor : int
        The number of the connection, as `Process` passes it.
    answer : callable
        Takes a request, and returns the answer.
    first : object
        Is sent before any request, so that a request's time does not begin before that.
    form : Form
    """
    connection = Connection(descriptor)
    while True:
        try:
            connection.send_bytes(form.write(first))
            request = form.read(connection.recv_bytes())
        except (EOFError, OSError):  # who asked is gone, or wants no more
            return
        first = answer(request)
