"""Run cases side by side, in processes that contain a crash or a hang of oneDNN."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from queue import SimpleQueue

from ...base.processes import MODELS, Isolated, ending, too_long
from .cases import Case
from .run_case import DEFAULTS, Options, run_case
from .verdicts import Result, Verdict


def replay(
    cases: Sequence[Case],
    options: Options = DEFAULTS,
    *,
    jobs: int = 1,
    timeout: float | None = None,
) -> Iterator[tuple[int, Result]]:
    """Run cases, each in a process of its own.

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
    idle: SimpleQueue[Isolated] = SimpleQueue()

    def run(number: int) -> tuple[int, Result]:
        process = idle.get()
        try:
            return number, _run(process, cases[number], options, timeout)
        finally:
            idle.put(process)

    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(Isolated(*MODELS)) for _ in range(jobs)]
        for process in processes:
            idle.put(process)
        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        running = [pool.submit(run, number) for number in range(len(cases))]
        try:
            for ended in as_completed(running):
                yield ended.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.interrupt()


def _run(process: Isolated, case: Case, options: Options, timeout: float | None) -> Result:
    began = time.monotonic()
    how, what = process.call(run_case, case, options, timeout=timeout)
    if how == "returned":
        result: Result = what
        return result
    verdict, reason = Verdict.CRASHED, str(what)
    if how == "hang":
        verdict, reason = Verdict.TIMED_OUT, too_long(timeout or 0)
    elif how == "ended":
        reason = ending(what)
    return Result(str(case), verdict, reason, seconds=time.monotonic() - began)
