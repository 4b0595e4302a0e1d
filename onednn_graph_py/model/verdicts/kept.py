"""Verdicts on disk: only those that this user found on this machine count."""

from dataclasses import asdict
from typing import Any

from ... import _core
from ...machine.store import Entries, machine
from .verdict import Limits, Outcome, Verdict

_TYPES = {"detail": str, "reduced": bool, "seconds": float | int}


class Kept:
    """The verdicts of this oneDNN on this CPU, for a number of threads.

    Each names its partition.

    - `reference`: time limit of the reference in seconds, which decides which partitions stay
      unverified
    """

    def __init__(self, threads: int, reference: float = Limits.reference) -> None:
        about = (threads, reference, _core.get_cpu_isa_hints().name, machine())
        self._entries = Entries("verdicts", *about)

    def find(self, signature: str) -> Verdict | None:
        """Read the verdict on a partition; None if there is none that can be trusted."""
        found = self._entries.find(signature)
        return None if found is None else _verdict(found)

    def keep(self, signature: str, verdict: Verdict) -> None:
        """Write a verdict for other processes, if the folder can be written to."""
        self._entries.keep(signature, asdict(verdict))


def _verdict(found: dict[str, Any]) -> Verdict | None:
    """Make a verdict of what a file holds, if each part has its type."""
    parts: dict[str, Any] = {name: found.get(name) for name in _TYPES}
    outcome = found.get("outcome")
    if outcome not in list(Outcome) or not all(
        isinstance(part, _TYPES[name]) for name, part in parts.items()
    ):
        return None
    return Verdict(Outcome(outcome), **parts, kept=True)
