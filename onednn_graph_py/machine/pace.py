"""Compare the times of two computations, even if other processes use the CPUs too."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from resource import RUSAGE_SELF, getrusage

from .cpu_runtime import threads_spin
from .timing import timed

LIMIT = 1.1
"""A fused partition may take at most this many times as long as its separate ops.

Two measurements of one partition differ by about as much; no partition may be 1.2 times slower.
"""

# A measurement ends by the seconds that both sides took: _SHORT if fused is not slow, the given
# ones if it is, and a fifth of them if it is _CLEARLY times as slow as apart. Each side runs _FEW
# times undisturbed at least, and _RUNS times at most. A fused call below _BRIEF seconds that is
# a little slow is slow after _SURE such runs only: what disturbs it does not always show.
_SHORT, _CLEARLY = 1e-3, 4
_FEW, _SURE, _RUNS = 3, 10, 60
_LONG, _BRIEF = 0.05, 0.01  # seconds of a call that disturbances hardly prolong, and may by much
# Seconds that a clock, a call and other processes may add to either side.
_NOISE = 4e-6


def _timed(call: Callable[[], None]) -> tuple[float, bool]:
    """Return the seconds of a call, and whether another process used one of our CPUs."""
    before = getrusage(RUSAGE_SELF).ru_nivcsw
    seconds, _ = timed(call)
    # Threads that sleep take CPUs from each other, and are not held up by other processes.
    if seconds >= _LONG or not threads_spin():
        return seconds, False
    return seconds, getrusage(RUSAGE_SELF).ru_nivcsw != before


@dataclass(frozen=True)
class Pace:
    """The times of a partition: fused, and its separate ops; or as written, and in another form."""

    # fused, apart: seconds a call
    fused: float
    apart: float

    @property
    def ratio(self) -> float:
        """The time of the fused partition divided by that of its separate ops."""
        return self.fused / self.apart if self.apart else math.inf

    @property
    def slow(self) -> str | None:
        """A message if the partition should not be used fused, else None."""
        if self.fused <= LIMIT * self.apart or self.fused - self.apart < _NOISE:
            return None
        return f"fused, it takes {self.ratio:.3g} times as long as its separate ops"

    @property
    def _is_in_doubt(self) -> bool:
        return self.slow is not None and self.ratio <= _CLEARLY and self.fused < _BRIEF

    @classmethod
    def measured(
        cls,
        fused: Callable[[], None],
        apart: Callable[[], None],
        seconds: float = 0.1,
        before: Callable[[], object] | None = None,
    ) -> Pace | None:
        """Run both in turn until it is clear which is faster; None if other processes disturb it.

        Where threads spin until all are done, a kernel takes thousands of times longer while
        another process has one of the CPUs. We use the shortest undisturbed run of each side.
        `before` runs before each of them, and does not count.
        """
        calls = (fused, apart)
        spent = sum(_timed(call)[0] for call in calls)  # the first one also sets up
        runs: list[list[float]] = [[], []]
        pace: Pace | None = None
        for _ in range(_RUNS):
            for counted, call in zip(runs, calls, strict=True):
                if before is not None:
                    before()
                took, disturbed = _timed(call)
                spent += took
                if not disturbed:
                    counted.append(took)
            few = min(map(len, runs))
            pace = cls(*map(min, runs)) if few >= _FEW else None
            if pace is None or (few < _SURE and pace._is_in_doubt):
                if spent > (5 if few else 1) * seconds:
                    return None
                continue
            if pace.slow is None:
                limit = _SHORT
            else:
                limit = seconds / 5 if pace.ratio > _CLEARLY else seconds
            if spent > limit:
                break
        return None if few < _SURE and pace is not None and pace._is_in_doubt else pace
