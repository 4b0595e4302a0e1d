"""Run a case in this process: `run_case`."""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any

import numpy.typing as npt

from ...base.arguments import need_instance
from ...base.processes import MODELS, Isolated, failure
from ...machine.timing import time_calls
from ...model.building.builder import GraphBuilder
from ...model.checking.expected import Expected
from ...model.planning import KnownDefects
from .bisect import first_divergence
from .stages import Case, Ended, built, called, check_memory, compiled, inputs_of, partition, read
from .verdicts import Result, Verdict

Array = npt.NDArray[Any]

# The least time and number of calls for timing.
_BENCH_SECONDS = 0.3
_BENCH_CALLS = 5


@dataclass(frozen=True)
class Options:
    """Options for running cases."""

    partition_only: bool = False
    verify: bool = False
    bisect: bool = False
    bench: bool = False
    threads: int | None = None
    seed: int = 0
    # Whether known defects are not worked around: wrong partitions neither split nor refused.
    as_is: bool = False
    # The share of the free memory that a case may take, from 0 to 1.
    memory_share: float = 0.9

    @property
    def known_defects(self) -> KnownDefects:
        """The value for the option of `GraphBuilder.compile` with the same name."""
        return "run" if self.as_is else "avoid"


DEFAULTS = Options()


def run_case(case: Case, options: Options = DEFAULTS) -> Result:
    """Run a case; errors become verdicts."""
    need_instance("run_case: case", case, Case)
    began = time.monotonic()
    result = Result(str(case), Verdict.RAN)
    try:
        _run(case, options, result)
    except Ended as e:
        result.verdict, result.reason = e.verdict, e.reason
    except MemoryError as e:
        result.verdict, result.reason = Verdict.TOO_LARGE, str(e) or "out of memory"
    result.seconds = time.monotonic() - began
    return result


def _run(case: Case, options: Options, result: Result) -> None:
    document = read(case)
    result.ops = len(document.graph)
    result.partitions, result.supported, missing = partition(document)
    if missing:
        raise Ended(Verdict.UNSUPPORTED, missing)
    if options.partition_only:
        result.verdict = Verdict.PARTITIONED
        return
    builder = built(document, case.path)
    check_memory(builder, verify=options.verify, share=options.memory_share)
    model, split = compiled(builder, options.threads, options.known_defects)
    inputs = inputs_of(builder, options.seed)
    outputs = called(model, inputs)
    if options.bench:
        call = model.bind(list(inputs))
        call()
        spent = time_calls(call, _BENCH_SECONDS, least=_BENCH_CALLS)
        result.milliseconds = statistics.median(spent) * 1e3
    if options.verify:
        _verify(builder, inputs, outputs, options, result)
    if split:
        result.verdict, result.reason = Verdict.SPLIT, split


def _verify(
    builder: GraphBuilder,
    inputs: Sequence[Array],
    outputs: Sequence[Array],
    options: Options,
    result: Result,
) -> None:
    values = builder.outputs
    names = {v.id: name for name, v in values.items()}
    actual = {v.id: a for v, a in zip(values.values(), outputs, strict=True)}
    verification = Expected(builder, inputs, options.seed).compare(actual, names)
    result.error, result.share = verification.max_error, verification.share
    if verification.ok:
        result.verdict = Verdict.PASSED
        return
    if options.bisect:
        first = first_divergence(builder, inputs, options.seed, known_defects=options.known_defects)
        result.diverges = str(first or "each op is right if the graph ends with it")
    raise Ended(Verdict.WRONG, "; ".join(str(o) for o in verification.outputs if not o.ok))


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
    cases = [need_instance("replay: a case", case, Case) for case in cases]
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
            return number, _result(process, cases[number], options, timeout)
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


def _result(process: Isolated, case: Case, options: Options, timeout: float | None) -> Result:
    began = time.monotonic()
    answer = process.call(run_case, case, options, timeout=timeout)
    if answer[0] == "returned":
        result: Result = answer[1]
        return result
    verdict = Verdict.TIMED_OUT if answer[0] == "hang" else Verdict.CRASHED
    reason = failure(answer, timeout)
    return Result(str(case), verdict, reason, seconds=time.monotonic() - began)
