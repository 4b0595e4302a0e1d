"""Times of calls."""

import itertools

import pytest

from onednn_graph_py.machine.timing import time_calls, timed


@pytest.fixture
def clock(monkeypatch):
    """Let each look at the clock take a second."""
    ticks = itertools.count()
    monkeypatch.setattr("time.perf_counter", lambda: float(next(ticks)))


def test_a_call_is_timed_and_its_result_kept(clock):
    assert timed(lambda: "result") == (1.0, "result")


@pytest.mark.parametrize(
    ("seconds", "limits", "calls"),
    [
        (0.0, {}, 1),
        (6.0, {}, 3),
        (0.0, {"least": 4}, 4),
        (0.0, {"least": 100}, 5),  # 10 seconds have passed
        (30.0, {"least": 100}, 15),
        (30.0, {"most": 2}, 2),
    ],
)
def test_calls_end_with_the_seconds_and_their_number(clock, seconds, limits, calls):
    made = []
    assert time_calls(lambda: made.append(1), seconds, **limits) == [1.0] * calls
    assert len(made) == calls
