"""Colours that stay apart for colour-blind readers, under black text.

Every fill and text colour is given, so that a diagram is as legible on a dark page as on a light
one. Nothing is told by colour alone.
"""

from __future__ import annotations

from .drawing import Group

__all__ = ["EDGE", "NODE_FILL", "PAGE", "TERMINAL_FILL", "TEXT", "fill_of"]

# Paul Tol's qualitative scheme "light", made for backgrounds of labels.
_GROUPS = (
    "#77AADD",
    "#EEDD88",
    "#44BB99",
    "#FFAABB",
    "#99DDFF",
    "#BBCC33",
    "#EE8866",
    "#AAAA00",
)
_NOT_ONEDNN = "#DDDDDD"

TEXT = "#000000"
PAGE = "#FFFFFF"
NODE_FILL = "#FFFFFF"
TERMINAL_FILL = "#F2F2F2"
# In the middle, for lines that cross a page of unknown colour.
EDGE = "#767676"


def fill_of(index: int, group: Group) -> str:
    """A group's fill: grey for what oneDNN does not compute."""
    return _GROUPS[index % len(_GROUPS)] if group.status == "oneDNN" else _NOT_ONEDNN
