"""Show results as lines of text or JSON, and as an exit status."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from ...base.text.names import printable
from ...base.text.numbers import or_dash
from .verdicts import Result, Verdict

_BAR = 24


def line(result: Result) -> str:
    """Return a line with verdict, partitions, error, time and case, and the reason below it."""
    partitions = "-"
    if result.partitions is not None:
        partitions = f"{result.supported}/{result.partitions}"
        if result.expected is not None and result.expected != result.partitions:
            partitions += f" (expected {result.expected})"
    error = or_dash(result.error, ".2g")
    text = f"{result.verdict!s:<12}{partitions:>6} {error:>9} {result.seconds:7.2f} s"
    if result.milliseconds is not None:
        text += f" {result.milliseconds:9.3f} ms"
    text += f"  {result.case}"
    for more in (result.reason, result.diverges):
        text += "".join(f"\n    {part}" for part in more.splitlines())
    return printable(text)


def json_line(result: Result) -> str:
    """Return a result as a JSON object on one line."""
    # JSON has no infinity.
    found = {
        k: str(v) if v in (float("inf"), float("-inf")) else v for k, v in result.as_dict().items()
    }
    return json.dumps(found)


def summary(results: Sequence[Result]) -> str:
    """Count the cases of each verdict."""
    counts = Counter(r.verdict for r in results)
    parts = ", ".join(f"{counts[v]} {v}" for v in Verdict if counts[v])
    return f"{len(results)} cases: {parts}" if results else "0 cases"


def exit_status(results: Sequence[Result]) -> int:
    """Return 0 if no case failed, 1 if one did, 2 if the only fault is unreadable files."""
    failed = {r.verdict for r in results if r.verdict.failed}
    if not failed:
        return 0
    return 2 if failed == {Verdict.UNREADABLE} else 1


def bar(done: int, total: int, failed: int) -> str:
    """Draw a progress bar; it is empty when all cases are done."""
    if done == total:
        return ""
    full = _BAR * done // total
    return f"[{'#' * full}{'.' * (_BAR - full)}] {done} of {total}, {failed} failed"
