"""Times of the steps of models: `profile`."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import _core
from ...base.arguments import need_whole
from ...base.text.files import write_whole
from ...base.text.table import element, html_table, joined, text_table
from ...ops.terms import shape_text


@dataclass(frozen=True, slots=True)
class StepTimes:
    """The times of a model's step over many calls, in seconds."""

    model: str  # the model's name
    # shapes of the model's inputs: a model with unknown dims has other steps for other shapes
    shapes: tuple[tuple[int, ...], ...]
    step: str  # names of the step's ops
    # `oneDNN` (the step is a partition), `host` (functions of `GraphBuilder.call`) or `reference`
    # (NumPy)
    implementation: str
    count: int
    total: float
    median: float
    minimum: float
    maximum: float
    spread: float  # the difference between the first and the third quartile
    share: float  # its share of the time of all steps in the profile, 0 to 1
    # why its ops do not run fused, or not as the graph has them; empty if there is no reason
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Model:
    name: str
    shapes: tuple[tuple[int, ...], ...]
    steps: tuple[tuple[str, str, str], ...]  # name, implementation, why


@dataclass(frozen=True, slots=True)
class _Call:
    model: _Model
    thread: int
    times: npt.NDArray[np.float64]  # its begin, and the end of each step


class Profile:
    """A record of when the steps of models ran; `profile` makes it.

    Parameters
    ----------
    max_calls : int
        Number of calls to keep, each with 32 bytes and 8 for each step. `dropped` counts others.

    Raises
    ------
    InvalidArgumentsError
        `max_calls` is not positive.
    """

    def __init__(self, max_calls: int = 1_000_000) -> None:
        self._recorder = _core._recorder(need_whole("profile: max_calls", max_calls))
        self._thread_names: dict[int, str] = {}

    def __enter__(self) -> Profile:
        self._recorder.start()
        return self

    def __exit__(self, *of: object) -> None:
        self._recorder.stop()
        self._see_threads()

    def _see_threads(self) -> None:
        self._thread_names |= {t.ident: t.name for t in threading.enumerate() if t.ident}

    # -- what was gathered

    def _recorded(self) -> Iterator[_Call]:
        """Iterate over the calls, in the order in which they began."""
        # Other threads may record meanwhile, so data that others refer to must be fetched later.
        calls = self._recorder.calls()
        seconds = self._recorder.seconds()
        models = [
            _Model(name, tuple(tuple(shape) for shape in shapes), tuple(steps))
            for name, shapes, steps in self._recorder.models()
        ]
        for number, thread, first in calls.tolist():
            model = models[number]
            yield _Call(model, thread, seconds[first : first + len(model.steps) + 1])

    @property
    def calls(self) -> int:
        """The number of calls in the profile."""
        return len(self._recorder.calls())

    @property
    def dropped(self) -> int:
        """The number of calls that came after `max_calls`."""
        return self._recorder.dropped

    @property
    def steps(self) -> tuple[StepTimes, ...]:
        """The steps of all models, in the order in which they first ran."""
        gathered: dict[int, tuple[_Model, list[npt.NDArray[np.float64]]]] = {}
        for call in self._recorded():
            gathered.setdefault(id(call.model), (call.model, []))[1].append(np.diff(call.times))
        tables = [(model, np.array(rows)) for model, rows in gathered.values()]
        whole = sum(float(table.sum()) for _, table in tables)
        made = []
        for model, table in tables:
            for (step, implementation, why), times in zip(model.steps, table.T, strict=True):
                low, middle, high = np.percentile(times, (25, 50, 75))
                total = float(times.sum())
                made.append(
                    StepTimes(
                        model.name,
                        model.shapes,
                        step,
                        implementation,
                        len(times),
                        total,
                        float(middle),
                        float(times.min()),
                        float(times.max()),
                        float(high - low),
                        total / whole if whole > 0 else 0.0,
                        why,
                    )
                )
        return tuple(made)

    # -- shown

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                s.model,
                " ".join(shape_text(shape) for shape in s.shapes),
                s.step,
                s.implementation,
                str(s.count),
                _microseconds(s.median),
                _microseconds(s.minimum),
                _microseconds(s.spread),
                f"{s.share:.1%}",
            )
            for s in self.steps
        ]

    def _reasons(self) -> list[tuple[str, str]]:
        """Return the steps that differ from the graph, and why; each pair once."""
        return list(dict.fromkeys((s.step, s.why) for s in self.steps if s.why))

    def __str__(self) -> str:
        rows = self._rows()
        if not rows:
            return "No calls of models."
        lines = text_table([_HEADER, *rows], right=_NUMBERS)
        lines += [f"{name}: {why}" for name, why in self._reasons()]
        if self.dropped:
            lines.append(f"{self.dropped} later calls are not recorded (max_calls).")
        return "\n".join(lines)

    def __repr__(self) -> str:
        state = "active, " if self._recorder.active else ""
        return f"<Profile: {state}{self.calls} calls, {len(self._recorder.models())} models>"

    def _repr_html_(self) -> str:
        below = [f"{name}: {why}" for name, why in self._reasons()]
        if self.dropped:
            below.append(f"{self.dropped} later calls are not recorded.")
        table = html_table(_HEADER, self._rows(), right=_NUMBERS, cell="text-align:left")
        return joined((table, *(element("p", line) for line in below)))

    # -- as a trace

    def chrome_trace(self) -> dict[str, Any]:
        """Return all calls and steps in Chrome's trace event format, which Perfetto reads too.

        Returns
        -------
        dict
            Data for `json.dumps`. Each call is an event that contains its steps' events; timestamps
            are microseconds since the profile began.
        """
        self._see_threads()
        process = os.getpid()
        events: list[dict[str, Any]] = []
        threads: dict[int, int] = {}  # small numbers, which viewers show well
        for number, call in enumerate(self._recorded()):
            thread = threads.setdefault(call.thread, len(threads) + 1)
            times = (call.times * 1e6).tolist()
            inputs: dict[str, Any] = {"inputs": [list(shape) for shape in call.model.shapes]}
            spans = [(call.model.name, "model", times[0], times[-1], inputs)]
            for (step, by, why), begin, end in zip(
                call.model.steps, times, times[1:], strict=False
            ):
                spans.append((step, by, begin, end, {"why": why} if why else {}))
            for name, category, begin, end, more in spans:
                where = {"ph": "X", "pid": process, "tid": thread, "ts": begin, "dur": end - begin}
                args = {"call": number, **more}
                events.append({"name": name, "cat": category, "args": args, **where})
        named = [
            {
                "name": "thread_name",
                "ph": "M",
                "pid": process,
                "tid": thread,
                "args": {"name": self._thread_names.get(ident, f"thread {thread}")},
            }
            for ident, thread in threads.items()
        ]
        return {"traceEvents": [*named, *events], "displayTimeUnit": "ns"}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `chrome_trace` as JSON, for ``chrome://tracing`` and Perfetto.

        Raises
        ------
        OSError
            The file can't be written.
        """
        write_whole(path, json.dumps(self.chrome_trace()))


def _microseconds(seconds: float) -> str:
    """Return microseconds as text with three digits, or all digits before the point."""
    value = seconds * 1e6
    return f"{value:.0f}" if value >= 1e3 else f"{value:.3g}"


_HEADER = ("model", "inputs", "step", "by", "count", "median µs", "min µs", "spread µs", "share")
_NUMBERS = range(4, len(_HEADER))


def profile(max_calls: int = 1_000_000) -> Profile:
    """Record the time of each step of each model, for calls inside a ``with`` statement.

    Parameters
    ----------
    max_calls : int
        Number of calls to keep.

    Returns
    -------
    Profile
        Print it or show it in a notebook; `Profile.steps` has the numbers, `Profile.save` writes
        them for a trace viewer. A profile that is entered again continues to record.

    Raises
    ------
    InvalidArgumentsError
        `max_calls` is not positive; a profile is entered while it is active.

    Notes
    -----
    It records the calls of all threads that begin and succeed inside the statement. A step's time
    does not include the conversion of arguments. On asynchronous runtimes (SYCL) an active profile
    waits for each step, so calls may take longer. A model's first call often takes long: call the
    model once before.

    Examples
    --------
    >>> b = GraphBuilder()
    >>> b.output(b.input((64, 64), name="x").relu(name="act"))
    >>> model = b.compile()
    >>> x = np.ones((64, 64), np.float32)
    >>> with profile() as p:
    ...     for _ in range(10):
    ...         y = model(x)
    >>> [(s.step, s.count) for s in p.steps]
    [('act', 10)]
    """
    return Profile(max_calls)
