"""Run cases side by side, in processes that contain a crash or a hang of oneDNN."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import wait

from ...base.processes import STARTUP, NoAnswer, Process, calling, too_long
from .cases import Case
from .run_case import DEFAULTS, Options
from .verdicts import Result, Verdict

__all__ = ["replay"]


class _Worker(Process):
    """A process, and the case that it runs."""

    def __init__(self) -> None:
        super().__init__(*calling(f"{__package__}.worker"))
        self.number = -1
        self.case: Case | None = None
        self.began = 0.0
        self.ready = False

    def start(self, number: int, case: Case, options: Options) -> None:
        self.number, self.case, self.began = number, case, time.monotonic()
        self.send((case, options))

    def result(self) -> Result | None:
        """Return the worker's result, or how it ended; None if the worker has only started."""
        try:
            result: Result | None = self.answer()
        except NoAnswer as e:
            return self.ended(Verdict.CRASHED, str(e))
        if result is None:
            self.ready, self.began = True, time.monotonic()
        return result

    def limit(self, timeout: float) -> float:
        """Return the time by which it must have answered."""
        return self.began + (timeout if self.ready else max(timeout, STARTUP))

    def ended(self, verdict: Verdict, reason: str) -> Result:
        """Return the result of a case whose process ended without an answer."""
        seconds = time.monotonic() - self.began
        return Result(str(self.case), verdict, reason, seconds=seconds)


def replay(
    cases: Sequence[Case],
    options: Options = DEFAULTS,
    *,
    jobs: int = 1,
    timeout: float | None = None,
) -> Iterator[tuple[int, Result]]:
    """Run cases, each in a worker process.

    Parameters
    ----------
    cases : sequence of Case
    options : Options
        Options; unless they set `threads`, the jobs share the CPU's cores.
    jobs : int
        Number of cases that run at a time.
    timeout : float, optional
        Time limit per case, in seconds.

    Yields
    ------
    number : int
        Number of the case.
    result : Result
        Its result. Results come when cases end, not in the order of the cases.
    """
    cores = len(os.sched_getaffinity(0))
    jobs = max(1, min(jobs, len(cases)))
    options = replace(
        options,
        threads=options.threads or max(1, cores // jobs),
        memory_share=options.memory_share / jobs,
    )
    workers: list[_Worker] = []
    left = iter(enumerate(cases))
    try:
        for number, case in left:
            workers.append(_Worker())
            workers[-1].start(number, case, options)
            if len(workers) == jobs:
                break
        while workers:
            for worker, result in _finished(workers, timeout):
                number = worker.number
                following = next(left, None)
                if following is None or result.verdict in (Verdict.CRASHED, Verdict.TIMED_OUT):
                    worker.stop()
                    workers.remove(worker)
                    if following is not None:
                        workers.append(_Worker())
                        workers[-1].start(*following, options)
                else:
                    worker.start(*following, options)
                yield number, result
    finally:
        for worker in workers:
            worker.stop()


def _finished(workers: Sequence[_Worker], timeout: float | None) -> list[tuple[_Worker, Result]]:
    """Wait for the next answers or time limit; return the workers that are done, if any."""
    by_number = {w.fileno(): w for w in workers}
    remaining = None
    if timeout is not None:
        remaining = max(0.0, min(w.limit(timeout) for w in workers) - time.monotonic())
    if ready := wait(list(by_number), remaining):
        answers = [(w, w.result()) for number, w in by_number.items() if number in ready]
        return [(w, result) for w, result in answers if result is not None]
    assert timeout is not None
    late = [w for w in workers if time.monotonic() >= w.limit(timeout)]
    return [(w, w.ended(Verdict.TIMED_OUT, too_long(timeout))) for w in late]
