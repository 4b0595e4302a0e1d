"""A worker of any install, asked one thing at a time."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
import time
from collections.abc import Mapping
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from ..processes import STARTUP, ending, last_words
from ..replay.stages import Ended
from ..replay.verdicts import Verdict

__all__ = ["WorkerProcess"]


class WorkerProcess:
    """Starts a worker.

    Parameters
    ----------
    python : str
        An executable.
    script : str
        A Python file, which is given the number of a connection.
    environment : mapping of str to str

    Attributes
    ----------
    status : int or None
        Its exit status, once an answer did not come because it had ended.

    Raises
    ------
    OSError
        The executable can't be run.
    """

    def __init__(self, python: str, script: str, environment: Mapping[str, str]) -> None:
        self.status: int | None = None
        self._connection: Connection
        self._connection, its = Pipe()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by stop)
        try:
            self._process = subprocess.Popen(
                [python, script, str(its.fileno())],
                env=dict(environment),
                # Not the caller's folder: `python -m` there would prefer the packages in it.
                cwd=tempfile.gettempdir(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                pass_fds=[its.fileno()],
            )
        except OSError:
            self._connection.close()
            self._errors.close()
            raise
        finally:
            its.close()

    def greeting(self) -> dict[str, Any]:
        """The worker's facts about itself, once it has imported the package."""
        return self._answer(STARTUP)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def ask(self, command: str, timeout: float, **what: Any) -> dict[str, Any]:
        """Have it do something.

        Parameters
        ----------
        command : str
            A name in the worker's list.
        timeout : float
            Seconds that it may take.
        **what
            For JSON.

        Raises
        ------
        Ended
            It ended, took too long, or says that there is nothing more to do for the graph.
        """
        with contextlib.suppress(OSError):  # it is gone, which the answer will tell
            self._connection.send_bytes(json.dumps({"do": command, **what}).encode())
        answer = self._answer(timeout)
        if "verdict" in answer:
            raise Ended(Verdict(answer["verdict"]), answer["reason"])
        return answer

    def _answer(self, timeout: float) -> dict[str, Any]:
        until = time.monotonic() + timeout
        try:
            if not self._connection.poll(max(0.0, until - time.monotonic())):
                self.stop()
                raise Ended(Verdict.TIMED_OUT, f"it took longer than {timeout:g} s")
            answer: dict[str, Any] = json.loads(self._connection.recv_bytes())
        except (EOFError, OSError):
            self.status = self._process.wait()
            raise Ended(
                Verdict.CRASHED, f"{ending(self.status)}{last_words(self._errors)}"
            ) from None
        return answer

    def stop(self) -> None:
        """End it."""
        self._connection.close()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._errors.close()
