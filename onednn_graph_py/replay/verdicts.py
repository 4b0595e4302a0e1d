"""What became of a graph that was run again."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

__all__ = ["Result", "Verdict"]


class Verdict(str, Enum):
    """What became of it; the value is what is printed."""

    PASSED = "passed"
    """All results are right."""
    RAN = "ran"
    """It ran; nobody asked whether its results are right."""
    PARTITIONED = "partitioned"
    """oneDNN has kernels for all of its partitions; it was not to be run."""
    SPLIT = "split"
    """It is right, but runs in parts: in one, oneDNN would compute it wrongly."""
    WRONG = "wrong"
    """A result is not right."""
    PARTITIONS = "partitions"
    """oneDNN makes another number of partitions of it than expected."""
    UNSUPPORTED = "unsupported"
    """oneDNN has no kernel for an op of it here, or no device to run it on."""
    REFUSED = "refused"
    """It is no valid graph, or oneDNN or this package does not take it."""
    TOO_LARGE = "too large"
    """Its tensors do not fit into the memory that is free."""
    CRASHED = "crashed"
    """The process ended."""
    TIMED_OUT = "timed out"
    """It took longer than allowed."""
    UNREADABLE = "unreadable"
    """The file is none, or no graph."""

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
    """What became of one case.

    Parameters
    ----------
    case : str
        The file, and how it was rewritten.
    verdict : Verdict
    reason : str
        Why it is no better.
    ops : int, optional
    partitions, supported : int, optional
        How many oneDNN made of the graph, and of how many of them it has a kernel.
    expected : int, optional
        How many it should have made.
    error, share : float, optional
        The largest difference to the reference, and the largest part of what is allowed.
    diverges : str
        The first op whose result is not right.
    seconds : float
        All of it took.
    milliseconds : float, optional
        One call.
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
        """As JSON has it."""
        return {**asdict(self), "verdict": self.verdict.value}
