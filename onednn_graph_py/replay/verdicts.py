"""The verdict on a graph that was run again."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

__all__ = ["Result", "Verdict"]


class Verdict(str, Enum):
    """The verdict on a case; its value is the word that ``replay`` prints."""

    PASSED = "passed"
    """All results are right."""
    RAN = "ran"
    """It ran; its results were not compared."""
    PARTITIONED = "partitioned"
    """oneDNN has kernels for all of its partitions; it was only partitioned."""
    SPLIT = "split"
    """It is right, but a partition runs in parts, because oneDNN computes it wrongly as one."""
    WRONG = "wrong"
    """A result is wrong."""
    PARTITIONS = "partitions"
    """oneDNN makes more or fewer partitions of it than expected."""
    UNSUPPORTED = "unsupported"
    """oneDNN has no kernel here for one of its ops, or no device to run it on."""
    REFUSED = "refused"
    """The graph is invalid, or oneDNN or this package rejects it."""
    TOO_LARGE = "too large"
    """Its tensors do not fit into the free memory."""
    CRASHED = "crashed"
    """The process that ran it crashed."""
    TIMED_OUT = "timed out"
    """It took longer than the time limit."""
    UNREADABLE = "unreadable"
    """The file can't be read, or is not a graph."""

    def __str__(self) -> str:
        return self.value

    @property
    def failed(self) -> bool:
        """Whether something is wrong with oneDNN, this package or the graph."""
        return self in _FAILED


_FAILED = frozenset(
    {
        Verdict.WRONG,
        Verdict.PARTITIONS,
        Verdict.REFUSED,
        Verdict.CRASHED,
        Verdict.TIMED_OUT,
        Verdict.UNREADABLE,
    }
)


@dataclass
class Result:
    """The result of one case.

    Parameters
    ----------
    case : str
        The file, and how it was rewritten.
    verdict : Verdict
    reason : str
        The reason for the verdict.
    ops : int, optional
    partitions, supported : int, optional
        Number of partitions that oneDNN made of the graph, and number that it has a kernel for.
    expected : int, optional
        Expected number of partitions.
    error, share : float, optional
        The largest difference to the reference, and the largest as a fraction of its tolerance.
    diverges : str
        The first op whose result is wrong.
    seconds : float
        Time for the whole case.
    milliseconds : float, optional
        Time of one call.
    """

    case: str
    verdict: Verdict
    reason: str = ""
    ops: int | None = None
    partitions: int | None = None
    supported: int | None = None
    expected: int | None = None
    error: float | None = None
    share: float | None = None
    diverges: str = ""
    seconds: float = 0.0
    milliseconds: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """The result as a dict for JSON."""
        return {**asdict(self), "verdict": self.verdict.value}
