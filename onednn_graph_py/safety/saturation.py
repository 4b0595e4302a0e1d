"""int8 products that saturate on CPUs without VNNI.

There oneDNN multiplies u8 values with s8 weights and adds two products in 16 bits, which saturate:
2 * 255 * 64 fits, 2 * 255 * 127 does not. It shifts s8 sources to u8 first; for convolutions of s8
it halves the weights too, which loses the last bit of odd ones. oneDNN page: Nuances of int8
Computations.
"""

from typing import Any, NamedTuple

import numpy.typing as npt

LARGEST_WEIGHT = 64
"""The largest magnitude of an s8 weight with which no sum of two products saturates."""


class Magnitude(NamedTuple):
    """All that rows read of a constant's elements."""

    small: bool  # no sum of two products of these weights saturates
    even: bool  # halving rounds no element


def magnitude_of(data: npt.NDArray[Any]) -> Magnitude:
    """Look at the elements of s8 weights."""
    if not data.size:
        return Magnitude(True, True)
    small = data.min() >= -LARGEST_WEIGHT and data.max() <= LARGEST_WEIGHT
    return Magnitude(bool(small), not (data & 1).any())
