"""Results as lines for people, as JSON, and as an exit status."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TextIO

from ..text.numbers import or_dash
from .verdicts import Result, Verdict

__all__ = ["Progress", "exit_status", "json_line", "line", "summary"]

_BAR = 24


def line(result: Result, name: str | None = None) -> str:
    """One line: verdict, partitions, error, time, case, and the reason below it.

    Parameters
    ----------
    result : Result
    name : str, optional
        What to call the case.
    """
    partitions = "-"
    if result.partitions is not None:
        partitions = f"{result.supported}/{result.partitions}"
        if result.expected is not None and result.expected != result.partitions:
            partitions += f" (expected {result.expected})"
    error = or_dash(result.error, ".2g")
    text = f"{result.verdict!s:<12}{partitions:>6} {error:>9} {result.seconds:7.2f} s"
    if result.milliseconds is not None:
        text += f" {result.milliseconds:9.3f} ms"
    text += f"  {name or result.case}"
    for more in (result.reason, result.diverges):
        text += "".join(f"\n    {part}" for part in more.splitlines())
    return text


def json_line(result: Result) -> str:
    """One JSON object in a line."""
    # JSON has no infinity.
    found = {
        k: str(v) if v in (float("inf"), float("-inf")) else v for k, v in result.as_dict().items()
    }
    return json.dumps(found)


def summary(results: Sequence[Result]) -> str:
    """Count the cases of each verdict."""
    counts = Counter(r.verdict for r in results)
    parts = ", ".join(f"{counts[v]} {v}" for v in Verdict if counts[v])
    return f"{len(results)} cases: {parts}"


def exit_status(results: Sequence[Result]) -> int:
    """0 if no case failed, 1 if one did, 2 if the worst is that files are unreadable."""
    failed = {r.verdict for r in results if r.verdict.failed}
    if not failed:
        return 0
    return 2 if failed == {Verdict.UNREADABLE} else 1


class Progress:
    """A bar at the foot of a terminal; nothing where the output is none.

    Parameters
    ----------
    total : int
    out : file, optional
        Standard error by default.
    """

    def __init__(self, total: int, out: TextIO | None = None) -> None:
        self.total = total
        self.done = 0
        self.failed = 0
        self._out = sys.stderr if out is None else out
        self._shown = self._out.isatty() and os.environ.get("TERM") != "dumb"

    def clear(self) -> None:
        """Take it away, for a line to be printed."""
        if self._shown:
            self._out.write("\r\x1b[K")
            self._out.flush()

    def add(self, result: Result) -> None:
        """Count a result, and draw the bar anew."""
        self.done += 1
        self.failed += result.verdict.failed
        if not self._shown or self.done == self.total:
            return
        full = _BAR * self.done // self.total
        bar = "#" * full + "." * (_BAR - full)
        self._out.write(f"[{bar}] {self.done} of {self.total}, {self.failed} failed")
        self._out.flush()
