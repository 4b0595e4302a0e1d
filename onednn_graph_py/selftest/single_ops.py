"""Single ops: shapes and attributes that fit together, drawn for every kind.

Dims are small, so that the NumPy reference is fast. Ops that no CPU kernel supports (such as ranks
above 5) are not drawn.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from ..building.builder import GraphBuilder
from ..linked import linked_version
from ..machine.cpu import lacks
from ..ops import OPS, check
from ..ops.check import type_combinations
from ..ops.row import Port
from .draft import Arrays, Dims, Draft

__all__ = ["NEWEST", "Case", "case", "draw"]

NEWEST = (99, 0)


class Case(NamedTuple):
    """One use of an op."""

    kind: str
    shapes: tuple[Dims, ...]
    attrs: dict[str, Any]
    outputs: int = 1


def draw(kind: str, chance: random.Random) -> Case:
    """Draw one use of an op of a kind."""
    return _DRAWERS.get(kind, _elementwise)(kind, chance)


def _dims(chance: random.Random, low: int = 1, high: int = 4) -> Dims:
    return tuple(chance.randint(1, 7) for _ in range(chance.randint(low, high)))


def _subset(chance: random.Random, n: int) -> list[int]:
    return sorted(chance.sample(range(n), chance.randint(1, n)))


# -- element by element


def _elementwise(kind: str, chance: random.Random) -> Case:
    schema = OPS[kind]
    shape = _dims(chance)
    attrs: dict[str, Any] = {}
    for a in schema.attributes:
        if a.name in ("alpha", "beta"):
            attrs[a.name] = chance.choice([0.25, 0.5, 1.0, 1.5])
        elif a.name == "use_dst":
            attrs[a.name] = chance.choice([True, False])
    if schema.attribute("min"):
        attrs |= {"min": chance.choice([-1.0, -0.25, 0.0]), "max": chance.choice([0.5, 1.0])}
    if kind == "Elu" or kind == "EluBackward":
        attrs["alpha"] = chance.choice([0.5, 1.0])
    return Case(kind, (shape,) * len(schema.inputs), attrs)


def _broadcast_pair(chance: random.Random) -> tuple[Dims, Dims]:
    full = _dims(chance)
    thin = tuple(1 if chance.random() < 0.4 else d for d in full)[chance.randrange(len(full)) :]
    return (full, thin) if chance.random() < 0.7 else (thin, full)


def _binary(kind: str, chance: random.Random) -> Case:
    if chance.random() < 0.3:
        shape = _dims(chance)
        return Case(kind, (shape, shape), {"auto_broadcast": chance.choice(["none", "numpy"])})
    return Case(kind, _broadcast_pair(chance), {})


def _select(kind: str, chance: random.Random) -> Case:
    full = _dims(chance)
    condition = tuple(1 if chance.random() < 0.4 else d for d in full)
    other = () if chance.random() < 0.2 else tuple(1 if chance.random() < 0.3 else d for d in full)
    return Case(kind, (condition, full, other or (1,)), {})


def _channels(chance: random.Random, low: int = 2, high: int = 4) -> tuple[Dims, int, str]:
    """Draw a data shape; return it with its channels and its format."""
    shape = _dims(chance, low, high)
    data_format = chance.choice(["NXC", "NCX"])
    return shape, shape[-1] if data_format == "NXC" else shape[1], data_format


def _bias_add(kind: str, chance: random.Random) -> Case:
    shape, channels, data_format = _channels(chance)
    shapes = (shape, (channels,)) if kind == "BiasAdd" else (shape,)
    return Case(kind, shapes, {"data_format": data_format})


def _prelu(kind: str, chance: random.Random) -> Case:
    shape, channels, data_format = _channels(chance)
    slope = chance.choice([(channels,), shape])
    attrs: dict[str, Any] = {"data_format": data_format}
    if kind == "PReLU":
        attrs["per_channel_broadcast"] = True
        return Case(kind, (shape, slope), attrs)
    return Case(kind, (shape, slope, shape), attrs, outputs=2)


def _gen_index(kind: str, chance: random.Random) -> Case:
    shape = _dims(chance)
    return Case(kind, (shape,), {"axis": chance.randrange(-len(shape), len(shape))})


def _dropout(kind: str, chance: random.Random) -> Case:
    return Case(kind, (_dims(chance), (1,), (1,), (1,)), {}, outputs=chance.choice([1, 2]))


# -- products and windows


def _matmul(kind: str, chance: random.Random) -> Case:
    m, k, n = (chance.randint(1, 9) for _ in range(3))
    batch = _dims(chance, 1, 2) if chance.random() < 0.6 else ()
    transpose_a, transpose_b = chance.random() < 0.4, chance.random() < 0.4
    a = (*batch, k, m) if transpose_a else (*batch, m, k)
    # Each batch has its own weights, or all share them.
    shared = batch and chance.random() < 0.3
    b_batch = tuple(1 for _ in batch) if shared else batch
    b = (*b_batch, n, k) if transpose_b else (*b_batch, k, n)
    shapes: tuple[Dims, ...] = (a, b)
    if chance.random() < 0.4:
        shapes += ((n,),)
    return Case(kind, shapes, {"transpose_a": transpose_a, "transpose_b": transpose_b})


def _window(chance: random.Random, spatial: int) -> dict[str, Any]:
    """Draw the attributes of a window, among them its ``kernel``."""
    kernel = tuple(chance.randint(1, 3) for _ in range(spatial))
    attrs: dict[str, Any] = {
        "kernel": kernel,
        "strides": tuple(chance.randint(1, 2) for _ in range(spatial)),
        "dilations": tuple(chance.randint(1, 2) for _ in range(spatial)),
        "pads_begin": tuple(chance.randint(0, k - 1) for k in kernel),
        "pads_end": tuple(chance.randint(0, k - 1) for k in kernel),
    }
    if chance.random() < 0.25:
        attrs["auto_pad"] = chance.choice(["VALID", "SAME_UPPER", "SAME_LOWER"])
    return attrs


def _data(batch: int, channels: int, spatial: Dims, data_format: str) -> Dims:
    return (batch, *spatial, channels) if data_format == "NXC" else (batch, channels, *spatial)


def _forward_convolution(chance: random.Random, transposed: bool) -> Case:
    spatial = chance.randint(1, 3)
    attrs = _window(chance, spatial)
    kernel = attrs.pop("kernel")
    groups = chance.choice([1, 1, 2, 3])
    inputs, outputs = (groups * chance.randint(1, 4) for _ in range(2))
    data_format = chance.choice(["NXC", "NCX"])
    sizes = tuple(
        d * (k - 1) + chance.randint(1, 6) for d, k in zip(attrs["dilations"], kernel, strict=True)
    )
    if transposed:
        sizes = tuple(chance.randint(3, 5) for _ in range(spatial))
        weights_format = chance.choice(["XOI", "IOX"])
        # IOX: (IC, OC / groups, spatial), unlike the documents.
        pair = (inputs, outputs // groups)
        weights = (*kernel, *reversed(pair)) if weights_format == "XOI" else (*pair, *kernel)
        if "auto_pad" not in attrs and chance.random() < 0.3:
            attrs["output_padding"] = tuple(
                chance.randint(0, max(s, d) - 1)
                for s, d in zip(attrs["strides"], attrs["dilations"], strict=True)
            )
    else:
        weights_format = chance.choice(["XIO", "OIX"])
        pair = (outputs, inputs // groups)
        weights = (*kernel, *reversed(pair)) if weights_format == "XIO" else (*pair, *kernel)
    attrs |= {"groups": groups, "data_format": data_format, "weights_format": weights_format}
    src = _data(chance.randint(1, 3), inputs, sizes, data_format)
    return Case("ConvTranspose" if transposed else "Convolution", (src, weights), attrs)


def _made(c: Case) -> Dims:
    """Return the first output's shape."""
    shape = check(c.kind, [(s, None) for s in c.shapes], c.attrs, version=NEWEST)[0].shape
    assert shape is not None
    return shape


