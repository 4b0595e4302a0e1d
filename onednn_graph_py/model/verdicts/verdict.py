"""Verdicts on partitions, and the limits for judging them."""

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class Limits:
    """The limits of time and memory for judging one partition."""

    reference: float = 1.0  # time limit of the reference, in seconds
    memory: float = 0.25  # the share of the free memory that its tensors may take, from 0 to 1


class Outcome(str, Enum):
    """The outcome of judging a partition; messages print its value."""

    RIGHT = "right"
    """The results agree with the reference."""
    WRONG = "wrong"
    """A result is wrong, or differs from call to call."""
    CRASHED = "crashed"
    """The process that ran the partition crashed."""
    HUNG = "hung"
    """The partition took longer than the time limit."""
    UNVERIFIED = "unverified"
    """The partition could not be judged."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Verdict:
    """The verdict on a partition."""

    outcome: Outcome
    # The error, the signal, or why it could not be judged; may be empty.
    detail: str = ""
    # Whether only some of its results were compared; `detail` says which ones.
    reduced: bool = False
    seconds: float = 0.0
    # Whether it may be another next time, because memory or a process was missing: not stored then.
    passing: bool = False
    # Whether it was read from disk.
    kept: bool = False

    def __str__(self) -> str:
        return f"{self.outcome}: {self.detail}" if self.detail else str(self.outcome)
