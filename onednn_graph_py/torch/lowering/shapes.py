"""Views, and ops that move elements."""

import operator
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ...frontends.host_calls import from_zero
from ...frontends.recipes import expanded, transposed
from ...model.building.host_functions import host_step
from ...model.building.value import Value
from .table import Lowering, NotLowered, dims_of, each, lowers

aten = torch.ops.aten

MOST = 2**62  # ends of slices from here on mean the end of the dim


@lowers(aten.view.default, aten._unsafe_view.default)
def _reshape(at: Lowering, x: Value, *rest: Any) -> Value:
    return at.reshaped(x, at.argument(0).shape, at.result.shape)


@lowers(aten.unsqueeze.default)
def _unsqueeze(at: Lowering, x: Value, dim: int) -> Value:
    before = (slice(None),) * (dim % (x.ndim + 1))
    return x[(*before, None)]


@lowers(aten.squeeze.dim, aten.squeeze.dims, aten.squeeze.default)
def _squeeze(at: Lowering, x: Value, dim: Any = None) -> Value:
    if x.ndim == 0:
        return x
    dims = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    ones = [d for d in dims if (x.shape or ())[d] == 1]
    if x.ndim - len({d % x.ndim for d in ones}) != len(at.dims):
        raise NotLowered("whether a dim is 1 is unknown")
    return x.squeeze(ones)


lowers(aten.permute.default)(lambda at, x, dims: transposed(at, x, [d % x.ndim for d in dims]))
lowers(aten.expand.default)(lambda at, x, size, **options: expanded(x, at.dims))
lowers(operator.getitem)(lambda at, values, index: values[index])


@lowers(aten.transpose.int, aten.t.default)
def _transpose(at: Lowering, x: Value, dim0: int = 0, dim1: int = -1) -> Value:
    order = [*range(x.ndim)]
    if order:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return transposed(at, x, order)


@lowers(aten.slice.Tensor)
def _slice(at: Lowering, x: Value, dim: int, *limits: Any) -> Value:
    bounds = []
    for bound in limits:
        if not (bound is None or isinstance(bound, int)):
            before, after = at.argument(0), at.result
            is_whole = str(before.shape[dim]) == str(after.shape[dim])
            if is_whole and dims_of(before) == at.dims:
                return x
            raise NotLowered("where the slice begins or ends is unknown")
        bounds.append(bound)
    first, last, by = bounds
    if last is not None and last >= MOST:
        last = None
    if not first and last is None and by == 1:
        return x
    return x[(*(slice(None),) * (dim % x.ndim), slice(first, last, by))]


@lowers(aten.select.int)
def _select(at: Lowering, x: Value, dim: int, index: Any) -> Value:
    if not isinstance(index, int):
        raise NotLowered("the index is unknown")
    return x[(*(slice(None),) * (dim % x.ndim), index)]


@lowers(aten.split.Tensor, aten.split_with_sizes.default)
def _split(at: Lowering, x: Value, sizes: Any, dim: int) -> Sequence[Value]:
    parts, begin = [], 0
    for part in at.node.meta["val"]:
        size = dims_of(part)[dim]
        if size == -1:
            raise NotLowered("the size of a part is unknown")
        index = (*(slice(None),) * (dim % x.ndim), slice(begin, begin + size))
        parts.append(x[index])
        begin += size
    return parts


@lowers(aten.unbind.int)
def _unbind(at: Lowering, x: Value, dim: int) -> Sequence[Value]:
    before = (slice(None),) * (dim % x.ndim)
    return [x[(*before, i)] for i in range(len(at.node.meta["val"]))]


@lowers(aten.cat.default)
def _cat(at: Lowering, tensors: Sequence[Value], dim: int) -> Value:
    # torch lets empty tensors of one dim pass, whatever the others are.
    given = [t for t in tensors if t.shape != (0,)]
    dtype = at.dtype
    if dtype in ("s32", "boolean"):
        raise NotLowered(f"oneDNN does not concatenate {dtype}")
    parts = [t if t.dtype == dtype else at.cast(t, dtype) for t in given]
    return parts[0] if len(parts) == 1 else at.b.concat(*parts, axis=dim)


@lowers(aten.stack.default)
def _stack(at: Lowering, tensors: Sequence[Value], dim: int) -> Value:
    before = (slice(None),) * (dim % len(at.dims))
    return _cat(at, [t[(*before, None)] for t in tensors], dim)


@lowers(aten.roll.default)
def _roll(at: Lowering, x: Value, shifts: Any, dims: Any) -> Value:
    if not dims:
        raise NotLowered("it rolls all elements")
    shape, places = x.shape or (), each(dims, 1)
    if any(shape[dim] == -1 for dim in places):  # which may be less than the shift
        rolled: Value = host_step("roll", (x, tuple(each(shifts, 1)), tuple(places)), {})
        return rolled
    for shift, dim in zip(each(shifts, 1), places, strict=True):
        before = (slice(None),) * (dim % x.ndim)
        shift %= shape[dim]
        if shift:
            last, first = x[(*before, slice(-shift, None))], x[(*before, slice(-shift))]
            x = _cat(at, [last, first], dim)
    return x


@lowers(aten.constant_pad_nd.default)
def _padded(at: Lowering, x: Value, pad: Sequence[Any], value: float = 0) -> Value:
    if any(not isinstance(n, int) or n for n in pad):  # models pad by what they may have to
        raise NotLowered("oneDNN has no op for it")
    return x


def _index_copied(
    dim: int, x: npt.NDArray[Any], index: npt.NDArray[Any], source: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    result = x.copy()
    at = np.atleast_1d(from_zero("index_copy", index))
    result[(slice(None),) * dim + (at,)] = source
    return result


@lowers(aten.index_copy.default)
def _index_copy(at: Lowering, x: Value, dim: int, index: Any, source: Value) -> Value:
    """Lower what static caches of keys and values are written with."""
    if not x.ndim:
        raise NotLowered("it has no dims")
    known = at.known(at.node.args[2])
    given = index if known is None else known.numpy()
    step = partial(_index_copied, dim % x.ndim)
    result: Value = at.b.call(step, x, given, source, outputs=[(x.shape or (), x.dtype)])
    return result
