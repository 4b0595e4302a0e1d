"""Valid partitions on which oneDNN crashes or leaves its buffers, with the conditions for it.

tests/fuzz.py found most of them, with buffers that end at an unreadable page. The mirror refuses
each of them until a version is known to be right.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..machine import Conditions
from ..ops.call import Call
from ..ops.lookup import with_attribute, with_trait
from ..ops.shapes.windows import Window, window_of
from ..ops.terms import OLDEST, Shape, Version, shape_text
from .calls import Op, Tensor
from .facts import integers_of, is_row_major, slide_of
from .group import Group
from .post_ops import ELEMENTWISE

__all__ = [
    "DEFECTS",
    "Features",
    "MemoryDefect",
    "Met",
    "defect_of",
]

_BINARY = with_trait("binary")
_POOLING = with_attribute("kernel")
_FORWARD_CONVOLUTIONS = frozenset({"Convolution", "ConvTranspose"})

_SPLIT = "get partitions with policy debug"
_APART = f"{_SPLIT}, or put the op into a graph of its own"


class Met(NamedTuple):
    """A defect that a partition meets."""

    what: str
    """The subject of "... makes oneDNN 3.7 access memory out of bounds"."""
    remedy: str
    """An imperative, such as "pass a contiguous array"."""
    effect: str = "access memory out of bounds"


class Features(NamedTuple):
    """Facts about a partition that are cheap to find, and show that most defects can't apply."""

    kinds: frozenset[str]
    """The kinds of its ops."""
    fused: bool
    """True if there are several ops."""
    strided: bool
    """True if a tensor is strided and not row-major."""
    narrow: bool
    """True if a tensor has 16 bits, or the floating-point mode is not strict."""
    rank: int
    """The largest rank of any tensor; 12 if one is unknown."""


def _anywhere(_: Conditions) -> bool:
    return True


@dataclass(frozen=True)
class MemoryDefect:
    """One defect of oneDNN.

    Parameters
    ----------
    find : callable
        Takes the partition and one of its ops; returns a `Met` if the op meets the defect.
    kinds : frozenset of str
        The op kinds that `find` looks at.
    since, until : Version
        The first version that has the defect, and the first that is right; None if none is.
    where : callable
        Takes `Conditions`; returns whether runtime, instruction set and threads show the defect.
    fused, strided, narrow : bool
        Whether only partitions with that one of `Features` meet the defect.
    rank : int
        The rank that some tensor of the partition must have at least.
    beside : frozenset of str
        Op kinds of which the partition must have one too; empty if it needs none.
    """

    find: Callable[[Group, Op], Met | None]
    kinds: frozenset[str]
    since: Version = OLDEST
    until: Version | None = None
    where: Callable[[Conditions], bool] = _anywhere
    fused: bool = False
    strided: bool = False
    narrow: bool = False
    rank: int = 0
    beside: frozenset[str] = frozenset()

    @property
    def what(self) -> str:
        """What meets it, with which oneDNN leaves its buffers or crashes."""
        summary = inspect.getdoc(self.find) or ""
        return " ".join(summary.partition("\n\n")[0].split()).removeprefix("Find ")

    @property
    def name(self) -> str:
        """That of the function that finds it, and of its entry in docs/onednn_defects.md."""
        return self.find.__name__

    def is_in(self, conditions: Conditions) -> bool:
        """Whether oneDNN has the defect under these conditions."""
        version = conditions.version
        before = self.until is None or version < self.until
        return self.since <= version and before and self.where(conditions)

    def may_be_met(self, features: Features) -> bool:
        """Whether a partition with these features may meet the defect."""
        return (
            not self.kinds.isdisjoint(features.kinds)
            and (not self.beside or not self.beside.isdisjoint(features.kinds))
            and features.fused >= self.fused
            and features.strided >= self.strided
            and features.narrow >= self.narrow
            and features.rank >= self.rank
        )

    def met(self, group: Group, op: Op, conditions: Conditions) -> Met | None:
        """Return how an op of a partition meets the defect under these conditions, or None."""
        return self.find(group, op) if op.kind in self.kinds and self.is_in(conditions) else None


# -- predicates of shapes and strides


def _wide(shape: Shape) -> bool:
    """Whether more than one dim may have more than one element."""
    return shape is None or sum(d != 1 for d in shape) > 1


def _has_gaps(tensor: Tensor) -> bool:
    """Whether strides leave room between the elements."""
    if tensor.strides is None or tensor.shape is None or 0 in tensor.shape:
        return False
    reach = 1 + sum((d - 1) * s for d, s in zip(tensor.shape, tensor.strides, strict=True))
    return reach != math.prod(tensor.shape)


def _batch(shape: Shape) -> Shape:
    return None if shape is None or len(shape) < 2 else shape[:-2]


def _one_element(shape: Shape) -> bool:
    return shape is not None and all(d == 1 for d in shape)


# -- facts about convolutions


class _Slide(NamedTuple):
    """A window that slides along one spatial dim."""

    size: int
    """The data's number of elements along the dim."""
    windows: int
    """The number of windows."""
    kernel: int
    stride: int
    begin: int
    """The padding before the data."""
    dilation: int

    def reads(self, i: int) -> bool:
        """Whether the i-th window has an element of the data under one of its taps."""
        first = i * self.stride - self.begin
        return any(0 <= first + k * self.dilation < self.size for k in range(self.kernel))


