"""Rules for ops that oneDNN computes wrongly as they are written."""

from collections.abc import Mapping
from dataclasses import replace

from ...ops.lookup import with_trait
from ..building.value import Node, Value, row_major
from .quantization import with_a_scale_for_each_input_channel, with_separate_arithmetic
from .rule import Dims, Ops, Rule

_HALVES = ("bf16", "f16")

REORDERED = ("f32", "bf16", "f16")  # the data types of tensors that oneDNN can copy with an op


def _in_f32(ops: Ops, node: Node) -> bool:
    """Cast 16-bit inputs to f32, and 16-bit outputs back; the result is rounded once, as before."""
    if not any(v.dtype in _HALVES for v in (*node.inputs, *node.outputs)):
        return False
    narrow = {v.id: v for v in node.inputs if v.dtype in _HALVES}
    wide = {i: ops.cast(v, "f32") for i, v in narrow.items()}
    outputs = [ops.like(v, dtype="f32") if v.dtype in _HALVES else v for v in node.outputs]
    ops.same([wide.get(v.id, v) for v in node.inputs], outputs)
    for value, result in zip(node.outputs, outputs, strict=True):
        if result is not value:
            ops.add("TypeCast", (result,), (value,), {})
    return True


def _without_transpose_a(ops: Ops, node: Node) -> bool:
    """Transpose a product's first operand by a separate op."""
    source, *others = node.inputs
    rank = len(ops.shapes[source.id])
    if not node.attrs.get("transpose_a") or rank < 2:
        return False
    turned = ops.op("StaticTranspose", source, order=(*range(rank - 2), rank - 1, rank - 2))
    ops.same((turned, *others), transpose_a=False)
    return True


def _with_axis_last(ops: Ops, node: Node) -> bool:
    """Transpose the axis of a SoftMax to the end by separate ops, and back."""
    (source,) = node.inputs
    rank = len(ops.shapes[source.id])
    axis = int(node.attr("axis")) % rank
    if axis == rank - 1:
        return False
    order = (*range(axis), *range(axis + 1, rank), axis)
    back = (*range(axis), rank - 1, *range(axis, rank - 1))
    turned = ops.op("StaticTranspose", source, order=order)
    outputs = [ops.like(v, order) for v in node.outputs]
    ops.same((turned,), outputs, axis=-1)
    for result, value in zip(outputs, node.outputs, strict=True):
        ops.add("StaticTranspose", (result,), (value,), {"order": back})
    return True


def _with_row_major_inputs(ops: Ops, node: Node) -> bool:
    """Copy inputs that are strided and not row-major; no op copies others than floats."""
    copies: dict[int, Value] = {}
    for value in node.inputs:
        plain = value.strides in (None, row_major(ops.shapes[value.id]))
        if plain or value.id in copies or value.dtype not in REORDERED:
            continue
        copies[value.id] = ops.op("Reorder", value)
    ops.same([copies.get(v.id, v) for v in node.inputs])
    return bool(copies)


def _with_gradients_of_parameters(ops: Ops, node: Node) -> bool:
    """Let a batch normalization's gradient also make those of gamma and beta, which nobody reads.

    Without gamma it needs one: the mean, clamped to 1.
    """
    if len(node.outputs) > 1:
        return False
    mean, inputs = node.inputs[2], node.inputs
    if not inputs[4:]:
        inputs = (*inputs, ops.op("Clamp", mean, min=1.0, max=1.0))
    ops.same(inputs, (*node.outputs, ops.like(mean), ops.like(mean)))
    return True


def _with_pixels_taken_before(ops: Ops, node: Node) -> bool:
    """Take the pixels that a strided convolution with a kernel of 1 reads by a pooling before."""
    weights = ops.shapes[node.outputs[0].id]
    first = str(node.attr("weights_format")).startswith("X")
    kernel = weights[:-2] if first else weights[2:]
    if set(kernel) != {1} or any((*node.attrs["pads_begin"], *node.attrs["pads_end"])):
        return False
    none = (0,) * len(kernel)
    window = {"kernel": kernel, "pads_begin": none, "pads_end": none, "exclude_pad": False}
    attrs = {"strides": node.attrs["strides"], "data_format": node.attr("data_format"), **window}
    taken = ops.op("AvgPool", node.inputs[0], **attrs)
    ops.same((taken, *node.inputs[1:]), strides=kernel)
    return True


def _with_unit_strides(ops: Ops, node: Node) -> bool:
    """Write a stride of 1 where a convolution has one window, and no padding behind it."""
    if str(node.attr("auto_pad")) != "None":
        return False
    dims, weights, count = (ops.shapes[v.id] for v in (*node.inputs[:2], node.outputs[0]))
    kernel = weights[:-2] if str(node.attr("weights_format")).startswith("X") else weights[2:]
    last = str(node.attr("data_format")) == "NXC"
    dims, count = (d[1:-1] if last else d[2:] for d in (dims, count))
    strides, ends = list(node.attrs["strides"]), list(node.attrs["pads_end"])
    for i, windows in enumerate(count):
        extent = node.attrs["dilations"][i] * (kernel[i] - 1) + 1
        padded = extent - dims[i] - node.attrs["pads_begin"][i]
        if windows == 1 and padded >= 0:
            strides[i], ends[i] = 1, padded
    ops.same(strides=strides, pads_end=ends)
    return True


_QUANTIZATION = with_trait("quantizes") | with_trait("dequantizes")
_EVERY = with_trait()

AVOIDING = (
    Rule("with strides of 1 where it has one window", {"Convolution"}, _with_unit_strides),
    Rule(
        "with its pixels taken by a separate op",
        {"ConvolutionBackwardWeights"},
        _with_pixels_taken_before,
    ),
    Rule(
        "with gradients of its parameters too",
        {"BatchNormTrainingBackward"},
        _with_gradients_of_parameters,
    ),
    Rule("with row-major inputs", _EVERY - {"Reorder"}, _with_row_major_inputs),
    Rule("with its first operand transposed by a separate op", {"MatMul"}, _without_transpose_a),
    Rule("with its axis transposed by separate ops", {"SoftMax"}, _with_axis_last),
    Rule("with a scale for each input channel", _QUANTIZATION, with_a_scale_for_each_input_channel),
    Rule("with separate ops that scale and shift", _QUANTIZATION, with_separate_arithmetic),
    Rule("in f32", _EVERY - {"TypeCast"}, _in_f32),
)
"""The rules; the cheap ones come first."""


def complete(node: Node, shapes: Mapping[int, Dims]) -> Node:
    """Add attributes that oneDNN needs and that the shapes determine.

    Without `src_shape` AvgPoolBackward ends the process (3.7 to 3.13).
    """
    if node.kind == "AvgPoolBackward" and not node.attrs.get("src_shape") and len(node.inputs) == 1:
        return replace(node, attrs={**node.attrs, "src_shape": shapes[node.outputs[0].id]})
    return node
