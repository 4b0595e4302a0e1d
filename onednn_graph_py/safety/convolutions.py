"""Defects of convolutions, transposed ones, and their gradients."""

import math
from collections.abc import Iterator

from ..machine import Conditions
from ..ops.lookup import with_trait
from ..ops.terms import shape_text
from .calls import Op
from .defect import APART, CRASH, OUT_OF_BOUNDS, SPLIT, WRONG, Answer, Hit, Needs, Where, defect
from .facts import (
    BINARY,
    DEQUANTIZES,
    Slide,
    has_zero_point,
    integers_of,
    one_element,
    operands,
    quantization_of,
    runs_in_amx,
    slide_of,
    spread,
)
from .group import Group

__all__: list[str] = []

_CONVOLUTION = frozenset({"Convolution"})
_TRANSPOSED = frozenset({"ConvTranspose"})
_CONVOLUTIONS = _CONVOLUTION | {"ConvTransposeBackwardData"}
"""ConvTransposeBackwardData is a convolution of the gradient."""
_WEIGHTS_GRADIENTS = frozenset({"ConvTransposeBackwardWeights", "ConvolutionBackwardWeights"})
_DEQUANTIZE = frozenset({"Dequantize"})
_BINARY = with_trait("binary")
_16_BITS = ("bf16", "f16")
_AMX, _AVX512 = Where(has=("amx",)), Where(has=("avx512",))

# -- convolutions


def _unless_int8(met: bool, group: Group, op: Op) -> Answer:
    """Answer that ops of int8 are right alone, as oneDNN computes each in f32 then."""
    return met and Hit(alone=integers_of(group, op) is None)


