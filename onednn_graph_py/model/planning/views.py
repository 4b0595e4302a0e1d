"""Views: results that lie in the memory of another tensor."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from ... import _core
from ...base.dtypes import HOST_DTYPES, array_dtype
from ..building.foreign import ViewNode
from ..building.value import Node, beyond_ones, row_major


class Origin(NamedTuple):
    """Where a view lies."""

    id: int  # the id of the tensor in whose memory it lies
    offset: int  # the bytes of it before the view


def is_dense(lt: _core.logical_tensor) -> bool:
    """Return whether a strided tensor's elements lie in the order of its dims, without gaps."""
    dims = lt.get_dims()
    if not dims or 0 in dims:
        return True
    pairs = zip(dims, lt.get_strides(), row_major(dims), strict=True)
    return all(n == 1 or have == want for n, have, want in pairs)


def has_gaps(lt: _core.logical_tensor) -> bool:
    """Return whether a strided tensor takes more memory than its elements."""
    if lt.get_layout_type() != _core.logical_tensor.layout_type.strided:
        return False
    dims = lt.get_dims()
    if not dims or 0 in dims:
        return False
    last = sum((n - 1) * s for n, s in zip(dims, lt.get_strides(), strict=True))
    return last + 1 > int(math.prod(dims))


def is_refused(lt: _core.logical_tensor) -> bool:
    """Return whether oneDNN refuses strides: a dim must begin where those inside it end.

    Elements that repeat do not, nor every second row of an odd number of rows.
    """
    dims = lt.get_dims()
    reached = 1
    for stride, size in sorted(zip(lt.get_strides() if dims else (), dims, strict=True)):
        if size > 1 and stride < reached:
            return True
        reached = stride * size if size > 1 else reached
    return False


def view_of(
    node: Node, source: _core.logical_tensor, shape: tuple[int, ...]
) -> tuple[_core.logical_tensor, int] | None:
    """Describe a node's result as a view of its input's memory.

    - returns: the result and the bytes before it. None for ops that are no reshape and no
      transpose, and where elements would have to move.
    """
    value = node.outputs[0] if node.outputs else None
    if value is None or value.dtype in ("s4", "u4"):
        return None
    if source.get_layout_type() != _core.logical_tensor.layout_type.strided:
        return None
    dims = source.get_dims()
    strides = source.get_strides() if dims else []
    offset = 0
    if isinstance(node, ViewNode):
        host = HOST_DTYPES.get(value.dtype)
        if host is None:
            offset, made, steps = node.view(dims, strides)
            offset *= array_dtype(value.dtype).itemsize
        else:  # the strides are in bytes, and the last dim is that of an element's bytes
            offset, made, steps = node.view(dims[:-1], strides[:-1])
            made, steps = (*made, host.itemsize), (*steps, 1)
        # A view without elements needs no memory, wherever it would begin.
        return _strided(value.id, source, made, steps), 0 if 0 in made else offset
    if not dims:
        return None
    if node.kind == "StaticTranspose":
        order = [int(i) for i in node.attrs["order"]]
        return _strided(value.id, source, shape, [strides[i] for i in order]), 0
    if node.kind == "StaticReshape" and 0 not in dims and is_dense(source):
        return _strided(value.id, source, shape, row_major(shape)), 0
    return None


def _strided(
    id: int, source: _core.logical_tensor, dims: Sequence[int], strides: Sequence[int]
) -> _core.logical_tensor:
    # No element is at any stride if there are none, and a slice may have stepped by any number.
    made = None if 0 in dims else beyond_ones(dims, strides)
    return _core.logical_tensor(id, source.get_data_type(), dims, made or "strided")
