"""Ops for which oneDNN reads or writes a strided tensor as if it lay otherwise."""

from __future__ import annotations

import math
from itertools import pairwise

from ..machine import Conditions
from ..ops.lookup import with_attribute, with_trait
from .calls import Tensor
from .facts import BINARY, aligned
from .group import Group

__all__ = [
    "gapped_source_of_pooling",
    "norm_gradient_of_other_layout",
    "slopes_of_permuted",
    "strided_operand",
    "strided_parameters",
]

_WITH_PARAMETERS = (
    "BatchNormForwardTraining",
    "BatchNormInference",
    "BatchNormTrainingBackward",
    "DynamicDequantize",
    "DynamicQuantize",
    "GroupNorm",
    "LayerNorm",
    "LayerNormBackward",
    "RMSNorm",
)


_IGNORING = BINARY | with_trait("reduces") | with_attribute("kernel") | {"LayerNorm", "MatMul"}
"""Ops behind which oneDNN ignores an operand's strides before 3.13."""


def _reach(tensor: Tensor) -> int:
    """Return how many elements lie from a tensor's first one to its last; 0 if that is unknown."""
    if tensor.strides is None or not tensor.shape:
        return 0
    return 1 + sum((d - 1) * s for d, s in zip(tensor.shape, tensor.strides, strict=True))


def _in_order(tensor: Tensor) -> bool:
    """Whether a tensor lies as a contiguous array does, whatever the strides of unit dims are."""
    expected = 1
    for stride, d in zip(
        reversed(tensor.strides or ()), reversed(tensor.shape or ()), strict=False
    ):
        if stride != expected and d > 1:
            return False
        expected *= d
    return True


def strided_parameters(group: Group, conditions: Conditions) -> bool:
    """Parameters of channels with a stride, which are read as if they lay side by side."""
    return any(
        tensor.shape is not None and len(tensor.shape) == 1 and _reach(tensor) > tensor.shape[0]
        for op in group.ops
        if op.kind in _WITH_PARAMETERS
        for tensor in map(group.tensor, op.inputs[1:])
    )


def strided_operand(group: Group, conditions: Conditions) -> bool:
    """An operand that is broadcast, and is read as if it were contiguous.

    Since 3.13 oneDNN does so behind products of four dims, where it varies along two or more.
    """
    old = conditions.version < (3, 13)
    for op in group.ops:
        made = group.shape(op.outputs[0]) if op.outputs else None
        if op.kind not in BINARY or made is None or (not old and len(made) != 4):
            continue
        if not group.follows(op, _IGNORING if old else {"MatMul"}):
            continue
        for tensor in map(group.tensor, op.inputs):
            shape = aligned(group.shape(tensor), len(made))
            wide = sum(d > 1 for d in shape or ())
            if group.producer(tensor) is not None or (shape == made and wide > 1):
                continue
            if not _in_order(tensor) and (old or wide > 1):
                return True
    return False


def slopes_of_permuted(group: Group, conditions: Conditions) -> bool:
    """A PReLU with a slope a channel, of a source with a spatial dim between batch and channels.

    oneDNN compares the strides of batch, channels and the first spatial dim alone.
    """
    for op in group.ops:
        if op.kind not in ("PReLU", "PReLUBackward"):
            continue
        source = group.tensor(op.inputs[0])
        if source.strides is None or source.shape is None or len(source.shape) < 4:
            continue
        if group.shape(op.inputs[1]) in (source.shape, (1,)):
            continue
        dims = list(zip(source.shape, source.strides, strict=True))
        if op.attr("data_format") == "NXC":
            dims.insert(1, dims.pop())
        strides = [s for _, s in dims]
        ordered = all(a >= b for a, b in pairwise(strides[:3]))
        if ordered and strides[1] != 1 and any(s > strides[1] for d, s in dims[3:] if d > 1):
            return True
    return False


def norm_gradient_of_other_layout(group: Group, conditions: Conditions) -> bool:
    """A gradient whose kernel takes all tensors to have the layout of one.

    That is LayerNorm's source, or SoftMax's result without gaps, if the last dim is innermost in
    it. The gradient is taken to be row-major, as nobody knows more before it is compiled.
    """
    for op in group.ops:
        if op.kind == "LayerNormBackward":
            tensors = [group.tensor(t) for t in op.inputs[:2]]
        elif op.kind in ("SoftMaxBackward", "LogSoftmaxBackward"):
            tensors = [group.tensor(op.inputs[1])]
            shape = tensors[0].shape or ()
            inner = shape[int(op.attr("axis")) % max(len(shape), 1) + 1 :]
            if math.prod(inner) > 1 or _reach(tensors[0]) > math.prod(shape):
                continue
        else:
            continue
        first = tensors[0]
        if not first.strides or not first.shape or all(map(_in_order, tensors)):
            continue
        if 1 in (first.strides[-1], first.shape[-1]):
            return True
    return False


def gapped_source_of_pooling(group: Group, conditions: Conditions) -> bool:
    """The gradient of channels-last pooling of a source with gaps."""
    return any(
        op.kind == "MaxPoolBackward"
        and op.attr("data_format") == "NXC"
        and _reach(group.tensor(op.inputs[0])) > math.prod(group.shape(op.inputs[0]) or ())
        for op in group.ops
    )
