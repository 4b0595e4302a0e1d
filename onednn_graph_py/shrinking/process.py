"""Functions called where a crash or a hang does no harm."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Literal

from ..errors import InvalidArgumentsError
from ..processes import started

__all__ = ["Answer", "Isolated"]

Answer = tuple[Literal["returned", "raised", "signal", "exit", "hang"], Any]
"""What became of a call: what it returned, the text of an error, a signal, an exit status, None."""


class Isolated:
    """A process that makes calls, each in a fork of its own; it is started with the first one."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def call(self, function: Callable[..., Any], *arguments: Any, timeout: float) -> Answer:
        """Call a function.

        Parameters
        ----------
        function : callable
            Of a module that can be imported.
        *arguments
            That pickle.
        timeout : float
            Seconds after which it is ended.

        Raises
        ------
        InvalidArgumentsError
            The function is not one that another process can import.
        """
        if getattr(function, "__module__", None) == "__main__":
            raise InvalidArgumentsError(
                f"{function.__name__} is of __main__, which another process can't import; "
                "put it into a module"
            )
        try:
            packed = pickle.dumps((function, arguments))
        except (pickle.PicklingError, AttributeError, TypeError) as e:
            raise InvalidArgumentsError(f"another process can't import it: {e}") from None
        request = pickle.dumps((sys.path, packed, timeout))
        try:
            connection = self._started()
            connection.send_bytes(request)
            answer: Answer = connection.recv()
        except (EOFError, OSError):
            process = self._process
            status = process.wait() if process is not None else None
            self.close()
            return ("exit", status) if status is None or status >= 0 else ("signal", -status)
        return answer

    def _started(self) -> Connection:
        if self._connection is None:
            self._process, self._connection = started(f"{__package__}.worker")
        return self._connection

    def close(self) -> None:
        """End the process."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._process is not None:
            self._process.wait()
            self._process = None

    def __enter__(self) -> Isolated:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
