"""Convert attribute values of users to those that the library accepts."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from ..errors import InvalidArgumentsError, InvalidGraphOpError
from ..text.names import did_you_mean
from .row import Attribute, Row
from .terms import AttributeValue

__all__ = ["canonical", "normalize", "spelling"]

# Documents name the weights of transposed convolutions after the forward op's.
_DOCUMENTED: dict[tuple[str, ...], dict[str, str]] = {("XOI", "IOX"): {"XIO": "XOI", "OIX": "IOX"}}

_LARGEST_F32 = float(np.finfo(np.float32).max)

_NAMES = {
    "s64": "an int",
    "f32": "a number",
    "bool": "a bool",
    "string": "a string",
    "s64[]": "a list of ints",
    "f32[]": "a list of numbers",
}


def spelling(attribute: Attribute, value: str) -> str:
    """Return the library's spelling of an allowed string; an unknown string as it is given."""
    if value in attribute.allowed:
        return value
    documented = _DOCUMENTED.get(attribute.allowed, {})
    for known in (*attribute.allowed, *documented):
        if value.lower() == known.lower():
            return documented.get(known, known)
    return value


def _integer(value: Any) -> int:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise TypeError
    made = int(value)
    if not -(2**63) <= made < 2**63:
        raise OverflowError
    return made


def _float(value: Any) -> float:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError
    if math.isfinite(value) and abs(float(value)) > _LARGEST_F32:
        raise OverflowError
    return float(value)


def _list(value: Any) -> list[Any]:
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise TypeError
    return list(value)


def _converted(type_: str, value: Any) -> AttributeValue:
    if type_ == "s64":
        return _integer(value)
    if type_ == "f32":
        return _float(value)
    if type_ == "bool":
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError
        return bool(value)
    if type_ == "string":
        if not isinstance(value, str):
            raise TypeError
        return value
    if type_ == "s64[]":
        return tuple(_integer(v) for v in _list(value))
    return tuple(_float(v) for v in _list(value))


def canonical(label: str, attribute: Attribute, value: Any) -> AttributeValue:
    """Return one attribute's value in the type that the library accepts.

    Raises
    ------
    TypeError
        The value is of another type than the attribute.
    InvalidArgumentsError
        The value is an empty list.
    InvalidGraphOpError
        The value is not allowed, or too large.
    """
    at = f"{label}: attribute {attribute.name}"
    try:
        made = _converted(attribute.type, value)
    except TypeError:
        given = f"{value!r} ({type(value).__name__})"
        raise TypeError(f"{at} must be {_NAMES[attribute.type]}, got {given}") from None
    except OverflowError:
        raise InvalidGraphOpError(
            f"{at} must fit into {attribute.type.removesuffix('[]')}, got {value!r}"
        ) from None
    if made == ():  # which the library's `set_attr` refuses
        raise InvalidArgumentsError(f"{at} must have at least one entry, got an empty list")
    if attribute.allowed and isinstance(made, str):
        made = spelling(attribute, made)
        if made not in attribute.allowed:
            choices = " or ".join(repr(a) for a in attribute.allowed)
            raise InvalidGraphOpError(f"{at} must be {choices}, got {made!r}")
    return made


def _no_such(schema: Row, label: str, name: str, newer: Attribute | None) -> NoReturn:
    names = [a.name for a in schema.attributes]
    why = f"{schema.kind} has no attribute {name!r}"
    if newer is not None:
        why += f" before oneDNN {newer.since[0]}.{newer.since[1]}"
    else:
        why += did_you_mean(name, names) or f"; it has {', '.join(names) or 'none'}"
    raise InvalidGraphOpError(f"{label}: {why}")


def normalize(
    schema: Row, label: str, attrs: Mapping[str, Any], newest: Row | None = None
) -> dict[str, AttributeValue]:
    """Return all attributes of an op in the types that the library accepts, by name.

    Parameters
    ----------
    schema : Row
        The op's row for the oneDNN in question.
    label : str
        The op's name in messages.
    attrs : mapping of str to value
    newest : Row, optional
        The op of the newest version, to distinguish newer attributes from misspelt ones.

    Raises
    ------
    TypeError
        A value is of another type than its attribute.
    InvalidGraphOpError
        An attribute does not exist, is missing, or has a value that is not allowed.
    """
    made = {}
    for name, value in attrs.items():
        attribute = schema.attribute(name)
        if attribute is None:
            _no_such(schema, label, name, newest.attribute(name) if newest else None)
        made[name] = canonical(label, attribute, value)
    missing = [a.name for a in schema.attributes if a.required and a.name not in made]
    if missing:
        listed = " and ".join(missing) if len(missing) < 3 else ", ".join(missing)
        plural = "s" if len(missing) > 1 else ""
        raise InvalidGraphOpError(f"{label}: needs the attribute{plural} {listed}")
    return made