def _window(group: Group, op: Op) -> Window | None:
    """Return a convolution's window; None if the weights' rank is unknown."""
    weights = group.shape(op.inputs[1]) if len(op.inputs) > 1 else None
    if weights is None or len(weights) < 3 or op.schema is None:
        return None
    spatial_first = op.attr("weights_format").startswith("X")
    kernel = weights[:-2] if spatial_first else weights[2:]
    return window_of(Call(op.schema, op.label, (), (), op.attrs), kernel)


def _slides(group: Group, op: Op) -> list[_Slide]:
    """Return a convolution's windows along each spatial dim; none if a size is unknown."""
    window, data = _window(group, op), group.shape(op.inputs[0]) if op.inputs else None
    if window is None or data is None or len(data) != len(window.kernel) + 2:
        return []
    spatial = data[1:-1] if op.attr("data_format") == "NXC" else data[2:]
    made = []
    for i, (size, kernel) in enumerate(zip(spatial, window.kernel, strict=True)):
        if size < 0 or kernel < 0:
            return []
        windows, stride = window.slide(i, size), window.strides[i]
        begin = window.pads_begin[i] if window.auto_pad == "None" else 0
        if window.same:
            both = max((windows - 1) * stride + window.extent(i) - size, 0)
            begin = both // 2 if window.auto_pad == "SAME_UPPER" else both - both // 2
        made.append(_Slide(size, windows, kernel, stride, begin, window.dilations[i]))
    return made


def _computes_in_16_bits(group: Group, op: Op) -> bool:
    """Whether an op's first input has 16 bits, or the floating-point mode allows that."""
    dtype = op.inputs[0].dtype
    return dtype in ("bf16", "f16") or (dtype == "f32" and group.fpmath in ("bf16", "any"))


# -- the defects


def binary_after_pooling(group: Group, op: Op) -> Met | None:
    """Find an operand of a fused op that oneDNN reads as if it had the pooling's blocked layout.

    oneDNN is right for operands of one element, or of one a channel.
    """
    if not group.follows(op, _POOLING):
        return None
    for tensor in op.inputs:
        before = group.producer(tensor)
        if before and (before.kind in _POOLING or group.follows(before, _POOLING)):
            continue
        shape = group.shape(tensor)
        if _wide(shape):
            return Met(f"an operand of shape {shape_text(shape)} fused after pooling", _APART)
    return None


def widening(group: Group, op: Op) -> Met | None:
    """Find a fused op with a wider result than its input: oneDNN lets it write into the input."""
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
    """Find an element-wise op on more than five dims, beyond what its reference kernel handles."""
    if not op.inputs or (group.producer(op.inputs[0]) and not _starts_a_kernel(group, op)):
        return None
    rank = len(group.shape(op.inputs[0]) or ())
    if rank <= 5:
        return None
    if not all(is_row_major(group.tensor(t)) for t in (*op.inputs, *op.outputs)):
        return Met(
            f"rank {rank} with strides that are not row-major",
            "pass row-major arrays, or use at most 5 dims",
        )
    if len(group.ops) == 1:
        return None
    return Met(f"rank {rank} with other ops fused to it", f"{_SPLIT}, or use at most 5 dims")


def _starts_a_kernel(group: Group, op: Op) -> bool:
    """Whether an element-wise op has post-ops but is none, as a further op reads what it reads."""
    readers = [o for o in group.ops if any(t.id == op.inputs[0].id for t in o.inputs)]
    after = [o for o in group.ops if any(t.id == op.outputs[0].id for t in o.inputs)]
    swish = op.kind == "Sigmoid" and len(readers) == 2 and after == readers[1:]
    return len(readers) > 1 and not swish and bool(after)


def elementwise_rank_behind_broadcast(group: Group, op: Op) -> Met | None:
    """Find an element-wise op on more than five dims between two binary ops, the first broadcasts.

    Since 3.8 oneDNN fuses nothing to a binary op that broadcasts, but for a second operand of one
    element. The element-wise op then has a kernel of its own, as in `elementwise_rank`.
    """
    made = group.shape(op.outputs[0]) or ()
    read = {t.id for o in group.ops if o.kind in _BINARY for t in o.inputs}
    if len(made) <= 5 or op.outputs[0].id not in read:
        return None
    maker = group.producer(op.inputs[0])
    while maker is not None and maker.kind in ELEMENTWISE:
        maker = group.producer(maker.inputs[0])
    if maker is None or maker.kind not in _BINARY:
        return None
    first, second = (group.shape(t) for t in maker.inputs[:2])
    if first == made and (second == made or _one_element(second)):
        return None
    if maker.kind == "Add" and second == made and _one_element(first):
        return None
    return Met(
        f"rank {len(made)} with other ops fused to it, after an op that broadcasts",
        f"{_SPLIT}, or use at most 5 dims",
    )


