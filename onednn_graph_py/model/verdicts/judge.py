"""Judge partitions in another process, once for each oneDNN, CPU and number of threads.

Verdicts are kept on disk: only those that this user found on this machine count.
"""

import signal
import threading
import time
import warnings
from dataclasses import asdict
from importlib import import_module
from typing import Any

from ... import _core
from ...base.processes import MODELS, Isolated, failure, instructions, quiet
from ...machine.constant_cache import DEFAULT_CAPACITY
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
        entry = self._entries.find(signature)
        return None if entry is None else _verdict(entry)

    def keep(self, signature: str, verdict: Verdict) -> None:
        """Write a verdict for other processes, if the folder can be written to."""
        self._entries.keep(signature, asdict(verdict))


def _verdict(entry: dict[str, Any]) -> Verdict | None:
    """Make a verdict of what a file holds, if each part has its type."""
    parts: dict[str, Any] = {name: entry.get(name) for name in _TYPES}
    outcome = entry.get("outcome")
    if outcome not in list(Outcome) or not all(
        isinstance(part, _TYPES[name]) for name, part in parts.items()
    ):
        return None
    return Verdict(Outcome(outcome), **parts, kept=True)


def _environment() -> dict[str, str]:
    """Return the environment of the helper process, which must use the same instruction set."""
    return {
        **quiet(),
        **instructions(),
        # NumPy's products are small there; its threads would only slow down oneDNN.
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }


_EXAMINING = f"{__package__}.examine"  # a module that only the helper process imports


def _examined(subject: Subject, limits: Limits) -> Verdict:
    """Judge a partition in a fork of the helper process."""
    _core.set_constant_tensor_cache_capacity("cpu", DEFAULT_CAPACITY)
    verdict: Verdict = import_module(_EXAMINING).examine(subject, limits)
    return verdict


class Judge:
    """Judges partitions until it is closed.

    The first partition that has no verdict on disk starts a helper process, which judges each
    partition in a fork.

    - `reference`: time limit of the reference for one partition, in seconds. If it would take
      longer than a small part of that, the judge compares only some of the results.
    - `timeout`: time limit of a partition in seconds, after which it counts as hanging
    """

    def __init__(self, *, reference: float = 1.0, timeout: float = 60.0) -> None:
        self._limits = Limits(reference)
        self._timeout = timeout
        self._helper = Isolated(*MODELS, _EXAMINING, environment=_environment())
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
        verdict = kept.find(subject.signature)
        if verdict is None:
            verdict = self._judged(subject)
            if not verdict.passing:
                kept.keep(subject.signature, verdict)
        return verdict

    def _judged(self, subject: Subject) -> Verdict:
        began = time.monotonic()
        if not self._broken:
            self._broken = self._helper.start()
            if self._broken:
                why = f"partitions are not verified: {self._broken}"
                warnings.warn(why, RuntimeWarning, stacklevel=2)
        if self._broken:
            return Verdict(Outcome.UNVERIFIED, self._broken, passing=True)
        answer = self._helper.call(_examined, subject, self._limits, timeout=self._timeout)
        if answer[0] == "returned":
            verdict: Verdict = answer[1]
            return verdict
        detail, outcome = failure(answer, self._timeout), _FAILED[answer[0]]
        if answer[0] == "raised":
            detail = f"judging failed: {detail.splitlines()[-1]}"
        if answer == ("ended", -signal.SIGKILL):
            outcome = Outcome.UNVERIFIED  # Linux kills like this if memory is short
        passing = outcome == Outcome.UNVERIFIED
        return Verdict(outcome, detail, seconds=time.monotonic() - began, passing=passing)

    def close(self) -> None:
        """End the helper process, if there is one."""
        self._helper.close()


_FAILED = {"hang": Outcome.HUNG, "ended": Outcome.CRASHED, "raised": Outcome.UNVERIFIED}
