"""Time of a call that takes less than the loop around it."""

from __future__ import annotations

import time
from collections.abc import Callable


def seconds_a_call(function: Callable[[], object], count: int) -> float:
    """Time a Python loop, less what the empty loop takes."""
    rounds = range(count)
    begin = time.perf_counter()
    for _ in rounds:
        pass
    empty = time.perf_counter()
    for _ in rounds:
        function()
    end = time.perf_counter()
    return ((end - empty) - (empty - begin)) / count