def strided_running_statistics(group: Group, op: Op) -> Met | None:
    """Find a strided mean or variance, with whose strides oneDNN writes the new ones."""
    for said in op.inputs[1:3]:
        tensor = group.tensor(said)
        if _has_gaps(tensor):
            return Met(f"running statistics as {tensor.mirror!r}", "pass contiguous arrays")
    return None


def one_element_strides(group: Group, op: Op) -> Met | None:
    """Find a tensor of one element in which no dim has the stride 1 that oneDNN looks for."""
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
    """Find attention with unequal batches: the decomposed kernel takes the first one for all."""
    if len(op.inputs) < 2 or group.count("MatMul") < 2:
        return None
    a, b = (_batch(group.shape(t)) for t in op.inputs[:2])
    if a is None or b is None or len(a) != 2 or len(b) != 2 or a == b or not group.has("SoftMax"):
        return None
    return Met(
        f"attention with the batches {shape_text(a)} and {shape_text(b)}",
        "use equal batches, five dims for grouped queries, or policy debug",
    )


def attention_strides(group: Group, op: Op) -> Met | None:
    """Find attention with one head whose stride is larger than that of the batch."""
    return _unit_head(group, op, 4)


def attention_strides_of_five_dims(group: Group, op: Op) -> Met | None:
    """Find attention in five dims with one head whose stride is larger than that of the batch."""
    return _unit_head(group, op, 5)


def _unit_head(group: Group, op: Op, rank: int) -> Met | None:
    if not group.has("SoftMax"):
        return None
    for said in op.inputs:
        tensor = group.tensor(said)
        if tensor.strides is None or tensor.shape is None or len(tensor.shape) != rank:
            continue
        batch = list(zip(tensor.shape, tensor.strides, strict=True))[:-2]
        if any(
            d == 1 and any(before != 1 and stride > s for before, s in batch[:i])
            for i, (d, stride) in enumerate(batch)
        ):
            return Met(f"attention over {tensor.mirror!r}", "pass a contiguous array")
    return None


def windows_in_padding(group: Group, op: Op) -> Met | None:
    """Find a convolution with windows that cover only padding, and other ops fused to it."""
    window = _window(group, op)
    if len(group.ops) == 1 or window is None or window.auto_pad != "None":
        return None
    for i, size in enumerate(window.kernel):
        extent = window.extent(i)
        if size >= 0 and max(window.pads_begin[i], window.pads_end[i]) >= extent:
            return Met(
                f"a padding as large as the window of {extent} with other ops fused to it",
                f"{_SPLIT}, or use smaller paddings",
            )
    return None


def window_behind_the_data(group: Group, op: Op) -> Met | None:
    """Find a convolution with a window along the innermost dim that begins after the last element.

    The defect was seen if one thread's share of a short row begins with that window; others
    happen to be right.
    """
    if not op.inputs or not _computes_in_16_bits(group, op):
        return None
    for slide in _slides(group, op)[-1:]:
        if (slide.windows - 1) * slide.stride - slide.begin >= slide.size:
            return Met(
                f"a window that begins after the {slide.size} elements of the innermost dim",
                "use smaller paddings at the end, one thread, or f32",
            )
    return None


def window_around_the_data(group: Group, op: Op) -> Met | None:
    """Find a convolution over three dims with a window that sees only padding along the first."""
    if not op.inputs:
        return None
    source = group.producer(op.inputs[0])
    int8 = source is not None and source.kind in with_trait("dequantizes")
    if not int8 and not _computes_in_16_bits(group, op):
        return None
    slides = _slides(group, op)
    if len(slides) != 3 or all(map(slides[0].reads, range(slides[0].windows))):
        return None
    return Met(
        "a window that sees no element along the outermost dim",
        "use smaller paddings or dilations, or strict f32",
    )


def pooling_backward_without_shape(group: Group, op: Op) -> Met | None:
    """Find an AvgPoolBackward without src_shape, which crashes oneDNN while it compiles."""
    shape = op.attrs.get("src_shape")
    if isinstance(shape, tuple) and any(shape):  # graphs that oneDNN dumps have an empty one
        return None
    return Met("an AvgPoolBackward without src_shape", "set src_shape to the output's shape")


def pooling_backward_gaps(group: Group, op: Op) -> Met | None:
    """Find gaps in 16-bit gradients of pooling, which oneDNN sums up in a buffer without gaps."""
    if not op.inputs or not op.outputs or op.outputs[0].dtype == "f32":
        return None
    read = [op.inputs[0]] if op.kind == "MaxPoolBackward" else []
    made = [op.outputs[0]] if op.attr("data_format") == "NCX" else []
    for tensor in map(group.tensor, (*read, *made)):
        if _has_gaps(tensor):
            what = f"gaps between the elements of {tensor.mirror!r}"
            return Met(what, "pass contiguous arrays")
    return None


def narrow_statistics(group: Group, op: Op) -> Met | None:
    """Find a normalization with a mean and a variance of 16 bits: oneDNN writes 32 bits of each."""
    for tensor in op.outputs[1:]:
        if tensor.dtype != "f32":
            what = f"keeping the mean and the variance in {tensor.dtype}"
            return Met(what, "make them f32")
    return None


def _is_twice(group: Group, op: Op) -> bool:
    """Whether both inputs are one tensor, which another op of the partition makes."""
    ids = [t.id for t in op.inputs]
    return len(ids) == 2 and ids[0] == ids[1] and group.producer(op.inputs[0]) is not None