def _convolution(kind: str, chance: random.Random) -> Case:
    transposed = kind.startswith("ConvTranspose")
    forward = _forward_convolution(chance, transposed)
    if kind in ("Convolution", "ConvTranspose"):
        if chance.random() < 0.4:
            made = _made(forward)
            channels = made[-1] if forward.attrs["data_format"] == "NXC" else made[1]
            return forward._replace(shapes=(*forward.shapes, (channels,)))
        return forward
    src, weights = forward.shapes
    dst = _made(forward)
    attrs = dict(forward.attrs)
    attrs.pop("output_padding", None)
    if transposed:
        dst = _made(forward._replace(attrs=attrs))
    if kind == "ConvolutionBackwardData":
        return Case(kind, (dst, weights), {**attrs, "dst_shape": src})
    if kind == "ConvTransposeBackwardData":
        return Case(kind, (dst, weights), attrs)
    return Case(kind, (src, dst), {**attrs, "weights_shape": weights})


def _forward_pool(kind: str, chance: random.Random) -> Case:
    spatial = chance.randint(1, 3)
    attrs = _window(chance, spatial)
    if kind.startswith("AvgPool"):
        del attrs["dilations"]
        attrs["exclude_pad"] = chance.choice([True, False])
        extents = attrs["kernel"]
    else:
        both = zip(attrs["dilations"], attrs["kernel"], strict=True)
        extents = tuple(d * (k - 1) + 1 for d, k in both)
    if "Backward" not in kind and chance.random() < 0.3:
        attrs["rounding_type"] = "ceil"
    attrs["data_format"] = chance.choice(["NXC", "NCX"])
    sizes = tuple(e + chance.randint(0, 5) for e in extents)
    src = _data(chance.randint(1, 2), chance.randint(1, 9), sizes, attrs["data_format"])
    return Case(kind.removesuffix("Backward"), (src,), attrs)


