"""Partitions judged in a process of their own, once for each oneDNN, CPU and number of threads."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from subprocess import Popen
from typing import IO, TYPE_CHECKING

from .. import _core
from ..processes import STARTUP, ending, last_words, started
from .kept import Kept
from .subject import Subject
from .verdict import Limits, Outcome, Verdict

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

__all__ = ["Judge"]

_WORKER = f"{__package__}.worker"
_OWN_SETTINGS = ("VERBOSE", "GRAPH_VERBOSE", "GRAPH_DUMP", "JIT_DUMP", "MAX_CPU_ISA")


def _environment() -> dict[str, str]:
    """The environment in which the helper finds the same package and instruction set."""
    own = {f"{prefix}_{name}" for prefix in ("ONEDNN", "DNNL") for name in _OWN_SETTINGS}
    return {
        **{k: v for k, v in os.environ.items() if k not in own},
        "PYTHONPATH": os.pathsep.join(os.path.abspath(p) for p in sys.path),
        "ONEDNN_MAX_CPU_ISA": _core.get_effective_cpu_isa().name.upper(),
        "ONEDNN_CPU_ISA_HINTS": _core.get_cpu_isa_hints().name.upper(),
        # NumPy's products are small in the helper; its threads would only hinder oneDNN's.
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }


class _Gone(Exception):
    """The helper ended without an answer."""

    def __init__(self, status: int | None, said: str, fresh: bool) -> None:
        super().__init__(status, said)
        self.status, self.said, self.fresh = status, said, fresh


class _Helper:
    """One helper process, and the number of partitions that it has judged."""

    def __init__(self) -> None:
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed by stop)
        self.judged = 0
        self.connection: Connection
        self.process: Popen[bytes]
        try:
            self.process, self.connection = started(
                _WORKER,
                environment=_environment(),
                # Python searches this folder first, so it must not be the caller's.
                folder=Path(__file__).parents[2],
                errors=self.errors,
            )
        except BaseException:
            self.errors.close()
            raise

    def answer(self, timeout: float) -> Verdict | None:
        """Wait for the helper's answer.

        Raises
        ------
        TimeoutError
            The helper does not answer for so many seconds.
        _Gone
            The helper has ended.
        """
        try:
            if not self.connection.poll(timeout):
                raise TimeoutError
            found: Verdict | None = self.connection.recv()
        except (EOFError, OSError) as e:
            if isinstance(e, TimeoutError):
                raise
            status = self.process.wait()
            raise _Gone(status, last_words(self.errors), self.judged == 0) from None
        return found

    def stop(self) -> None:
        self.connection.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.errors.close()


class Judge:
    """Judges partitions until it is closed.

    The first partition that has no verdict on disk starts a helper process, which serves until it
    is closed, crashes or hangs.

    Parameters
    ----------
    reference : float
        Seconds that the reference may take for one partition. Where it would take longer than a
        small part of that, the judge compares only a part of the results.
    speed : float
        Seconds for measuring one partition against its ops apart; 0 to measure nothing.
    timeout : float
        Seconds after which a partition counts as hanging.
    """

    def __init__(
        self, *, reference: float = 1.0, speed: float = 0.1, timeout: float = 60.0
    ) -> None:
        self._limits = Limits(reference, speed)
        self._timeout = timeout
        self._helper: _Helper | None = None
        self._kept: dict[int, Kept] = {}
        self._known: dict[tuple[int, str], Verdict] = {}
        self._broken = ""
        self._lock = threading.RLock()

    def verdict(self, subject: Subject) -> Verdict:
        """Judge one partition, unless that was done before.

        Parameters
        ----------
        subject : Subject

        Returns
        -------
        Verdict
            A partition that can't be judged is unverified; no error is raised for it, but one
            warning if no process can be started.
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
        while True:
            if self._broken:
                return Verdict(Outcome.UNVERIFIED, self._broken, passing=True)
            try:
                return self._asked(subject)
            except TimeoutError:
                self.close()
                outcome, detail = Outcome.HUNG, f"it took longer than {self._timeout:g} s"
            except _Gone as e:
                self.close()
                if not e.fresh:
                    continue  # an earlier partition may have caused the crash
                outcome, detail = Outcome.CRASHED, f"{ending(e.status or 0)}{e.said}"
                if e.status == -signal.SIGKILL:
                    outcome = Outcome.UNVERIFIED  # the system kills processes for lack of memory
            except BaseException:  # interrupted
                self.close()
                raise
            seconds = time.monotonic() - start
            return Verdict(outcome, detail, seconds=seconds, passing=outcome == Outcome.UNVERIFIED)

    def _asked(self, subject: Subject) -> Verdict:
        helper = self._ready()
        if helper is None:
            return Verdict(Outcome.UNVERIFIED, self._broken, passing=True)
        with contextlib.suppress(OSError):  # the helper is gone; `answer` raises then
            helper.connection.send((subject, self._limits, self._timeout))
        found = helper.answer(self._timeout)
        helper.judged += 1
        assert found is not None
        return found

    def _ready(self) -> _Helper | None:
        """The helper, started if needed; None, after one warning, if that is not possible."""
        if self._helper is not None:
            return self._helper
        try:
            self._helper = _Helper()
            self._helper.answer(STARTUP)
        except OSError as e:
            self._broken = f"no process could be started: {e}"
            if isinstance(e, TimeoutError):
                self._broken = f"the process that judges did not start within {STARTUP:g} s"
        except _Gone as e:
            self._broken = f"the process that judges did not start: {ending(e.status or 0)}{e.said}"
        if not self._broken:
            return self._helper
        self.close()
        warnings.warn(f"partitions are not verified: {self._broken}", RuntimeWarning, stacklevel=2)
        return None

    def close(self) -> None:
        """End the helper process, if there is one."""
        helper, self._helper = self._helper, None
        if helper is not None:
            helper.stop()
