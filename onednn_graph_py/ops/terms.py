"""Terms of the whole table: versions, attribute values, shapes, and how messages name an op."""

from __future__ import annotations

from typing import Literal

__all__ = [
    "MAX_NDIMS",
    "OLDEST",
    "UNKNOWN",
    "AttributeType",
    "AttributeValue",
    "Shape",
    "Version",
    "label_of",
    "shape_text",
]

Version = tuple[int, int]
"""Major and minor version of oneDNN."""

OLDEST: Version = (3, 7)
"""The oldest oneDNN that this package works with."""

AttributeType = Literal["s64", "f32", "bool", "string", "s64[]", "f32[]"]
"""oneDNN's names for what an attribute holds; ``[]`` marks a list."""

AttributeValue = int | float | bool | str | tuple[int, ...] | tuple[float, ...]

MAX_NDIMS = 12
"""The most dims that a tensor has in oneDNN."""

UNKNOWN = -1
"""A dim that is not known yet."""

Shape = tuple[int, ...] | None
"""Dims, -1 where unknown; None where even the rank is unknown."""


def shape_text(shape: Shape) -> str:
    """``2x?x3``, ``scalar`` or ``unknown rank``, for messages."""
    if shape is None:
        return "unknown rank"
    return "x".join("?" if d < 0 else str(d) for d in shape) or "scalar"


def label_of(kind: str, name: str = "", id: int | None = None) -> str:
    """``op 3 'conv0' (Convolution)``, as all messages name an op."""
    text = "op" if id is None else f"op {id}"
    return f"{text} {name!r} ({kind})" if name else f"{text} ({kind})"
