"""Time calls in a worker, and summarize the times."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...machine.timing import time_calls

# The other workers' threads spin for a while after their last call, and caches are cold.
_WARM_UP = 0.05
# Short calls are timed several at a time, to limit the number of samples.
_SAMPLES = 200
_PARTS = np.linspace(0.5, 99.5, 100)  # the number of percentiles that represent a round


def time_in_batches(call: Callable[[], Any], seconds: float) -> list[float]:
    """Time calls after a warm-up, for so many seconds and at least one.

    Return the time of each call in seconds; for short calls, means of several.
    """
    warm = time_calls(call, min(_WARM_UP, seconds))
    each = max(1, int(seconds / _SAMPLES * len(warm) / sum(warm)))

    def batch() -> None:
        for _ in range(each):
            call()

    return [t / each for t in time_calls(batch, seconds)]


def summed_up(
    rounds: Sequence[Sequence[float]], first: Sequence[Sequence[float]]
) -> dict[str, float | None]:
    """Summarize the times of all rounds, given in seconds, as a `Run` has them; empty if none.

    The ratio is the median of those of the rounds, since a temporary slowdown of the machine
    affects all runs of a round.
    """
    if not rounds:
        return {}
    # A round in which the machine was slow has fewer samples, but equal weight.
    even = np.concatenate([np.percentile(r, _PARTS) for r in rounds]) * 1e3
    low, middle, high = (float(t) for t in np.percentile(even, (25, 50, 75)))
    ratios = [np.median(a) / np.median(b) for a, b in zip(rounds, first, strict=False)]
    return {
        "milliseconds": middle,
        "spread": high - low,
        "fastest": min(map(min, rounds)) * 1e3,
        "ratio": float(np.median(ratios)) if ratios else None,
    }
