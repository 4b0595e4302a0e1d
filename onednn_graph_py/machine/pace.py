"""Measure two ways to compute the same, where other processes may use the CPUs too."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from resource import RUSAGE_SELF, getrusage

from .cpu_runtime import threads_spin
from .timing import timed

__all__ = ["LIMIT", "Pace"]

LIMIT = 1.1
"""A fused partition may take at most so many times as long as its ops apart.

Two measurements of one partition differ by about as much; no partition may be 1.2 times slower.
"""

# A measurement ends by the seconds that both sides took: _SHORT if fused is not slow, the given
# ones if it is, and a fifth of them if it is _CLEARLY times as slow as apart. Each side runs _FEW
# times undisturbed at least, and _RUNS times at most.
_SHORT, _CLEARLY = 1e-3, 4
_FEW, _RUNS = 3, 60
_LONG = 0.05  # seconds of a call that hardly takes longer where it is disturbed
# Seconds that a clock, a call and other processes may add to either side.
_NOISE = 4e-6


def _timed(call: Callable[[], None]) -> tuple[float, bool]:
    """The seconds of a call, and whether another process had a CPU of ours meanwhile."""
    before = getrusage(RUSAGE_SELF).ru_nivcsw
    seconds, _ = timed(call)
    # Threads that sleep take CPUs from each other, and are not held up by other processes.
    if seconds >= _LONG or not threads_spin():
        return seconds, False
    return seconds, getrusage(RUSAGE_SELF).ru_nivcsw != before


@dataclass(frozen=True)
class Pace:
    """The times of a partition: fused, and its ops apart.

    Parameters
    ----------
    fused, apart : float
        Seconds a call.
    """

    fused: float
    apart: float

    @property
    def ratio(self) -> float:
        """The time of the fused partition divided by that of its ops apart."""
        return self.fused / self.apart if self.apart else math.inf

    @property
    def slow(self) -> str | None:
        """A message if the partition should not be used fused, else None."""
        if self.fused <= LIMIT * self.apart or self.fused - self.apart < _NOISE:
            return None
        return f"fused it takes {self.ratio:.3g} times as long as apart"

    @classmethod
    def measured(
        cls, fused: Callable[[], None], apart: Callable[[], None], seconds: float = 0.1
    ) -> Pace | None:
        """Run both in turn until it is clear which is faster; None if other processes disturb it.

        Where threads spin until all are done, a kernel takes thousands of times longer while
        another process has one of the CPUs. Such runs do not count; of the others the shortest of
        each side does.
        """
        calls = (fused, apart)
        spent = sum(_timed(call)[0] for call in calls)  # the first one also sets up
        runs: list[list[float]] = [[], []]
        pace: Pace | None = None
        for _ in range(_RUNS):
            for counted, call in zip(runs, calls, strict=True):
                took, disturbed = _timed(call)
                spent += took
                if not disturbed:
                    counted.append(took)
            few = min(map(len, runs))
            if few < _FEW:
                if spent > (5 if few else 1) * seconds:
                    return None
                continue
            pace = cls(*map(min, runs))
            if pace.slow is None:
                limit = _SHORT
            else:
                limit = seconds / 5 if pace.ratio > _CLEARLY else seconds
            if spent > limit:
                break
        return pace
