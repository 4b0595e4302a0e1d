"""Partitions with convolution or pooling for which oneDNN computes wrong results silently."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from ..machine import Conditions
from ..ops.lookup import with_attribute, with_trait
from .calls import Op
from .facts import (
    BINARY,
    Slide,
    integers_of,
    operands,
    quantization_of,
    runs_in_amx,
    slide_of,
)
from .group import Group

__all__ = [
    "convolution_of_one_row",
    "convolution_to_one_column",
    "convolution_to_one_column_alone",
    "dilated_depthwise_and_binary",
    "grouped_int8_with_zero_point",
    "ignored_dilations",
    "int8_average_over_padding",
    "int8_pool_and_operand",
    "int8_pool_and_relu",
    "one_channel_of_one_plane",
    "one_channel_of_one_plane_alone",
    "one_channel_to_one_column",
    "one_s8_channel_a_group",
    "padded_channels_of_one_plane",
    "padded_channels_of_one_plane_alone",
    "pool_and_whole_operand",
    "pool_of_channels_last",
    "s8_transposed_convolution",
    "stride_beyond_kernel",
    "stride_beyond_kernel_and_bias",
    "transposed_convolution_and_shifted_residual",
    "transposed_gradient_with_automatic_padding",
    "unreached_elements",
    "weights_that_see_padding",
]

_POOLS = with_attribute("kernel") - with_trait("gradient")
_WIDE_16 = ("bf16", "f16")


def _slides(group: Group, *kinds: str) -> Iterator[tuple[Op, Slide]]:
    for op in group.ops:
        slide = slide_of(group, op) if op.kind in kinds else None
        if slide is not None:
            yield op, slide


def _zero_points(op: Op) -> bool:
    """Whether a Dequantize has a zero point that is not 0, or may have one."""
    if op.kind == "DynamicDequantize":
        return len(op.inputs) > 2
    return any(op.attr("zps") or ())


# -- Convolution


def _one_column(group: Group, op: Op, slide: Slide, conditions: Conditions) -> bool:
    window = slide.window
    return (
        runs_in_amx(group, op, conditions)
        and slide.result.spatial[-1] == 1
        and window.strides[-1] > 1
        and window.extent(len(window.kernel) - 1) > 1
    )


def _one_plane(slide: Slide) -> int:
    """Return the channels of a group, where a source is 1 deep and its kernel deeper; else 0."""
    kernel, channels = slide.window.kernel, slide.source.channels
    if len(kernel) != 3 or slide.source.spatial[0] != 1 or kernel[0] == 1 or kernel[-1] == 1:
        return 0
    if slide.groups == channels == slide.result.channels:  # has a kernel of its own
        return 0
    return channels // slide.groups


def _one_channel(group: Group, op: Op, slide: Slide, conditions: Conditions) -> bool:
    bf16 = op.inputs[0].dtype == "bf16" and conditions.avx512_bf16
    narrow = bf16 or integers_of(group, op) is not None
    return narrow and _one_plane(slide) == 1


def _padded_channels(group: Group, op: Op, slide: Slide, conditions: Conditions) -> bool:
    together = 2 if integers_of(group, op) is None else 4  # channels in 4 bytes
    return runs_in_amx(group, op, conditions) and _one_plane(slide) % together != 0


def _some_convolution(
    met: Callable[[Group, Op, Slide, Conditions], bool],
    group: Group,
    conditions: Conditions,
    *,
    int8: bool = True,
) -> bool:
    return any(
        met(group, op, slide, conditions)
        for op, slide in _slides(group, "Convolution", "ConvTransposeBackwardData")
        if int8 or integers_of(group, op) is None
    )


def convolution_to_one_column(group: Group, conditions: Conditions) -> bool:
    """A strided convolution whose result is 1 wide; about half of the results are wrong."""
    return _some_convolution(_one_column, group, conditions)


def convolution_to_one_column_alone(group: Group, conditions: Conditions) -> bool:
    """The same without int8, as oneDNN computes those ops in f32 if each runs alone."""
    return _some_convolution(_one_column, group, conditions, int8=False)


def one_channel_of_one_plane(group: Group, conditions: Conditions) -> bool:
    """A convolution with a deeper kernel over one plane of one channel; most results are wrong."""
    return _some_convolution(_one_channel, group, conditions)


def one_channel_of_one_plane_alone(group: Group, conditions: Conditions) -> bool:
    """The same without int8, as oneDNN computes those ops in f32 if each runs alone."""
    return _some_convolution(_one_channel, group, conditions, int8=False)


def padded_channels_of_one_plane(group: Group, conditions: Conditions) -> bool:
    """A convolution with a deeper kernel over one plane, of channels that fill no whole 4 bytes."""
    return _some_convolution(_padded_channels, group, conditions)


def padded_channels_of_one_plane_alone(group: Group, conditions: Conditions) -> bool:
    """The same without int8, as oneDNN computes those ops in f32 if each runs alone."""
    return _some_convolution(_padded_channels, group, conditions, int8=False)


def convolution_of_one_row(group: Group, conditions: Conditions) -> bool:
    """A convolution in 16 bits of fewer rows than threads, which share each row's columns."""
    for op, slide in _slides(group, "Convolution"):
        rows = slide.result.batch * math.prod(slide.result.spatial[:-1])
        if op.inputs[0].dtype not in _WIDE_16 or rows >= conditions.threads:
            continue
        if slide.window.strides[-1] > 1 and slide.padded():
            return True
    return False


