"""Memory layouts as tags: ``acdb`` is a 4-dim tensor whose channels lie next to each other."""

from __future__ import annotations

from collections.abc import Sequence

from .._core import MAX_NDIMS
from ..errors import InvalidArgumentsError

__all__ = ["strides_of", "tag_of"]

_LETTERS = "abcdefghijkl"[:MAX_NDIMS]


def tag_of(strides: Sequence[int], ndims: int) -> str:
    """The order of the dims in memory, the one furthest apart first.

    Parameters
    ----------
    strides : sequence of int
        In elements. Where one is not known or 0, or their number is not `ndims`, the order is
        row-major.
    ndims : int

    Examples
    --------
    >>> tag_of((16, 1, 8, 2), 4)
    'acdb'
    """
    if len(strides) != ndims or any(s <= 0 for s in strides):
        return _LETTERS[:ndims]
    return "".join(_LETTERS[i] for i in sorted(range(ndims), key=lambda i: -strides[i]))


def strides_of(shape: Sequence[int], tag: str = "") -> tuple[int, ...]:
    """Strides of a tensor without gaps.

    Parameters
    ----------
    shape : sequence of int
    tag : str
        Row-major order where it is empty.

    Raises
    ------
    InvalidArgumentsError
        The tag has not each of the first letters once, as many as there are dims.

    Examples
    --------
    >>> strides_of((1, 2, 2, 4), "acdb")
    (16, 1, 8, 2)
    """
    wanted = _LETTERS[: len(shape)]
    order = tag or wanted
    if sorted(order) != list(wanted):
        raise InvalidArgumentsError(
            f"the tag of {len(shape)} dims must have each letter of {wanted!r} once, got {tag!r}"
        )
    strides = [0] * len(shape)
    step = 1
    for letter in reversed(order):
        dim = _LETTERS.index(letter)
        strides[dim] = step
        step *= max(shape[dim], 1)
    return tuple(strides)