_TWICE = Met("one tensor as both inputs", _SPLIT)


def operand_twice_behind_pooling(group: Group, op: Op) -> Met | None:
    """Find an op after int8 pooling with one tensor as both inputs; fusion assumes two tensors."""
    behind = group.follows(op, _POOLING) and group.follows(op, {"Dequantize"})
    return _TWICE if behind and _is_twice(group, op) else None


def operand_twice_in_attention(group: Group, op: Op) -> Met | None:
    """Find an op in attention with one tensor as both inputs; fusion assumes two tensors."""
    attention = group.has("SoftMax") and group.has("MatMul")
    return _TWICE if attention and _is_twice(group, op) else None


def folded_beside_its_source(group: Group, op: Op) -> Met | None:
    """Find a bias or batch normalization of a product whose result another op reads too.

    oneDNN folds it into the product again and again, and never ends.
    """
    source = op.inputs[0]
    maker = group.producer(source)
    if maker is None or maker.kind not in ("Convolution", "ConvTranspose", "MatMul"):
        return None
    readers = sum(t.id == source.id for other in group.ops for t in other.inputs)
    what = f"the result of a {maker.kind} that {op.kind} and another op read"
    return Met(what, _SPLIT, "compile without an end") if readers > 1 else None


def shared_weights(group: Group, op: Op) -> Met | None:
    """Find a product of several batches with weights of one, whose rows lie too far apart."""
    weights = group.shape(op.inputs[1]) if len(op.inputs) > 1 else None
    batch = _batch(weights)
    if not batch or set(batch) != {1}:
        return None
    return _rows_too_far(
        group, op, "leave out the dim of one element, or the ones before input 1's matrix"
    )


def shared_matrix(group: Group, op: Op) -> Met | None:
    """Find a transposed product of several batches with 2-D weights, as in `shared_weights`."""
    weights = group.shape(op.inputs[1]) if len(op.inputs) > 1 else None
    if weights is None or len(weights) != 2 or not op.attr("transpose_a"):
        return None
    return _rows_too_far(group, op, "leave out the dim of one element, or transpose input 0 before")


def _rows_too_far(group: Group, op: Op, remedy: str) -> Met | None:
    data, weights = (group.shape(t) for t in op.inputs[:2])
    if data is None or len(data) != 4 or data[0] == 1 or data[1] != 1:
        return None
    if data[3 if op.attr("transpose_a") else 2] == 1:
        return None
    return Met(
        f"input 0 of shape {shape_text(data)} with input 1 of shape {shape_text(weights)}", remedy
    )


def interpolation_of_one_column(group: Group, op: Op) -> Met | None:
    """Find an Interpolate of one column: the kernel steps by its stride, which means nothing."""
    src = group.shape(op.inputs[0]) if op.inputs else None
    if src is None or len(src) < 3 or src[-2 if op.attr("data_format") == "NXC" else -1] != 1:
        return None
    return Met(
        f"an innermost spatial dim of 1, in {shape_text(src)},",
        "repeat its element instead, by an op that broadcasts",
    )


def strides_before_reshape(group: Group, op: Op) -> Met | None:
    """Find a reshape of a strided product, which oneDNN writes as if it were row-major."""
    before = group.producer(op.inputs[0]) if op.inputs else None
    if before is None or before.kind != "MatMul" or is_row_major(op.inputs[0]):
        return None
    return Met(
        f"reshaping {op.inputs[0].mirror!r} in one partition with the op before it",
        f"let that tensor be row-major, or {_SPLIT}",
    )


def channel_scales_after_normalization(group: Group, op: Op) -> Met | None:
    """Find a Quantize with several scales after a normalization, whose kernels take only one."""
    if op.attr("qtype") != "per_channel":
        return None
    if not group.follows(op, {"GroupNorm", "LayerNorm", "SoftMax"}):
        return None
    return Met("scales per channel fused after a normalization", f"use qtype per_tensor, {_APART}")


def attention_select(group: Group, op: Op) -> Met | None:
    """Find attention with a Select whose condition or masking input lacks the shape of the scores.

    The kernel assumes that both have it; with a mask of keys, which heads share, another runs,
    unless a mask is added to the scores, too.
    """
    if len(op.inputs) != 3 or not group.has("SoftMax") or not group.follows(op, {"MatMul"}):
        return None
    masked, maker = op.inputs[1], group.producer(op.inputs[2])
    if group.producer(masked) or maker is None or maker.kind == "GreaterEqual":
        return None
    scores = group.shape(op.inputs[2])
    condition, other = (group.shape(t) for t in op.inputs[:2])
    if scores and condition and other is not None and not group.has("Dequantize"):
        heads_share = len(condition) == len(scores) == 4 and (1, 1, 1, *other)[-3] == 1
        if heads_share and condition[:2] == (scores[0], 1) and maker.kind != "Add":
            return None
    for i in (0, 1):
        if scores is None or group.shape(op.inputs[i]) != scores:
            return Met(
                f"attention that selects input 1 in place of scores, with input {i} of another "
                "shape than the scores,",
                "negate the condition, so that the scores are input 1, or give inputs 0 and 1 "
                "the shape of the scores",
            )
    return None


