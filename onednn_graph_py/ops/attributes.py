"""Convert attribute values of users to those that the library accepts."""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from .. import _core
from ..base.errors import InvalidGraphOpError, OneDNNError, UnimplementedError, reworded
from ..base.text.names import did_you_mean
from .row import Attribute, Row
from .terms import AttributeValue

# Documents name the weights of transposed convolutions after the forward op's.
_DOCUMENTED: dict[tuple[str, ...], dict[str, str]] = {("XOI", "IOX"): {"XIO": "XOI", "OIX": "IOX"}}

_ALIKE = {
    "s64": "axis",
    "f32": "alpha",
    "bool": "keep_dims",
    "string": "mode",
    "s64[]": "axes",
    "f32[]": "scales",
}
"""An attribute of each type, which every oneDNN has."""


def spelling(attribute: Attribute, value: str) -> str:
    """Return the library's spelling of an allowed string; an unknown string as it is given."""
    if value in attribute.allowed:
        return value
    documented = _DOCUMENTED.get(attribute.allowed, {})
    for known in (*attribute.allowed, *documented):
        if value.lower() == known.lower():
            return documented.get(known, known)
    return value


def _converted(at: str, type_: str, value: Any) -> AttributeValue:
    """Return a value in an attribute's type; what the mirror refuses is refused in its words."""
    like = _ALIKE[type_]
    try:
        _core.op(0, "Wildcard").set_attr(like, value)
    except (OneDNNError, TypeError) as e:
        raise reworded(e, str(e).replace(f"op 0 (Wildcard): attribute {like}", at, 1)) from None
    if type_ == "string":
        return str(value)
    convert: Callable[[Any], Any] = {"s": int, "f": float, "b": bool}[type_[0]]
    return tuple(map(convert, value)) if type_.endswith("[]") else convert(value)


def canonical(label: str, attribute: Attribute, value: Any) -> AttributeValue:
    """Return one attribute's value in the type that the library accepts; raise if it fits none."""
    at = f"{label}: attribute {attribute.name}"
    converted = _converted(at, attribute.type, value)
    if attribute.allowed and isinstance(converted, str):
        converted = spelling(attribute, converted)
        if converted not in attribute.allowed:
            choices = " or ".join(repr(a) for a in attribute.allowed)
            raise InvalidGraphOpError(f"{at} must be {choices}, got {converted!r}")
    return converted


def _no_such(schema: Row, label: str, name: str, newer: Attribute | None) -> NoReturn:
    names = [a.name for a in schema.attributes]
    why = f"{schema.kind} has no attribute {name!r}"
    if newer is not None:
        why += f" before oneDNN {newer.since[0]}.{newer.since[1]}"
        raise UnimplementedError(f"{label}: {why}{newer.before and f'; {newer.before}'}")
    why += did_you_mean(name, names) or f"; it has {', '.join(names) or 'none'}"
    raise InvalidGraphOpError(f"{label}: {why}")


def normalize(
    schema: Row, label: str, attrs: Mapping[str, Any], newest: Row | None = None
) -> dict[str, AttributeValue]:
    """Return all attributes of an op in the types that the library accepts, by name.

    The op of the `newest` version tells newer attributes from misspelt ones.
    """
    values = {}
    for name, value in attrs.items():
        attribute = schema.attribute(name)
        if attribute is None:
            _no_such(schema, label, name, newest.attribute(name) if newest else None)
        values[name] = canonical(label, attribute, value)
    missing = [a.name for a in schema.attributes if a.required and a.name not in values]
    if missing:
        listed = " and ".join(missing) if len(missing) < 3 else ", ".join(missing)
        plural = "s" if len(missing) > 1 else ""
        raise InvalidGraphOpError(f"{label}: needs the attribute{plural} {listed}")
    return values
