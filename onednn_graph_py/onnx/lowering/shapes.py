"""Views, lookups, and ops that move elements."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ...frontends.recipes import expanded, transposed
from ...model.building.host_functions import host_step
from ...model.building.value import Value
from ..host_steps import as_places, elements, padded, padded_shape, taken, taken_shape
from .table import FLOATS, Call, NotLowered, lowers


def _step(call: Call, take: Callable[..., Any], shape: Callable[..., Any]) -> Value:
    """Take elements of input 0 at the places that input 1 has, which a call determines."""
    rank = len(call.dims(0))
    if not rank:
        raise NotLowered("the tensor has no dims")
    if call.dtype(0) in ("s4", "u4"):
        raise NotLowered("4-bit integers are packed")
    axis = call.attribute("axis", 0) % rank
    made: Value = call.b.call(
        partial(take, call.node.name or call.node.op_type, axis),
        call.value(0),
        call.value(1),
        outputs=partial(shape, call.dtype(0), axis),
    )
    return made


lowers("GatherElements")(partial(_step, take=elements, shape=as_places))

Array = npt.NDArray[Any]

_MOST_PARTS = 1024  # parts that a value is repeated as; more are left to what runs the other ops


@lowers("Reshape")
def _reshape(call: Call) -> Value:
    x = call.value(0)
    return reshaped(call, x, call.target(1))


def reshaped(call: Call, x: Value, shape: Sequence[int]) -> Value:
    """Give a value another shape, in which 0 stands for the dim at the same place.

    It is a view if only dims of 1 come and go: masks and whole numbers have no other reshape.
    """
    before = x.shape or ()
    same = [n == 0 or n == d != -1 for n, d in zip(shape, before, strict=False)]
    if len(shape) == len(before) and all(same):
        return x
    if x.dtype in FLOATS:
        call.need_float(x)
        return call.b.static_reshape(x, shape=[*shape], special_zero=True)
    kept = [i for i, d in enumerate(before) if d != 1]
    wanted = [
        i for i, n in enumerate(shape) if n != 1 and not (n == 0 and before[i : i + 1] == (1,))
    ]
    if len(kept) != len(wanted) or any(
        shape[j] != before[i] and not (shape[j] == 0 and i == j) and shape[j] != -1
        for i, j in zip(kept, wanted, strict=True)
    ):
        raise NotLowered(f"oneDNN does not reshape {x.dtype}")
    bare = x.squeeze([i for i, d in enumerate(before) if d == 1]) if len(kept) < x.ndim else x
    return bare[tuple(slice(None) if i in wanted else None for i in range(len(shape)))]


def merged(shape: Sequence[int], groups: Sequence[Sequence[int]]) -> list[int]:
    """Return the shape with neighbouring dims as one; at most one is unknown, and becomes -1."""
    parts = [[shape[i] for i in group] for group in groups]
    made = [-1 if -1 in sizes else math.prod(sizes) for sizes in parts]
    if made.count(-1) > 1:
        raise NotLowered("more than one dim of the new shape is unknown")
    return made


@lowers("Flatten")
def _flatten(call: Call) -> Value:
    x = call.value(0)
    axis = call.attribute("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    if axis == 1 and x.ndim == 2:
        return x
    return reshaped(call, x, merged(x.shape or (), [range(axis), range(axis, x.ndim)]))


@lowers("Squeeze")
def _squeeze(call: Call) -> Value:
    x = call.value(0)
    axes = call.axes(1)
    shape = x.shape or ()
    if axes is None:
        if -1 in shape:
            raise NotLowered("whether a dim is 1 is unknown")
        axes = tuple(i for i, d in enumerate(shape) if d == 1)
    if any(shape[a] != 1 for a in axes):
        raise NotLowered("whether a dim is 1 is unknown")
    return x.squeeze(axes) if axes else x


@lowers("Unsqueeze")
def _unsqueeze(call: Call) -> Value:
    x = call.value(0)
    given: Any = call.attribute("axes")
    if given is None:
        given = [int(a) for a in call.need(1, "axes").reshape(-1)]
    rank = x.ndim + len(given)
    new = {a % rank for a in given}
    return x[tuple(None if i in new else slice(None) for i in range(rank))]


@lowers("Transpose")
def _transpose(call: Call) -> Value:
    x = call.value(0)
    order = [*call.attribute("perm", range(x.ndim)[::-1])]
    return transposed(call, x, [a % x.ndim for a in order])


lowers("Expand")(lambda call: expanded(call.value(0), call.result_dims[0]))


@lowers("Tile")
def _tile(call: Call) -> Value:
    x = call.value(0)
    repeats = [int(n) for n in call.need(1, "repeats").reshape(-1)]
    if 0 in repeats:
        raise NotLowered("the result has no elements")
    if len(repeats) != x.ndim:
        raise NotLowered("there is not one repeat for each dim")
    for axis, count in enumerate(repeats):
        if count > 1 and (x.shape or ())[axis] == 1:
            x = x.expand([count if i == axis else -1 for i in range(x.ndim)])
        elif count > _MOST_PARTS:
            raise NotLowered("a part is repeated too often")
        elif count > 1:
            x = joined(call, [x] * count, axis)
    return x


@lowers("Slice")
def _slice(call: Call) -> Value:
    x = call.value(0)
    if call.version < 10:
        starts, ends = call.attribute("starts"), call.attribute("ends")
        axes, steps = call.attribute("axes"), None
    else:
        starts, ends = (
            [int(n) for n in call.need(i, "where a slice begins and ends").reshape(-1)]
            for i in (1, 2)
        )
        axes = call.need(3, "axes").reshape(-1).tolist() if call.has(3) else None
        steps = call.need(4, "steps").reshape(-1).tolist() if call.has(4) else None
    axes = range(len(starts)) if axes is None else [a % x.ndim for a in axes]
    steps = [1] * len(starts) if steps is None else steps
    index = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = (x.shape or ())[axis]
        if step < 1:
            if size != 1 or len(range(*slice(start, end, step).indices(1))) != 1:
                index[axis] = slice(start, end, step)
            continue
        whole = end >= 2**31 - 1 or (size != -1 and end >= size)
        if size != -1 and not range(*slice(start, end, step).indices(size)):
            raise NotLowered("the result has no elements")
        if start == 0 and whole and step == 1:
            continue
        index[axis] = slice(start, None if whole else end, step)
    if all(i == slice(None) for i in index):
        return x
    if any((i.step or 1) < 0 for i in index):
        backwards: Value = host_step("getitem", (x, tuple(index)), {})
        return backwards
    return x[tuple(index)]


@lowers("Split")
def _split(call: Call) -> Sequence[Value]:
    x = call.value(0)
    axis = call.attribute("axis", 0) % max(x.ndim, 1)
    size = (x.shape or ())[axis]
    given: Any = call.attribute("split")
    if given is None and call.has(1):
        given = [int(n) for n in call.need(1, "sizes of parts").reshape(-1)]
    if given is None:
        count = call.attribute("num_outputs", len(call.node.outputs))
        if size == -1:
            raise NotLowered("the size of a part is unknown")
        if count != len(call.node.outputs):
            raise NotLowered("there is not one result for each part")
        part = -(-size // count)
        given = [min(part, max(size - part * i, 0)) for i in range(count)]
    if any(n < 1 for n in given):
        raise NotLowered("a part has no elements")
    made, begin = [], 0
    for part in given:
        index = (*(slice(None),) * axis, slice(begin, begin + part))
        made.append(x[index])
        begin += part
    return made


@lowers("Concat")
def _concat(call: Call) -> Value:
    # Parts without elements, such as the cache of a first step, add nothing.
    parts = [call.value(i) for i in range(len(call)) if 0 not in call.dims(i)]
    if not parts:
        raise NotLowered("the result has no elements")
    return joined(call, parts, call.attribute("axis", 1))


def joined(call: Call, parts: Sequence[Value], axis: int) -> Value:
    """Join values along an axis."""
    call.need_float(*parts)
    return parts[0] if len(parts) == 1 else call.b.concat(*parts, axis=axis)


@lowers("Pad")
def _pad(call: Call) -> Value:
    """Join with constants: what stands before a convolution or pool is better part of it."""
    x = call.value(0)
    mode = call.attribute("mode", "constant")
    if call.version < 11:
        pads, number = [*call.attribute("pads", ())], float(call.attribute("value", 0.0))
    else:
        pads = [int(n) for n in call.need(1, "the padding").reshape(-1)]
        number = call.need(2, "what it pads with").item() if call.has(2) else 0
    axes = call.axes(3) if call.has(3) else None
    axes = tuple(range(x.ndim)) if axes is None else axes
    wide = {
        a: p for a, *p in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True) if any(p)
    }
    open_ = {i for i, d in enumerate(x.shape or ()) if d == -1}
    if mode != "constant" or x.dtype not in FLOATS or any(open_ - {a} for a in wide):
        if mode not in ("constant", "reflect", "edge", "wrap") or min(pads) < 0:
            raise NotLowered(f"its mode is {mode}, or a padding negative")
        outputs = partial(padded_shape, wide, x.dtype)
        step: Value = call.b.call(partial(padded, wide, mode, number), x, outputs=outputs)
        return step
    call.need_float(x)
    for axis, (before, after) in wide.items():
        x = _cut(x, axis, before, after)
        parts = [_filled(call, x, axis, before, number), x, _filled(call, x, axis, after, number)]
        x = joined(call, [p for p in parts if p is not None], axis)
    return x


def _cut(x: Value, axis: int, before: int, after: int) -> Value:
    """Take away what negative padding does."""
    if before >= 0 and after >= 0:
        return x
    index = [slice(None)] * x.ndim
    index[axis] = slice(max(-before, 0), min(after, 0) or None)
    return x[tuple(index)]


def _filled(call: Call, x: Value, axis: int, count: int, number: float) -> Value | None:
    if count <= 0:
        return None
    shape = [count if i == axis else d for i, d in enumerate(x.shape or ())]
    return call.b.constant(np.full(shape, number, np.float32), x.dtype)


@lowers("Gather")
def _gather(call: Call) -> Value:
    """Take elements at known places that follow each other, which is a view, or look them up."""
    indices = call.known(1)
    if indices is None:
        return _step(call, taken, taken_shape)
    x = call.value(0)
    axis = call.attribute("axis", 0) % max(x.ndim, 1)
    before = (slice(None),) * axis
    size = (x.shape or ())[axis]
    if indices.ndim == 0:
        return x[(*before, int(indices))]
    if indices.ndim != 1 or not indices.size:
        raise NotLowered("the indices are a tensor")
    places = [int(i) for i in indices]
    if size == -1 and min(places) < 0 < len(places) - 1:
        raise NotLowered("the size of a dim is unknown")
    if len(places) == 1:
        one: Value = x[(*before, places[0])]
        return one[(*before, None)]
    places = [p + size if p < 0 else p for p in places]
    step = places[1] - places[0]
    if step < 1 or places != [*range(places[0], places[-1] + 1, step)]:
        raise NotLowered("the indices do not follow each other")
    return x[(*before, slice(places[0], places[-1] + 1, step))]


@lowers("DepthToSpace", "SpaceToDepth")
def _depth_and_space(call: Call) -> Value:
    [x] = call.floats(0)
    size, mode = call.attribute("blocksize"), call.attribute("mode", "DCR")
    n, c, h, w = x.shape or ()
    if -1 in (c, h, w):
        raise NotLowered("the dims must be known")
    if call.node.op_type == "SpaceToDepth":
        split = [n, c, h // size, size, w // size, size]
        order = [0, 3, 5, 1, 2, 4] if mode == "DCR" else [0, 1, 3, 5, 2, 4]
        target = [n, c * size**2, h // size, w // size]
    else:
        depth = c // size**2
        split = [n, size, size, depth, h, w] if mode == "DCR" else [n, depth, size, size, h, w]
        order = [0, 3, 4, 1, 5, 2] if mode == "DCR" else [0, 1, 4, 2, 5, 3]
        target = [n, depth, h * size, w * size]
    blocks = call.b.static_reshape(x, shape=split, special_zero=False)
    moved = transposed(call, blocks, order)
    return call.b.static_reshape(moved, shape=target, special_zero=False)
