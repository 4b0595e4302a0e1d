"""Rows that describe defects of oneDNN: `Defect`, and the search for one: `first_met`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ..machine import Conditions
from ..ops.terms import Version
from .group import Group

__all__ = ["NEVER", "Defect", "Finding", "Met", "first_met"]

NEVER: Version = (99, 0)
"""A version later than every other: the newest oneDNN that was tried still has the defect."""

Met = Callable[[Group, Conditions], bool]
"""A predicate of a partition and of the conditions in which it is to run."""


class Finding(NamedTuple):
    """A defect that a partition meets."""

    name: str
    """The row's name, which is that of its entry in docs/onednn_defects.md."""
    what: str
    """A sentence about the wrong behaviour."""
    alone: bool
    """True if one of the ops shows the defect in a partition of its own too."""

    @property
    def message(self) -> str:
        """The sentence with the name, for warnings and errors."""
        return f"{self.what} [{self.name}]"


@dataclass(frozen=True)
class Defect:
    """A row: a wrong behaviour, its partitions, and its conditions.

    Parameters
    ----------
    name : str
        A name that no other row has: that of its entry in docs/onednn_defects.md, if results are
        wrong.
    what : str
        A sentence about the wrong behaviour, without versions, for the warning.
    met : callable
        Takes a partition and `Conditions`; returns whether the partition meets the defect.
    since, until : Version
        The first oneDNN that has the defect, and the first that does not.
    where : callable, optional
        Takes `Conditions`; returns whether they show the defect. All do by default.
    alone : bool or callable
        Whether an op shows the defect in a partition of its own too; a callable decides that for
        each partition.
    unless_apply_to_int : bool
        Whether results are right if the floating-point mode covers integers.
    out_of_bounds : bool
        Whether oneDNN also reads or writes beside its buffers, so that the mirror refuses it.
    """

    name: str
    what: str
    met: Met
    since: Version = (3, 7)
    until: Version = NEVER
    where: Callable[[Conditions], bool] | None = None
    alone: bool | Met = False
    unless_apply_to_int: bool = False
    out_of_bounds: bool = False

    def is_in(self, conditions: Conditions) -> bool:
        """Whether oneDNN has the defect under these conditions."""
        if not self.since <= conditions.version < self.until:
            return False
        return self.where is None or self.where(conditions)

    def find(self, group: Group, conditions: Conditions) -> Finding | None:
        """Return the finding about a partition, or None if this defect does not affect it."""
        if not self.is_in(conditions) or (self.unless_apply_to_int and group.apply_to_int):
            return None
        if (len(group.ops) == 1 and self.alone is False) or not self.met(group, conditions):
            return None
        alone = self.alone if isinstance(self.alone, bool) else self.alone(group, conditions)
        return Finding(self.name, self.what, alone) if alone or len(group.ops) > 1 else None


def first_met(defects: Iterable[Defect], group: Group, conditions: Conditions) -> Finding | None:
    """Return the finding about the first defect that a partition meets, or None."""
    for defect in defects:
        found = defect.find(group, conditions)
        if found is not None:
            return found
    return None
