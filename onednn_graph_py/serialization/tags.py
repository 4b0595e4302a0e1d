"""Memory layouts as tags: in ``acdb``, a 4-dim tensor's channels are next to each other."""

from collections.abc import Sequence

from .._core import MAX_NDIMS
from ..base.errors import InvalidArgumentsError

_LETTERS = "abcdefghijkl"[:MAX_NDIMS]


def tag_of(strides: Sequence[int], ndims: int) -> str:
    """Return the order of the dims in memory, the one with the largest stride first.

    - `strides`: in elements. The order is row-major if one is unknown or 0, or if there are not
      `ndims`.

    Examples
    --------
    >>> tag_of((16, 1, 8, 2), 4)
    'acdb'
    """
    if len(strides) != ndims or any(s <= 0 for s in strides):
        return _LETTERS[:ndims]
    return "".join(_LETTERS[i] for i in sorted(range(ndims), key=lambda i: -strides[i]))


def strides_of(shape: Sequence[int], tag: str = "") -> tuple[int, ...]:
    """Return the strides, in elements, of a tensor without gaps.

    - `tag`: row-major order if it is empty
    - raises `InvalidArgumentsError`: the tag does not have each of the alphabet's first letters
      once, one for each dim

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
