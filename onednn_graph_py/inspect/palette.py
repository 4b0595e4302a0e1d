"""Colours that stay apart for colour-blind readers, under black text.

Every fill and text colour is given, so that a diagram is as legible on a dark page as on a light
one. Nothing is told by colour alone.
"""

from __future__ import annotations

from .drawing import Group

__all__ = ["EDGE", "FILLS", "NODE_FILL", "PAGE", "TERMINAL_FILL", "TEXT", "fill_of"]

# Paul Tol's qualitative scheme "light" with 40 % white, so that grey lines show on it, in the order
# in which neighbours differ most for readers without one kind of cones.
FILLS = (
    "#ADCCEB",
    "#F5EBB8",
    "#8FD6C2",
    "#CCCC66",
    "#C2EBFF",
    "#F5B8A3",
    "#D6E085",
    "#FFCCD6",
)
_NOT_ONEDNN = "#DDDDDD"

TEXT = "#000000"
PAGE = "#FFFFFF"
NODE_FILL = "#FFFFFF"
TERMINAL_FILL = "#F2F2F2"
# In the middle, for lines that cross a page of unknown colour.
EDGE = "#6A6A6A"


def fill_of(index: int, group: Group) -> str:
    """A group's fill: grey for what oneDNN does not compute."""
    return FILLS[index % len(FILLS)] if group.status == "oneDNN" else _NOT_ONEDNN
