"""Ports, types and attributes that rows of several families share."""

from ..row import FLOATS, Attribute, Port

NORM_TYPES = {"T1": FLOATS, "T2": ("f32", "bf16")}
"""Data, and the parameters and statistics of normalization."""

SRC = Port("src")
DST = Port("dst")
DIFF_DST = Port("diff_dst")
DIFF_SRC = Port("diff_src")

DATA_FORMAT = Attribute(
    "data_format",
    "string",
    "position of the channels: last (NXC) or right after the batch (NCX)",
    default="NXC",
    allowed=("NXC", "NCX"),
)

AUTO_BROADCAST = Attribute(
    "auto_broadcast",
    "string",
    "whether shapes are broadcast by NumPy's rules or must be equal",
    default="numpy",
    allowed=("numpy", "none"),
)

AUTO_PAD = Attribute(
    "auto_pad",
    "string",
    "None uses pads_begin and pads_end, VALID no padding; SAME_* choose paddings such that the "
    "output's size is the input's divided by the stride, with an odd element after (UPPER) or "
    "before (LOWER) the data",
    default="None",
    allowed=("None", "SAME_UPPER", "SAME_LOWER", "VALID"),
)

STRIDES = Attribute(
    "strides", "s64[]", "step of the window, per spatial dim", required=True, example=(1, 1)
)
PADS_BEGIN = Attribute(
    "pads_begin", "s64[]", "zeros before the data, per spatial dim", required=True, example=(0, 0)
)
PADS_END = Attribute(
    "pads_end", "s64[]", "zeros after the data, per spatial dim", required=True, example=(0, 0)
)

EPSILON = Attribute(
    "epsilon", "f32", "added to the variance before its square root", required=True, example=1e-5
)
OPTIONAL_EPSILON = Attribute(
    "epsilon", "f32", "added to the variance before its square root", default=1e-5
)

USE_DST = Attribute(
    "use_dst",
    "bool",
    "whether input 0 is the forward op's result instead of its input",
    default=True,
)

AUTO_PAD_SPELLING = (
    "The documents spell auto_pad none, same_upper, same_lower, valid; the library accepts only "
    "None, SAME_UPPER, SAME_LOWER, VALID. This package accepts both."
)
