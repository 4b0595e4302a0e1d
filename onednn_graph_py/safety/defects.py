"""Valid partitions that oneDNN nevertheless reads or writes out of bounds with, by version.

Each was found by tests/fuzz.py over buffers that end at an unreadable page, and is refused until a
version is known to be right.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from ..errors import UnimplementedError
from ..ops import shapes
from ..ops.call import Shape, shape_text
from ..ops.schema import OLDEST, Version
from ..ops.table import OPS, elementwise
from .calls import Op, Tensor
from .group import Group

__all__ = ["DEFECTS", "Defect", "Met", "check_defects"]

_BINARY = frozenset(kind for kind, row in OPS.items() if row.infer is shapes.binary)
_ELEMENTWISE = frozenset(row.kind for row in elementwise.ROWS if row.infer is shapes.same)
_POOLING = frozenset(kind for kind in OPS if "Pool" in kind)

_APART = "get partitions with policy debug, or put the op into a graph of its own"


class Met(NamedTuple):
    """A defect that a partition meets."""

    what: str
    """The subject of "... makes oneDNN 3.7 access memory out of bounds"."""
    remedy: str


@dataclass(frozen=True)
class Defect:
    """One defect of oneDNN.

    Parameters
    ----------
    find : callable
        Takes the partition and one of its ops; returns a `Met` where the op meets the defect.
    kinds : frozenset of str
        The op kinds that `find` looks at.
    since, until : Version
        The first version that has it, and the first that is right.
    """

    find: Callable[[Group, Op], Met | None]
    kinds: frozenset[str]
    since: Version = OLDEST
    until: Version | None = None

    @property
    def name(self) -> str:
        """What it is about, in a few words."""
        return self.find.__name__

    def is_in(self, version: Version) -> bool:
        """Whether a version of oneDNN has it."""
        return self.since <= version and (self.until is None or version < self.until)


# -- what they ask of shapes and strides


def _wide(shape: Shape) -> bool:
    """Whether more than one dim may have more than one element."""
    return shape is None or sum(d != 1 for d in shape) > 1


def _row_major(tensor: Tensor) -> bool:
    """Strided without gaps, or in a layout that oneDNN chooses."""
    if tensor.strides is None or tensor.shape is None:
        return True
    expected = 1
    for stride, d in zip(reversed(tensor.strides), reversed(tensor.shape), strict=True):
        if stride != expected:
            return False
        expected *= d
    return True


def _has_gaps(tensor: Tensor) -> bool:
    """Strided with room between the elements."""
    if tensor.strides is None or tensor.shape is None or 0 in tensor.shape:
        return False
    reach = 1 + sum((d - 1) * s for d, s in zip(tensor.shape, tensor.strides, strict=True))
    return reach != math.prod(tensor.shape)


def _batch(shape: Shape) -> Shape:
    return None if shape is None or len(shape) < 2 else shape[:-2]


# -- the defects


def binary_after_pooling(group: Group, op: Op) -> Met | None:
    """The operand of a fused op is read as if it had the pooling's blocked layout.

    Operands of one element, or one a channel, are right.
    """
    if not group.follows(op, _POOLING):
        return None
    for tensor in op.inputs:
        before = group.producer(tensor)
        if before and (before.kind in _POOLING or group.follows(before, _POOLING)):
            continue
        shape = group.shape(tensor)
        if _wide(shape):
            return Met(f"an operand of shape {shape_text(shape)} fused behind pooling", _APART)
    return None


def widening(group: Group, op: Op) -> Met | None:
    """A fused op works in place of the one before it, whose shape it can't widen."""
    if len(op.inputs) != 2 or not op.outputs:
        return None
    for fused, other in (op.inputs, op.inputs[::-1]):
        if not group.producer(fused) or group.producer(other):
            continue
        before, after = group.shape(fused), group.shape(op.outputs[0])
        if before is None or after is None or math.prod(before) == math.prod(after):
            continue
        return Met(
            f"widening the {shape_text(before)} of the op before it to {shape_text(after)}", _APART
        )
    return None


