"""Normalizations, softmax and reductions."""

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from ...blocks.normalization import rms_norm
from ...frontends.recipes import EXACT, channels_of, extreme, group_norm, reduced, weights_or
from ...model.building.value import Value
from .shapes import merged
from .table import Call, NotLowered, lowers


def _axes(call: Call) -> Sequence[int]:
    """Return the axes over which to reduce."""
    axes = call.axes(1)
    if not axes and not call.attribute("noop_with_empty_axes", 0):
        return range(len(call.dims(0)))
    return axes or ()


def _over_axes(
    call: Call,
    method: str,
    before: Callable[[Value], Value] = lambda x: x,
    after: Callable[[Value], Value] = lambda x: x,
) -> Value:
    [x] = call.floats(0)
    dtype = x.dtype
    if method not in EXACT:
        x = before(call.cast(x, "f32"))
    reduce = extreme if method in EXACT else reduced
    x = reduce(call, method, x, _axes(call), bool(call.attribute("keepdims", 1)))
    return call.cast(after(x), dtype)


def _over_space(call: Call, method: str) -> Value:
    x = call.value(0)
    return reduced(call, method, x, range(2, x.ndim), True)


lowers("GlobalAveragePool")(partial(_over_space, method="reduce_mean"))
lowers("GlobalMaxPool")(partial(_over_space, method="reduce_max"))
lowers("ReduceL1")(partial(_over_axes, method="reduce_l1"))
lowers("ReduceL2")(partial(_over_axes, method="reduce_l2"))
lowers("ReduceLogSum")(lambda call: _over_axes(call, "reduce_sum", after=call.b.log))
lowers("ReduceMax")(partial(_over_axes, method="reduce_max"))
lowers("ReduceMean")(partial(_over_axes, method="reduce_mean"))
lowers("ReduceMin")(partial(_over_axes, method="reduce_min"))
lowers("ReduceProd")(partial(_over_axes, method="reduce_prod"))
lowers("ReduceSum")(partial(_over_axes, method="reduce_sum"))
lowers("ReduceSumSquare")(partial(_over_axes, method="reduce_sum", before=lambda x: x * x))


@lowers("LpNormalization")
def _lp_normalization(call: Call) -> Value:
    [x] = call.floats(0)
    method = {1: "reduce_l1", 2: "reduce_l2"}.get(call.attribute("p", 2))
    if method is None:
        raise NotLowered("p is neither 1 nor 2")
    axis = call.attribute("axis", -1) % max(x.ndim, 1)
    wide = call.cast(x, "f32")
    size = reduced(call, method, wide, [axis], True)
    # Where all is 0 the result is, too; a maximum would hide NaN.
    smallest = call.operand(math.ldexp(1.0, -126), "f32", x.ndim)
    return call.cast(call.b.divide(wide, size + smallest), x.dtype)


def _weights(call: Call, i: int, size: int) -> Value | None:
    """Return an input of one dim, if there is one."""
    if not call.has(i) or call.dims(i) == (size,):
        return call.value(i, "f32") if call.has(i) else None
    return call.b.constant(_spread(call.need(i, "weights that broadcast"), (size,)))


