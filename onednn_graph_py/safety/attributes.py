"""Values of attributes that oneDNN computes with unchecked, up to a crash."""

from __future__ import annotations

from .._core import MAX_NDIMS
from ..errors import InvalidGraphOpError
from .calls import Op

__all__ = ["check_attributes"]

_MAX_EXTENT = 1 << 30  # kernels index with 32-bit integers derived from these
_MAX_PADDING = 1 << 15  # kernels are unrolled over paddings: larger ones compile for minutes

_LISTS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("strides", "dilations", "kernel", "group_shape"), (1, _MAX_EXTENT)),
    **dict.fromkeys(("pads_begin", "pads_end", "output_padding"), (0, _MAX_PADDING)),
    **dict.fromkeys(("src_shape", "dst_shape", "weights_shape", "sizes"), (0, _MAX_EXTENT)),
    "shape": (-1, 1 << 60),
    **dict.fromkeys(("axes", "order"), (-MAX_NDIMS, MAX_NDIMS - 1)),
}
"""Smallest and largest entry."""

_NUMBERS: dict[str, tuple[int, int]] = {
    "groups": (1, _MAX_EXTENT),
    **dict.fromkeys(("axis", "begin_norm_axis"), (-MAX_NDIMS, MAX_NDIMS - 1)),
}
"""Smallest and largest value."""


def _refuse(op: Op, name: str, why: str) -> None:
    raise InvalidGraphOpError(f"{op.label}: attribute {name} {why}")


def _check_string(op: Op, name: str, value: str) -> None:
    """Kernels take what they don't know for something that they do."""
    attribute = op.schema.attribute(name) if op.schema else None
    if attribute is not None and attribute.allowed and value not in attribute.allowed:
        _refuse(op, name, f"must be {' or '.join(attribute.allowed)}, got {value!r}")
    if value == "per_group" and "group_shape" not in op.attrs:
        raise InvalidGraphOpError(f"{op.label}: qtype per_group needs the attribute group_shape")


def check_attributes(op: Op) -> None:
    """Check every attribute that is set.

    Raises
    ------
    InvalidGraphOpError
        A value would crash oneDNN.
    """
    for name, value in op.attrs.items():
        if isinstance(value, tuple) and name in _LISTS:
            if len(value) > MAX_NDIMS:
                _refuse(op, name, f"has {len(value)} entries, oneDNN takes at most {MAX_NDIMS}")
            low, high = _LISTS[name]
            if not low <= min(value) <= max(value) <= high:
                _refuse(op, name, f"is {list(value)}, every entry must be from {low} to {high}")
        elif name in _NUMBERS and isinstance(value, int):
            low, high = _NUMBERS[name]
            if not low <= value <= high:
                _refuse(op, name, f"must be from {low} to {high}, got {value}")
        elif isinstance(value, str):
            _check_string(op, name, value)