def _pool(kind: str, chance: random.Random) -> Case:
    forward = _forward_pool(kind, chance)
    if not kind.endswith("Backward"):
        return forward
    src, dst = forward.shapes[0], _made(forward)
    if kind == "MaxPoolBackward":
        return Case(kind, (src, dst), forward.attrs)
    return Case(kind, (dst,), {**forward.attrs, "src_shape": src})


def _interpolate(kind: str, chance: random.Random) -> Case:
    spatial = chance.randint(1, 3)
    modes = ["nearest", ("linear", "bilinear", "trilinear")[spatial - 1]]
    attrs: dict[str, Any] = {
        "mode": chance.choice(modes),
        "data_format": chance.choice(["NXC", "NCX"]),
    }
    if chance.random() < 0.5:
        attrs["sizes"] = tuple(chance.randint(1, 8) for _ in range(spatial))
    else:
        attrs["scales"] = tuple(chance.choice([0.5, 1.0, 1.5, 2.0]) for _ in range(spatial))
    sizes = tuple(chance.randint(2, 6) for _ in range(spatial))
    src = _data(chance.randint(1, 2), chance.randint(1, 6), sizes, attrs["data_format"])
    if kind == "Interpolate":
        return Case(kind, (src,), attrs)
    return Case(kind, (src, _made(Case("Interpolate", (src,), attrs))), attrs)


# -- normalization and reduction


def _batch_norm(kind: str, chance: random.Random) -> Case:
    shape, channels, data_format = _channels(chance, 4, 4)
    attrs: dict[str, Any] = {"epsilon": 1e-3, "data_format": data_format}
    one = (channels,)
    if kind == "BatchNormInference":
        return Case(kind, (shape, one, one, one, one), attrs)
    if kind == "BatchNormForwardTraining":
        attrs["momentum"] = chance.choice([0.0, 0.5, 0.9])
        return Case(kind, (shape, *(one,) * chance.choice([2, 4])), attrs, outputs=5)
    affine = chance.random() < 0.6
    shapes = (shape, shape, one, one, one) if affine else (shape, shape, one, one)
    return Case(kind, shapes, attrs, outputs=3 if affine else 1)


