"""Judge partitions in another process, once for each oneDNN, CPU and number of threads.

Verdicts are kept on disk: only those that this user found on this machine count.
"""

import signal
import threading
import time
import warnings
from dataclasses import asdict
from typing import Any

from ... import _core
from ...base.processes import STARTUP, NoAnswer, Process, calling, instructions, quiet
from ...machine.store import Entries, machine
from .subject import Subject
from .verdict import Limits, Outcome, Verdict

_TYPES = {"detail": str, "reduced": bool, "seconds": float | int}


class Kept:
    """The verdicts of this oneDNN on this CPU, for a number of threads.

    Each names its partition.

    - `reference`: time limit of the reference in seconds, which decides which partitions stay
      unverified
    """

    def __init__(self, threads: int, reference: float = Limits.reference) -> None:
        about = (threads, reference, _core.get_cpu_isa_hints().name, machine())
        self._entries = Entries("verdicts", *about)

    def find(self, signature: str) -> Verdict | None:
        """Read the verdict on a partition; None if there is none that can be trusted."""
        found = self._entries.find(signature)
        return None if found is None else _verdict(found)

    def keep(self, signature: str, verdict: Verdict) -> None:
        """Write a verdict for other processes, if the folder can be written to."""
        self._entries.keep(signature, asdict(verdict))


def _verdict(found: dict[str, Any]) -> Verdict | None:
    """Make a verdict of what a file holds, if each part has its type."""
    parts: dict[str, Any] = {name: found.get(name) for name in _TYPES}
    outcome = found.get("outcome")
    if outcome not in list(Outcome) or not all(
        isinstance(part, _TYPES[name]) for name, part in parts.items()
    ):
        return None
    return Verdict(Outcome(outcome), **parts, kept=True)


_WORKER = f"{__package__}.worker"


def _environment() -> dict[str, str]:
    """Return the environment of the helper process, which must use the same instruction set."""
    return {
        **quiet(),
        **instructions(),
        # NumPy's products are small there; its threads would only slow down oneDNN.
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }


class Judge:
    """Judges partitions until it is closed.

    The first partition that has no verdict on disk starts a helper process, which serves until it
    is closed, crashes or hangs.

    - `reference`: time limit of the reference for one partition, in seconds. If it would take
      longer than a small part of that, the judge compares only some of the results.
    - `timeout`: time limit of a partition in seconds, after which it counts as hanging
    """

    def __init__(self, *, reference: float = 1.0, timeout: float = 60.0) -> None:
        self._limits = Limits(reference)
        self._timeout = timeout
        self._helper: Process | None = None
        self._fresh = True  # it has judged nothing yet
        self._kept: dict[int, Kept] = {}
        self._known: dict[tuple[int, str], Verdict] = {}
        self._broken = ""
        self._lock = threading.RLock()

    def verdict(self, subject: Subject) -> Verdict:
        """Judge one partition, or return its earlier verdict.

        One that can't be judged is unverified; a warning says once that no process can be started.
        """
        with self._lock:
            key = (subject.threads, subject.signature)
            if key not in self._known:
                self._known[key] = self._found(subject)
            return self._known[key]

    def _found(self, subject: Subject) -> Verdict:
        if subject.engine_kind != "cpu":
            return Verdict(Outcome.UNVERIFIED, "only partitions for CPUs are judged")
        if subject.threads not in self._kept:
            self._kept[subject.threads] = Kept(subject.threads, self._limits.reference)
        kept = self._kept[subject.threads]
        found = kept.find(subject.signature)
        if found is None:
            found = self._judged(subject)
            if not found.passing:
                kept.keep(subject.signature, found)
        return found

    def _judged(self, subject: Subject) -> Verdict:
        start = time.monotonic()
        try:
            while (helper := self._ready()) is not None:
                try:
                    found: Verdict = helper.ask(
                        (subject, self._limits, self._timeout), self._timeout
                    )
                except NoAnswer as e:
                    self.close()
                    if e.status is not None and not self._fresh:
                        continue  # an earlier partition may have damaged the process
                    outcome = Outcome.HUNG if e.status is None else Outcome.CRASHED
                    if e.status == -signal.SIGKILL:
                        outcome = Outcome.UNVERIFIED  # Linux kills like this if memory is short
                    seconds, passing = time.monotonic() - start, outcome == Outcome.UNVERIFIED
                    return Verdict(outcome, str(e), seconds=seconds, passing=passing)
                self._fresh = False
                return found
        except BaseException:  # interrupted
            self.close()
            raise
        return Verdict(Outcome.UNVERIFIED, self._broken, passing=True)

    def _ready(self) -> Process | None:
        """Return the helper; None if it can't be started, with one warning."""
        if self._helper is not None or self._broken:
            return self._helper
        try:
            self._helper = Process(*calling(_WORKER), environment=_environment(), keep_errors=True)
            self._helper.answer(STARTUP)
        except OSError as e:
            self._broken = f"no process could be started: {e}"
        except NoAnswer as e:
            self._broken = f"the process that judges did not start: {e}"
        if not self._broken:
            self._fresh = True
            return self._helper
        self.close()
        warnings.warn(f"partitions are not verified: {self._broken}", RuntimeWarning, stacklevel=2)
        return None

    def close(self) -> None:
        """End the helper process, if there is one."""
        helper, self._helper = self._helper, None
        if helper is not None:
            helper.stop()
