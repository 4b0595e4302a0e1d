"""Checks for valid partitions and graphs on which oneDNN crashes or leaves its buffers.

The mirror calls them, with the GIL held, before it hands a partition or graph to oneDNN. The rows
of `out_of_bounds`, and `partitioning`, say under which conditions oneDNN fails. The mirror itself
checks what every version of oneDNN takes for granted about an op.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

from ..errors import KnownDefectError
from ..machine import Conditions, current
from ..ops.terms import Shape
from .calls import Tensor, op_of
from .group import Group
from .out_of_bounds import DEFECTS, Features, MemoryDefect, defect_of
from .partitioning import CRASHING, partitioning_crash

__all__ = [
    "Candidates",
    "candidates",
    "check_partition",
    "check_partitioning",
    "may_crash_search",
]


class Candidates(NamedTuple):
    """Defects that a partition may meet, and where it is to run."""

    defects: tuple[MemoryDefect, ...]
    conditions: Conditions


def candidates(
    kinds: Set[str], fused: bool, strided: bool, narrow: bool, rank: int, threads: int
) -> Candidates | None:
    """Find the defects that ops with these features may meet in this process; see `Features`.

    Parameters
    ----------
    threads : int
        The number that oneDNN compiles for; 0 where only this package knows it.

    Returns
    -------
    Candidates or None
        None if there are no such defects.
    """
    features = Features(frozenset(kinds), fused, strided, narrow, rank)
    conditions = current(threads or None)
    found = tuple(d for d in DEFECTS if d.may_be_met(features) and d.is_in(conditions))
    return Candidates(found, conditions) if found else None


def check_partition(
    ops: Sequence[tuple[Any, ...]],
    shapes: Mapping[int, Shape],
    given: Sequence[tuple[Any, ...]],
    fpmath: str = "strict",
    among: Candidates | None = None,
) -> None:
    """Check the ops of one partition against the known defects.

    Parameters
    ----------
    ops : sequence of tuple
        The values of an `Op` but the schema, for each op of one partition: in any order, free of
        cycles.
    shapes : mapping of int to Shape
        Each tensor's shape by id, as far as it can be inferred; -1 for an unknown dim.
    given : sequence of tuple
        The values of a `Tensor`, for each logical tensor that compile is given.
    fpmath : str
        The graph's floating-point mode.
    among : Candidates, optional
        All defects in this process by default.

    Raises
    ------
    KnownDefectError
        The partition is valid, but makes oneDNN crash or leave its buffers.
    """
    defects, conditions = among or Candidates(DEFECTS, current())
    group = Group(
        [op_of(values, conditions.version) for values in ops],
        shapes,
        {values[0]: Tensor(*values) for values in given},
        fpmath,
    )
    found = defect_of(group, conditions, defects)
    if found is not None:
        raise KnownDefectError(found)


def may_crash_search(kinds: Set[str]) -> bool:
    """Whether oneDNN may crash while it looks for fusions of ops of these kinds."""
    return kinds >= CRASHING


def check_partitioning(
    ops: Sequence[tuple[Any, ...]], conditions: Conditions | None = None
) -> None:
    """Check all ops of a graph, given as to `check_partition`, before oneDNN looks for fusions.

    Raises
    ------
    KnownDefectError
        The graph is valid, but makes oneDNN crash.
    """
    conditions = conditions or current()
    found = partitioning_crash([op_of(values, conditions.version) for values in ops])
    if found is not None:
        raise KnownDefectError(found)
