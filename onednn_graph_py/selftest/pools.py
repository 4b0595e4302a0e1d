"""AvgPool and MaxPool, followed by ops whose operands broadcast along any dims."""

from __future__ import annotations

from typing import Any

from ..building.builder import GraphBuilder
from .draft import Arrays, Draft

__all__ = ["case"]


def _attributes(d: Draft, kind: str, spatial: int) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Draw a pool's attributes; return them and the extents of its windows."""
    kernel = tuple(d.random.randint(1, 3) for _ in range(spatial))
    dilations = tuple(d.pick((1, 1, 2)) if kind == "MaxPool" else 1 for _ in kernel)
    attrs: dict[str, Any] = {
        "kernel": kernel,
        "strides": tuple(d.pick((1, 1, 2, 3)) for _ in kernel),
        "pads_begin": tuple(d.random.randint(0, k - 1) for k in kernel),
        "pads_end": tuple(d.random.randint(0, k - 1) for k in kernel),
        "data_format": d.pick(("NXC", "NXC", "NCX")),
    }
    if kind == "MaxPool":
        attrs["dilations"] = dilations
    else:
        attrs["exclude_pad"] = d.chance(0.5)
    if d.chance(0.2):
        attrs["rounding_type"] = "ceil"
    return attrs, tuple(n * (k - 1) + 1 for n, k in zip(dilations, kernel, strict=True))


def case(seed: int) -> tuple[GraphBuilder, Arrays]:
    """Draw a pool with up to 2 ops after it."""
    d = Draft("pools", seed)
    kind = d.pick(("AvgPool", "MaxPool"))
    attrs, extents = _attributes(d, kind, d.pick((1, 1, 2, 2, 3)))
    sizes = tuple(e + d.random.randint(0, 6) for e in extents)
    batch, channels = d.pick((1, 1, 2)), d.pick((1, 1, 3, 4, 8, 16, 17))
    last = attrs["data_format"] == "NXC"
    shape = (batch, *sizes, channels) if last else (batch, channels, *sizes)
    dtype, quantized = d.float_type(), d.chance(0.25)
    if quantized:
        integer = d.pick(("u8", "s8"))
        # Pools of integers keep the scale, so no value is rounded in between.
        x = d.dequantized(shape, integer, of="f32")
        y = d.chain(d.op(kind, x, **attrs), 1)
        y = y.quantize(dtype=integer, qtype="per_tensor", scales=[2.0**-5], zps=[0])
    else:
        y = d.chain(d.op(kind, d.input(shape, dtype), **attrs), 2)
    return d.made(y)
