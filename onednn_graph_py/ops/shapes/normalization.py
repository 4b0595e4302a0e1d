"""Shapes of normalization and softmax."""

import math

from ..call import Call
from ..terms import UNKNOWN, Shape


def _per_channel(call: Call, start: int) -> int:
    """Check the inputs that have one value a channel; return the number of channels."""
    src = call.input(0)
    src.need_rank(2)
    channels = src.dim(-1 if call.channels_last else 1)
    for operand in call.inputs[start:]:
        operand.need_rank(1, 1)
        operand.need_count(channels, "channels")
        channels = max(channels, operand.dim(0))
    return channels


def batch_norm_inference(call: Call) -> list[Shape]:
    """Return the shape of src."""
    _per_channel(call, 1)
    return [call.input(0).shape]


def batch_norm_training(call: Call) -> list[Shape]:
    """Return the shapes of src and of four statistics."""
    channels = _per_channel(call, 1)
    return [call.input(0).shape, *[(channels,)] * 4]


def batch_norm_backward(call: Call) -> list[Shape]:
    """Return the shapes of src and of two gradients."""
    call.input(1).need_shape(call.input(0).shape, "that of input 0")
    channels = _per_channel(call, 2)
    return [call.input(0).shape, (channels,), (channels,)]


def _product(shape: Shape) -> int:
    return UNKNOWN if shape is None or min(shape, default=0) < 0 else math.prod(shape)


def _affine_inputs(call: Call, start: int) -> None:
    """Check that there are no inputs gamma and beta if use_affine is false."""
    if not call.attr("use_affine") and len(call.inputs) > start:
        call.refuse_shape(
            f"use_affine is False, so it takes {start} inputs, got {len(call.inputs)}"
        )


def _one_output(call: Call, flag: str) -> None:
    if not call.attr(flag) and len(call.outputs) > 1:
        call.refuse_shape(f"{flag} is False, so it has one output, got {len(call.outputs)}")


def _split(call: Call) -> tuple[Shape, Shape]:
    """Return src's dims before begin_norm_axis, and those from there on, which are normalized."""
    src = call.input(0)
    src.need_rank(1)
    if src.shape is None:
        return None, None
    axis = call.axis("begin_norm_axis", len(src.shape))
    return src.shape[:axis], src.shape[axis:]


def layer_norm(call: Call) -> list[Shape]:
    """Return the shapes of src, and of mean and variance of each normalized part."""
    _affine_inputs(call, 1)
    _one_output(call, "keep_stats")
    kept, normal = _split(call)
    for operand in call.inputs[1:]:
        operand.need_shape(normal, "the normalized dims")
    return [call.input(0).shape, kept, kept]


def rms_norm(call: Call) -> list[Shape]:
    """Return the shape of src."""
    _, normal = _split(call)
    for operand in call.inputs[1:]:
        operand.need_shape(normal, "the normalized dims")
    return [call.input(0).shape]


def layer_norm_backward(call: Call) -> list[Shape]:
    """Return the shapes of src and of the gradients of gamma and beta."""
    _affine_inputs(call, 4)
    _one_output(call, "use_affine")
    if call.attr("use_affine") and len(call.inputs) == 4:
        call.refuse_shape("use_affine is True, so it needs the input gamma")
    kept, normal = _split(call)
    call.input(1).need_shape(call.input(0).shape, "that of input 0")
    for operand in call.inputs[2:4]:
        operand.need_shape(kept, "the dims that are not normalized")
        operand.need_count(_product(kept), "one for each normalized part")
    for operand in call.inputs[4:]:
        operand.need_shape(normal, "the normalized dims")
    return [call.input(0).shape, normal, normal]


def group_norm(call: Call) -> list[Shape]:
    """Return the shapes of src, and of mean and variance of each group."""
    _affine_inputs(call, 1)
    _one_output(call, "keep_stats")
    src = call.input(0)
    channels = _per_channel(call, 1)
    groups = call.attr("groups")
    if groups is not None and groups < 1:
        call.refuse(f"attribute groups must be at least 1, got {groups}")
    if groups and channels >= 0 and channels % groups:
        src.refuse(f"channels that {groups} groups divide")
    statistics = (src.dim(0), groups or UNKNOWN)
    return [src.shape, statistics, statistics]


def softmax(call: Call) -> list[Shape]:
    """Return the shapes of src and of the statistics, whose axis has one element."""
    src = call.input(0)
    src.need_rank(1)
    if src.shape is None:
        return [None, None]
    axis = call.axis("axis", len(src.shape))
    return [src.shape, (*src.shape[:axis], 1, *src.shape[axis + 1 :])]


def softmax_backward(call: Call) -> list[Shape]:
    """Return the shape of the inputs."""
    call.input(1).need_shape(call.input(0).shape, "that of input 0")
    return [softmax(call)[0]]
