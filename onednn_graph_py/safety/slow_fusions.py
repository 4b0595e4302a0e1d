"""Fused partitions that are slower than separate ops."""

from __future__ import annotations

from ..machine import Conditions
from .defect import SLOW, Finding
from .group import Group
from .table import first

__all__ = ["slow_fusion"]


def slow_fusion(group: Group, conditions: Conditions) -> Finding | None:
    """Return the first finding about a partition that is slower than its separate ops, or None."""
    return first(SLOW, group, conditions)
