"""What is known of one defect, and whether a partition meets it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ..machine import Conditions
from ..ops.terms import Version
from .group import Group

__all__ = ["NEVER", "Defect", "Finding", "Met", "first_met"]

NEVER: Version = (99, 0)
"""Later than every version: the defect is in the newest one that was tried."""

Met = Callable[[Group, Conditions], bool]
"""Takes a partition and where it is to run."""


class Finding(NamedTuple):
    """A defect that a partition meets."""

    what: str
    """Says what goes wrong."""
    alone: bool
    """One of the ops shows it in a partition of its own too."""


@dataclass(frozen=True)
class Defect:
    """A row: what goes wrong, in which partitions, and where.

    Parameters
    ----------
    what : str
        Names the case in the warning.
    met : callable
        Whether a partition meets it.
    since, until : Version
        The first oneDNN that has it, and the first that does not.
    where : callable, optional
        Whether it is there under some conditions; under all, if left out.
    alone : bool or callable
        Whether an op shows it in a partition of its own too: always, or for which partitions.
    unless_apply_to_int : bool
        It is right where the floating-point mode covers integers.
    """

    what: str
    met: Met
    since: Version = (3, 7)
    until: Version = NEVER
    where: Callable[[Conditions], bool] | None = None
    alone: bool | Met = False
    unless_apply_to_int: bool = False

    def find(self, group: Group, conditions: Conditions) -> Finding | None:
        """What comes of running a partition, or None if this defect does not touch it."""
        if not self.since <= conditions.version < self.until:
            return None
        if self.unless_apply_to_int and group.apply_to_int:
            return None
        if self.where is not None and not self.where(conditions):
            return None
        if (len(group.ops) == 1 and self.alone is False) or not self.met(group, conditions):
            return None
        alone = self.alone if isinstance(self.alone, bool) else self.alone(group, conditions)
        return Finding(self.what, alone) if alone or len(group.ops) > 1 else None


def first_met(defects: Iterable[Defect], group: Group, conditions: Conditions) -> Finding | None:
    """The first of the defects that a partition meets."""
    for defect in defects:
        found = defect.find(group, conditions)
        if found is not None:
            return found
    return None