def _layer_norm(kind: str, chance: random.Random) -> Case:
    shape = _dims(chance, 2, 4)
    kept, normal = shape[:-1], shape[-1:]
    attrs: dict[str, Any] = {
        "epsilon": 1e-3,
        "begin_norm_axis": chance.choice([-1, len(shape) - 1]),
    }
    affine = chance.random() < 0.6
    if kind == "RMSNorm":
        return Case(kind, (shape, normal) if affine else (shape,), attrs)
    attrs["use_affine"] = affine
    shapes: tuple[Dims, ...]
    if kind == "LayerNorm":
        attrs["keep_stats"] = chance.choice([True, False])
        shapes = (shape, normal, normal) if affine else (shape,)
        return Case(kind, shapes, attrs, outputs=3 if attrs["keep_stats"] else 1)
    shapes = (shape, shape, kept, kept)
    if affine:
        shapes += (normal, normal)
    return Case(kind, shapes, attrs, outputs=3 if affine else 1)


def _group_norm(kind: str, chance: random.Random) -> Case:
    groups = chance.randint(1, 3)
    channels = groups * chance.randint(1, 3)
    data_format = chance.choice(["NXC", "NCX"])
    sizes = tuple(chance.randint(1, 5) for _ in range(chance.randint(1, 3)))
    shape = _data(chance.randint(1, 3), channels, sizes, data_format)
    affine, stats = chance.random() < 0.6, chance.random() < 0.6
    attrs = {
        "groups": groups,
        "data_format": data_format,
        "use_affine": affine,
        "keep_stats": stats,
        "epsilon": 1e-3,
    }
    shapes = (shape, (channels,), (channels,)) if affine else (shape,)
    return Case(kind, shapes, attrs, outputs=3 if stats else 1)


def _softmax(kind: str, chance: random.Random) -> Case:
    shape = _dims(chance)
    attrs = {"axis": chance.randrange(-len(shape), len(shape))}
    return Case(kind, (shape,) * len(OPS[kind].inputs), attrs)


def _reduce(kind: str, chance: random.Random) -> Case:
    shape = _dims(chance)
    axes = tuple(a - len(shape) * chance.randint(0, 1) for a in _subset(chance, len(shape)))
    return Case(kind, (shape,), {"axes": axes, "keep_dims": chance.choice([True, False])})


# -- moving elements


def _concat(kind: str, chance: random.Random) -> Case:
    shape = _dims(chance)
    axis = chance.randrange(len(shape))
    parts = []
    for _ in range(chance.randint(1, 4)):
        parts.append((*shape[:axis], chance.randint(1, 5), *shape[axis + 1 :]))
    return Case(kind, tuple(parts), {"axis": axis - len(shape) * chance.randint(0, 1)})


def _reshape(kind: str, chance: random.Random) -> Case:
    shape = _dims(chance, 2, 4)
    wanted = list(shape)
    chance.shuffle(wanted)
    special = chance.random() < 0.3
    if special:
        wanted = [0, -1]  # the first dim as it is, the others together
    elif chance.random() < 0.4:
        wanted[chance.randrange(len(wanted))] = -1
    else:
        wanted[:2] = [wanted[0] * wanted[1]]
    return Case(kind, (shape,), {"shape": tuple(wanted), "special_zero": special})


def _transpose(kind: str, chance: random.Random) -> Case:
    shape = _dims(chance)
    order = list(range(len(shape)))
    chance.shuffle(order)
    order = [a - len(shape) * chance.randint(0, 1) for a in order]
    return Case(kind, (shape,), {"order": tuple(order)})


# -- quantization


def _static_quantization(kind: str, chance: random.Random) -> Case:
    shape = _dims(chance, 2, 4)
    if chance.random() < 0.5:
        scale = chance.choice([0.02, 0.1, 0.5])
        return Case(kind, (shape,), {"qtype": "per_tensor", "scales": (scale,), "zps": (0,)})
    axis = chance.randrange(len(shape))
    scales = tuple(chance.choice([0.02, 0.1, 0.5]) for _ in range(shape[axis]))
    # oneDNN compiles only zero points of 0 per channel.
    attrs = {"qtype": "per_channel", "axis": axis, "scales": scales, "zps": (0,) * len(scales)}
    return Case(kind, (shape,), attrs)


def _dynamic_quantization(kind: str, chance: random.Random) -> Case:
    shape = _dims(chance, 2, 4)
    if chance.random() < 0.5:
        return Case(kind, (shape, (1,)), {"qtype": "per_tensor"})
    axis = chance.randrange(len(shape))
    return Case(kind, (shape, (shape[axis],)), {"qtype": "per_channel", "axis": axis})