def _selects_scaled_scores(group: Group, op: Op) -> bool:
    """Whether attention selects between its scaled scores and something else.

    With a Select directly after the product, oneDNN does not take the kernel that computes one
    head after another.
    """
    if len(op.inputs) != 3 or not group.has("SoftMax") or not group.follows(op, {"MatMul"}):
        return False
    makers = [m for t in op.inputs[1:] if (m := group.producer(t)) is not None]
    return any(m.kind != "MatMul" and group.follows(m, {"MatMul"}) for m in makers)


def attention_condition(group: Group, op: Op) -> Met | None:
    """Find attention with a condition that oneDNN reads as if it had one element for each score.

    oneDNN does so in the kernel that computes one head after another, which it takes for more than
    two heads a thread; the number of threads is not known here.
    """
    if not _selects_scaled_scores(group, op) or group.producer(op.inputs[0]):
        return None
    condition, scores = group.shape(op.inputs[0]), group.shape(op.inputs[1])
    if group.producer(op.inputs[1]) is None or scores is None:
        return None
    if condition is not None and (1, 1, *condition)[-2:] == scores[-2:]:
        return None
    return Met(
        f"attention with the condition {shape_text(condition)} for scores {shape_text(scores)}",
        "give the condition the last two dims of the scores",
    )


def grouped_attention_select(group: Group, op: Op) -> Met | None:
    """Find attention of queries that a reshape groups: the kernel looks for ops that are gone."""
    scores = group.shape(op.outputs[0])
    if not _selects_scaled_scores(group, op) or not group.has("StaticReshape"):
        return None
    if scores is not None and len(scores) != 5:
        return None
    return Met(
        "attention of grouped queries that selects between its scores and something else",
        f"add a mask to the scores instead, or {_SPLIT}",
    )


def attention_mask_and_select(group: Group, op: Op) -> Met | None:
    """Find attention with a Select after an Add of a mask, which a kernel overlooks."""
    makers = [group.producer(t) for t in op.inputs[1:]]
    if not _selects_scaled_scores(group, op) or not any(m and m.kind == "Add" for m in makers):
        return None
    return Met(
        "attention that adds a mask to its scores and then selects",
        f"use one mask for both, or {_SPLIT}",
    )


def gaps(group: Group, op: Op) -> Met | None:
    """Find gaps in the input of an op whose result keeps the input's layout.

    oneDNN copies the bytes between the elements too, and some after the last one.
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
    """Find attention whose scores are a binary op's second input; the kernel assumes the first."""
    if len(op.inputs) != 2 or group.producer(op.inputs[0]) or not group.has("SoftMax"):
        return None
    if not group.follows(op, {"MatMul"}):
        return None
    return Met(
        "attention whose scores are the second input of this op", "make them the first input"
    )


def binary_after_int8_deconvolution(group: Group, op: Op) -> Met | None:
    """Find an operand after an int8 ConvTranspose, which oneDNN reads beyond its end.

    One of one element a channel is right.
    """
    if not group.follows(op, {"ConvTranspose"}) or not group.follows(op, {"Dequantize"}):
        return None
    for tensor in op.inputs:
        shape = group.shape(tensor)
        if not group.producer(tensor) and _wide(shape):
            what = f"an operand of shape {shape_text(shape)} fused after int8 ConvTranspose"
            return Met(what, _APART)
    return None


def dynamic_scale(group: Group, op: Op) -> Met | None:
    """Find a 16-bit scale for a whole tensor, which oneDNN reads as a 32-bit one."""
    if len(op.inputs) < 2 or op.inputs[1].dtype == "f32":
        return None
    if op.attr("qtype") != "per_tensor" and not _one_element(group.shape(op.inputs[1])):
        return None
    if group.has("MatMul"):  # MatMul's kernel takes the scales itself
        return None
    return Met(
        f"a scale of type {op.inputs[1].dtype} for the whole tensor",
        "use an f32 scale and output and a TypeCast, or qtype per_channel",
    )


def zero_points_of_columns(group: Group, op: Op) -> Met | None:
    """Find weights with s32 zero points, which AVX2 kernels load with an instruction of AVX-512.

    It was seen in attention and gated MLPs. Zero points of 8 bits, zero points of groups along the
    columns, and transposed weights are right.
    """
    maker = group.producer(op.inputs[1])
    while maker is not None and maker.kind in ("StaticReshape", "StaticTranspose"):
        maker = group.producer(maker.inputs[0])
    if maker is None or maker.kind != "DynamicDequantize" or len(maker.inputs) < 3:
        return None
    if group.tensor(maker.inputs[2]).dtype != "s32" or maker.attr("qtype") == "per_tensor":
        return None
    if op.attr("transpose_b") or (maker.attr("group_shape") or (1,))[-1] != 1:
        return None
    return Met(
        f"weights with zero points of type s32 for each column, which {maker.label} takes,",
        f"give the zero points as s8 or u8, or {_SPLIT}",
        "execute an instruction of AVX-512, which this CPU lacks",
    )


