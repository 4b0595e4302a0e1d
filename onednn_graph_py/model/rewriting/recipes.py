"""Rules for ops for which oneDNN has no kernel."""

import math
from collections.abc import Callable
from itertools import groupby
from typing import Any

import numpy as np

from ...ops.inference import make_call
from ...ops.lookup import row, with_attribute, with_trait
from ...reference.windows import windows
from ..building.value import Node, Value
from .early import AS_PRODUCTS
from .rule import Dims, Ops, Rule
from .shapes import filled

_REDUCTIONS = with_trait("reduces")
_OVER_LAST = with_attribute("begin_norm_axis")
_ALONG_AXIS = with_attribute("axis") & (with_trait("steep") | with_trait("gradient"))
# The places of inputs that say a shape, and the attributes that say it too.
_SHAPES = {
    "AvgPoolBackward": (1, "src_shape"),
    "ConvolutionBackwardData": (2, "dst_shape"),
    "ConvolutionBackwardWeights": (2, "weights_shape"),
    "ConvTransposeBackwardWeights": (2, "weights_shape"),
    "Interpolate": (1, ""),  # it has one of two attributes in any case
    "InterpolateBackward": (2, ""),
}
_POOLS = with_attribute("rounding_type")
_PADDED = _POOLS | {"ConvTranspose"} | {"ConvTransposeBackwardWeights"}
_OVER_IMAGES = with_attribute("epsilon") & with_attribute("data_format")


def _as_quotient(ops: Ops, node: Node) -> bool:
    (x,) = node.inputs
    ops.op("Divide", filled(ops, ops.scalar(1, x), x), x)
    return True


def _as_reshape(ops: Ops, node: Node) -> bool:
    """Write a reduction over dims of 1."""
    (x, *_), shape = node.inputs, ops.shapes[node.inputs[0].id]
    axes = node.attr("axes") or ()
    if not axes or any(shape[axis] != 1 for axis in axes):
        return False
    if node.kind.startswith("ReduceL"):  # a norm
        x = ops.op("Abs", x)
    attrs = {"shape": ops.shapes[node.outputs[0].id], "special_zero": False}
    ops.add("StaticReshape", (x,), node.outputs, attrs)
    return True


def _as_sum(ops: Ops, node: Node) -> bool:
    """Write the gradient of a bias as the sum that it is."""
    (x,) = node.inputs
    rank = len(ops.shapes[x.id])
    kept = rank - 1 if node.attr("data_format") == "NXC" else 1
    axes = tuple(i for i in range(rank) if i != kept)
    ops.op("ReduceSum", x, axes=axes, keep_dims=False)
    return True


def _windows(
    ops: Ops, node: Node, wide: Value, narrow: Value, kernel: Dims
) -> tuple[dict[str, Dims], Dims]:
    """Return explicit paddings for an op's windows, and the elements behind the last window.

    The windows slide over the wide tensor; the narrow one has an element for each of them.
    """
    given, made = ([(ops.shapes[v.id], v.dtype) for v in s] for s in (node.inputs, node.outputs))
    call = make_call(row(node.kind), given, node.attrs, made)
    last = node.attr("data_format") == "NXC"
    spatial, count = (
        shape[1:-1] if last else shape[2:] for shape in (ops.shapes[v.id] for v in (wide, narrow))
    )
    at = windows(call, spatial, kernel, count)
    beyond = [s - b - d for s, b, d in zip(at.span, at.begin, spatial, strict=True)]
    pads = {"pads_begin": at.begin, "pads_end": tuple(max(n, 0) for n in beyond)}
    return pads, tuple(max(-n, 0) for n in beyond)


def _kernel(ops: Ops, node: Node, weights: Value) -> Dims:
    shape = ops.shapes[weights.id]
    return shape[:-2] if str(node.attr("weights_format")).startswith("X") else shape[2:]


_TRANSPOSED_FORMATS = {"XIO": "XOI", "OIX": "IOX", "XOI": "XIO", "IOX": "OIX"}


def _as_transposed_convolution(ops: Ops, node: Node) -> bool:
    """Write the gradient of a convolution's data, whose groups 3.7 has no kernel for."""
    diff, weights = node.inputs[:2]
    pads, left = _windows(ops, node, node.outputs[0], diff, _kernel(ops, node, weights))
    names = ("strides", "dilations", "groups", "data_format")
    attrs = {n: node.attrs[n] for n in names if n in node.attrs}
    order = _TRANSPOSED_FORMATS[node.attr("weights_format")]
    attrs |= {**pads, "output_padding": left, "weights_format": order}
    ops.op("ConvTranspose", diff, weights, **attrs)
    return True


def _as_convolution(ops: Ops, node: Node) -> bool:
    """Write the gradient of a transposed convolution's data as the convolution that it is."""
    diff, weights = node.inputs
    kernel = _kernel(ops, node, weights)
    pads, _ = _windows(ops, node, diff, node.outputs[0], kernel)
    order = _TRANSPOSED_FORMATS[node.attr("weights_format")]
    attrs = {**node.attrs, **pads, "auto_pad": "None", "weights_format": order}
    ops.op("Convolution", diff, weights, **attrs)
    return True


