"""Time calls.

Times that people read are medians, which rare long calls do not change. Comparisons of two
computations, and of a machine with its peak, use the shortest calls: other processes only make
calls longer.
"""

import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

LONGEST = 10.0  # seconds after which the calls end, even if they are fewer than `least`


def timed(call: Callable[[], T]) -> tuple[float, T]:
    """Make a call; return the seconds it took and its result."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def time_calls(
    call: Callable[[], Any], seconds: float, *, least: int = 1, most: int | None = None
) -> list[float]:
    """Time each of several calls.

    - `call`: call it once before if the first call should not count
    - `seconds`: the time for all calls
    - `least`, `most`: limits of the number of calls. There are fewer than `least` if they take
      longer than 10 s.
    - returns: seconds of each call; at least one
    """
    times: list[float] = []
    now = began = time.perf_counter()
    while most is None or len(times) < most:
        if times and now - began >= (seconds if len(times) >= least else max(seconds, LONGEST)):
            break
        start = time.perf_counter()
        call()
        now = time.perf_counter()
        times.append(now - start)
    return times