def binary_after_grouped_int8_convolution(group: Group, op: Op) -> Met | None:
    """Find an operand after an int8 convolution of one channel a group, masked by a wrong mask."""
    if not group.follows(op, {"Convolution"}) or not group.follows(op, {"Dequantize"}):
        return None
    if not any(_has_one_channel_a_group(group, o) for o in group.ops):
        return None
    for tensor in op.inputs:
        shape = group.shape(tensor)
        if not group.producer(tensor) and not _one_element(shape):
            return Met(
                f"an operand of shape {shape_text(shape)} fused after int8 Convolution with one "
                "channel a group",
                _APART,
            )
    return None


def _has_one_channel_a_group(group: Group, op: Op) -> bool:
    """Whether a grouped Convolution, unless it is depthwise, reads one channel a group."""
    groups = op.attr("groups") if op.kind == "Convolution" else None
    weights = group.shape(op.inputs[1]) if len(op.inputs) > 1 else None
    if groups is None or groups < 2 or weights is None or len(weights) < 3:
        return False
    into, out = weights[-2:] if op.attr("weights_format").startswith("X") else weights[1::-1]
    return bool(into == 1 and out != groups)


def strided_int8_pointwise_convolution(group: Group, op: Op) -> Met | None:
    """Find a strided int8 convolution with a kernel of 1: threads overwrite each other's pixels.

    If the strides divide the data, oneDNN copies what the kernel reads: whole vectors of channels,
    to a part of its scratchpad that has room for one image, with the channels rounded up to half a
    vector. The last vector may be read from beyond the data, and written into the next thread's
    part, whose results are then wrong. That was seen with OpenMP, and not with SYCL.
    """
    slide = slide_of(group, op) if integers_of(group, op) else None
    if slide is None or slide.groups != 1 or set(slide.window.kernel) != {1}:
        return None
    strides, spatial, channels = slide.window.strides, slide.source.spatial, slide.source.channels
    if len(strides) > 2 or set(strides) == {1} or 0 in slide.result.spatial:
        return None
    if slide.window.auto_pad == "None" and any(slide.window.pads_begin):
        return None
    if any(w * s != d for w, s, d in zip(slide.result.spatial, strides, spatial, strict=True)):
        return None
    rows = (strides[0] - 1) * spatial[1] if len(spatial) == 2 else 0
    behind = (rows + strides[-1] - 1) * channels
    for vector in (8, 16):  # with SSE4.1, and with AVX2
        last = channels % vector
        room = (vector // 2 - last) * math.prod(slide.result.spatial)
        if 0 < last <= vector // 2 and vector - last > min(behind, room):
            break
    else:
        return None
    return Met(
        f"an int8 convolution of {channels} channels with a kernel of 1 and strides that divide "
        "the data",
        f"give it a multiple of 16 channels, leave out the last row and column, or {_SPLIT}",
    )


def strided_pointwise_weights_gradient(group: Group, op: Op) -> Met | None:
    """Find a gradient of weights with a kernel of 1, as in `strided_int8_pointwise_convolution`.

    Some results were wrong, and some calls did not end, for up to half a vector of channels after
    whole ones.
    """
    made, shapes = group.shape(op.outputs[0]), [group.shape(t) for t in op.inputs[:2]]
    if made is None or any(s is None or min(s) < 0 for s in (made, *shapes)):
        return None
    source, gradient = (s for s in shapes if s is not None)
    last = op.attr("data_format") == "NXC"
    kernel = made[:-2] if str(op.attr("weights_format")).startswith("X") else made[2:]
    spatial, windows = (s[1:-1] if last else s[2:] for s in (source, gradient))
    channels, strides = source[-1 if last else 1], op.attr("strides")
    if set(kernel) != {1} or (op.attr("groups") or 1) != 1 or not 0 < channels % 8 <= 4:
        return None
    if set(strides) == {1} or any(
        w * s != d for w, s, d in zip(windows, strides, spatial, strict=True)
    ):
        return None
    return Met(
        f"a gradient for {channels} channels with a kernel of 1 and strides that divide the data",
        "take every second pixel before, by a pooling with a kernel of 1",
    )


def operand_behind_gapped_deconvolution(group: Group, op: Op) -> Met | None:
    """Find an operand after a ConvTranspose with gaps, which oneDNN reads beyond its end.

    Where the strides are larger than the kernel, no tap reaches some elements of the result. oneDNN
    computes the innermost dim in blocks, and reads a whole one for a last one that the stride does
    not divide.
    """
    if not group.follows(op, {"ConvTranspose"}):
        return None
    for maker in group.ops:
        slide = slide_of(group, maker) if maker.kind == "ConvTranspose" else None
        if slide is None:
            continue
        window, stride = slide.window, slide.window.strides[-1]
        reached = {k * window.dilations[-1] % stride for k in range(window.kernel[-1])}
        if len(reached) == stride or slide.result.spatial[-1] % stride == 0:
            continue
        for tensor in op.inputs:
            shape = group.shape(tensor)
            if not group.producer(tensor) and _wide(shape):
                return Met(
                    f"an operand of shape {shape_text(shape)} fused after a ConvTranspose with "
                    f"strides of {stride} and a kernel of {window.kernel[-1]}",
                    _APART,
                )
    return None


def last_dim_behind_two_layouts(group: Group, op: Op) -> Met | None:
    """Find an op fused after a binary op that reads operands in two layouts, one channels-last.

    The kernel then reads a table of offsets that it never made. It was seen to do so if this op's
    operand varies along the last dim alone.
    """
    shape = group.shape(op.outputs[0]) if op.outputs else None
    if shape is None or len(shape) < 3:
        return None
    for tensor in op.inputs:
        if not group.producer(tensor) and _varies_along_last_alone(group.shape(tensor), shape):
            break
    else:
        return None
    before = next((o for o in _chain(group, op) if _reads_two_layouts(group, o)), None)
    if before is None:
        return None
    return Met(
        f"an operand of shape {shape_text(group.shape(tensor))} fused after {before.label}, which "
        "reads two layouts,",
        f"pass contiguous arrays, or {_SPLIT}",
    )


def _varies_along_last_alone(shape: Shape, of: Shape) -> bool:
    """Whether an operand varies along the last dim alone, and is broadcast; true if unknown."""
    if shape is None or of is None:
        return True
    others = set(of[:-1]) - {1}
    return bool(shape and others) and shape[-1] != 1 and set(shape[:-1]) <= {1}


def _chain(group: Group, op: Op) -> list[Op]:
    """Return the element-wise and binary ops that lead to an op without others, nearest first."""
    found: list[Op] = []
    left = [op]
    while left:
        for tensor in left.pop().inputs:
            before = group.producer(tensor)
            if before and before not in found and before.kind in _BINARY | ELEMENTWISE:
                found.append(before)
                left.append(before)
    return found


def _reads_two_layouts(group: Group, op: Op) -> bool:
    """Whether a binary op that starts a kernel may read operands of equal dims in two layouts."""
    if op.kind not in _BINARY or len(op.inputs) != 2:
        return False
    a, b = (group.shape(t) for t in op.inputs)
    if a is None or b is None or a[1:] != b[1:]:
        return a is None or b is None
    if not any(_may_be_channels_last(group, t) for t in op.inputs):
        return False
    if group.follows(op, _FORWARD_CONVOLUTIONS):
        # A convolution takes the ops after it into its own kernel, up to the first that it can't.
        return any(_is_apart(group, o) for o in _chain(group, op))
    if all(group.producer(t) is None for t in op.inputs):
        return group.tensor(op.inputs[0]).strides != group.tensor(op.inputs[1]).strides
    return True


def _may_be_channels_last(group: Group, tensor: Tensor) -> bool:
    maker = group.producer(tensor)
    if maker is None:
        known = group.tensor(tensor)
        return known.strides is not None and not is_row_major(known) and known.strides[1] == 1
    if maker.kind in _FORWARD_CONVOLUTIONS:
        return bool(maker.attr("data_format") == "NCX")
    if maker.kind not in _BINARY | ELEMENTWISE:
        return False
    return any(
        _may_be_channels_last(group, t)
        for t in maker.inputs
        if group.shape(t) == group.shape(tensor)
    )


def _is_apart(group: Group, op: Op) -> bool:
    """Whether the kernel of a convolution can't take a binary op after it.

    It takes operands of its result's shape, of one element, and those that vary along the batch and
    channels alone.
    """
    if op.kind not in _BINARY or not group.follows(op, _FORWARD_CONVOLUTIONS):
        return False
    made = group.shape(op.outputs[0])
    for tensor in op.inputs:
        shape = group.shape(tensor)
        if group.producer(tensor):
            continue
        if shape is None or made is None:
            return True
        whole = (1,) * (len(made) - len(shape)) + shape
        if whole != made and any(d != 1 for d in whole[2:]):
            return True
    return False


# -- conditions that show defects


def _beside_sycl(c: Conditions) -> bool:
    return c.runtime != "SYCL"


def _threads(c: Conditions) -> bool:
    return c.threads > 1 and (_beside_sycl(c) or c.version < (3, 13))


def _amx(c: Conditions) -> bool:
    return c.amx


def _avx512_or_vnni(c: Conditions) -> bool:
    return c.avx512 or c.vnni  # AVX2 with VNNI has kernels of int8


def _with_avx2(c: Conditions) -> bool:
    return c.avx2


def _without_avx512(c: Conditions) -> bool:
    return not c.avx512


def _in(*kinds: str) -> frozenset[str]:
    return frozenset(kinds)


_CONVOLUTIONS = _in("Convolution", "ConvTransposeBackwardData")
"""ConvTransposeBackwardData is a convolution of the gradient."""

_13: Version = (3, 13)
_DEQUANTIZES = with_trait("dequantizes")
_MATMUL, _SOFTMAX, _DEQUANTIZE = _in("MatMul"), _in("SoftMax"), _in("Dequantize")
_NORMS = _in("GroupNorm", "LayerNorm", "SoftMax")
_COPIES = _in("StaticReshape", "StaticTranspose", "MaxPoolBackward")
_GRADIENTS = _in("AvgPoolBackward", "MaxPoolBackward")

DEFECTS: tuple[MemoryDefect, ...] = (
    MemoryDefect(binary_after_pooling, _BINARY, fused=True, beside=_POOLING),
    MemoryDefect(widening, _BINARY, fused=True),
    MemoryDefect(elementwise_rank, ELEMENTWISE, rank=6),
    MemoryDefect(
        elementwise_rank_behind_broadcast,
        ELEMENTWISE,
        since=(3, 8),
        fused=True,
        rank=6,
        beside=_BINARY,
    ),
    MemoryDefect(strided_running_statistics, _in("BatchNormForwardTraining"), strided=True),
    MemoryDefect(one_element_strides, _BINARY, strided=True),
    MemoryDefect(interpolation_of_one_column, _in("Interpolate")),
    MemoryDefect(attention_batches, _MATMUL, fused=True, rank=4, beside=_SOFTMAX),
    MemoryDefect(attention_strides, _MATMUL, fused=True, strided=True, beside=_SOFTMAX),
    MemoryDefect(
        attention_strides_of_five_dims,
        _MATMUL,
        until=_13,
        fused=True,
        strided=True,
        rank=5,
        beside=_SOFTMAX,
    ),
    MemoryDefect(windows_in_padding, _in("Convolution"), fused=True),
    MemoryDefect(window_behind_the_data, _CONVOLUTIONS, where=_threads, narrow=True),
    MemoryDefect(window_around_the_data, _CONVOLUTIONS, where=_amx, rank=5),
    MemoryDefect(pooling_backward_without_shape, _in("AvgPoolBackward")),
    MemoryDefect(pooling_backward_gaps, _GRADIENTS, strided=True, narrow=True),
    MemoryDefect(narrow_statistics, _in("GroupNorm", "LayerNorm"), narrow=True),
    MemoryDefect(operand_twice_behind_pooling, _BINARY, fused=True, beside=_POOLING),
    MemoryDefect(operand_twice_in_attention, _BINARY, until=_13, fused=True, beside=_SOFTMAX),
    MemoryDefect(folded_beside_its_source, _in("BatchNormInference", "BiasAdd"), fused=True),
    MemoryDefect(shared_weights, _MATMUL, until=_13, rank=4),
    MemoryDefect(shared_matrix, _MATMUL, until=_13, where=_avx512_or_vnni, rank=4),
    MemoryDefect(attention_select, _in("Select"), until=_13, fused=True, beside=_SOFTMAX),
    MemoryDefect(
        channel_scales_after_normalization, _in("Quantize"), until=_13, fused=True, beside=_NORMS
    ),
    MemoryDefect(
        strides_before_reshape, _in("StaticReshape"), fused=True, strided=True, beside=_MATMUL
    ),
    MemoryDefect(gaps, _COPIES, since=(3, 8), strided=True),
    MemoryDefect(attention_order, _BINARY, since=(3, 8), fused=True, beside=_SOFTMAX),
    *(
        MemoryDefect(
            met, _in("Select"), since=(3, 8), where=_beside_sycl, fused=True, beside=_SOFTMAX
        )
        for met in (attention_condition, attention_mask_and_select)
    ),
    MemoryDefect(
        grouped_attention_select,
        _in("Select"),
        since=(3, 8),
        where=_beside_sycl,
        fused=True,
        rank=5,
        beside=_in("StaticReshape"),
    ),
    MemoryDefect(last_dim_behind_two_layouts, _BINARY, since=(3, 8), fused=True, rank=3),
    MemoryDefect(
        binary_after_int8_deconvolution, _BINARY, since=(3, 8), fused=True, beside=_DEQUANTIZE
    ),
    MemoryDefect(dynamic_scale, _in("DynamicDequantize"), since=(3, 8)),
    MemoryDefect(
        zero_points_of_columns,
        _MATMUL,
        since=(3, 8),
        where=_without_avx512,
        fused=True,
        beside=_in("DynamicDequantize"),
    ),
    MemoryDefect(
        operand_behind_gapped_deconvolution,
        _BINARY,
        since=_13,
        where=_with_avx2,
        fused=True,
        beside=_in("ConvTranspose"),
    ),
    MemoryDefect(
        strided_int8_pointwise_convolution,
        _in("Convolution"),
        where=_without_avx512,
        fused=True,
        beside=_DEQUANTIZES,
    ),
    MemoryDefect(
        strided_pointwise_weights_gradient,
        _in("ConvolutionBackwardWeights"),
        where=lambda c: c.avx2 and not c.avx512,
    ),
    MemoryDefect(
        binary_after_grouped_int8_convolution,
        _BINARY | {"Select"},
        since=(3, 8),
        fused=True,
        beside=_DEQUANTIZE,
    ),
)
"""All known defects that crash oneDNN or make it leave its buffers."""


def defect_of(
    group: Group, conditions: Conditions, among: Sequence[MemoryDefect] = DEFECTS
) -> str | None:
    """Find the first defect that a partition meets.

    Returns
    -------
    str or None
        A message that names the op, the cause, the effect, a remedy and the row; None if there is
        no defect.
    """
    for op in group.ops:
        for defect in among:
            found = defect.met(group, op, conditions)
            if found is not None:
                version = ".".join(map(str, conditions.version))
                return (
                    f"{op.label}: {found.what} makes oneDNN {version} {found.effect}; "
                    f"{found.remedy} [{defect.name}]"
                )
    return None