def _with_shape_as_attribute(ops: Ops, node: Node) -> bool:
    """Leave out the input that says the shape of the output, which is known."""
    place, name = _SHAPES[node.kind]
    if len(node.inputs) <= place:
        return False
    attrs = {**node.attrs, name: ops.shapes[node.outputs[0].id]} if name else {**node.attrs}
    ops.add(node.kind, node.inputs[:place], node.outputs, attrs)
    return True


def _with_paddings(ops: Ops, node: Node) -> bool:
    """Write the paddings that windows need as numbers, where other attributes say them."""
    first, made = node.inputs[0], node.outputs[0]
    left: dict[str, Any] = {}
    if node.kind == "ConvTranspose":
        kernel = _kernel(ops, node, node.inputs[1])
        pads, behind = _windows(ops, node, made, first, kernel)
        left["output_padding"] = behind
    elif node.kind == "ConvTransposeBackwardWeights":
        kernel = _kernel(ops, node, made)
        pads, _ = _windows(ops, node, node.inputs[1], first, kernel)
    else:
        pads, _ = _windows(ops, node, first, made, node.attrs["kernel"])
        left["rounding_type"] = "floor"
    attrs = {**node.attrs, **pads, **left, "auto_pad": "None"}
    if all(node.attr(name) == value for name, value in attrs.items()):
        return False
    ops.add(node.kind, node.inputs, node.outputs, attrs)
    return True


def _with_bare_matrix(ops: Ops, node: Node) -> bool:
    """Leave out the dims of 1 before the matrix of a product's second operand."""
    a, b, *rest = node.inputs
    shape = ops.shapes[b.id]
    if not 2 < len(shape) <= len(ops.shapes[a.id]) or any(d != 1 for d in shape[:-2]):
        return False
    ops.op("MatMul", a, ops.reshape(b, shape[-2:]), *rest, **node.attrs)
    return True


def _slope_of(ops: Ops, node: Node) -> Value:
    """Return the slope in a shape that broadcasts as NumPy does."""
    x, slope = node.inputs[:2]
    rank, shape = len(ops.shapes[x.id]), ops.shapes[slope.id]
    per_channel = node.kind == "PReLUBackward" or node.attr("per_channel_broadcast")
    first = per_channel and node.attr("data_format") == "NCX" and len(shape) == 1 and shape != (1,)
    behind = (1,) * (rank - 2) if first else ()
    return ops.reshape(slope, (1,) * (rank - len(shape) - len(behind)) + shape + behind)


def _as_sum_of_sides(ops: Ops, node: Node) -> bool:
    """Write PReLU as the part above 0 and the slope times the part below."""
    x = node.inputs[0]
    below = ops.op("Minimum", x, ops.scalar(0, x))
    ops.op("Add", ops.op("ReLU", x), ops.op("Multiply", below, _slope_of(ops, node)))
    return True


def _with_slopes_of_channels(ops: Ops, node: Node) -> bool:
    """Write the gradients of PReLU with one slope as those of as many as there are channels."""
    x, slope, diff = node.inputs
    dims = ops.shapes[x.id]
    channels = dims[1 if node.attr("data_format") == "NCX" else -1]
    # Sums of channels in 16 bits would be rounded once more.
    if math.prod(ops.shapes[slope.id]) != 1 or channels < 2 or slope.dtype != "f32":
        return False
    ones, of_slopes = (ops.value((channels,), slope.dtype) for _ in range(2))
    ones.data = np.ones(channels, np.float32)
    slopes = ops.op("Multiply", ops.reshape(slope, (1,)), ones)
    ops.add("PReLUBackward", (x, slopes, diff), (node.outputs[0], of_slopes), dict(node.attrs))
    total = ops.op("ReduceSum", of_slopes, axes=(0,), keep_dims=True)
    shape = ops.shapes[node.outputs[1].id]
    ops.add("StaticReshape", (total,), node.outputs[1:], {"shape": shape, "special_zero": False})
    return True


def _as_selections(ops: Ops, node: Node) -> bool:
    """Write the gradients of PReLU: where x is above 0, that of the slope is 0."""
    x, _, diff = node.inputs
    slope = _slope_of(ops, node)
    is_below = ops.op("GreaterEqual", ops.scalar(0, x), x, dtype="boolean")
    ops.add("Select", (is_below, ops.op("Multiply", diff, slope), diff), node.outputs[:1], {})
    below = ops.op("Minimum", x, ops.scalar(0, x))
    # In 16 bits each product would be rounded before the sum.
    of_slope = ops.op("Multiply", *(ops.cast(v, "f32") for v in (below, diff)))
    pairs = zip(ops.shapes[slope.id], ops.shapes[x.id], strict=True)
    axes = tuple(i for i, (one, d) in enumerate(pairs) if one == 1 != d)
    if axes:
        of_slope = ops.op("ReduceSum", of_slope, axes=axes, keep_dims=True)
    of_slope, shape = ops.cast(of_slope, slope.dtype), ops.shapes[node.outputs[1].id]
    ops.add("StaticReshape", (of_slope,), node.outputs[1:], {"shape": shape, "special_zero": False})
    return True