def elementwise_rank(group: Group, op: Op) -> Met | None:
    """The reference kernel knows five dims."""
    if not op.inputs or group.producer(op.inputs[0]):
        return None
    rank = len(group.shape(op.inputs[0]) or ())
    if rank <= 5:
        return None
    if not all(_row_major(group.tensor(t)) for t in (*op.inputs, *op.outputs)):
        return Met(
            f"rank {rank} with strides that are not row-major",
            "pass row-major arrays, or use at most 5 dims",
        )
    if len(group.ops) == 1:
        return None
    return Met(
        f"rank {rank} with other ops fused to it",
        "get partitions with policy debug, or use at most 5 dims",
    )


def one_element_strides(group: Group, op: Op) -> Met | None:
    """One element is looked for along the dim of stride 1."""
    for said in (*op.inputs, *op.outputs):
        tensor = group.tensor(said)
        if tensor.strides is None or set(tensor.shape or ()) != {1} or 1 in tensor.strides:
            continue
        return Met(
            f"one element with strides other than 1, {tensor.mirror!r},",
            "make the logical tensor with strides of 1",
        )
    return None


def attention_batches(group: Group, op: Op) -> Met | None:
    """The decomposed attention kernel walks all its operands by the batch of the first."""
    if len(op.inputs) < 2 or sum(o.kind == "MatMul" for o in group.ops) < 2:
        return None
    a, b = (_batch(group.shape(t)) for t in op.inputs[:2])
    if a is None or b is None or len(a) != 2 or len(b) != 2 or a == b or not group.has("SoftMax"):
        return None
    return Met(
        f"attention with the batches {shape_text(a)} and {shape_text(b)}",
        "use equal batches, five dims for grouped queries, or policy debug",
    )


def attention_strides(group: Group, op: Op) -> Met | None:
    """Heads of one element, whose stride says that they lie further apart than the batches."""
    if not group.has("SoftMax"):
        return None
    for said in op.inputs:
        tensor = group.tensor(said)
        if tensor.strides is None or tensor.shape is None or len(tensor.shape) != 4:
            continue
        if tensor.shape[0] == 1 or tensor.shape[1] != 1 or tensor.strides[1] <= tensor.strides[0]:
            continue
        return Met(f"attention over {tensor.mirror!r}", "pass a contiguous array")
    return None


def windows_in_padding(group: Group, op: Op) -> Met | None:
    """Outputs that lie in the padding alone, where another op is fused to them."""
    if len(group.ops) < 2 or len(op.inputs) < 2 or op.attrs.get("auto_pad", "None") != "None":
        return None
    lists = [op.attrs.get(name) for name in ("pads_begin", "pads_end", "dilations")]
    weights = group.shape(op.inputs[1])
    if weights is None or len(weights) < 3:
        return None
    begins, ends, dilations = (v if isinstance(v, tuple) else () for v in lists)
    spatial_first = str(op.attrs.get("weights_format", "XIO")).startswith("X")
    kernel = weights[:-2] if spatial_first else weights[2:]
    for size, begin, end, dilation in zip(kernel, begins, ends, dilations, strict=False):
        if size < 0:
            continue
        extent = int(dilation) * (size - 1) + 1
        if begin >= extent or end >= extent:
            return Met(
                f"a padding as large as the window of {extent} with other ops fused to it",
                "get partitions with policy debug, or use smaller paddings",
            )
    return None


def shared_weights(group: Group, op: Op) -> Met | None:
    """With weights for the whole batch, rows are written batch times too far."""
    if len(op.inputs) < 2:
        return None
    data, weights = (group.shape(t) for t in op.inputs[:2])
    a, b = _batch(data), _batch(weights)
    if data is None or a is None or len(a) != 2 or a[0] == 1 or a[1] != 1:
        return None
    if not b or set(b) != {1} or data[3 if op.attrs.get("transpose_a") else 2] == 1:
        return None
    return Met(
        f"input 0 of shape {shape_text(data)} with input 1 of shape {shape_text(weights)}",
        "leave out the dim of one element, or the ones before input 1's matrix",
    )