@defect(
    "oneDNN with AVX-512 but without VNNI computes s8 convolutions of one channel a group wrongly",
    Needs(_CONVOLUTION, fused=True, beside=DEQUANTIZES),
    Where(has=("avx512",), lacks=("vnni",)),
)
def one_s8_channel_a_group(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find a convolution of 1 s8 channel to more than 16 a group."""
    source, slide = quantization_of(group, op.inputs[0]), slide_of(group, op)
    if slide is None or slide.groups == 1 or source is None or source.inputs[0].dtype != "s8":
        return False
    return slide.source.channels == slide.groups and slide.result.channels > 16 * slide.groups


@defect(
    "oneDNN computes s8 convolutions of one channel a group wrongly where only rows have padding",
    Needs(_CONVOLUTION, fused=True, beside=DEQUANTIZES, rank=4),
    Where(until=(3, 13), has=("vnni",)),
)
def one_s8_channel_in_padded_rows(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find several rows of weights over two dims, with padding along the second alone.

    The kernel corrects its sums for the source's sign, though not where windows overhang.
    """
    source, slide = quantization_of(group, op.inputs[0]), slide_of(group, op)
    if slide is None or source is None or source.inputs[0].dtype != "s8":
        return False
    if slide.source.channels != slide.groups or len(slide.window.kernel) != 2:
        return False
    depthwise = slide.groups > 1 and slide.depthwise
    return slide.window.kernel[0] > 1 and not depthwise and slide.padded() and slide.begin(0) == 0


@defect(
    "oneDNN applies the bias or statistics of other dims to the channels of a convolution before",
    Needs({"BatchNormInference", "BiasAdd"}, fused=True, beside=_CONVOLUTION | _TRANSPOSED),
)
def channels_of_another_format(group: Group, op: Op, conditions: Conditions) -> Answer:
    maker = group.producer(op.inputs[0])
    known = (None, op.attr("data_format"))
    return maker is not None and maker.attr("data_format") not in known


@defect(
    "oneDNN with AMX computes strided convolutions to one column wrongly",
    Needs(_CONVOLUTIONS),
    _AMX,
)
def convolution_to_one_column(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find a strided convolution whose result is 1 wide; about half of the results are wrong."""
    slide = slide_of(group, op)
    if slide is None or slide.result.spatial[-1] != 1 or not runs_in_amx(group, op, conditions):
        return False
    window = slide.window
    met = window.strides[-1] > 1 and window.extent(len(window.kernel) - 1) > 1
    return _unless_int8(met, group, op)


@defect(
    "oneDNN with AVX-512 computes strided convolutions of one channel to one column wrongly",
    Needs(_CONVOLUTION),
    _AVX512,
)
def one_channel_to_one_column(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find a convolution of one channel a group with a stride along the last dim."""
    slide = slide_of(group, op)
    if slide is None or slide.source.channels != slide.groups or slide.result.spatial[-1] != 1:
        return False
    return slide.window.strides[-1] > 1 and slide.window.kernel[-1] > 1


def _one_plane(slide: Slide | None) -> int:
    """Return the channels of a group, where a source is 1 deep and its kernel deeper; else 0."""
    if slide is None or len(slide.window.kernel) != 3:
        return 0
    kernel = slide.window.kernel
    if slide.source.spatial[0] != 1 or 1 in (kernel[0], kernel[-1]):
        return 0
    if slide.depthwise and slide.groups > 1:  # which has a kernel of its own
        return 0
    return slide.source.channels // slide.groups


@defect(
    "oneDNN computes convolutions of one plane and one channel with a deeper kernel wrongly",
    Needs(_CONVOLUTIONS, rank=5),
    _AVX512,
)
def one_channel_of_one_plane(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Most results are wrong."""
    bf16 = op.inputs[0].dtype == "bf16" and conditions.has("avx512_bf16")
    if not bf16 and integers_of(group, op) is None:
        return False
    return _unless_int8(_one_plane(slide_of(group, op)) == 1, group, op)


@defect(
    "oneDNN with AMX computes convolutions of one plane with a deeper kernel wrongly where 4 "
    "bytes do not divide the channels",
    Needs(_CONVOLUTIONS, rank=5),
    _AMX,
)
def padded_channels_of_one_plane(group: Group, op: Op, conditions: Conditions) -> Answer:
    together = 2 if integers_of(group, op) is None else 4  # channels in 4 bytes
    met = _one_plane(slide_of(group, op)) % together != 0
    return _unless_int8(met and runs_in_amx(group, op, conditions), group, op)


@defect(
    "oneDNN computes 16-bit convolutions of fewer rows than threads, with stride and padding, "
    "wrongly",
    Needs(_CONVOLUTION, narrow=True),
    Where(has=("avx512",), threads=2),
    effect=WRONG | OUT_OF_BOUNDS,
)
def convolution_of_one_row(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find fewer rows than threads, which share each row's columns."""
    slide = slide_of(group, op) if op.inputs[0].dtype in _16_BITS else None
    if slide is None:
        return False
    rows = slide.result.batch * math.prod(slide.result.spatial[:-1])
    return rows < conditions.threads and slide.window.strides[-1] > 1 and slide.padded()


@defect(
    "oneDNN computes binary ops after dilated depthwise convolutions in f16 wrongly",
    Needs(_CONVOLUTION, fused=True, narrow=True, beside=BINARY),
    Where((3, 8), has=("avx512", "f16")),
)
def binary_behind_dilated_depthwise(group: Group, op: Op, conditions: Conditions) -> Answer:
    slide = slide_of(group, op) if op.inputs[0].dtype == "f16" else None
    if slide is None or not slide.depthwise or max(slide.window.dilations) == 1:
        return False
    return any(True for _ in operands(group, op))


@defect(
    "oneDNN with AMX computes grouped int8 convolutions with a zero point and padding wrongly",
    Needs(_CONVOLUTION, fused=True, beside=DEQUANTIZES),
    _AMX,
)
def grouped_int8_with_zero_point(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find a convolution of 2 or 3 to over 16 channels a group."""
    slide = slide_of(group, op) if integers_of(group, op) else None
    if slide is None or slide.groups == 1 or not slide.padded():
        return False
    source = quantization_of(group, op.inputs[0])
    into, out = (c // slide.groups for c in (slide.source.channels, slide.result.channels))
    return source is not None and has_zero_point(source) and 1 < into < 4 and out > 16


def _taps_in_data(slide: Slide) -> Iterator[list[bool]]:
    """Yield whether each tap of the windows sees data somewhere, for each of the dims."""
    window, begin = slide.window, slide.begin
    sizes = zip(slide.source.spatial, slide.result.spatial, strict=True)
    for dim, (size, count) in enumerate(sizes):
        stride, dilation = window.strides[dim], window.dilations[dim]
        taps = [tap * dilation - begin(dim) for tap in range(window.kernel[dim])]
        yield [any(0 <= tap + w * stride < size for w in range(count)) for tap in taps]


@defect(
    "oneDNN with AVX-512 leaves 16-bit gradients of weights unwritten where they see only padding",
    Needs(_WEIGHTS_GRADIENTS, narrow=True),
    _AVX512,
)
def weights_that_see_padding(group: Group, op: Op, conditions: Conditions) -> Answer:
    slide = slide_of(group, op) if op.inputs[0].dtype in _16_BITS else None
    return slide is not None and not all(map(all, _taps_in_data(slide)))


@defect(
    "oneDNN with AVX-512 computes 16-bit gradients of weights that are deeper than the source "
    "wrongly",
    Needs(_WEIGHTS_GRADIENTS, narrow=True, rank=5),
    _AVX512,
)
def weights_deeper_than_source(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find several windows along the first of three dims, padded on both sides."""
    slide = slide_of(group, op) if op.inputs[0].dtype in _16_BITS else None
    if slide is None or len(slide.window.kernel) < 3:
        return False
    window = slide.window
    padded = window.same or (window.pads_begin[0] and window.pads_end[0])
    several = slide.result.spatial[0] > 1
    return bool(padded) and several and window.kernel[0] > slide.source.spatial[0]


@defect(
    "a gradient of weights with more padding in front than half of their depth",
    Needs(_WEIGHTS_GRADIENTS, rank=5),
    _AVX512,
    effect=OUT_OF_BOUNDS,
    remedy="divide the padding among both sides, or pad the source before",
)
def weights_behind_deep_padding(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find several windows along the first of three dims.

    The kernel counts the planes that a window shares with the source. It takes the padding for
    passed once they are all, though the next window may begin in the padding, too.
    """
    slide = slide_of(group, op)
    if slide is None or len(slide.window.kernel) < 3 or slide.result.spatial[0] < 2:
        return False
    begin, depth = slide.begin(0), slide.window.kernel[0]
    return begin > depth // 2 and Hit(
        f"a gradient of weights {depth} deep behind {begin} planes of padding"
    )


@defect(
    "a gradient of weights over an empty batch whose tensors are not row-major",
    Needs(_WEIGHTS_GRADIENTS),
    Where(sycl=False),
    effect=CRASH,
    remedy="leave it out: all of its elements are 0",
)
def weights_gradient_of_nothing(group: Group, op: Op, conditions: Conditions) -> Answer:
    slide = slide_of(group, op)
    if slide is None or slide.source.batch != 0:
        return False
    in_order = all(group.tensor(t).is_row_major for t in op.inputs[:2])
    return not in_order and Hit("a gradient of weights over an empty batch")


@defect(
    "oneDNN computes what follows a transposed convolution wrongly where a later op reads its "
    "result again",
    Needs({"ConvTranspose"}, fused=True),
    Where((3, 8)),
)
def transposed_convolution_read_again(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find two operands before the result; seen with one element and one a channel, in groups."""
    readers = sum(t.id == op.outputs[0].id for other in group.ops for t in other.inputs)
    return readers > 1 and sum(o.kind in BINARY for o in group.ops) > 2


@defect(
    "oneDNN with AMX adds no bias and applies no fused ops to elements that no window of a "
    "transposed convolution reaches",
    Needs(_TRANSPOSED),
    Where((3, 8), has=("amx",)),
)
def stride_beyond_kernel(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find elements that stay 0, as a stride is larger than the kernel."""
    slide = slide_of(group, op) if runs_in_amx(group, op, conditions) else None
    if slide is None or integers_of(group, op) is not None or set(slide.window.kernel) == {1}:
        return False
    if all(s <= slide.window.extent(i) for i, s in enumerate(slide.window.strides)):
        return False
    return Hit(alone=len(op.inputs) > 2)


@defect(
    "oneDNN leaves elements of int8 transposed convolutions that no window reaches undefined",
    Needs(_TRANSPOSED, fused=True, beside=DEQUANTIZES),
    Where(until=(3, 8)),
    Where(lacks=("avx512",)),
)
def unreached_elements_of_transposed_convolution(
    group: Group, op: Op, conditions: Conditions
) -> Answer:
    slide = slide_of(group, op) if integers_of(group, op) else None
    if slide is None:
        return False
    window = slide.window
    for i, source in enumerate(slide.source.spatial):
        stride, extent = window.strides[i], window.extent(i)
        last = (source - 1) * stride + extent - window.begin(i, 0)
        if (stride > extent and source > 1) or slide.result.spatial[i] > last:
            return True
    return False


@defect(
    "oneDNN computes ConvTransposeBackwardData without its dilations",
    Needs({"ConvTransposeBackwardData"}),
)
def dilated_transposed_gradients(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Mostly it does not even compile."""
    slide = slide_of(group, op)
    if slide is None:
        return False
    taps = zip(slide.window.kernel, slide.window.dilations, strict=True)
    return any(size > 1 and dilation > 1 for size, dilation in taps)


@defect(
    "oneDNN pads the gradients of transposed convolutions wrongly with auto_pad SAME_*; "
    "give pads_begin and pads_end",
    Needs({"ConvTransposeBackwardData", "ConvTransposeBackwardWeights"}),
)
def auto_pad_of_transposed_gradients(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find wrong paddings, as a stride does not divide input 0's dim."""
    if not str(op.attr("auto_pad")).startswith("SAME"):
        return False
    shape, strides = group.shape(op.inputs[0]), op.attr("strides")
    if shape is None:
        return True
    spatial = shape[1:-1] if op.attr("data_format") == "NXC" else shape[2:]
    return any(d < 0 or d % s for d, s in zip(spatial, strides, strict=True))


# -- windows over padding, out of bounds


@defect(
    "a convolution with windows that cover only padding, and other ops fused to it",
    Needs(_CONVOLUTION, fused=True),
    effect=OUT_OF_BOUNDS,
    remedy=f"{SPLIT}, or use smaller paddings",
)
def windows_in_padding(group: Group, op: Op, conditions: Conditions) -> Answer:
    slide = slide_of(group, op)
    if slide is None or slide.window.auto_pad != "None":
        return False
    window = slide.window
    for i in range(len(window.kernel)):
        extent = window.extent(i)
        if max(window.pads_begin[i], window.pads_end[i]) >= extent:
            return Hit(f"a padding as large as the window of {extent} with other ops fused to it")
    return False


@defect(
    "a convolution of which no window sees an element along one of the dims",
    Needs(_CONVOLUTIONS),
    effect=CRASH,
    remedy="leave it out: all of its windows are sums of zeros",
)
def windows_without_data(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find one whatever follows; a bias or another op made the kernel run that is not there."""
    slide = slide_of(group, op)
    if slide is None or all(map(any, _taps_in_data(slide))):
        return False
    return Hit("a convolution that sees only padding")


@defect(
    "a convolution with a window along the innermost dim that begins after the last element",
    Needs(_CONVOLUTIONS),
    Where(threads=2, sycl=False),
    Where(until=(3, 13), threads=2),
    effect=OUT_OF_BOUNDS,
    remedy="use smaller paddings at the end, or one thread",
)
def window_behind_the_data(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find such a window wherever threads share a row.

    The defect was seen if one thread's share of a short row begins with that window; others
    happen to be right.
    """
    slide = slide_of(group, op)
    if slide is None:
        return False
    size, windows = slide.source.spatial[-1], slide.result.spatial[-1]
    if (windows - 1) * slide.window.strides[-1] - slide.begin(-1) < size:
        return False
    return Hit(f"a window that begins after the {size} elements of the innermost dim")


@defect(
    "a convolution over three dims with a window that sees only padding along the first",
    Needs(_CONVOLUTIONS, rank=5),
    _AMX,
    effect=OUT_OF_BOUNDS,
    remedy="use smaller paddings or dilations, or strict f32",
)
def window_around_the_data(group: Group, op: Op, conditions: Conditions) -> Answer:
    source = group.producer(op.inputs[0])
    int8 = source is not None and source.kind in DEQUANTIZES
    types = (*_16_BITS, "f32") if group.fpmath in ("bf16", "any") else _16_BITS
    slide = slide_of(group, op) if int8 or op.inputs[0].dtype in types else None
    if slide is None or len(slide.window.kernel) != 3:
        return False
    first, step = -slide.begin(0), slide.window.strides[0]
    taps = [k * slide.window.dilations[0] for k in range(slide.window.kernel[0])]
    for start in range(first, first + slide.result.spatial[0] * step, step):
        if not any(0 <= start + tap < slide.source.spatial[0] for tap in taps):
            return Hit("a window that sees no element along the outermost dim")
    return False


# -- pixels that lie apart, out of bounds


@defect(
    "a strided int8 convolution with a kernel of 1: threads overwrite each other's pixels",
    Needs(_CONVOLUTION, fused=True, beside=DEQUANTIZES),
    Where(lacks=("avx512",)),
    effect=OUT_OF_BOUNDS,
    remedy="give it a multiple of 16 channels, leave out the last row and column, or " + SPLIT,
)
def strided_int8_pointwise_convolution(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find one whose strides divide the data.

    oneDNN then copies what the kernel reads: whole vectors of channels, to a part of its scratchpad
    that has room for one image, with the channels rounded up to half a vector. The last vector may
    be read from beyond the data, and written into the next thread's part, whose results are then
    wrong. That was seen with OpenMP, and not with SYCL.
    """
    slide = slide_of(group, op) if integers_of(group, op) else None
    if slide is None or slide.groups != 1 or set(slide.window.kernel) != {1}:
        return False
    strides, spatial, channels = slide.window.strides, slide.source.spatial, slide.source.channels
    if len(strides) > 2 or set(strides) == {1} or 0 in slide.result.spatial:
        return False
    if slide.window.auto_pad == "None" and any(slide.window.pads_begin):
        return False
    if any(w * s != d for w, s, d in zip(slide.result.spatial, strides, spatial, strict=True)):
        return False
    rows = (strides[0] - 1) * spatial[1] if len(spatial) == 2 else 0
    behind = (rows + strides[-1] - 1) * channels
    for vector in (8, 16):  # with SSE4.1, and with AVX2
        last = channels % vector
        room = (vector // 2 - last) * math.prod(slide.result.spatial)
        if 0 < last <= vector // 2 and vector - last > min(behind, room):
            return Hit(
                f"an int8 convolution of {channels} channels with a kernel of 1 and strides that "
                "divide the data"
            )
    return False


@defect(
    "a gradient of weights with a kernel of 1, as in `strided_int8_pointwise_convolution`",
    Needs({"ConvolutionBackwardWeights"}),
    Where(has=("avx2",), lacks=("avx512",)),
    effect=OUT_OF_BOUNDS,
    remedy="take every second pixel before, by a pooling with a kernel of 1",
)
def strided_pointwise_weights_gradient(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find up to half a vector of channels after whole ones.

    Some results were wrong, and some calls did not end.
    """
    slide = slide_of(group, op)
    if slide is None or set(slide.window.kernel) != {1} or slide.groups != 1:
        return False
    strides, channels = slide.window.strides, slide.source.channels
    if set(strides) == {1} or not 0 < channels % 8 <= 4:
        return False
    sizes = zip(slide.result.spatial, strides, slide.source.spatial, strict=True)
    if any(w * s != d for w, s, d in sizes):
        return False
    return Hit(
        f"a gradient for {channels} channels with a kernel of 1 and strides that divide the data"
    )


# -- operands after convolutions, out of bounds


@defect(
    "an operand after an int8 ConvTranspose, which oneDNN reads beyond its end",
    Needs(_BINARY, fused=True, beside=_DEQUANTIZE),
    Where((3, 8)),
    effect=OUT_OF_BOUNDS,
    remedy=APART,
)
def binary_after_int8_deconvolution(group: Group, op: Op, conditions: Conditions) -> Answer:
    """One of one element a channel is right."""
    if not group.follows(op, _TRANSPOSED) or not group.follows(op, _DEQUANTIZE):
        return False
    shapes = [s for t in group.read(op) if spread(s := group.shape(t))]
    return bool(shapes) and Hit(
        f"an operand of shape {shape_text(shapes[0])} fused after int8 ConvTranspose"
    )


@defect(
    "an operand after a ConvTranspose with gaps, which oneDNN reads beyond its end",
    Needs(_BINARY, fused=True, beside=_TRANSPOSED),
    Where((3, 13), has=("avx2",)),
    effect=OUT_OF_BOUNDS,
    remedy=APART,
)
def operand_behind_gapped_deconvolution(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find strides larger than the kernel, so that no tap reaches some elements of the result.

    oneDNN computes the innermost dim in blocks, and reads a whole one for a last one that the
    stride does not divide.
    """
    shapes = [s for t in group.read(op) if spread(s := group.shape(t))]
    if not shapes or not group.follows(op, _TRANSPOSED):
        return False
    for maker in group.ops:
        slide = slide_of(group, maker) if maker.kind == "ConvTranspose" else None
        if slide is None:
            continue
        window, stride = slide.window, slide.window.strides[-1]
        reached = {k * window.dilations[-1] % stride for k in range(window.kernel[-1])}
        if len(reached) == stride or slide.result.spatial[-1] % stride == 0:
            continue
        return Hit(
            f"an operand of shape {shape_text(shapes[0])} fused after a ConvTranspose with "
            f"strides of {stride} and a kernel of {window.kernel[-1]}"
        )
    return False


@defect(
    "an operand after an int8 convolution of one channel a group, masked by a wrong mask",
    Needs(_BINARY | {"Select"}, fused=True, beside=_DEQUANTIZE),
    Where((3, 8)),
    effect=OUT_OF_BOUNDS,
    remedy=APART,
)
def binary_after_grouped_int8_convolution(group: Group, op: Op, conditions: Conditions) -> Answer:
    if not group.follows(op, _CONVOLUTION) or not group.follows(op, _DEQUANTIZE):
        return False
    if not any(_has_one_channel_a_group(group, o) for o in group.ops):
        return False
    shapes = [s for t in group.read(op) if not one_element(s := group.shape(t))]
    return bool(shapes) and Hit(
        f"an operand of shape {shape_text(shapes[0])} fused after int8 Convolution with one "
        "channel a group"
    )


def _has_one_channel_a_group(group: Group, op: Op) -> bool:
    """Whether a grouped Convolution, unless it is depthwise, reads one channel a group."""
    groups = op.attr("groups") if op.kind == "Convolution" else None
    weights = group.shape(op.inputs[1]) if len(op.inputs) > 1 else None
    if groups is None or groups < 2 or weights is None or len(weights) < 3:
        return False
    into, out = weights[-2:] if op.attr("weights_format").startswith("X") else weights[1::-1]
    return bool(into == 1 and out != groups)
