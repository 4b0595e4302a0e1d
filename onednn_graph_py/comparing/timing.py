"""Times of calls: taken in a worker, summed up where they are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..machine.timing import time_calls

__all__ = ["Times", "summed_up", "time_in_batches"]

# The other workers' threads spin for a while after their last call, and caches are cold.
_WARM_UP = 0.05
# Short calls are timed several at a time, so that there are no more samples than these.
_SAMPLES = 200
_PARTS = np.linspace(0.5, 99.5, 100)  # percentiles that stand for a round


def time_in_batches(call: Callable[[], Any], seconds: float) -> list[float]:
    """Time calls for a while, after some that do not count.

    Parameters
    ----------
    call : callable
    seconds : float
        At least one call is made, however long it takes.

    Returns
    -------
    list of float
        Seconds of a call; of short calls each is the mean of several.
    """
    warm = time_calls(call, min(_WARM_UP, seconds))
    each = max(1, int(seconds / _SAMPLES * len(warm) / sum(warm)))

    def batch() -> None:
        for _ in range(each):
            call()

    return [t / each for t in time_calls(batch, seconds)]


@dataclass(frozen=True)
class Times:
    """The times of many calls.

    Parameters
    ----------
    milliseconds : float
        The median; all rounds count as much.
    spread : float
        From the first to the third quartile, in milliseconds.
    fastest : float
        The shortest, in milliseconds.
    ratio : float or None
        To the first run: the median of the rounds' ratios. What slows the machine down for a while
        slows all runs of a round.
    """

    milliseconds: float
    spread: float
    fastest: float
    ratio: float | None


def summed_up(rounds: Sequence[Sequence[float]], first: Sequence[Sequence[float]]) -> Times | None:
    """Sum up the times of all rounds, in seconds; None where there are none."""
    if not rounds:
        return None
    # A round in which the machine was slow has fewer samples, and counts as much.
    even = np.concatenate([np.percentile(r, _PARTS) for r in rounds]) * 1e3
    low, middle, high = (float(t) for t in np.percentile(even, (25, 50, 75)))
    ratios = [np.median(a) / np.median(b) for a, b in zip(rounds, first, strict=False)]
    ratio = float(np.median(ratios)) if ratios else None
    return Times(middle, high - low, min(map(min, rounds)) * 1e3, ratio)
