"""Compare the times of two computations, even if other processes use the CPUs too."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from resource import RUSAGE_SELF, getrusage

from .timing import timed

LIMIT = 1.1
"""A fused partition may take at most this many times as long as its separate ops.

Two measurements of one partition differ by about as much; no partition may be 1.2 times slower.
"""

# A measurement ends by the seconds that both sides took: _SHORT if fused is not slow, the given
# ones if it is, and a fifth of them if it is _CLEARLY times as slow as apart. Each side runs _FEW
# times at least, and _RUNS times at most. A fused call below _BRIEF seconds that is a little slow
# is slow after _SURE runs only: what disturbs it does not always show.
_SHORT, _CLEARLY = 1e-3, 4
_FEW, _SURE, _RUNS = 3, 10, 60
_BRIEF = 0.01
_SLICE = 0.05  # seconds that a process may have a CPU before ours has it again
# Seconds that a clock, a call and other processes may add to either side.
_NOISE = 4e-6


def _waits() -> dict[str, int] | None:
    """Return the nanoseconds that each thread waited for a CPU so far; None if Linux hides them."""
    waits = {}
    try:
        for thread in os.listdir("/proc/self/task"):
            name = f"/proc/self/task/{thread}/schedstat"
            with (
                suppress(FileNotFoundError, ProcessLookupError),  # the thread ended
                open(name, "rb", buffering=0) as file,
            ):
                waits[thread] = int(file.read(64).split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return waits or None


def _timed(call: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds of a call, and how many of them other processes may have added."""
    waits, switches = _waits(), getrusage(RUSAGE_SELF).ru_nivcsw
    seconds, _ = timed(call)
    switches = getrusage(RUSAGE_SELF).ru_nivcsw - switches
    after = _waits() if waits else None
    if not waits or not after:
        return seconds, min(seconds, switches * _SLICE)
    added = sum(wait - waits.get(thread, wait) for thread, wait in after.items())
    return seconds, min(seconds, added * 1e-9)


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

    @classmethod
    def measured(
        cls,
        fused: Callable[[], object],
        apart: Callable[[], object],
        seconds: float = 0.1,
        before: Callable[[], object] | None = None,
    ) -> Pace | None:
        """Run both in turn until it is clear which is faster; None if other processes prevent that.

        Where threads spin until all are done, a kernel takes thousands of times longer while
        another process has one of the CPUs. So the shortest run of each side has two bounds:
        without other processes it would have taken its time at most, and at least that less what
        its threads waited for a CPU. Only what both bounds say is a result. `before` runs before
        each run, and does not count.
        """
        calls = (fused, apart)
        spent = sum(_timed(call)[0] for call in calls)  # the first one also sets up
        most, least = [math.inf, math.inf], [0.0, 0.0]
        for number in range(1, _RUNS + 1):
            for i, call in enumerate(calls):
                if before is not None:
                    before()
                took, added = _timed(call)
                spent += took
                if took < most[i]:
                    most[i], least[i] = took, took - added
            pace = cls(most[0], most[1])
            clear = (cls(least[0], most[1]).slow is None) == (cls(most[0], least[1]).slow is None)
            doubtful = pace.slow is not None and pace.ratio <= _CLEARLY and pace.fused < _BRIEF
            if number < _FEW or not clear or (number < _SURE and doubtful):
                if spent > (5 if clear else 1) * seconds:
                    return None
                continue
            if pace.slow is None:
                limit = _SHORT
            else:
                limit = seconds / 5 if pace.ratio > _CLEARLY else seconds
            if spent > limit:
                return pace
        return pace if clear else None