def _structure(kind: str, chance: random.Random) -> Case:
    return Case(kind, (_dims(chance),), {}, outputs=0 if kind == "End" else 1)


_BY_FAMILY: dict[Callable[[str, random.Random], Case], tuple[str, ...]] = {
    _binary: (
        "Add",
        "Divide",
        "GreaterEqual",
        "Maximum",
        "Minimum",
        "Multiply",
        "SquaredDifference",
        "Subtract",
    ),
    _select: ("Select",),
    _bias_add: ("BiasAdd", "BiasAddBackward"),
    _prelu: ("PReLU", "PReLUBackward"),
    _gen_index: ("GenIndex",),
    _dropout: ("Dropout",),
    _matmul: ("MatMul",),
    _convolution: (
        "Convolution",
        "ConvolutionBackwardData",
        "ConvolutionBackwardWeights",
        "ConvTranspose",
        "ConvTransposeBackwardData",
        "ConvTransposeBackwardWeights",
    ),
    _pool: ("AvgPool", "AvgPoolBackward", "MaxPool", "MaxPoolBackward"),
    _interpolate: ("Interpolate", "InterpolateBackward"),
    _batch_norm: ("BatchNormInference", "BatchNormForwardTraining", "BatchNormTrainingBackward"),
    _layer_norm: ("LayerNorm", "LayerNormBackward", "RMSNorm"),
    _group_norm: ("GroupNorm",),
    _softmax: ("SoftMax", "SoftMaxBackward", "LogSoftmax", "LogSoftmaxBackward"),
    _reduce: tuple(k for k in OPS if k.startswith("Reduce")),
    _concat: ("Concat",),
    _reshape: ("StaticReshape",),
    _transpose: ("StaticTranspose",),
    _static_quantization: ("Quantize", "Dequantize"),
    _dynamic_quantization: ("DynamicQuantize", "DynamicDequantize"),
    _structure: ("Wildcard", "End"),
}
_DRAWERS = {kind: draw for draw, kinds in _BY_FAMILY.items() for kind in kinds}


# -- as a family


def _port_types(d: Draft, c: Case) -> tuple[list[str], list[str]]:
    """Draw data types for all ports; one that does not run here becomes f32."""
    schema = OPS[c.kind].at(linked_version())
    given, made = d.pick(
        [
            combination
            for combination in type_combinations(c.kind)
            if not any(t.startswith("f8") for types in combination for t in types)
        ]
    )
    ports = [schema.port("inputs", i) for i in range(len(c.shapes))]
    results = [schema.port("outputs", i) for i in range(c.outputs)]
    said = [*zip(ports, given, strict=False), *zip(results, made, strict=False)]
    # Ports with the same type variable have the same data type.
    types = {port.type: _here(dtype) for port, dtype in said if port is not None}

    def of(port: Port | None) -> str:
        assert port is not None  # the op was drawn with that many ports
        return types.get(port.type, schema.types[port.type][0])

    return [of(port) for port in ports], [of(port) for port in results]


def _here(dtype: str) -> str:
    return dtype if lacks(dtype) is None else "f32"


def case(seed: int) -> tuple[GraphBuilder, Arrays]:
    """Draw an op in any of its data types; AvgPoolBackward also without src_shape."""
    d = Draft("ops", seed)
    kinds = [
        kind
        for kind, schema in OPS.items()
        if schema.since <= linked_version() and kind not in ("End", "Wildcard")
    ]
    kind = d.pick(sorted(kinds))
    c = draw(kind, d.random)
    inputs, outputs = _port_types(d, c)
    values = [d.b.input(s, t) for s, t in zip(c.shapes, inputs, strict=True)]
    attrs, shapes = dict(c.attrs), [None] * c.outputs
    specs = check(kind, [(v.shape, v.dtype) for v in values], attrs)
    known = [s.shape for s in specs] + shapes[len(specs) :]
    if kind == "AvgPoolBackward" and d.chance(0.5):
        del attrs["src_shape"]
    made = d.b.op(kind, *values, outputs=list(zip(known, outputs, strict=True)), **attrs)
    return d.made(*(made if isinstance(made, tuple) else (made,)))
