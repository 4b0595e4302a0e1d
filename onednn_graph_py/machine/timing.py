"""Time calls.

A time that people read is the median of these calls: it is what a call usually takes, however rare
and long its exceptions are. Two ways to compute the same are compared by their shortest calls, and
so is a machine with its peak: other processes only add to them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["time_calls", "timed"]

T = TypeVar("T")

LONGEST = 10.0
"""Seconds after which no more calls are made than one, however few they are."""


def timed(call: Callable[[], T]) -> tuple[float, T]:
    """Make a call; return the seconds it took and its result."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def time_calls(
    call: Callable[[], Any], seconds: float, *, least: int = 1, most: int | None = None
) -> list[float]:
    """Time each of several calls.

    Parameters
    ----------
    call : callable
        It was called before if the first call is not to count.
    seconds : float
        Calls are made for so long.
    least, most : int
        There are so many calls whatever the seconds, unless the least take longer than 10 s.

    Returns
    -------
    list of float
        Seconds of each call; at least one.
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