def _reshaped(ops: Ops, node: Node, as_: Callable[[Dims], Dims], **attrs: Any) -> bool:
    """Write an op on reshaped tensors; return whether any has another rank then."""
    if all(len(as_(ops.shapes[v.id])) == len(ops.shapes[v.id]) for v in node.inputs):
        return False
    inputs = [ops.reshape(v, as_(ops.shapes[v.id])) for v in node.inputs]
    outputs = [
        v if as_(shape) == shape else ops.value(as_(shape), v.dtype)
        for v in node.outputs
        for shape in [ops.shapes[v.id]]
    ]
    ops.add(node.kind, inputs, outputs, {**node.attrs, **attrs})
    for made, value in zip(outputs, node.outputs, strict=True):
        if made is not value:
            shape = {"shape": ops.shapes[value.id], "special_zero": False}
            ops.add("StaticReshape", (made,), (value,), shape)
    return True


def _as_matrix(ops: Ops, node: Node) -> bool:
    """Join the dims over which a normalization goes, and those before."""
    shape = ops.shapes[node.inputs[0].id]
    axis = int(node.attr("begin_norm_axis")) % max(len(shape), 1)
    rows, columns = math.prod(shape[:axis]), math.prod(shape[axis:])
    joined = {shape[axis:]: (columns,), shape[:axis]: (rows,), shape: (rows, columns)}
    return _reshaped(ops, node, lambda dims: joined[dims], begin_norm_axis=-1)


def _as_three_dims(ops: Ops, node: Node) -> bool:
    """Join the dims before an axis, and those behind it."""
    shape = ops.shapes[node.inputs[0].id]
    axis = int(node.attr("axis")) % len(shape)

    def joined(dims: Dims) -> Dims:
        return math.prod(dims[:axis]), dims[axis], math.prod(dims[axis + 1 :])

    return len(shape) > 3 and _reshaped(ops, node, joined, axis=1)


def _as_image(ops: Ops, node: Node) -> bool:
    """Give a normalization over channels or their groups two spatial dims."""
    shape = ops.shapes[node.inputs[0].id]
    last = node.attr("data_format") == "NXC"
    spatial = (math.prod(shape[1:-1] if last else shape[2:]), 1)
    image = (shape[0], *spatial, shape[-1]) if last else (*shape[:2], *spatial)
    return len(shape) >= 2 and _reshaped(ops, node, lambda dims: image if dims == shape else dims)


def _with_joined_dims(ops: Ops, node: Node) -> bool:
    """Join neighbouring dims along which the same operands of Select broadcast; leave out ones."""
    rank = len(ops.shapes[node.outputs[0].id])

    def padded(dims: Dims) -> Dims:
        return (1,) * (rank - len(dims)) + dims

    operands = [padded(ops.shapes[v.id]) for v in node.inputs]
    wide = [i for i in range(rank) if any(dims[i] != 1 for dims in operands)]
    groups = [list(g) for _, g in groupby(wide, lambda i: tuple(dims[i] == 1 for dims in operands))]
    if len(groups) >= rank or not groups:
        return False
    return _reshaped(
        ops, node, lambda dims: tuple(math.prod(padded(dims)[i] for i in g) for g in groups)
    )


RECIPES = (
    Rule("as a Divide", ("Reciprocal",), _as_quotient),
    AS_PRODUCTS,
    Rule("as a StaticReshape", _REDUCTIONS, _as_reshape),
    Rule("as a ReduceSum", ("BiasAddBackward",), _as_sum),
    Rule("with its shape as an attribute", _SHAPES, _with_shape_as_attribute),
    Rule("as a ConvTranspose", ("ConvolutionBackwardData",), _as_transposed_convolution),
    Rule("as a Convolution", ("ConvTransposeBackwardData",), _as_convolution),
    Rule("with its paddings written out", _PADDED, _with_paddings),
    Rule("without dims of 1", ("MatMul",), _with_bare_matrix),
    Rule("as a sum", ("PReLU",), _as_sum_of_sides),
    Rule("with a slope a channel", ("PReLUBackward",), _with_slopes_of_channels),
    Rule("as selections", ("PReLUBackward",), _as_selections),
    Rule("with two dims", _OVER_LAST, _as_matrix),
    Rule("with three dims", _ALONG_AXIS, _as_three_dims),
    Rule("with four dims", _OVER_IMAGES, _as_image),
    Rule("with fewer dims", ("Select",), _with_joined_dims),
)