def dilated_depthwise_and_binary(group: Group, conditions: Conditions) -> bool:
    """A depthwise convolution with dilation in f16, and a binary op behind it."""
    return any(
        op.inputs[0].dtype == "f16"
        and slide.groups == slide.source.channels == slide.result.channels
        and max(slide.window.dilations) > 1
        and any(True for _ in operands(group, op))
        for op, slide in _slides(group, "Convolution")
    )


def one_s8_channel_a_group(group: Group, conditions: Conditions) -> bool:
    """A convolution of 1 s8 channel to more than 16 a group."""
    for op, slide in _slides(group, "Convolution"):
        source = quantization_of(group, op.inputs[0])
        if slide.groups == 1 or source is None or source.inputs[0].dtype != "s8":
            continue
        if slide.source.channels == slide.groups and slide.result.channels > 16 * slide.groups:
            return True
    return False


def grouped_int8_with_zero_point(group: Group, conditions: Conditions) -> bool:
    """An int8 convolution of 2 or 3 to over 16 channels a group, with zero point and padding."""
    for op, slide in _slides(group, "Convolution"):
        if slide.groups == 1 or integers_of(group, op) is None or not slide.padded():
            continue
        source = quantization_of(group, op.inputs[0])
        into, out = (c // slide.groups for c in (slide.source.channels, slide.result.channels))
        if source is not None and _zero_points(source) and 1 < into < 4 and out > 16:
            return True
    return False


def one_channel_to_one_column(group: Group, conditions: Conditions) -> bool:
    """A convolution of one channel a group with a stride along the last dim, to one column."""
    return any(
        slide.source.channels == slide.groups
        and slide.result.spatial[-1] == 1
        and slide.window.strides[-1] > 1
        and slide.window.kernel[-1] > 1
        for _, slide in _slides(group, "Convolution")
    )


def weights_that_see_padding(group: Group, conditions: Conditions) -> bool:
    """A gradient in 16 bits of weights that lie over padding alone."""
    for op in group.ops:
        if op.kind != "ConvolutionBackwardWeights" or op.inputs[0].dtype not in _WIDE_16:
            continue
        shapes = [group.shape(t) for t in (*op.inputs[:2], op.outputs[0])]
        if any(s is None or min(s) < 0 for s in shapes) or op.attr("auto_pad") != "None":
            continue
        last = op.attr("data_format") == "NXC"
        first = str(op.attr("weights_format")).startswith("X")
        source, made = (s[1:-1] if last else s[2:] for s in shapes[:2] if s is not None)
        kernel = (shapes[2] or ())[:-2] if first else (shapes[2] or ())[2:]
        lists = (op.attr(n) for n in ("strides", "dilations", "pads_begin"))
        for size, count, taps, stride, dilation, begin in zip(
            source, made, kernel, *lists, strict=True
        ):
            for tap in range(taps):
                places = (w * stride - begin + tap * dilation for w in range(count))
                if not any(0 <= place < size for place in places):
                    return True
    return False


# -- ConvTranspose


def _gaps(group: Group, conditions: Conditions) -> Iterator[Op]:
    """Yield transposed convolutions with a stride beyond the kernel, which skips some elements."""
    for op, slide in _slides(group, "ConvTranspose"):
        strides = slide.window.strides
        if not runs_in_amx(group, op, conditions) or integers_of(group, op) is not None:
            continue
        if set(slide.window.kernel) == {1}:
            continue
        if any(s > slide.window.extent(i) for i, s in enumerate(strides)):
            yield op


def stride_beyond_kernel(group: Group, conditions: Conditions) -> bool:
    """Elements that no window reaches, which stay 0 and get neither the bias nor fused ops."""
    return any(len(op.inputs) > 2 or len(group.ops) > 1 for op in _gaps(group, conditions))


def stride_beyond_kernel_and_bias(group: Group, conditions: Conditions) -> bool:
    """The cases of `stride_beyond_kernel` with a bias."""
    return any(len(op.inputs) > 2 for op in _gaps(group, conditions))


def unreached_elements(group: Group, conditions: Conditions) -> bool:
    """Elements of an int8 transposed convolution that no window reaches."""
    for op, slide in _slides(group, "ConvTranspose"):
        if integers_of(group, op) is None:
            continue
        window, sizes = slide.window, zip(slide.source.spatial, slide.result.spatial, strict=True)
        for i, (source, result) in enumerate(sizes):
            stride, extent = window.strides[i], window.extent(i)
            begin = window.pads_begin[i] if window.auto_pad == "None" else 0
            last = (source - 1) * stride + extent - begin
            if (stride > extent and source > 1) or (result > last and not window.same):
                return True
    return False


def s8_transposed_convolution(group: Group, conditions: Conditions) -> bool:
    """A transposed convolution of an s8 source, or of a source with a zero point.

    A convolution whose weights have a zero point does not compile.
    """
    for op in group.ops:
        if op.kind != "ConvTranspose":
            continue
        source, weights = (quantization_of(group, t) for t in op.inputs[:2])
        if source is None or (weights is not None and _zero_points(weights)):
            continue
        if source.inputs[0].dtype == "s8" or _zero_points(source):
            return True
    return False


def transposed_convolution_and_shifted_residual(group: Group, conditions: Conditions) -> bool:
    """A residual with a zero point added to an int8 transposed convolution."""
    if not any(op.kind == "ConvTranspose" and integers_of(group, op) for op in group.ops):
        return False
    for op in group.ops:
        for tensor in op.inputs if op.kind == "Add" else ():
            residual = group.producer(tensor)
            if residual is not None and residual.kind == "Dequantize" and _zero_points(residual):
                return True
    return False


def ignored_dilations(group: Group, conditions: Conditions) -> bool:
    """The gradient of a dilated transposed convolution; mostly it does not even compile."""
    return any(
        size > 1 and dilation > 1
        for _, slide in _slides(group, "ConvTransposeBackwardData")
        for size, dilation in zip(slide.window.kernel, slide.window.dilations, strict=True)
    )


def transposed_gradient_with_automatic_padding(group: Group, conditions: Conditions) -> bool:
    """A gradient with wrong paddings, as a stride does not divide input 0's dim."""
    for op in group.ops:
        if op.kind not in ("ConvTransposeBackwardData", "ConvTransposeBackwardWeights"):
            continue
        if not str(op.attr("auto_pad")).startswith("SAME"):
            continue
        shape, strides = group.shape(op.inputs[0]), op.attr("strides")
        if shape is None:
            return True
        spatial = shape[1:-1] if op.attr("data_format") == "NXC" else shape[2:]
        if any(d < 0 or d % s for d, s in zip(spatial, strides, strict=True)):
            return True
    return False


# -- pooling


def _pools(group: Group) -> list[Op]:
    return [op for op in group.ops if op.kind in _POOLS]


def pool_and_whole_operand(group: Group, conditions: Conditions) -> bool:
    """An operand that varies along several dims, which oneDNN reads as if in the pool's layout."""
    if not _pools(group):
        return False
    for op in group.ops:
        for tensor in op.inputs if op.kind in BINARY else ():
            shape = group.shape(tensor)
            if group.producer(tensor) is None and sum(d != 1 for d in shape or ()) > 1:
                return True
    return False


def pool_of_channels_last(group: Group, conditions: Conditions) -> bool:
    """A fused operand that varies along the channels alone, which oneDNN reads at wrong places.

    With one batch and one channel, it also misreads one that varies along the innermost spatial
    dim, or along the only dim of more than one element.
    """
    for pool in _pools(group):
        if pool.attr("data_format") != "NXC":
            continue
        for _, operand, result in operands(group, pool):
            if sum(d != 1 for d in operand) != 1:
                continue
            if operand[-1] != 1:
                return True
            if result[0] == result[-1] == 1 and (operand[-2] != 1 or operand == result):
                return True
    return False


def int8_pool_and_operand(group: Group, conditions: Conditions) -> bool:
    """An int8 pool with a fused operand that varies along one dim."""
    if not group.has("Dequantize") or not group.has("Quantize"):
        return False
    for pool in _pools(group):
        first = pool.attr("data_format") == "NCX"
        for _, operand, _ in operands(group, pool):
            wide = [i for i, d in enumerate(operand) if d != 1]
            if len(wide) == 1 and not (first and wide == [1]):
                return True
    return False


def int8_average_over_padding(group: Group, conditions: Conditions) -> bool:
    """An average that counts padding, of integers whose zero point is not 0."""
    for pool in _pools(group):
        if pool.kind != "AvgPool" or pool.attr("exclude_pad"):
            continue
        source = quantization_of(group, pool.inputs[0])
        padded = str(pool.attr("auto_pad")).startswith("SAME") or any(
            (*pool.attr("pads_begin"), *pool.attr("pads_end"))
        )
        if padded and source is not None and _zero_points(source):
            return True
    return False


def int8_pool_and_relu(group: Group, conditions: Conditions) -> bool:
    """An int8 pool with a ReLU, whose values oneDNN rounds before it scales them.

    With a binary op too the partition does not compile.
    """
    if not _pools(group) or not group.has("Dequantize") or group.has(*BINARY):
        return False
    return group.has("ReLU", "LeakyReLU")
