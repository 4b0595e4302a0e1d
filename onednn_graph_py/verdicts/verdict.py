"""What became of judging a partition, and what it may take."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Limits", "Outcome", "Verdict"]


@dataclass(frozen=True)
class Limits:
    """How much may be spent on one partition.

    Parameters
    ----------
    reference : float
        Seconds for the reference.
    speed : float
        Seconds for measuring, at least one call of it and of its ops apart; 0 to measure nothing.
    memory : float
        The share of the free memory that its tensors may take.
    """

    reference: float = 1.0
    speed: float = 0.1
    memory: float = 0.25


class Outcome(str, Enum):
    """What became of it; the value is what is printed."""

    RIGHT = "right"
    """Its results are those of the reference, and it is not slower than its ops apart."""
    WRONG = "wrong"
    """A result is not right, or differs from call to call."""
    CRASHED = "crashed"
    """The process ended that ran it."""
    HUNG = "hung"
    """It took longer than allowed."""
    SLOW = "slow"
    """It is right, and slower than its ops apart."""
    UNVERIFIED = "unverified"
    """Nobody knows."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Verdict:
    """What became of judging a partition.

    Parameters
    ----------
    outcome : Outcome
    detail : str
        How it is wrong, which signal ended it, how slow it is, why nobody knows; may be empty.
    reduced : bool
        Not all of its results were compared, as `detail` says.
    ratio : float, optional
        Its time in that of its ops apart; None if it was not measured.
    seconds : float
        That judging took.
    passing : bool
        Another time it may be another one, so it is not kept: there was no memory, or no process.
    kept : bool
        It was read from disk.
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
