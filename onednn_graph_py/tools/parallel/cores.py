"""The cores on which this process alone runs models, and its threads' affinity to them.

All predictors of a process share its cores: OpenMP's threads serve all of them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from pathlib import Path

from ...base.errors import InvalidArgumentsError, UnimplementedError
from ...base.processes.forked import renew_in_forks
from .locks import CpuLocks
from .topology import choose, cpus


class UnpinnedWarning(UserWarning):
    """A predictor runs on any core, because it could not get cores of its own."""


def has_affinity() -> bool:
    """Tell whether this system can keep a process on some of its CPUs."""
    return hasattr(os, "sched_setaffinity")


class _Cores:
    """The cores of this process.

    A finalizer may give a hold back while the same thread reserves another; so the lock is
    reentrant, and a new holder is known before anything else.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._locks = CpuLocks()
        self._numbers = itertools.count(1)
        self._holders: set[int] = set()
        self._mine: frozenset[int] = frozenset()
        self._before: frozenset[int] = frozenset()
        self._threads: dict[int, frozenset[int]] = {}
        renew_in_forks(self)

    def _after_fork(self) -> None:
        self._lock = threading.RLock()
        self._locks.forget()
        if self._mine:  # they are the parent's
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, self._before)
        self._holders.clear()
        self._threads.clear()
        self._mine = frozenset()

    def reserve(self, wanted: int) -> int:
        """Reserve so many cores, and keep all threads on them; return a hold."""
        if not has_affinity():
            raise UnimplementedError("this system can't keep a process on some of its CPUs")
        with self._lock:
            hold = next(self._numbers)
            self._holders.add(hold)
            try:
                if not self._mine:
                    self._before = frozenset(os.sched_getaffinity(0))
                with self._locks.choosing():
                    before = self._mine
                    try:
                        self._mine = self._grown(wanted)
                        self._pin()
                    except BaseException:
                        self._locks.keep(before)
                        self._mine = before
                        raise
            except OSError as e:
                self.give_back(hold)
                raise UnimplementedError(f"cores can't be reserved here: {e}") from e
            except BaseException:
                self.give_back(hold)
                raise
            return hold

    def _grown(self, wanted: int) -> frozenset[int]:
        """Return what this process has after it locked what it lacks."""
        count = wanted - len(self._mine)
        if count <= 0:
            return self._mine
        lacking = self._before - self._mine
        free = self._locks.take(lacking)
        known = cpus(self._before)
        found = choose(
            [c for c in known if c.number in free],
            count,
            [c for c in known if c.number in self._mine],
        )
        self._locks.keep(self._mine.union(found or ()))
        if found is None:
            has = f"and this process has {len(self._mine)}" if self._mine else "for itself"
            raise InvalidArgumentsError(
                f"affinity: expected {wanted} free cores {has}, got {len(free)}: this process "
                f"may use {len(self._before)} CPUs, and predictors of other processes have "
                f"reserved {len(lacking - free)} of them; use fewer workers or threads, or "
                "affinity=None"
            )
        return self._mine.union(found)

    def _pin(self) -> None:
        """Keep all threads on the cores; threads that start later inherit that."""
        while True:
            new = 0
            for thread in _threads():
                with contextlib.suppress(ProcessLookupError):
                    now = frozenset(os.sched_getaffinity(thread))
                    if now == self._mine:
                        continue
                    new += 1
                    self._threads.setdefault(thread, now)
                    os.sched_setaffinity(thread, self._mine)
            if not new:
                break

    def give_back(self, hold: int) -> None:
        """Give a hold back; after the last one all threads run where they ran before."""
        with self._lock:
            if hold not in self._holders:
                return  # given back already, or of the process that forked this one
            self._holders.remove(hold)
            if self._holders or not self._mine:
                return
            for thread in _threads():
                with contextlib.suppress(OSError):  # it ended, or may not run there any more
                    if os.sched_getaffinity(thread) == self._mine:
                        before = self._threads.get(thread, self._before)
                        os.sched_setaffinity(thread, before)
            self._mine = frozenset()
            self._threads.clear()
            try:
                with self._locks.choosing():
                    self._locks.keep(())
            except OSError:
                self._locks.forget()  # closing the file unlocks them, too

    def holding(self, hold: int) -> tuple[int, ...]:
        """Return the CPUs of this process if the hold is one."""
        with self._lock:
            return tuple(sorted(self._mine)) if hold in self._holders else ()


def _threads() -> list[int]:
    return [int(entry.name) for entry in Path("/proc/self/task").iterdir()]


_cores = _Cores()
reserve = _cores.reserve
give_back = _cores.give_back
holding = _cores.holding
