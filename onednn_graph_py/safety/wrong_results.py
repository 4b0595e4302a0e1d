"""Partitions for which oneDNN computes wrong results silently: `wrong_result`."""

from __future__ import annotations

from ..machine import Conditions
from .defect import WRONG, Finding
from .group import Group
from .table import first

__all__ = ["wrong_result"]


def wrong_result(group: Group, conditions: Conditions) -> Finding | None:
    """Look for a known defect by which oneDNN computes a partition wrongly.

    Parameters
    ----------
    group : Group
        The partition; `group_of` makes it from the nodes of a graph that is being built.
    conditions : Conditions
        The conditions in which it is to run.

    Returns
    -------
    Finding or None
        The finding of the first row that the partition meets; a partition of one op meets only
        rows that hold for the op alone. None if it meets none.
    """
    return first(WRONG, group, conditions)
