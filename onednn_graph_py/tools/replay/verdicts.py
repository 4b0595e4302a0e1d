"""The verdict on a replayed graph, and its other results."""

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


class Verdict(str, Enum):
    """The verdict on a case; ``replay`` prints its value."""

    PASSED = "passed"
    """All results are right."""
    RAN = "ran"
    """It ran, but its results were not compared."""
    PARTITIONED = "partitioned"
    """It was only partitioned; oneDNN has kernels for all of its partitions."""
    SPLIT = "split"
    """It is right, but a partition runs in parts, because oneDNN computes it wrongly whole."""
    WRONG = "wrong"
    """A result is wrong."""
    UNSUPPORTED = "unsupported"
    """oneDNN has no kernel for one of its ops on this machine, or no device."""
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
        """Whether the verdict is a fault of oneDNN, this package or the graph."""
        return self in _FAILED


_FAILED = frozenset(
    {Verdict.WRONG, Verdict.REFUSED, Verdict.CRASHED, Verdict.TIMED_OUT, Verdict.UNREADABLE}
)


@dataclass
class Result:
    """The result of one case.

    Parameters
    ----------
    case : str
        The file's name.
    verdict : Verdict
    reason : str
        The reason for the verdict.
    ops : int, optional
    partitions, supported : int, optional
        Number of partitions that oneDNN made, and number of those that have a kernel.
    error, share : float, optional
        The largest difference to the reference, and the largest fraction of a tolerance.
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
    error: float | None = None
    share: float | None = None
    diverges: str = ""
    seconds: float = 0.0
    milliseconds: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the result as a dict for JSON."""
        return {**asdict(self), "verdict": self.verdict.value}
