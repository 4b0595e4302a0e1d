"""Partitions and graphs that oneDNN crashes with, or leaves its buffers.

The mirror asks here before it hands them to oneDNN, with the GIL held. They are valid, and the rows
of `out_of_bounds` say under which conditions oneDNN fails. The mirror itself checks what oneDNN
takes for granted about an op in any version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..errors import KnownDefectError
from ..machine import Conditions, current
from ..ops.call import Shape
from .calls import read_op, read_tensor
from .group import Group
from .out_of_bounds import CRASHING, defect_of, partitioning_crash, rows

if TYPE_CHECKING:
    from .._core import logical_tensor, op

__all__ = ["check_partition", "check_partitioning"]


def check_partition(
    ops: Sequence[op],
    shapes: Mapping[int, Shape],
    given: Sequence[logical_tensor],
    fpmath: str = "strict",
    conditions: Conditions | None = None,
) -> None:
    """Check ops that run together.

    Parameters
    ----------
    ops : sequence of op
        Of one partition, in any order, free of cycles.
    shapes : mapping of int to Shape
        What follows for each tensor from all that is known, by id; -1 where a dim is unknown.
    given : sequence of logical_tensor
        What compile is given, beyond what the ops themselves say.
    fpmath : str
        The graph's floating-point mode.
    conditions : Conditions, optional
        Those of this process by default.

    Raises
    ------
    KnownDefectError
        The partition is valid, but makes oneDNN crash, or leave its buffers.
    """
    conditions = conditions or current()
    alone = len(ops) == 1
    if not any(rows(o.get_kind().name, conditions, alone) for o in ops):
        return
    group = Group(
        [read_op(o, conditions.version) for o in ops],
        shapes,
        {t.id: t for t in map(read_tensor, given)},
        fpmath,
    )
    found = defect_of(group, conditions)
    if found is not None:
        raise KnownDefectError(found)


def check_partitioning(ops: Sequence[op], conditions: Conditions | None = None) -> None:
    """Check all ops of a graph before oneDNN looks for fusions.

    Raises
    ------
    KnownDefectError
        The graph is valid, but makes oneDNN crash.
    """
    if not {o.get_kind().name for o in ops} >= CRASHING:
        return
    conditions = conditions or current()
    found = partitioning_crash([read_op(o, conditions.version) for o in ops])
    if found is not None:
        raise KnownDefectError(found)
