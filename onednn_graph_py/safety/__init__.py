"""What oneDNN takes for granted, and crashes or leaves its buffers without.

The mirror asks here before it hands an op or a partition to oneDNN. Only memory safety is decided;
whether an op makes sense beyond that is oneDNN's own schema to say, or `ops.check`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from ..ops.check import linked_version
from ..ops.schema import Version
from .attributes import check_attributes
from .calls import read_op, read_tensor
from .defects import check_defects
from .group import Group
from .partition import check_together

if TYPE_CHECKING:
    from .._core import logical_tensor, op

__all__ = ["check_op", "check_partition"]

_linked = cache(linked_version)


def check_op(given: op, version: Version | None = None) -> None:
    """Check one op as a graph takes it; unknown dims pass.

    Parameters
    ----------
    given : op
    version : (int, int), optional
        The oneDNN to check for; the linked one by default.

    Raises
    ------
    InvalidGraphOpError
        An attribute's value would crash oneDNN, or the op feeds itself.
    InvalidShapeError
        Shapes or strides would.
    """
    checked = read_op(given, version or _linked())
    check_attributes(checked)
    check_together([checked], {})


def check_partition(
    ops: Sequence[op], given: Sequence[logical_tensor], version: Version | None = None
) -> None:
    """Check ops that run together, where shapes follow from one op for the next.

    Parameters
    ----------
    ops : sequence of op
        Of one partition, in any order.
    given : sequence of logical_tensor
        What compile is given, beyond what the ops themselves say; of two with one id the last
        counts.
    version : (int, int), optional
        The oneDNN to check for; the linked one by default.

    Raises
    ------
    InvalidGraphOpError
        An op depends on its own output.
    InvalidShapeError
        Shapes or strides would crash oneDNN.
    UnimplementedError
        The partition is valid, but this oneDNN is known to leave its buffers with it.
    """
    version = version or _linked()
    checked = [read_op(o, version) for o in ops]
    tensors = {t.id: t for t in map(read_tensor, given)}
    shapes = check_together(checked, tensors)
    check_defects(Group(checked, shapes, tensors), version)
