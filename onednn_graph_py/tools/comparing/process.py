"""A worker process of any install: `WorkerProcess`."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any

from ...base.processes import JSON, STARTUP, NoAnswer, Process
from ..replay.stages import Ended
from ..replay.verdicts import Verdict


class WorkerProcess(Process):
    """A worker process of any install, which answers one request at a time.

    It runs a Python file, with the file descriptor of a connection as its argument. `status` is its
    exit status, set when an answer was missing because the process had ended.
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
        """Return the worker's next answer, which is first `worker.hello`; the limit is in seconds.

        It raises `Ended` if the worker ended, took too long, or can't continue with the graph.
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
        """Send a request by the worker's name for it, with JSON arguments; return the answer."""
        self.send({"do": request, **what})
        return self.answer(timeout)
