"""Colours that stay apart for colour-blind readers, under black text.

Diagrams set all fill and text colours, so that they are equally legible on dark and light pages.
No information is shown by colour alone.
"""

from .drawing import Group

# Paul Tol's qualitative scheme "light" with 40 % white, so that grey lines are visible on it, in
# the order in which neighbours differ most for colour-blind readers.
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
# A medium grey, for lines on a page of unknown colour.
EDGE = "#6A6A6A"


def fill_of(index: int, group: Group) -> str:
    """Return a group's fill colour: grey if oneDNN does not compute the group."""
    return FILLS[index % len(FILLS)] if group.status == "oneDNN" else _NOT_ONEDNN
