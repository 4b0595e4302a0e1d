"""Fused partitions that are slower than separate ops: `slow_fusion`."""

from __future__ import annotations

from ..machine import Conditions
from .defect import SLOW, Finding
from .group import Group
from .table import first

__all__ = ["slow_fusion"]


def slow_fusion(group: Group, conditions: Conditions) -> Finding | None:
    """Look for a known defect by which a partition is slower than its separate ops.

    Parameters
    ----------
    group : Group
        The partition, with all dims known.
    conditions : Conditions
        The conditions in which it is to run.

    Returns
    -------
    Finding or None
        The finding, with `alone` always false; None if there is no such defect.
    """
    return first(SLOW, group, conditions)
