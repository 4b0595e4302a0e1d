"""NumPy's basic indices as offsets and strides."""

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.errors import InvalidArgumentsError, InvalidIndexError
from ...ops.terms import shape_text

Item = int | tuple[int | None, int | None, int] | None
"""A part of an index: a position, (start, stop, step), or None for a new dim of size 1."""


def items_of(index: Any, ndim: int) -> tuple[Item, ...]:
    """Return one item of a basic index for each dim of a tensor of `ndim` dims and each new dim."""
    given = list(index) if isinstance(index, tuple) else [index]
    dims = sum(1 for i in given if i is not None and i is not Ellipsis)
    if dims > ndim:
        raise InvalidIndexError(f"expected at most {ndim} indices, got {dims}")
    rest = [slice(None)] * (ndim - dims)
    ellipses = [n for n, i in enumerate(given) if i is Ellipsis]
    if len(ellipses) > 1:
        raise InvalidIndexError("an index can have only one ellipsis (...)")
    at = ellipses[0] if ellipses else len(given)
    return tuple(_item(i) for i in [*given[:at], *rest, *given[at + 1 :]])


def is_reversed(index: Any) -> bool:
    """Return whether an index is a slice with a negative step."""
    step = index.step if isinstance(index, slice) else None
    return isinstance(step, (int, np.integer)) and int(step) < 0


def _item(given: Any) -> Item:
    if given is None:
        return None
    if isinstance(given, slice):
        start, stop, step = (
            None if part is None else _whole(part) for part in (given.start, given.stop, given.step)
        )
        if step is not None and step < 1:
            raise InvalidArgumentsError(
                f"a view needs slices with a positive step, got {step}; np.flip and "
                "GraphBuilder.call can reverse arrays"
            )
        return start, stop, 1 if step is None else step
    return _whole(given)


def _whole(given: Any) -> int:
    if not isinstance(given, (bool, np.bool_, np.ndarray)):
        try:
            return operator.index(given)
        except TypeError:
            pass
    raise InvalidArgumentsError(
        f"a view needs whole numbers, slices, None and ... as indices, got {type(given).__name__}; "
        "GraphBuilder.call can gather by arrays"
    )


def indexed(
    items: Sequence[Item], dims: Sequence[int], strides: Sequence[int]
) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return the offset, the dims and the strides of the indexed part of a tensor.

    An unknown dim, -1, stays unknown; the offset means nothing then.
    """
    offset, axis = 0, 0
    made: list[tuple[int, int]] = []
    for item in items:
        if item is None:
            made.append((1, 0))
            continue
        size, stride = dims[axis], strides[axis]
        if isinstance(item, int):
            if size >= 0 and not -size <= item < size:
                raise InvalidIndexError(
                    f"index {item} is out of range for dim {axis} of {shape_text(tuple(dims))}"
                )
            offset += stride * (item % size if size > 0 else 0)
        elif size < 0:
            made.append((-1, stride * item[2]))
        else:
            part = range(*slice(*item).indices(size))
            offset += stride * part.start if part else 0
            made.append((len(part), stride * item[2]))
        axis += 1
    return offset, tuple(n for n, _ in made), tuple(s for _, s in made)
