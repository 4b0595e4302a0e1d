"""Convolutions of 1 to 3 spatial dims, forward, transposed and backward, with any padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..building.builder import GraphBuilder
from ..building.value import Value
from .draft import Arrays, Dims, Draft

__all__ = ["case"]


@dataclass(frozen=True)
class _Geometry:
    """A convolution's shapes and attributes.

    Parameters
    ----------
    source, made : tuple of int
        Spatial dims before and after.
    kernel : tuple of int
    groups, inputs, outputs : int
        The numbers of groups, and of all input and output channels.
    attrs : dict
    """

    source: Dims
    made: Dims
    kernel: Dims
    groups: int
    inputs: int
    outputs: int
    batch: int
    attrs: dict[str, Any]

    def data(self, channels: int, spatial: Dims) -> Dims:
        """Return the shape of a source or a result."""
        if self.attrs["data_format"] == "NXC":
            return (self.batch, *spatial, channels)
        return (self.batch, channels, *spatial)

    def weights(self, outer: int, inner: int) -> Dims:
        """Return the shape of weights with these channels, in the order of ``OIX``."""
        if self.attrs["weights_format"].startswith("X"):
            return (*self.kernel, inner, outer)
        return (outer, inner, *self.kernel)


def _channels(d: Draft) -> tuple[int, int, int]:
    """Draw the numbers of groups, input channels and output channels."""
    kind = d.pick(("one group", "one group", "groups", "depthwise"))
    if kind == "depthwise":
        n = d.pick((2, 3, 8, 16, 17))
        return n, n, n
    groups = 1 if kind == "one group" else d.pick((2, 2, 3, 4))
    inner = d.pick((1, 2, 3, 3, 4, 8, 16, 20))
    return groups, groups * inner, groups * d.pick((1, 2, 4, 8, 16, 17, 32, 64))


def _axis(d: Draft, *, one_wide: bool) -> tuple[int, int, int, int, int, int, int]:
    """Draw a spatial dim: source, result, kernel, stride, dilation, padding before and after."""
    kernel = d.pick((1, 2, 2, 3, 3))
    stride, dilation = d.pick((1, 1, 2, 3)), d.pick((1, 1, 2, 3))
    extent = dilation * (kernel - 1) + 1
    # With padding beyond the window's extent some outputs see nothing but padding.
    most = extent + 1 if d.chance(0.3) else max(extent - 1, 0)
    begin, end = d.random.randint(0, most), d.random.randint(0, most)
    size = d.pick((1, 1, 2, 3, 4, 5, 8, 9))
    if one_wide:
        stride = d.pick((2, 3))
        size = max(1, extent - begin - end + d.random.randint(0, stride - 1))
    size = max(size, extent - begin - end)
    return size, (size + begin + end - extent) // stride + 1, kernel, stride, dilation, begin, end


def _geometry(d: Draft, *, transposed: bool) -> _Geometry:
    rank = d.pick((1, 1, 2, 2, 2, 3))
    axes = [_axis(d, one_wide=i == rank - 1 and d.chance(0.2)) for i in range(rank)]
    source, made, kernel, strides, dilations, begin, end = zip(*axes, strict=True)
    if transposed:
        # The result is the source of a convolution; padding must leave some of it.
        whole = [
            (n - 1) * s + di * (k - 1) + 1
            for n, s, di, k in zip(made, strides, dilations, kernel, strict=True)
        ]
        begin = tuple(min(b, n - 1) for b, n in zip(begin, whole, strict=True))
        end = tuple(min(e, n - b - 1) for e, b, n in zip(end, begin, whole, strict=True))
        source = made
        made = tuple(n - b - e for n, b, e in zip(whole, begin, end, strict=True))
    groups, inputs, outputs = _channels(d)
    weights_format = ("XOI", "IOX") if transposed else ("XIO", "OIX")
    attrs = {
        "strides": strides,
        "dilations": dilations,
        "pads_begin": begin,
        "pads_end": end,
        "groups": groups,
        "data_format": d.pick(("NXC", "NCX")),
        "weights_format": d.pick(weights_format),
    }
    batch = d.pick((1, 1, 2, 3))
    return _Geometry(source, made, kernel, groups, inputs, outputs, batch, attrs)


def _weights_shape(g: _Geometry, *, transposed: bool) -> Dims:
    if transposed:  # IOX: (inputs, outputs / groups, spatial); XOI the reverse
        return g.weights(g.inputs, g.outputs // g.groups)
    return g.weights(g.outputs, g.inputs // g.groups)


def _terms(shape: Dims, g: _Geometry) -> int:
    terms = g.inputs // g.groups
    for k in g.kernel:
        terms *= k
    return terms


def _forward(d: Draft, *, transposed: bool) -> Value:
    g = _geometry(d, transposed=transposed)
    source, shape = g.data(g.inputs, g.source), _weights_shape(g, transposed=transposed)
    dtype, quantized = d.float_type(), d.chance(0.3)
    if quantized:
        kind = d.pick(("u8", "s8"))
        x = d.dequantized(source, kind, zero_point=d.zero_point(kind), of=dtype)
        last = not transposed and g.attrs["weights_format"] == "XIO"
        per_channel = d.chance(0.4) and (not transposed or g.groups == 1)
        axis = (len(shape) - 1 if last else 0) if per_channel else None
        if axis is not None and transposed:
            axis = 1 if g.attrs["weights_format"] == "IOX" else len(shape) - 2
        w = d.dequantized(shape, "s8", axis=axis, of=dtype)
    else:
        x = d.input(source, dtype)
        w = d.parameter(shape, dtype, _terms(shape, g))
    bias = [d.parameter((g.outputs,), dtype)] if d.chance(0.25) else []
    y = d.op("ConvTranspose" if transposed else "Convolution", x, w, *bias, **g.attrs)
    y = d.chain(y, 4)
    return d.quantized(y) if quantized and d.chance(0.5) else y


def _backward(d: Draft) -> Value:
    transposed = d.chance(0.5)
    g = _geometry(d, transposed=transposed)
    dtype = d.float_type()
    source = g.data(g.inputs, g.source)
    gradient = d.input(g.data(g.outputs, g.made), dtype)
    weights = _weights_shape(g, transposed=transposed)
    name = "ConvTranspose" if transposed else "Convolution"
    if d.chance(0.5):
        shape: dict[str, Any] = {"weights_shape": weights}
        x = d.input(source, dtype)
        y = d.op(f"{name}BackwardWeights", x, gradient, **g.attrs, **shape)
    else:
        shape = {} if transposed else {"dst_shape": source}
        w = d.input(weights, dtype)
        y = d.op(f"{name}BackwardData", gradient, w, **g.attrs, **shape)
    return d.chain(y, 1)


def case(seed: int) -> tuple[GraphBuilder, Arrays]:
    """Draw a convolution with up to 4 ops after it, or a backward one."""
    d = Draft("convolutions", seed, "strict" if seed % 8 else ("bf16", "any")[seed // 8 % 2])
    kind = d.pick(("forward",) * 6 + ("transposed",) * 2 + ("backward",) * 2)
    if kind == "backward":
        return d.made(_backward(d))
    return d.made(_forward(d, transposed=kind == "transposed"))
