"""int8 products that saturate on CPUs without VNNI.

There oneDNN multiplies u8 values with s8 weights and adds two products in 16 bits, which saturate:
2 * 255 * 64 fits, 2 * 255 * 127 does not. It shifts s8 sources to u8 first; for convolutions of s8
it halves the weights too, which loses the last bit of odd ones. oneDNN page: Nuances of int8
Computations.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy.typing as npt

from ..machine import Conditions
from ..ops.lookup import with_trait
from .calls import Op, Tensor
from .facts import integers_of, slide_of
from .group import Group

__all__ = ["LARGEST_WEIGHT", "Magnitude", "magnitude_of", "saturating_product"]

LARGEST_WEIGHT = 64
"""The largest magnitude of an s8 weight with which no sum of two products saturates."""


class Magnitude(NamedTuple):
    """All that the rows of this room read of a constant's elements."""

    small: bool
    """No sum of two products of these weights saturates."""
    even: bool
    """Halving rounds no element."""


def magnitude_of(data: npt.NDArray[Any]) -> Magnitude:
    """Look at the elements of s8 weights."""
    if not data.size:
        return Magnitude(True, True)
    small = data.min() >= -LARGEST_WEIGHT and data.max() <= LARGEST_WEIGHT
    return Magnitude(bool(small), not (data & 1).any())


def _exact(weights: Tensor, *, halved: bool) -> bool:
    """Whether weights are known, no sum of theirs saturates, and halving rounds none."""
    if weights.data is None or weights.dtype != "s8":
        return False
    magnitude = magnitude_of(weights.data)
    return magnitude.even if halved else magnitude.small


def _is_depthwise(group: Group, op: Op) -> bool:
    slide = slide_of(group, op)
    return slide is not None and slide.groups == slide.source.channels == slide.result.channels


def saturating_product(group: Group, conditions: Conditions) -> bool:
    """Whether the weights of a product of integers are not known to be small enough.

    Depthwise convolutions of u8 were seen to add nothing in 16 bits with AVX2.
    """
    for op in group.ops:
        if op.kind not in with_trait("product") - with_trait("gradient"):
            continue
        integers = integers_of(group, op)
        if integers is None:
            continue
        source, weights = integers
        slides = op.kind != "MatMul"
        if _exact(weights, halved=slides and source.dtype == "s8"):
            continue
        depthwise = op.kind == "Convolution" and _is_depthwise(group, op)
        if depthwise and source.dtype == "u8" and not conditions.avx512:
            continue
        return True
    return False
