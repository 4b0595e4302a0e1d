"""Draws of each op: a function for ops that are alike, which takes a tensor and adds the op.

`ROWS` has the function of each kind, and the ranks of the tensors that it takes. The function draws
the attributes and other operands that fit the tensor, which an input or another op made.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...base.linked import linked_version
from ...model.building.value import Value, is_whole
from ...ops import OPS, check
from .draft import CALLS, Dims, Draft, Open, merged, sized

Add = Callable[[Draft, str, Value], Any]


class Row(NamedTuple):
    """The draws of ops of a kind."""

    add: Add
    low: int = 1
    high: int = 6


_NEEDS_POSITIVE = ("Log", "Sqrt", "Pow", "Reciprocal", "SqrtBackward", "ReduceProd")
_VALUES: dict[str, Sequence[Any]] = {
    "alpha": (0.25, 0.5, 1.5),
    "beta": (0.5, 0.75, 2.0),
    "min": (-1.0, -0.25),
    "max": (0.5, 1.25),
    "use_dst": (True, False),
}
_POWERS = (-2.5, -1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0)


def _first(d: Draft, kind: str, x: Value) -> Value:
    return d.positive(x) if kind in _NEEDS_POSITIVE else x


def _elementwise(d: Draft, kind: str, x: Value) -> Any:
    known = {a.name for a in OPS[kind].attributes}
    attrs = {name: d.pick(values) for name, values in _VALUES.items() if name in known}
    if "mode" in known and linked_version() >= (3, 9):
        attrs["mode"] = d.pick(("gelu_erf", "gelu_tanh"))
    if kind == "Pow":
        attrs["beta"] = d.pick(_POWERS)
    more = [d.operand(d.shape(x), x.dtype) for _ in OPS[kind].inputs[1:]]
    return d.op(kind, _first(d, kind, x), *more, **attrs)


def _binary(d: Draft, kind: str, x: Value) -> Any:
    shape = d.shape(x)
    other = d.operand(d.beside(shape), x.dtype, *((0.5, 2.0) if kind == "Divide" else ()))
    attrs: dict[str, Any] = (
        {"auto_broadcast": "none"} if d.alike(x, other) and d.chance(0.3) else {}
    )
    if kind == "Divide" or d.chance(0.7):
        return d.op(kind, x, other, **attrs)
    return d.op(kind, other, x, **attrs)


def _select(d: Draft, kind: str, x: Value) -> Any:
    shape = d.shape(x)
    condition = d.operand(d.thinned(shape), "boolean")
    pair = [x, d.operand(d.thinned(shape) if d.chance(0.7) else (1,), x.dtype)]
    d.random.shuffle(pair)
    return d.op(kind, condition, *pair)


def _channels(d: Draft, shape: Dims) -> tuple[int, str]:
    last = d.chance(0.5) or len(shape) < 2
    return shape[-1 if last else 1], "NXC" if last else "NCX"


_NO_OPEN_DIMS = ("ConvolutionBackwardData", "AvgPoolBackward")  # an attribute has the shape


def _channelwise(d: Draft, kind: str, x: Value) -> Any:
    """Ops with a parameter a channel: biases, slopes, batch normalization."""
    n, data_format = _channels(d, d.shape(x))
    attrs: dict[str, Any] = {"data_format": data_format}
    bounds = {"variance": (0.5, 1.5), "gamma": (0.75, 1.25)}
    ports = OPS[kind].inputs[1:]
    outputs: int | None = None
    if kind.startswith("BatchNorm"):
        attrs["epsilon"] = d.pick((1e-3, 1e-5))
    if kind == "BatchNormForwardTraining":
        attrs["momentum"] = d.pick((0.25, 0.9))
        ports = ports if d.chance(0.7) else ports[:2]
        outputs = 5
    if kind == "BatchNormTrainingBackward":
        outputs = d.pick((1, 3))
        ports = ports if outputs == 3 or d.chance(0.5) else ports[:-1]
    more = []
    for port in ports:
        whole = port.name == "diff_dst" or (port.name == "slope" and d.chance(0.3))
        of = d.shape(x) if whole else (n,)
        if port.name == "slope" and d.chance(0.2):
            of = d.thinned(d.shape(x)) if data_format == "NXC" else (1,)
        dtype = "f32" if port.type == "T2" else x.dtype
        more.append(d.operand(of, dtype, *bounds.get(port.name, ())))
    if outputs:
        attrs["count"] = outputs
    return d.op(kind, x, *more, **attrs)


def _matmul(d: Draft, kind: str, x: Value) -> Any:
    shape = d.shape(x)
    across, turned = d.chance(0.35), d.chance(0.4)
    if len(shape) == 1:
        across = False
    inner = shape[-2 if across else -1]
    columns = d.size()
    batch: Dims = ()
    if d.chance(0.6) and len(shape) > 2:
        batch = d.beside(shape[:-2]) if d.chance(0.6) else shape[:-2]
    weights = (*batch, columns, inner) if turned else (*batch, inner, columns)
    if d.chance(0.5 if len(shape) == 2 else 0.1):  # a vector; the result has no dim of columns
        weights, columns = (inner,), 0
    w = d.operand(weights, x.dtype, -1.0, 1.0)
    bias = [d.operand((columns,), x.dtype)] if columns and d.chance(0.3) else []
    return d.op(kind, x, w, *bias, transpose_a=across, transpose_b=turned)


# -- windows


def _spatial(shape: Dims, data_format: str) -> Dims:
    return shape[1:-1] if data_format == "NXC" else shape[2:]


def _data(batch: int, channels: int, spatial: Dims, data_format: str) -> Dims:
    return (batch, *spatial, channels) if data_format == "NXC" else (batch, channels, *spatial)


def _window(d: Draft, sizes: Dims, *, up: bool, far: bool, dilated: bool) -> dict[str, Any]:
    """Draw a window for each spatial dim; `up` makes larger dims, `far` pads beyond the window."""
    n = len(sizes)
    strides = d.uneven(n, (1, 2, 3))
    dilations = d.uneven(n, (1, 2, 3)) if dilated and d.chance(0.5) else (1,) * n
    kernel, begins, ends = [], [], []
    for size, stride, dilation, k in zip(
        sizes,
        strides,
        dilations,
        d.uneven(n, (1, 2, 3) if d.chance(0.1) else (2, 3, 4, 5)),
        strict=True,
    ):
        least = min(size.sizes) if isinstance(size, Open) else size
        while True:
            extent = dilation * (k - 1) + 1
            most = extent if far and d.chance(0.2) else extent - 1
            begin, end = d.random.randint(0, most), d.random.randint(0, most)
            if up and (least - 1) * stride + extent - begin - end > 0:
                break
            if not up and least + begin + end >= extent:
                break
            k = max(1, k - 1)
        beyond = (least + begin + end - extent) % stride
        if not up and end >= beyond and d.chance(0.8):
            end -= beyond  # the last window ends with the padding, so that this matters
        kernel.append(k)
        begins.append(begin)
        ends.append(end)
    return {
        "kernel": tuple(kernel),
        "strides": strides,
        "dilations": dilations,
        "pads_begin": tuple(begins),
        "pads_end": tuple(ends),
    }


def _pad_by_itself(d: Draft, attrs: dict[str, Any], kernel: Dims, sizes: Dims) -> None:
    """Now and then let an op choose its padding; none at all if windows fit without."""
    if d.chance(0.1):
        dilations = attrs.get("dilations", (1,) * len(kernel))
        each = zip(sizes, kernel, dilations, strict=True)
        fits = all(min(sized([n], k)[0] for k in range(CALLS)) > by * (w - 1) for n, w, by in each)
        attrs["auto_pad"] = d.pick(("SAME_UPPER", "SAME_LOWER", "VALID")[: 3 if fits else 2])


def _inferred(kind: str, shapes: Sequence[Dims], attrs: dict[str, Any]) -> Dims:
    made = [
        check(kind, [(sized(s, k), None) for s in shapes], attrs, version=(99, 0))[0].shape
        for k in range(CALLS)
    ]
    return merged([m for m in made if m is not None])


def _convolution(d: Draft, kind: str, x: Value) -> Any:
    """All six: three that make dims smaller as Convolution does, three that make them larger."""
    shape = d.shape(x)
    inputs, data_format = _channels(d, shape)
    name = kind.split("Backward")[0]
    transposed = name == "ConvTranspose"
    data, weights_only = kind.endswith("BackwardData"), kind.endswith("BackwardWeights")
    up = transposed != data
    attrs = _window(d, _spatial(d.shape(x), data_format), up=up, far=True, dilated=True)
    kernel = attrs.pop("kernel")
    groups = d.divisor(inputs)
    outputs = groups * d.pick((1, 2, 3, 4, 8, 16))
    first = d.pick(("XOI", "IOX") if transposed else ("XIO", "OIX"))
    # The channels of weights: those of Convolution's result, or ConvTranspose's source, are whole.
    down_side, up_side = (outputs, inputs) if not up else (inputs, outputs)
    pair = (down_side, up_side if groups == 1 else up_side // groups)
    shaped = (*kernel, *reversed(pair)) if first.startswith("X") else (*pair, *kernel)
    attrs |= {"groups": groups, "data_format": data_format, "weights_format": first}
    _pad_by_itself(d, attrs, kernel, _spatial(shape, data_format))
    if weights_only:
        result = _inferred(name, [shape, shaped], attrs)
        gradient = d.operand(result, x.dtype)
        return d.op(kind, x, gradient, weights_shape=shaped, **attrs)
    w = d.operand(shaped, x.dtype, -1.0, 1.0)
    if kind == "ConvolutionBackwardData":
        out = _inferred(
            "ConvTranspose",
            [shape, shaped],
            {**attrs, "weights_format": {"XIO": "XOI", "OIX": "IOX"}[first]},
        )
        more = tuple(d.random.randint(0, s - 1) for s in attrs["strides"])
        if "auto_pad" not in attrs:
            spatial = tuple(a + b for a, b in zip(_spatial(out, data_format), more, strict=True))
            out = _data(shape[0], outputs, spatial, data_format)
        return d.op(kind, x, w, dst_shape=out, **attrs)
    if kind == "ConvTranspose" and d.chance(0.4):
        attrs["output_padding"] = tuple(d.random.randint(0, s - 1) for s in attrs["strides"])
    bias = [d.operand((outputs,), x.dtype)] if not data and d.chance(0.4) else []
    return d.op(kind, x, w, *bias, **attrs)


def _let_windows_overhang(d: Draft, kind: str, shape: Dims, attrs: dict[str, Any]) -> None:
    """Now and then round numbers of windows up, where each window still sees an element.

    oneDNN does not say whether an average that counts padding counts what lies beyond it too.
    """
    if not attrs.get("exclude_pad", True) or d.chance(0.7):
        return
    up = {**attrs, "rounding_type": "ceil"}
    result = _inferred(kind, [shape], up)
    for k in range(CALLS):
        sizes, counts = (_spatial(sized(s, k), attrs["data_format"]) for s in (shape, result))
        each = zip(sizes, counts, attrs["strides"], attrs["pads_begin"], strict=True)
        if any((count - 1) * stride - begin >= n for n, count, stride, begin in each):
            return
    attrs["rounding_type"] = "ceil"


def _each_sees_one(attrs: dict[str, Any], sizes: Dims) -> bool:
    """Return whether each window has an element that is not padding, also between dilations."""
    names = ("kernel", "strides", "dilations", "pads_begin", "pads_end")
    for n, *window in zip(sizes, *(attrs[name] for name in names), strict=True):
        kernel, stride, dilation, begin, end = window
        n = min(n.sizes) if isinstance(n, Open) else n
        count = (n + begin + end - dilation * (kernel - 1) - 1) // stride + 1
        at = (range(i * stride - begin, n, dilation)[:kernel] for i in range(count))
        if not all(any(p >= 0 for p in positions) for positions in at):
            return False
    return True


def _pool(d: Draft, kind: str, x: Value) -> Any:
    shape = d.shape(x)
    _, data_format = _channels(d, shape)
    name = kind.removesuffix("Backward")
    back_to_source = kind == "AvgPoolBackward"
    sizes = _spatial(d.shape(x), data_format)
    attrs = _window(d, sizes, up=back_to_source, far=False, dilated=name == "MaxPool")
    if name == "MaxPool" and not _each_sees_one(attrs, sizes):
        attrs = _window(d, sizes, up=False, far=False, dilated=False)
    attrs["data_format"] = data_format
    if name == "AvgPool":
        del attrs["dilations"]
        attrs["exclude_pad"] = d.chance(0.5)
    _pad_by_itself(d, attrs, attrs["kernel"], sizes)
    if kind == name:
        _let_windows_overhang(d, kind, shape, attrs)
        return d.op(kind, x, **attrs)
    if kind == "MaxPoolBackward":
        return d.op(kind, x, d.operand(_inferred(name, [shape], attrs), x.dtype), **attrs)
    attrs.pop("auto_pad", None)
    spatial = tuple(
        (n - 1) * s + k - b - e + d.random.randint(0, s - 1)
        for n, s, k, b, e in zip(
            map(int, sizes),
            attrs["strides"],
            attrs["kernel"],
            attrs["pads_begin"],
            attrs["pads_end"],
            strict=True,
        )
    )
    channels = shape[-1 if data_format == "NXC" else 1]
    return d.op(kind, x, src_shape=_data(shape[0], channels, spatial, data_format), **attrs)


def _interpolate(d: Draft, kind: str, x: Value) -> Any:
    shape = d.shape(x)
    _, data_format = _channels(d, shape)
    rank = len(shape) - 2
    attrs: dict[str, Any] = {
        "mode": d.pick(("nearest", ("linear", "bilinear", "trilinear")[rank - 1])),
        "data_format": data_format,
    }
    if d.chance(0.5):
        attrs["sizes"] = d.uneven(rank, (1, 3, 5, 6, 8, 9))
    else:
        spatial = _spatial(shape, data_format)
        least = min(min(sized(spatial, k)) for k in range(CALLS))
        attrs["scales"] = d.uneven(rank, (0.5, 2.0, 1.5, 3.0) if least > 1 else (2.0, 3.0, 4.0))
    if attrs["mode"] != "nearest" and d.chance(0.2):
        attrs["coordinate_transformation_mode"] = "align_corners"
    if kind == "Interpolate":
        return d.op(kind, x, **attrs)
    return d.op(kind, x, d.operand(_inferred("Interpolate", [shape], attrs), x.dtype), **attrs)


# -- along axes


def _layer_norm(d: Draft, kind: str, x: Value) -> Any:
    shape = d.shape(x)
    axis = len(shape) - 1 if d.chance(0.85) else d.random.randrange(len(shape))
    attrs: dict[str, Any] = {
        "epsilon": d.pick((1e-3, 1e-5)),
        "begin_norm_axis": axis - len(shape) * d.random.randint(0, 1),
    }
    affine = d.chance(0.6)
    gamma = [(0.75, 1.25), (-1.0, 1.0)]
    dtype = x.dtype if kind == "RMSNorm" else "f32"
    parameters = [d.operand(shape[axis:], dtype, *g) for g in gamma] if affine else []
    if kind == "RMSNorm":
        return d.op(kind, x, *parameters[:1], **attrs)
    attrs["use_affine"] = affine
    if kind == "LayerNorm":
        attrs["keep_stats"] = d.chance(0.4)
        return d.op(kind, x, *parameters, **attrs)
    statistics = [d.operand(shape[:axis], "f32", *b) for b in ((-0.5, 0.5), (0.5, 1.5))]
    gradient = d.operand(shape, x.dtype)
    attrs["count"] = 3 if affine else 1
    return d.op(kind, x, gradient, *statistics, *parameters, **attrs)


def _group_norm(d: Draft, kind: str, x: Value) -> Any:
    n, data_format = _channels(d, d.shape(x))
    attrs: dict[str, Any] = {
        "groups": d.divisor(n),
        "data_format": data_format,
        "keep_stats": d.chance(0.4),
        "use_affine": d.chance(0.6),
        "epsilon": 1e-3,
    }
    pair = [d.operand((n,), "f32", *b) for b in ((0.75, 1.25), (-1.0, 1.0))]
    return d.op(kind, x, *(pair if attrs["use_affine"] else ()), **attrs)


def _along_axis(d: Draft, kind: str, x: Value) -> Any:
    """SoftMax and LogSoftmax and their gradients, GenIndex, Concat."""
    shape = d.shape(x)
    axis = d.random.randrange(len(shape))
    attrs: dict[str, Any] = {"axis": axis - len(shape) * d.random.randint(0, 1)}
    if kind == "Concat":
        parts = [
            d.operand((*shape[:axis], size, *shape[axis + 1 :]), x.dtype)
            for size in d.uneven(d.random.randint(1, 3), (1, 2, 3, 5))
        ]
        parts.insert(d.random.randint(0, len(parts)), x)
        return d.op(kind, *parts, **attrs)
    bounds = (0.0, 1.0) if kind == "SoftMaxBackward" else (-4.0, -0.5)
    more = [d.operand(shape, x.dtype, *bounds) for _ in OPS[kind].inputs[1:]]
    return d.op(kind, x, *more, **attrs)


def _reduce(d: Draft, kind: str, x: Value) -> Any:
    rank = len(d.shape(x))
    axes = d.random.sample(range(rank), d.random.randint(1, rank))
    axes = [a - rank * d.random.randint(0, 1) for a in axes]
    return d.op(kind, _first(d, kind, x), axes=axes, keep_dims=d.chance(0.6))


def _reshape(d: Draft, kind: str, x: Value) -> Any:
    shape = d.shape(x)
    known = [i for i, s in enumerate(shape) if not isinstance(s, Open)]
    if len(known) == len(shape) and (0 in shape or d.chance(0.6)):
        wanted = [int(s) for s in shape]
        d.random.shuffle(wanted)
        at = d.random.randrange(len(wanted))
        if len(wanted) > 1 and d.chance(0.6):
            at = min(at, len(wanted) - 2)
            wanted[at : at + 2] = [wanted[at] * wanted[at + 1]]
        elif len(wanted) < 6:
            wanted.insert(at, 1)
        if d.chance(0.3) and wanted and 0 not in wanted:
            wanted[at] = -1
        return d.op(kind, x, shape=wanted, special_zero=False)
    return d.op(kind, x, shape=[0, -1] if len(shape) > 1 else [-1, 1], special_zero=True)


def _move(d: Draft, kind: str, x: Value) -> Any:
    rank = len(d.shape(x))
    if kind == "TypeCast":
        return d.op(kind, x, dtype=d.pick(("bf16", "f16") if x.dtype == "f32" else ("f32",)))
    if kind == "Reorder":
        return d.op(kind, x)
    order = d.random.sample(range(rank), rank)
    return d.op(kind, x, order=[a - rank * d.random.randint(0, 1) for a in order])


# -- quantization


def _quantization(d: Draft, kind: str, x: Value) -> Any:
    """Quantize and Dequantize, static or with scales and zero points as inputs."""
    shape = d.shape(x)
    dequantizes = kind.endswith("Dequantize") or kind == "Dequantize"
    if dequantizes and x.dtype not in OPS[kind].types["T1"]:
        x = d.quantized(x, of=[t for t in OPS[kind].types["T1"] if t not in ("s4", "u4")])
    if not dequantizes and x.dtype != "f32":
        x = x.type_cast(dtype="f32")
    if kind == "DynamicDequantize" and len(shape) > 1 and d.chance(0.5):
        return d.grouped(x)
    types = OPS[kind].types[OPS[kind].outputs[0].type]
    dtype = x.dtype if dequantizes else d.quantized_type(types)
    axis = d.random.randrange(len(shape)) if d.chance(0.6) else None
    if axis is not None and isinstance(shape[axis], Open):
        axis = None
    attrs = d.quantization(shape, dtype, axis)
    made: dict[str, Any] = {} if dequantizes else {"dtype": dtype}
    if not kind.startswith("Dynamic"):
        return d.op(kind, x, **attrs, **made)
    scales = d.b.constant(np.float32(attrs.pop("scales")))
    zps = attrs.pop("zps")
    if d.chance(0.5):
        scales = d.input((len(zps),), "f32", strided=False)
    more = [d.input((len(zps),), "s32", strided=False)] if d.chance(0.6) else []
    return d.op(kind, x, scales, *more, **attrs, **made)


def _dropout(d: Draft, kind: str, x: Value) -> Any:
    numbers = [d.b.constant([d.random.randrange(2**40)], "s64") for _ in range(2)]
    share = d.b.constant([d.pick((0.0, 0.1, 0.5, 0.75))], "f32")
    return d.op(kind, x, *numbers, share, count=d.pick((1, 2)))


_ALIKE: tuple[tuple[Row, Sequence[str]], ...] = (
    (Row(_binary), [k for k in OPS if "binary" in OPS[k].traits]),
    (Row(_select), ("Select",)),
    (
        Row(_channelwise, 2, 5),
        ("BiasAdd", "BiasAddBackward", "PReLU", "PReLUBackward", "BatchNormInference"),
    ),
    (Row(_channelwise, 2, 5), ("BatchNormForwardTraining", "BatchNormTrainingBackward")),
    (Row(_matmul, 1, 5), ("MatMul",)),
    (Row(_convolution, 3, 5), [k for k in OPS if k.startswith("Conv")]),
    (Row(_pool, 3, 5), [k for k in OPS if "Pool" in k]),
    (Row(_interpolate, 3, 5), ("Interpolate", "InterpolateBackward")),
    (Row(_layer_norm, 2, 5), ("LayerNorm", "LayerNormBackward", "RMSNorm")),
    (Row(_group_norm, 3, 5), ("GroupNorm",)),
    (Row(_along_axis), [k for k in OPS if "oftmax" in k.lower() or k in ("GenIndex", "Concat")]),
    (Row(_reduce), [k for k in OPS if k.startswith("Reduce")]),
    (Row(_reshape), ("StaticReshape",)),
    (Row(_move), ("StaticTranspose", "Reorder", "TypeCast")),
    (Row(_quantization, 1, 5), [k for k in OPS if "uantize" in k]),
    (Row(_dropout), ("Dropout",)),
)
ROWS: dict[str, Row] = {
    kind: Row(_elementwise) for kind in OPS if "elementwise" in OPS[kind].traits
}
ROWS |= {kind: row for row, kinds in _ALIKE for kind in kinds}
"""By kind; not of End and Wildcard, which compute nothing."""


def fits(d: Draft, kind: str, x: Value) -> bool:
    """Return whether an op can follow a tensor."""
    row = ROWS[kind]
    known = x.shape is not None and is_whole(x.shape)
    taken = x.dtype in ("f32", "bf16", "f16") and row.low <= x.ndim <= row.high
    # The attribute of weights' shapes has the channels, which may be among unknown dims.
    weights = kind.endswith("BackwardWeights")
    if x.shape is not None and 0 in x.shape and (row.low > 2 or kind in _FULL):
        return False
    return d.has(kind) and taken and (known or not (weights or kind in _NO_OPEN_DIMS))


# Where a dim of 0 is refused, or gives NaN.
_FULL = ("ReduceMax", "ReduceMin", "ReduceMean", "BatchNormForwardTraining", *_NO_OPEN_DIMS)


def source(d: Draft, kind: str) -> Value:
    """Add an input that an op of a kind can take first."""
    row = ROWS[kind]
    types = OPS[kind].types["T1"] if kind.endswith("equantize") else ()
    d.opens = d.opens and kind not in _NO_OPEN_DIMS
    high = min(row.high, 5) if d.chance(0.85) else row.high
    high = 2 if kind == "MatMul" and d.chance(0.3) else high
    shape = d.dims(row.low, high)
    if d.chance(0.04) and kind not in _FULL:  # no elements: an empty batch, or another dim
        axis = 0 if row.low > 2 else d.random.randrange(len(shape))
        shape = (*shape[:axis], 0, *shape[axis + 1 :])
    return d.input(shape, d.quantized_type(types) if types else None)


def drawn(d: Draft, kind: str, x: Value) -> list[Value]:
    """Add an op of a kind to a tensor; return its results."""
    results = ROWS[kind].add(d, kind, x)
    return list(results) if isinstance(results, tuple) else [results]
