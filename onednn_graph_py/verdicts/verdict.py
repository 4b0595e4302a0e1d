"""Verdicts on partitions, and the limits for judging them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Limits", "Outcome", "Verdict"]


@dataclass(frozen=True)
class Limits:
    """The limits of time and memory for judging one partition.

    Parameters
    ----------
    reference : float
        Seconds for the reference.
    speed : float
        Seconds for measuring the partition against its ops apart; 0 to measure nothing.
    memory : float
        The share of the free memory that its tensors may take.
    """

    reference: float = 1.0
    speed: float = 0.1
    memory: float = 0.25


class Outcome(str, Enum):
    """The outcome of judging a partition; its value is the word that is printed."""

    RIGHT = "right"
    """The results agree with the reference, and the partition is not slower than its ops apart."""
    WRONG = "wrong"
    """A result is wrong, or differs from call to call."""
    CRASHED = "crashed"
    """The process that ran the partition crashed."""
    HUNG = "hung"
    """The partition took longer than the time limit."""
    SLOW = "slow"
    """The partition is right, and slower than its ops apart."""
    UNVERIFIED = "unverified"
    """The partition could not be judged."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Verdict:
    """The verdict on a partition.

    Parameters
    ----------
    outcome : Outcome
    detail : str
        The error, the signal, the slowdown, or why it could not be judged; may be empty.
    reduced : bool
        Whether only some of its results were compared; `detail` says which.
    ratio : float, optional
        Its time divided by that of its ops apart; None if it was not measured.
    seconds : float
        The time that judging took.
    passing : bool
        Whether the verdict may change another time, because there was no memory or no process. It
        is not kept then.
    kept : bool
        Whether the verdict was read from disk.
    """

    outcome: Outcome
    detail: str = ""
    reduced: bool = False
    ratio: float | None = None
    seconds: float = 0.0
    passing: bool = False
    kept: bool = False

    def __str__(self) -> str:
        return f"{self.outcome}: {self.detail}" if self.detail else str(self.outcome)
