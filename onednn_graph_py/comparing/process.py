"""A worker of any install, asked one thing at a time."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any

from ..processes import JSON, STARTUP, NoAnswer, Process
from ..replay.stages import Ended
from ..replay.verdicts import Verdict

__all__ = ["WorkerProcess"]


class WorkerProcess(Process):
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
        super().__init__(
            script,
            python=python,
            environment=environment,
            # Not the caller's folder: `python -m` there would prefer the packages in it.
            folder=tempfile.gettempdir(),
            keep_errors=True,
            form=JSON,
        )

    def answer(self, timeout: float | None = STARTUP) -> dict[str, Any]:
        """The worker's next answer; the first has its facts about itself.

        Raises
        ------
        Ended
            It ended, took too long, or says that there is nothing more to do for the graph.
        """
        try:
            answer: dict[str, Any] = super().answer(timeout)
        except NoAnswer as e:
            self.status = e.status
            self.stop()
            verdict = Verdict.TIMED_OUT if e.status is None else Verdict.CRASHED
            raise Ended(verdict, e) from None
        if "verdict" in answer:
            raise Ended(Verdict(answer["verdict"]), answer["reason"])
        return answer

    def ask(self, request: str, timeout: float | None = STARTUP, **what: Any) -> dict[str, Any]:
        """Have it do something: a name in the worker's list, with values for JSON."""
        self.send({"do": request, **what})
        return self.answer(timeout)
