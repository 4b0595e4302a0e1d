"""benchdnn as a process: its command, and what its output says."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onednn_graph_py.tools.export import benchdnn_command

__all__ = ["Answer", "command", "parse_answer", "run"]

# Level 3 of -v tells the partitions, among the lines of a case.
_PARTITIONS = re.compile(r"^\[INFO\]: n_partitions:(\d+); ops_in_partitions:((?: \{\d+\})*)", re.M)
_VERDICT = re.compile(r"^ ?\d+:([A-Z_]+)(?: \(([^)]*)\))?.* __REPRO: ", re.M)
_TOTALS = re.compile(r"^tests:(\d+) .*\bfailed:(\d+)\b", re.M)
_TIMES = re.compile(r"^total perf: min\(ms\):(\S+) avg\(ms\):(\S+)", re.M)
_TROUBLE = re.compile(r"^Error: (.*)", re.M)


@dataclass(frozen=True)
class Answer:
    """What benchdnn said of one case.

    Parameters
    ----------
    verdict : str
        benchdnn's word, such as ``PASSED``, ``SKIPPED`` or ``FAILED``; ``EXECUTED`` for a case
        that was only timed. Ours are ``REFUSED`` for a file that it ends at, ``CRASHED`` and
        ``TIMED_OUT`` for a process that did not end by itself.
    reason : str
        Of a verdict that is no success, if it says one.
    partition_ops : tuple of int, optional
        How many ops each partition has; None if it came to no partitions.
    least_ms, mean_ms : float, optional
        Of one execution of all partitions, in milliseconds.
    """

    verdict: str
    reason: str = ""
    partition_ops: tuple[int, ...] | None = None
    least_ms: float | None = None
    mean_ms: float | None = None

    @property
    def partitions(self) -> int | None:
        """How many partitions oneDNN made."""
        return None if self.partition_ops is None else len(self.partition_ops)

    def __str__(self) -> str:
        return f"{self.verdict} ({self.reason})" if self.reason else self.verdict


def command(
    program: str | os.PathLike[str], path: str | os.PathLike[str], mode: str, *knobs: str
) -> list[str]:
    """The command for one saved graph.

    Parameters
    ----------
    program : path
        benchdnn.
    path : path
        The graph.
    mode : str
        benchdnn's: ``C`` correctness, ``P`` performance, ``I`` partition and compile only.
    *knobs : str
        Further options.
    """
    words = benchdnn_command(path, mode=mode)[1:]
    # On the CPU also what a GPU's graph was dumped from, as oneDNN's own lists of cases have it;
    # any number of partitions, where benchdnn expects 1.
    asked = ["--engine=cpu", "-v3", "--expected-n-partitions=0", *knobs]
    kept = [word for word in words if not word.startswith("--engine=")]
    place = next(i for i, word in enumerate(kept) if word.startswith("--case="))
    return [os.fspath(program), *kept[:place], *asked, *kept[place:]]


def parse_answer(output: str, status: int) -> Answer:
    """Read what benchdnn printed for one case.

    Parameters
    ----------
    output : str
        Standard output and standard error.
    status : int
        Its exit status, negative if a signal ended it.

    Raises
    ------
    ValueError
        It is no output of benchdnn about exactly one case.
    """
    made = _PARTITIONS.search(output)
    ops = tuple(int(n) for n in re.findall(r"\d+", made.group(2))) if made else None
    if made is not None and ops is not None and len(ops) != int(made.group(1)):
        raise ValueError(f"benchdnn counts partitions in two ways: {made.group()}")
    if status < 0:
        return Answer("CRASHED", f"signal {-status}", ops)
    totals = _TOTALS.search(output)
    if totals is None or totals.group(1) != "1":
        # It ends early, without totals, on a file that it can't read.
        if status and totals is None:
            return Answer("REFUSED", _trouble(output) or f"exit status {status}", ops)
        raise ValueError(f"no output of benchdnn about one case (exit status {status}): {output!r}")
    verdicts = _VERDICT.findall(output)
    if verdicts:
        verdict, reason = verdicts[-1]
        if verdict not in ("PASSED", "SKIPPED", "INITIALIZED") and not reason:
            reason = _trouble(output)
    elif totals.group(2) == "0":
        verdict, reason = "EXECUTED", ""
    else:
        raise ValueError(f"benchdnn counts a failure and names none: {output!r}")
    times = _TIMES.search(output)
    least, mean = (float(t) for t in times.groups()) if times else (None, None)
    if not least:  # what is not executed takes 0
        least = mean = None
    return Answer(verdict, reason, ops, least, mean)


def _trouble(output: str) -> str:
    found = _TROUBLE.search(output)
    return " ".join(found.group(1).split())[:200] if found else ""


def run(
    program: Path,
    path: str | os.PathLike[str],
    mode: str,
    knobs: Sequence[str] = (),
    *,
    threads: int,
    timeout: float,
) -> Answer:
    """Have benchdnn take one graph.

    Parameters
    ----------
    program : Path
    path : path
    mode : str
    knobs : sequence of str
    threads : int
        Of OpenMP.
    timeout : float
        Seconds until it is stopped.
    """
    try:
        done = subprocess.run(
            command(program, path, mode, *knobs),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
            text=True,
            errors="replace",
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        return Answer("TIMED_OUT", f"{timeout:.0f} s")
    return parse_answer(done.stdout, done.returncode)
