"""Partitions for which oneDNN computes wrong results silently."""

from __future__ import annotations

from ..machine import Conditions
from .defect import WRONG, Finding
from .group import Group
from .table import first

__all__ = ["wrong_result"]


def wrong_result(group: Group, conditions: Conditions) -> Finding | None:
    """Return the first finding about a partition that oneDNN computes wrongly, or None."""
    return first(WRONG, group, conditions)