def _spread(given: npt.NDArray[np.generic], shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    return np.broadcast_to(given.astype(np.float32), shape).reshape(-1)


def _rows(call: Call, x: Value, axis: int) -> tuple[Value, tuple[int, ...]]:
    """Make one dim of those from an axis on; return also how long they are."""
    shape = x.shape or ()
    axis = axis % max(x.ndim, 1)
    sizes = shape[axis:]
    if -1 in sizes:
        raise NotLowered("a normalized dim is unknown")
    if axis == x.ndim - 1 and x.ndim > 1:
        return x, sizes
    lead = merged(shape, [range(axis)])
    return call.b.static_reshape(x, shape=[*lead, math.prod(sizes)], special_zero=False), sizes


def _whole(call: Call, made: Value, x: Value) -> Value:
    """Give the result the shape of what was normalized."""
    shape = x.shape or ()
    if made.shape == shape:
        return made
    if shape.count(-1) > 1:
        raise NotLowered("more than one dim is unknown")
    return call.b.static_reshape(made, shape=[*shape], special_zero=False)


def _of_rows(call: Call, i: int, sizes: tuple[int, ...], number: float) -> Value:
    """Return the weights of dims that became one."""
    count = math.prod(sizes)
    if not call.has(i):
        return weights_or(call, None, number, count)
    if call.dims(i) == sizes == (count,):
        return call.value(i, "f32")
    known = call.known(i)
    if known is not None:
        return call.b.constant(_spread(known, sizes))
    if call.dims(i) != sizes:
        raise NotLowered("weights broadcast")
    return call.b.static_reshape(call.value(i, "f32"), shape=[count], special_zero=False)


@lowers("LayerNormalization")
def _layer_normalization(call: Call) -> list[Value]:
    [x] = call.floats(0)
    rows, sizes = _rows(call, x, call.attribute("axis", -1))
    epsilon = float(call.attribute("epsilon", 1e-5))
    scale, shift = _of_rows(call, 1, sizes, 1), _of_rows(call, 2, sizes, 0)
    if not (call.is_read(1) or call.is_read(2)):
        made = call.b.layer_norm(rows, scale, shift, keep_stats=False, epsilon=epsilon)
        return [_whole(call, made, x)]
    made, mean, variance = call.b.layer_norm(rows, scale, shift, epsilon=epsilon)
    deviation = call.b.reciprocal(call.b.sqrt(variance + epsilon))
    lead = (x.shape or ())[: x.ndim - len(sizes)]
    return [_whole(call, made, x), *(_statistic(call, v, lead, x) for v in (mean, deviation))]


def _statistic(call: Call, given: Value, lead: tuple[int, ...], x: Value) -> Value:
    """Give the statistics of rows the rank of what was normalized."""
    ones = [1] * (x.ndim - len(lead))
    if given.ndim == len(lead):
        return given[(..., *[None] * len(ones))]
    if lead.count(-1) > 1:
        raise NotLowered("more than one dim is unknown")
    return call.b.static_reshape(given, shape=[*lead, *ones], special_zero=False)


@lowers("RMSNormalization", "SimplifiedLayerNormalization")
def _rms_normalization(call: Call) -> Value:
    [x] = call.floats(0)
    if call.is_read(1):
        raise NotLowered("its statistics are read")
    rows, sizes = _rows(call, x, call.attribute("axis", -1))
    epsilon = float(call.attribute("epsilon", 1e-5))
    made = rms_norm(rows, _of_rows(call, 1, sizes, 1), epsilon=epsilon)
    return call.cast(
        _whole(call, made, x), call.result_dtypes[0] if call.result_dtypes else x.dtype
    )


@lowers("GroupNormalization", "InstanceNormalization")
def _group_normalization(call: Call) -> Value:
    x = call.value(0)
    groups = channels = channels_of(x)
    if call.node.op_type == "GroupNormalization":
        groups = int(call.attribute("num_groups"))
    if call.version >= 21 or groups == channels:
        weights = [_weights(call, i, channels) for i in (1, 2)]
    else:  # there was a weight for each group
        each = (call.need(i, "weights").astype(np.float32) for i in (1, 2))
        weights = [call.b.constant(np.repeat(w, channels // groups)) for w in each]
    return group_norm(call, x, groups, float(call.attribute("epsilon", 1e-5)), *weights)


@lowers("BatchNormalization")
def _batch_normalization(call: Call) -> Value:
    [x] = call.floats(0)
    if call.attribute("training_mode", 0) or (call.version < 7 and not call.attribute("is_test")):
        raise NotLowered("it computes the statistics of a batch")
    if any(call.is_read(i) for i in range(1, 5)):
        raise NotLowered("its statistics are read")
    if call.attribute("spatial", 1) != 1:
        raise NotLowered("it normalizes each element")
    if x.ndim < 2:
        raise NotLowered("there are no channels")
    image = x[:, :, None] if x.ndim == 2 else x
    made = call.b.batch_norm_inference(
        image,
        *(call.value(i, "f32") for i in range(1, 5)),
        epsilon=float(call.attribute("epsilon", 1e-5)),
        data_format="NCX",
    )
    return made.squeeze(2) if x.ndim == 2 else made


def _along(call: Call, method: str) -> Value:
    [x] = call.floats(0)
    axis = call.attribute("axis", 1 if call.version < 13 else -1)
    axis = axis % max(x.ndim, 1)
    if x.ndim == 0:
        raise NotLowered("oneDNN's SoftMax needs a dim")
    if call.version >= 13 or axis == x.ndim - 1 or set((x.shape or ())[axis + 1 :]) == {1}:
        made: Value = getattr(call.b, method)(x, axis=axis)
        return made
    # Before opset 13 the dims from the axis on were taken as one.
    shape = x.shape or ()
    flat = call.b.static_reshape(
        x, shape=merged(shape, [range(axis), range(axis, x.ndim)]), special_zero=False
    )
    return _whole(call, getattr(call.b, method)(flat, axis=1), x)


lowers("Softmax")(partial(_along, method="softmax"))
lowers("LogSoftmax")(partial(_along, method="log_softmax"))
