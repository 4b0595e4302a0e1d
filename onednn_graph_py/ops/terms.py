"""Terms of the whole table: versions, attribute values, shapes, and names of ops in messages."""

from typing import Literal

Version = tuple[int, int]  # major and minor version of oneDNN

OLDEST: Version = (3, 7)  # the oldest oneDNN that this package works with

AttributeType = Literal["s64", "f32", "bool", "string", "s64[]", "f32[]"]
"""oneDNN's names for the types of attributes; ``[]`` marks a list."""

AttributeValue = int | float | bool | str | tuple[int, ...] | tuple[float, ...]

MAX_NDIMS = 12
"""The largest number of dims of a tensor in oneDNN."""

UNKNOWN = -1  # an unknown dim

Shape = tuple[int, ...] | None  # dims, -1 for an unknown one; None if even the rank is unknown


def shape_text(shape: Shape) -> str:
    """Format a shape for messages: ``2x?x3``, ``scalar`` or ``unknown rank``."""
    if shape is None:
        return "unknown rank"
    return "x".join("?" if d < 0 else str(d) for d in shape) or "scalar"


def label_of(kind: str, name: str = "", id: int | None = None) -> str:
    """Return the name of an op in messages: ``op 3 'conv0' (Convolution)``."""
    text = "op" if id is None else f"op {id}"
    return f"{text} {name!r} ({kind})" if name else f"{text} ({kind})"
