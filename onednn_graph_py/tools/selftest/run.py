"""Search for wrong and slow graphs of all families, in processes that may die, for some time."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from ...base.linked import version
from ...base.processes import MODELS, STARTUP, Isolated, ending, too_long
from ...base.processes import Answer as Ended
from ...machine import current
from ...machine.store import processor
from .draws import Family
from .questions import SLOW, Answer, Verdict, several, tested
from .report import Count, Finding, Report, Slow

_BATCH = (4, 32)
"""The number of cases in a batch, at first and at most.

If the process of a batch dies, each case is judged separately.
"""
_BATCH_SECONDS = 2.0
_FINE: tuple[Verdict, ...] = ("right", "refused")

Progress = Callable[[Report, float], None]
"""A function that is called with the findings so far and the seconds left."""


def _answer(ended: Ended, timeout: float) -> Answer:
    """Return a process's answer about one case, or how it ended."""
    how, what = ended
    if how == "returned":
        answer: Answer = what
        return answer
    if how == "hang":
        return Answer("hung", too_long(timeout), seconds=timeout)
    crashed: Verdict = "crashed"
    if how == "raised":
        return Answer(crashed, str(what).strip())
    return Answer(crashed, ending(what))


class _Asker:
    """Judges cases in another process: all together, then those that are not right one by one.

    What is wrong only together counts too: oneDNN may be wrong because of earlier cases.
    """

    def __init__(self, process: Isolated, threads: int, timeout: float, timed: bool) -> None:
        self.process = process
        self.timed = timed
        self.threads = threads
        self.timeout = timeout

    def _each(
        self, draw: Family, seeds: Sequence[int], known: Sequence[Sequence[str] | None]
    ) -> list[Answer]:
        limit = max(self.timeout, STARTUP)
        how, what = self.process.call(
            several, draw, list(seeds), self.threads, list(known), self.timed, timeout=limit
        )
        answers: list[Answer] = what if how == "returned" else [Answer("crashed")] * len(seeds)
        made: list[Answer] = []
        for i, (answer, seed, steps) in enumerate(zip(answers, seeds, known, strict=True)):
            if answer.verdict not in _FINE:
                alone = self._alone(draw, seed, steps)
                if how != "returned" or alone.verdict not in _FINE:
                    answer = alone
                else:
                    answer = replace(answer, reason=f"behind {[*seeds[:i]]}: {answer.reason}")
            made.append(answer)
        if how == "ended" and all(a.verdict in _FINE for a in made):
            made[-1] = replace(made[-1], verdict="crashed", reason=f"{[*seeds]}: {ending(what)}")
        return made

    def _alone(self, draw: Family, seed: int, known: Sequence[str] | None) -> Answer:
        asked = (tested, draw, seed, self.threads, known)
        return _answer(self.process.call(*asked, timeout=self.timeout), self.timeout)

    def ask(self, draw: Family, seeds: Sequence[int]) -> list[tuple[Answer, Answer | None]]:
        """Judge each graph as compiled by default; if right or refused, as oneDNN fuses it too."""
        given = self._each(draw, seeds, [None] * len(seeds))
        fine = [i for i, a in enumerate(given) if a.verdict in _FINE]
        plain: dict[int, Answer] = {}
        if fine and self.timed:
            found = self._each(draw, [seeds[i] for i in fine], [given[i].steps for i in fine])
            plain = dict(zip(fine, found, strict=True))
        return [(a, plain.get(i)) for i, a in enumerate(given)]


