"""What the testers of front ends share: verdicts by seed, and the program that prints them."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable

LARGEST = 1e3
"""Values beyond it are not drawn further: what follows would be sums of rounding errors."""

ROUNDING = 1000 * 2.0**-24
"""The error of sums of up to a thousand numbers, of the largest of them."""

Judge = Callable[[int], tuple[str, str]]
"""Takes a seed; returns "right", "wrong", "refused" or "empty", and what is wrong."""


def check(verdict_of: Judge, seeds: Iterable[int]) -> None:
    """Raise unless all draws are right, but for a few that are empty."""
    outcomes = {seed: verdict_of(seed) for seed in seeds}
    assert {s: o for s, o in outcomes.items() if o[0] not in ("right", "empty")} == {}
    assert sum(o[0] == "right" for o in outcomes.values()) > 0.9 * len(outcomes)


def new_seeds(count: int) -> range:
    """Return the seeds of this hour, and print the first; so those of a stopped run are known."""
    first = int(time.strftime("%m%d%H")) * 20_000
    print(f"seeds from {first}")
    return range(first, first + count)


def main(verdict_of: Judge) -> None:
    """Test as many draws as the first argument says, from the second on; print what is wrong."""
    count, first = int(sys.argv[1]), int((sys.argv[2:] or ["0"])[0])
    counts: Counter[str] = Counter()
    for seed in range(first, first + count):
        try:
            verdict, why = verdict_of(seed)
        except Exception as e:
            verdict, why = "error", f"{type(e).__name__}: {e}"
        counts[verdict] += 1
        if verdict not in ("right", "empty"):
            print(seed, verdict, why[:300], flush=True)
    print(dict(counts))
