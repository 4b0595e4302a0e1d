"""The links between a document's ops, and memory layouts as tags.

In the tag ``acdb``, a 4-dim tensor's channels are next to each other.
"""

from collections.abc import Sequence
from graphlib import CycleError

from .._core import MAX_NDIMS
from ..base.errors import GraphFormatError, InvalidArgumentsError
from ..model.building.order import named_ring, run_order
from .document import GraphDocument, Place, TensorRecord


def check_links(document: GraphDocument) -> None:
    """Check that ids are unique, data types agree, and ops form no cycle."""
    first: dict[int, int] = {}
    for i, op in enumerate(document.graph):
        if first.setdefault(op.id, i) != i:
            raise GraphFormatError(f"graph[{i}].id: graph[{first[op.id]}] has the id {op.id} too")
    maker: dict[int, Place] = {}
    typed: dict[int, tuple[Place, str]] = {}
    for place, tensor in document.records():
        if place.ports == "outputs" and maker.setdefault(tensor.id, place) != place:
            raise GraphFormatError(
                f"{place}.id: tensor {tensor.id} is made by {maker[tensor.id]} already"
            )
        if tensor.dtype == "undef":
            continue
        where, dtype = typed.setdefault(tensor.id, (place, tensor.dtype))
        if dtype != tensor.dtype:
            raise GraphFormatError(
                f"{place}.dtype: tensor {tensor.id} is {tensor.dtype} here and {dtype} in {where}"
            )
    in_order(document)


def in_order(document: GraphDocument) -> list[int]:
    """Return indices into ``graph`` such that each op comes after those whose results it reads.

    Apart from that, ops keep the order of the file.
    """
    maker = {t.id: i for i, op in enumerate(document.graph) for t in op.outputs}
    before = [
        dict.fromkeys(maker[t.id] for t in op.inputs if t.id in maker) for op in document.graph
    ]
    try:
        return run_order(before)
    except CycleError as e:
        ring = named_ring(e, "graph[{}]".format)
        raise GraphFormatError(
            f"{ring[0]}: ops form a cycle; each reads the next one's result: " + " -> ".join(ring)
        ) from None


def check_agreement(document: GraphDocument) -> None:
    """Check that all places give a tensor the same shape, and a graph's input the same strides.

    For other tensors oneDNN uses the strides that their maker gives, so readers may give others.
    """
    produced = document.produced()
    seen: dict[int, tuple[Place, TensorRecord]] = {}
    for place, tensor in document.records():
        where, other = seen.setdefault(tensor.id, (place, tensor))
        if tensor == other:
            continue
        if not _same(tensor.dims, other.dims):
            raise GraphFormatError(
                f"{place}.shape: tensor {tensor.id} is {list(tensor.shape)} here and "
                f"{list(other.shape)} in {where}"
            )
        if tensor.id not in produced and not _same(tensor.strides, other.strides):
            raise GraphFormatError(
                f"{place}.stride: tensor {tensor.id} has {list(tensor.stride)} here and "
                f"{list(other.stride)} in {where}"
            )


def _same(one: tuple[int, ...] | None, other: tuple[int, ...] | None) -> bool:
    if one is None or other is None:
        return True
    return len(one) == len(other) and all(
        a < 0 or b < 0 or a == b for a, b in zip(one, other, strict=True)
    )


_LETTERS = "abcdefghijkl"[:MAX_NDIMS]


def tag_of(strides: Sequence[int], ndims: int) -> str:
    """Return the order of the dims in memory, the one with the largest stride first.

    - `strides`: in elements. The order is row-major if one is unknown or 0, or if there are not
      `ndims`.

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