class _Search:
    """The state that all threads share."""

    def __init__(
        self, families: Mapping[str, Family], report: Report, until: float, most: int | None
    ) -> None:
        self.families = families
        self.report = report
        self.until = until
        self.end = sys.maxsize if most is None else report.seed + most
        self.lock = threading.Lock()
        self.next = dict.fromkeys(families, report.seed)
        self.spent = dict.fromkeys(families, 0.0)
        self.busy = dict.fromkeys(families, 0)
        self.stopped = False
        self.processes: list[Isolated] = []

    def stop(self) -> None:
        """End the search at once."""
        self.stopped = True
        for process in list(self.processes):
            process.interrupt()

    def batch(self) -> tuple[str, range] | None:
        """Choose the next cases, of the family that had the least time so far."""
        with self.lock:
            late = time.monotonic() >= self.until
            # Every family gets at least one batch.
            waiting = [
                name
                for name, first in self.next.items()
                if first < self.end and not (late and first > self.report.seed)
            ]
            if self.stopped or not waiting:
                return None
            family = min(waiting, key=lambda name: (self.busy[name], self.spent[name]))
            seeds = range(self.next[family], self.end)[: self._fitting(family)]
            self.next[family] = seeds.stop
            self.busy[family] += 1
            return family, seeds

    def _fitting(self, family: str) -> int:
        """Return the number of cases that take about as long as a batch may."""
        done = self.report.counts[family]
        if not done.cases:
            return _BATCH[0]
        return min(max(1, int(_BATCH_SECONDS * done.cases / done.seconds)), _BATCH[1])

    def add(
        self,
        family: str,
        seeds: Sequence[int],
        answers: Sequence[tuple[Answer, Answer | None]],
        seconds: float,
    ) -> None:
        """Add the answers of a batch to the report."""
        with self.lock:
            count = self.report.counts[family]
            count.seconds += seconds
            self.spent[family] += seconds
            self.busy[family] -= 1
            for seed, (answer, plain) in zip(seeds, answers, strict=True):
                count.add(answer, plain)
                self._note(family, seed, answer)

    def _note(self, family: str, seed: int, answer: Answer) -> None:
        if answer.verdict not in _FINE:
            found = Finding(family, seed, answer.verdict, answer.reason, answer.steps)
            self.report.findings.append(found)
        elif answer.ratio is not None and answer.ratio > SLOW:
            self.report.slow.append(Slow(family, seed, answer.ratio, answer.steps))

    def work(self, asker: _Asker) -> Iterator[None]:
        """Judge batches until time is over."""
        while (chosen := self.batch()) is not None:
            family, seeds = chosen
            began = time.monotonic()
            answers = asker.ask(self.families[family], seeds)
            self.add(family, seeds, answers, time.monotonic() - began)
            yield


def search(
    families: Mapping[str, Family],
    *,
    seconds: float,
    seed: int = 0,
    most: int | None = None,
    jobs: int = 1,
    timeout: float = 60.0,
    timed: bool = True,
    progress: Progress | None = None,
) -> Report:
    """Judge random graphs of all families, each of which gets an equal share of the time.

    Parameters
    ----------
    families : mapping of str to callable
        Such as `FAMILIES`.
    seconds : float
        Time for the search. Running cases are still judged after it, and every family gets at
        least some cases.
    seed : int
        First seed of each family.
    most : int, optional
        The most cases of each family.
    jobs : int
        Number of processes that judge at a time; they share the CPU's cores.
    timeout : float
        Time limit per case, in seconds.
    timed : bool
        Whether to time models, and to test oneDNN's own partitions too.
    progress : callable, optional
        Called from time to time.

    Returns
    -------
    Report
    """
    here = current()
    threads = max(1, here.threads // jobs)
    report = Report(
        version().release,
        here.runtime,
        here.isa,
        processor(),
        threads,
        seed,
        {name: Count() for name in families},
    )
    shared = _Search(families, report, time.monotonic() + seconds, most)
    failed: list[BaseException] = []

    def run() -> None:
        try:
            with Isolated(*MODELS) as process:
                shared.processes.append(process)
                for _ in shared.work(_Asker(process, threads, timeout, timed)):
                    if progress is not None:
                        with shared.lock:
                            progress(report, max(0.0, shared.until - time.monotonic()))
        except BaseException as e:
            failed.append(e)
            shared.stopped = True

    workers = [threading.Thread(target=run) for _ in range(jobs)]
    for worker in workers:
        worker.start()
    try:
        for worker in workers:
            worker.join()
    except KeyboardInterrupt:
        shared.stop()
        for worker in workers:
            worker.join()
        raise
    if failed:
        raise failed[0]
    return report