def strides_before_reshape(group: Group, op: Op) -> Met | None:
    """MatMul is let write as if the tensor between had no strides of its own."""
    before = group.producer(op.inputs[0]) if op.inputs else None
    if before is None or before.kind != "MatMul" or _row_major(op.inputs[0]):
        return None
    return Met(
        f"reshaping {op.inputs[0].mirror!r} in one partition with the op before it",
        "let that tensor be row-major, or get partitions with policy debug",
    )


def gaps(group: Group, op: Op) -> Met | None:
    """What these make keeps the layout of their input.

    The bytes between its elements are copied along, up to behind the last one.
    """
    if not op.inputs or not op.outputs:
        return None
    tensor = group.tensor(op.inputs[0])
    copies = op.kind != "MaxPoolBackward"
    if not _has_gaps(tensor) or (copies and group.tensor(op.outputs[0]).layout != "any"):
        return None
    remedy = "pass a contiguous array"
    return Met(
        f"gaps between the elements of input 0, {tensor.mirror!r},",
        f"let the output be strided, or {remedy}" if copies else remedy,
    )


def attention_order(group: Group, op: Op) -> Met | None:
    """The attention kernel takes what is added to be the second input."""
    if len(op.inputs) != 2 or group.producer(op.inputs[0]) or not group.has("SoftMax"):
        return None
    if not group.follows(op, {"MatMul"}):
        return None
    return Met(
        "attention whose scores are the second input of this op", "make them the first input"
    )


def binary_after_int8_deconvolution(group: Group, op: Op) -> Met | None:
    """The operand is read beyond its end; one element, or one a channel, is right."""
    if not group.follows(op, {"ConvTranspose"}) or not group.follows(op, {"Dequantize"}):
        return None
    for tensor in op.inputs:
        shape = group.shape(tensor)
        if not group.producer(tensor) and _wide(shape):
            what = f"an operand of shape {shape_text(shape)} fused behind int8 ConvTranspose"
            return Met(what, _APART)
    return None


def dynamic_scale(group: Group, op: Op) -> Met | None:
    """A 16-bit scale for the whole tensor is read as a 32-bit one."""
    if len(op.inputs) < 2 or op.attrs.get("qtype", "per_tensor") != "per_tensor":
        return None
    if op.inputs[1].dtype == "f32" or group.has("MatMul"):  # MatMul takes the scales itself
        return None
    return Met(
        f"a scale of type {op.inputs[1].dtype} for the whole tensor",
        "use an f32 scale and output and a TypeCast, or qtype per_channel",
    )


def _in(*kinds: str) -> frozenset[str]:
    return frozenset(kinds)


DEFECTS: tuple[Defect, ...] = (
    Defect(binary_after_pooling, _BINARY),
    Defect(widening, _BINARY),
    Defect(elementwise_rank, _ELEMENTWISE),
    Defect(one_element_strides, _BINARY),
    Defect(attention_batches, _in("MatMul")),
    Defect(attention_strides, _in("MatMul")),
    Defect(windows_in_padding, _in("Convolution")),
    Defect(shared_weights, _in("MatMul"), until=(3, 13)),
    Defect(strides_before_reshape, _in("StaticReshape")),
    Defect(gaps, _in("StaticReshape", "StaticTranspose", "MaxPoolBackward"), since=(3, 8)),
    Defect(attention_order, _BINARY, since=(3, 8)),
    Defect(binary_after_int8_deconvolution, _BINARY, since=(3, 8)),
    Defect(dynamic_scale, _in("DynamicDequantize"), since=(3, 8)),
)
"""All that are known."""


@cache
def _defects_of(kind: str, version: Version) -> tuple[Defect, ...]:
    return tuple(d for d in DEFECTS if kind in d.kinds and d.is_in(version))


def check_defects(group: Group, version: Version) -> None:
    """Check that a partition meets no defect of a version.

    Raises
    ------
    UnimplementedError
        It does.
    """
    for op in group.ops:
        for defect in _defects_of(op.kind, version):
            met = defect.find(group, op)
            if met is not None:
                raise UnimplementedError(
                    f"{op.label}: {met.what} makes oneDNN {version[0]}.{version[1]} access memory "
                    f"out of bounds; {met.remedy}"
                )
