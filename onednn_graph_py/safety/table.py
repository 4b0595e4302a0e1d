"""The table of all known defects, by subject, and the one way to ask it."""

from functools import cache

from ..machine import Conditions
from . import (
    attention,
    convolutions,
    elementwise,
    int8,
    normalization,
    operands,
    pooling,
    products,
    quantization,
    speed,
)
from .defect import FORM, REFUSED, SLOW, WRONG, Defect, Effect, Finding
from .group import Features, Group

_SUBJECTS = (
    int8,
    attention,
    normalization,
    elementwise,
    pooling,
    products,
    quantization,
    operands,
    convolutions,
    speed,
)

DEFECTS = {
    name: row
    for subject in _SUBJECTS
    for name, row in vars(subject).items()
    if isinstance(row, Defect)
}
"""All rows by name; where a partition meets several, models name the first."""


def of_effect(effect: Effect) -> tuple[Defect, ...]:
    """Return the rows with any of these effects."""
    return tuple(row for row in DEFECTS.values() if row.effect & effect)


@cache
def _rows_in(effect: Effect, conditions: Conditions) -> tuple[Defect, ...]:
    return tuple(row for row in of_effect(effect) if row.is_in(conditions))


@cache
def _candidates(effect: Effect, features: Features, conditions: Conditions) -> tuple[Defect, ...]:
    """Return the rows that a partition with these features may meet."""
    return tuple(r for r in _rows_in(effect, conditions) if r.needs.met_by(features))


def first(effect: Effect, group: Group, conditions: Conditions) -> Finding | None:
    """Return the finding about the first row with any of these effects that a partition meets."""
    for row in _candidates(effect, group.features, conditions):
        found = row.found(group, conditions)
        if found is not None:
            return found
    return None


def wrong_result(group: Group, conditions: Conditions) -> Finding | None:
    """Return the first finding about a partition that oneDNN computes wrongly, or None."""
    return first(WRONG, group, conditions)


def slow_fusion(group: Group, conditions: Conditions) -> Finding | None:
    """Return the first finding about a partition that is slower than its separate ops, or None."""
    return first(SLOW, group, conditions)


def faster_form(group: Group, conditions: Conditions) -> tuple[str, str] | None:
    """Return the form in which a partition is known to be faster, and why, or None."""
    for row in _candidates(FORM, group.features, conditions):
        found = row.found(group, conditions)
        if found is not None:
            return row.remedy, found.what
    return None


def refusal(group: Group, conditions: Conditions) -> str | None:
    """Return why the mirror refuses a partition: what is said of the first op to refuse, or None.

    Rows of wrong results come last, as a model of the same ops avoids them.
    """
    found = [
        (WRONG in row.effect, group.ops.index(op), row.refusal(op, hit, conditions.version))
        for row in _candidates(REFUSED, group.features, conditions)
        for op, hit in row.hits(group, conditions)
    ]
    return min(found, key=lambda said: said[:2])[2] if found else None
