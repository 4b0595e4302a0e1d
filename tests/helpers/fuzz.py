"""Random graphs, right and wrong, run over buffers that end at an unreadable page.

`make_case` turns a seed into a case: ops with logical tensors and attributes, mostly valid, with a
few mutations. `run_case` takes it through add_op, finalize, get_partitions, compile and execute.
A case may raise; it may not crash, hang, or touch a byte outside its buffers.

As a program it is the worker of test_fuzz.py: ``fuzz.py FIRST LAST`` says on stdout which seed it
starts and how it ended; ``fuzz.py SEED`` shows one case and runs it.
"""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import random
import sys
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import onednn_graph_py as og

PAGE = mmap.PAGESIZE
SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 17, 32, 33)
BITS = {
    "f32": 32,
    "s32": 32,
    "f16": 16,
    "bf16": 16,
    "s8": 8,
    "u8": 8,
    "boolean": 8,
    "f8_e4m3": 8,
    "f8_e5m2": 8,
    "s4": 4,
    "u4": 4,
    "s64": 64,
}
Dims = tuple[int, ...]


@dataclass
class Tensor:
    """A logical tensor of a case; dims of None have an unknown rank."""

    id: int
    dtype: str = "f32"
    dims: Dims | None = ()
    strides: Dims | None = None
    layout: str = "strided"
    property: str = "variable"

    def logical(self) -> og.logical_tensor:
        if self.dims is None:
            return og.logical_tensor(self.id, self.dtype, -1, self.layout, self.property)
        if self.strides is not None:
            return og.logical_tensor(self.id, self.dtype, self.dims, self.strides, self.property)
        return og.logical_tensor(self.id, self.dtype, self.dims, self.layout, self.property)


@dataclass
class Op:
    kind: str
    inputs: list[Tensor]
    outputs: list[Tensor]
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass
class Case:
    """Ops, and what compile is told about the ids in `told` instead of what the graph says."""

    seed: int
    ops: list[Op]
    told: dict[int, Tensor] = field(default_factory=dict)
    any_outputs: bool = False
    policy: str = "fusion"
    fpmath: str = "strict"
    apply_to_int: bool = False
    alone: bool = False  # partition(op) instead of a graph
    mutations: list[str] = field(default_factory=list)

    def tensors(self) -> list[Tensor]:
        return [t for o in self.ops for t in (*o.inputs, *o.outputs)]


# -- valid ops -------------------------------------------------------------------------------------


class Maker:
    """Makes valid ops with fresh ids."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.next_id = rng.choice((0, 0, 0, 1000))

    def tensor(self, dims: Dims | None, dtype: str = "f32", **more: Any) -> Tensor:
        self.next_id += 1
        return Tensor(self.next_id - 1, dtype, dims, **more)

    def weight(self, dims: Dims, dtype: str = "f32") -> Tensor:
        return self.tensor(dims, dtype, property=self.rng.choice(("constant", "variable")))

    def size(self) -> int:
        return self.rng.choice(SIZES)

    def dims(self, low: int = 1, high: int = 5) -> Dims:
        if high == 5 and self.rng.random() < 0.05:
            high = 8
        rank = self.rng.randint(low, high)
        top = {0: 40, 1: 300, 2: 64, 3: 20, 4: 8, 5: 8, 6: 4}.get(rank, 3)
        return tuple(min(self.size(), top) for _ in range(rank))

    def dtype(self) -> str:
        return self.rng.choice(("f32",) * 6 + ("bf16", "bf16", "f16"))

    def broadcast(self, dims: Dims) -> Dims:
        """Dims that broadcast to `dims`."""
        kept = dims[self.rng.randint(0, len(dims)) if self.rng.random() < 0.3 else 0 :]
        if self.rng.random() < 0.4:
            return kept
        return tuple(d if self.rng.random() < 0.5 else 1 for d in kept)

    # Each family returns the op; the first output is what a chain goes on with.

    def unary(self, kind: str, src: Tensor | None = None) -> Op:
        src = src or self.tensor(self.dims(0, 6), self.dtype())
        assert src.dims is not None
        attrs: dict[str, Any] = {}
        r = self.rng
        match kind:
            case "Clamp":
                attrs = {"min": -1.0, "max": 1.0}
            case "Elu" | "LeakyReLU":
                attrs = {"alpha": 0.5}
            case "HardSigmoid":
                attrs = {"alpha": 0.2, "beta": 0.5}
            case "Pow":
                attrs = {"beta": 2.0}
            case "SoftPlus":
                attrs = {"beta": r.choice((1.0, 2.0))}
            case "SoftMax" | "LogSoftmax":
                rank = max(1, len(src.dims))
                attrs = {"axis": r.randrange(-rank, rank)}
            case "GenIndex":
                rank = max(1, len(src.dims))
                attrs = {"axis": r.randrange(rank)}
        dtype = src.dtype
        if kind == "GenIndex":
            dtype = "s32"
        if kind == "TypeCast":
            dtype = r.choice(("bf16", "f16")) if src.dtype == "f32" else "f32"
        return Op(kind, [src], [self.tensor(src.dims, dtype)], attrs)

    def backward(self, kind: str) -> Op:
        dims, dtype = self.dims(1, 5), self.dtype()
        attrs: dict[str, Any] = {}
        r = self.rng
        if kind in (
            "ClampBackward",
            "EluBackward",
            "ReLUBackward",
            "SigmoidBackward",
            "SqrtBackward",
            "TanhBackward",
        ):
            attrs["use_dst"] = r.random() < 0.5
        if kind == "ClampBackward":
            attrs |= {"min": -1.0, "max": 1.0}
        if kind in ("EluBackward", "HardSigmoidBackward"):
            attrs["alpha"] = 0.5
        if kind == "HardSigmoidBackward":
            attrs["beta"] = 0.5
        if kind in ("SoftMaxBackward", "LogSoftmaxBackward"):
            attrs["axis"] = r.randrange(-len(dims), len(dims))
        inputs = [self.tensor(dims, dtype) for _ in range(2)]
        return Op(kind, inputs, [self.tensor(dims, dtype)], attrs)

    def binary(self, kind: str, src: Tensor | None = None) -> Op:
        src = src or self.tensor(self.dims(0, 5), self.dtype())
        assert src.dims is not None
        other = self.tensor(self.broadcast(src.dims), src.dtype)
        inputs = [src, other] if self.rng.random() < 0.8 else [other, src]
        dtype = "boolean" if kind == "GreaterEqual" else src.dtype
        attrs = {"auto_broadcast": "numpy"} if self.rng.random() < 0.3 else {}
        return Op(kind, inputs, [self.tensor(src.dims, dtype)], attrs)

    def select(self, kind: str, src: Tensor | None = None) -> Op:
        src = src or self.tensor(self.dims(0, 5), self.dtype())
        assert src.dims is not None
        cond = self.tensor(self.broadcast(src.dims), "boolean")
        other = self.tensor(self.broadcast(src.dims), src.dtype)
        return Op(kind, [cond, src, other], [self.tensor(src.dims, src.dtype)])

    def _windows(self, spatial: int) -> tuple[dict[str, Any], list[int], list[int]]:
        r = self.rng
        kernel = [r.randint(1, 3) for _ in range(spatial)]
        dilations = [r.choice((1, 1, 1, 2)) for _ in range(spatial)]
        attrs: dict[str, Any] = {
            "strides": [r.choice((1, 1, 2, 3)) for _ in range(spatial)],
            "pads_begin": [r.choice((0, 0, 1)) for _ in range(spatial)],
            "pads_end": [r.choice((0, 0, 1)) for _ in range(spatial)],
        }
        if r.random() < 0.15:
            attrs["auto_pad"] = r.choice(("None", "SAME_UPPER", "SAME_LOWER", "VALID"))
        return attrs, kernel, dilations

    @staticmethod
    def _window_out(size: int, k: int, d: int, s: int, pb: int, pe: int, auto: str) -> int:
        if auto.startswith("SAME"):
            return -(-size // s)
        if auto == "VALID":
            pb = pe = 0
        return (size + pb + pe - ((k - 1) * d + 1)) // s + 1

    def _layout(self, n: int, c: int, spatial: list[int], data_format: str) -> Dims:
        return (n, c, *spatial) if data_format == "NCX" else (n, *spatial, c)

    def pool(self, kind: str, src: Tensor | None = None) -> Op:
        r = self.rng
        spatial = r.randint(1, 3)
        attrs, kernel, dilations = self._windows(spatial)
        attrs["kernel"] = kernel
        data_format = attrs["data_format"] = r.choice(("NCX", "NXC"))
        if kind.startswith("Avg"):
            attrs["exclude_pad"] = r.random() < 0.5
            dilations = [1] * spatial
        elif r.random() < 0.8 or kind.endswith("Backward"):
            attrs["dilations"] = dilations
        else:
            dilations = [1] * spatial
        if not kind.endswith("Backward") and r.random() < 0.3:
            attrs["rounding_type"] = r.choice(("floor", "ceil"))
        auto = attrs.get("auto_pad", "None")
        sizes = [r.choice((4, 5, 7, 8, 9)) for _ in range(spatial)]
        outs = [
            self._window_out(
                sizes[i],
                kernel[i],
                dilations[i],
                attrs["strides"][i],
                attrs["pads_begin"][i],
                attrs["pads_end"][i],
                auto,
            )
            for i in range(spatial)
        ]
        n, c = r.randint(1, 2), self.size()
        dtype = self.dtype()
        x = self._layout(n, c, sizes, data_format)
        y = self._layout(n, c, outs, data_format)
        if kind == "AvgPoolBackward":
            attrs["src_shape"] = list(x)
            return Op(kind, [self.tensor(y, dtype)], [self.tensor(x, dtype)], attrs)
        if kind == "MaxPoolBackward":
            inputs = [self.tensor(x, dtype), self.tensor(y, dtype)]
            return Op(kind, inputs, [self.tensor(x, dtype)], attrs)
        return Op(kind, [self.tensor(x, dtype)], [self.tensor(y, dtype)], attrs)

    def conv(self, kind: str, dtype: str | None = None) -> Op:
        r = self.rng
        transposed = kind.startswith("ConvTranspose")
        spatial = r.randint(1, 3)
        attrs, kernel, dilations = self._windows(spatial)
        attrs["dilations"] = dilations
        data_format = attrs["data_format"] = r.choice(("NCX", "NXC"))
        weights_format = attrs["weights_format"] = r.choice(
            ("XOI", "IOX") if transposed else ("XIO", "OIX")
        )
        groups = r.choice((1, 1, 1, 2, 4))
        if groups > 1 or r.random() < 0.3:
            attrs["groups"] = groups
        depthwise = r.random() < 0.2
        ic = groups * (1 if depthwise else r.choice((1, 2, 3, 8, 16)))
        oc = groups * (1 if depthwise else r.choice((1, 2, 3, 8, 16)))
        auto = attrs.get("auto_pad", "None")
        sizes = [r.choice((5, 6, 7, 8, 9)) for _ in range(spatial)]
        outs = []
        for i in range(spatial):
            s, k, d = attrs["strides"][i], kernel[i], dilations[i]
            pb, pe = attrs["pads_begin"][i], attrs["pads_end"][i]
            if transposed:
                if auto.startswith("SAME"):
                    outs.append(sizes[i] * s)
                else:
                    if auto == "VALID":
                        pb = pe = 0
                    outs.append(s * (sizes[i] - 1) + (k - 1) * d + 1 - pb - pe)
            else:
                outs.append(self._window_out(sizes[i], k, d, s, pb, pe, auto))
        n = r.randint(1, 2)
        x = self._layout(n, ic, sizes, data_format)
        y = self._layout(n, oc, outs, data_format)
        w = {
            "OIX": (oc, ic // groups, *kernel),
            "XIO": (*kernel, ic // groups, oc),
            "IOX": (ic, oc // groups, *kernel),
            "XOI": (*kernel, oc // groups, ic),
        }[weights_format]
        dtype = dtype or self.dtype()
        if kind.endswith("BackwardData"):
            if kind == "ConvolutionBackwardData":
                attrs["dst_shape"] = list(x)
            inputs = [self.tensor(y, dtype), self.weight(w, dtype)]
            return Op(kind, inputs, [self.tensor(x, dtype)], attrs)
        if kind.endswith("BackwardWeights"):
            attrs["weights_shape"] = list(w)
            inputs = [self.tensor(x, dtype), self.tensor(y, dtype)]
            return Op(kind, inputs, [self.tensor(w, dtype)], attrs)
        inputs = [self.tensor(x, dtype), self.weight(w, dtype)]
        if r.random() < 0.3:
            inputs.append(self.weight((oc,), dtype))
        return Op(kind, inputs, [self.tensor(y, dtype)], attrs)

    def matmul(
        self, kind: str = "MatMul", src: Tensor | None = None, dtype: str | None = None
    ) -> Op:
        r = self.rng
        dtype = dtype or self.dtype()
        m, k, n = self.size(), self.size(), self.size()
        batch = self.dims(0, 2) if r.random() < 0.5 else ()
        ta, tb = r.random() < 0.3, r.random() < 0.3
        a: Dims = (k, m) if ta else (m, k)
        if src is not None and src.dims is not None and len(src.dims) >= 2:
            *lead, m, k = src.dims
            batch, ta, a, dtype = tuple(lead), False, (m, k), src.dtype
        b = (n, k) if tb else (k, n)
        b_batch = batch if r.random() < 0.6 else self.broadcast(batch)
        out = (*batch, m, n)
        x = src if src is not None else self.tensor((*batch, *a), dtype)
        inputs = [x, self.weight((*b_batch, *b), dtype)]
        if src is None and r.random() < 0.1:  # a vector
            inputs[0], out, ta = self.tensor((k,), dtype), (*b_batch, n), False
        if r.random() < 0.25:
            inputs.append(self.weight((n,), dtype))
        return Op(
            "MatMul", inputs, [self.tensor(out, dtype)], {"transpose_a": ta, "transpose_b": tb}
        )

    def norm(self, kind: str) -> Op:
        r = self.rng
        dtype = self.dtype()
        # Of parameters and statistics, which only 16-bit data of this type may have in 16 bits.
        other = "bf16" if dtype == "bf16" and r.random() < 0.5 else "f32"
        has_parameters = 0.5 if other == "f32" else 0.1  # oneDNN has few kernels for those
        if kind.startswith("BatchNorm"):
            fmt = r.choice(("NCX", "NXC"))
            dims = self.dims(3, 5) if r.random() < 0.9 else self.dims(2, 2)
            c = dims[1] if fmt == "NCX" else dims[-1]
            attrs: dict[str, Any] = {"epsilon": 1e-3, "data_format": fmt}
            p = [self.tensor((c,), other) for _ in range(4)]
            x, y = self.tensor(dims, dtype), self.tensor(dims, dtype)
            if kind == "BatchNormInference":
                return Op(kind, [x, *p], [y], attrs)
            if kind == "BatchNormForwardTraining":
                if r.random() < 0.5:
                    attrs["momentum"] = 0.9
                outs = [y, *(self.tensor((c,), other) for _ in range(4))]
                return Op(kind, [x, *p[: r.choice((2, 4))]], outs, attrs)
            outs = [self.tensor(dims, dtype)]
            if affine := r.random() < 0.6:
                outs += [self.tensor((c,), other), self.tensor((c,), other)]
            return Op(kind, [x, y, *p[: 3 if affine else 2]], outs, attrs)
        dims = self.dims(2, 5)
        x = self.tensor(dims, dtype)
        if kind == "GroupNorm":
            fmt = r.choice(("NCX", "NXC"))
            axis = 1 if fmt == "NCX" else len(dims) - 1
            c = dims[axis]
            groups = r.choice([g for g in range(1, c + 1) if c % g == 0])
            stats = r.random() < 0.5
            affine = r.random() < has_parameters
            attrs = {
                "groups": groups,
                "data_format": fmt,
                "keep_stats": stats,
                "use_affine": affine,
            }
            inputs = [x] + ([self.tensor((c,), other), self.tensor((c,), other)] if affine else [])
            outs = [self.tensor(dims, dtype)]
            if stats:
                outs += [
                    self.tensor((dims[0], groups), other),
                    self.tensor((dims[0], groups), other),
                ]
            return Op(kind, inputs, outs, attrs)
        axis = r.choice((-1, len(dims) - 1, r.randrange(-len(dims), len(dims))))
        rest, tail = dims[: axis % len(dims)], dims[axis % len(dims) :]
        attrs = {"begin_norm_axis": axis}
        if kind == "RMSNorm":
            inputs = [x] + ([self.tensor(tail, other)] if r.random() < 0.6 else [])
            return Op(kind, inputs, [self.tensor(dims, dtype)], attrs)
        affine = attrs["use_affine"] = r.random() < has_parameters
        gamma = [self.tensor(tail, other), self.tensor(tail, other)] if affine else []
        if kind == "LayerNorm":
            stats = attrs["keep_stats"] = r.random() < 0.5
            outs = [self.tensor(dims, dtype)]
            if stats:
                outs += [self.tensor(rest, other), self.tensor(rest, other)]
            return Op(kind, [x, *gamma], outs, attrs)
        inputs = [
            x,
            self.tensor(dims, dtype),
            *(self.tensor(rest, other) for _ in range(2)),
            *gamma,
        ]
        outs = [self.tensor(dims, dtype)]
        if affine:
            outs += [self.tensor(tail, other), self.tensor(tail, other)]
        return Op(kind, inputs, outs, attrs)

    def reduce(self, kind: str) -> Op:
        r = self.rng
        dims, dtype = self.dims(1, 5), self.dtype()
        axes = r.sample(range(len(dims)), r.randint(1, len(dims)))
        keep = r.random() < 0.5
        out = tuple(1 if i in axes else d for i, d in enumerate(dims) if keep or i not in axes)
        given = [a - len(dims) if r.random() < 0.2 else a for a in axes]
        return Op(
            kind,
            [self.tensor(dims, dtype)],
            [self.tensor(out, dtype)],
            {"axes": given, "keep_dims": keep},
        )

    def concat(self, kind: str) -> Op:
        r = self.rng
        dims, dtype = self.dims(1, 5), self.dtype()
        axis = r.randrange(len(dims))
        parts = [r.randint(1, 9) for _ in range(r.randint(1, 6))]
        make = lambda n: (*dims[:axis], n, *dims[axis + 1 :])  # noqa: E731
        given = axis - len(dims) if r.random() < 0.3 else axis
        return Op(
            kind,
            [self.tensor(make(n), dtype) for n in parts],
            [self.tensor(make(sum(parts)), dtype)],
            {"axis": given},
        )

    def reshape(self, kind: str, src: Tensor | None = None) -> Op:
        r = self.rng
        src = src or self.tensor(self.dims(1, 5), self.dtype())
        assert src.dims is not None
        shape = list(src.dims)
        r.shuffle(shape)
        if len(shape) > 1 and r.random() < 0.5:
            shape = [shape[0] * shape[1], *shape[2:]]
        out = tuple(shape)
        if shape and r.random() < 0.3:
            shape[r.randrange(len(shape))] = -1
        return Op(
            kind,
            [src],
            [self.tensor(out, src.dtype)],
            {"shape": shape or [1], "special_zero": r.random() < 0.5},
        )

    def transpose(self, kind: str, src: Tensor | None = None) -> Op:
        r = self.rng
        src = src or self.tensor(self.dims(1, 5), self.dtype())
        assert src.dims is not None
        order = list(range(len(src.dims)))
        r.shuffle(order)
        out = tuple(src.dims[i] for i in order)
        given = [i - len(order) if r.random() < 0.1 else i for i in order]
        return Op(kind, [src], [self.tensor(out, src.dtype)], {"order": given or [0]})

    def interpolate(self, kind: str) -> Op:
        r = self.rng
        spatial = r.randint(1, 3)
        fmt = r.choice(("NCX", "NXC"))
        sizes = [r.choice((2, 3, 4, 5)) for _ in range(spatial)]
        scale = [r.choice((1, 2, 3)) for _ in range(spatial)]
        outs = [a * b for a, b in zip(sizes, scale, strict=True)]
        linear = {1: "linear", 2: "bilinear", 3: "trilinear"}[spatial]
        attrs: dict[str, Any] = {"mode": r.choice(("nearest", linear)), "data_format": fmt}
        attrs |= {"sizes": outs} if r.random() < 0.5 else {"scales": [float(s) for s in scale]}
        if r.random() < 0.5:
            attrs["coordinate_transformation_mode"] = r.choice(("half_pixel", "align_corners"))
        n, c, dtype = r.randint(1, 2), self.size(), self.dtype()
        x, y = self._layout(n, c, sizes, fmt), self._layout(n, c, outs, fmt)
        if kind == "Interpolate":
            return Op(kind, [self.tensor(x, dtype)], [self.tensor(y, dtype)], attrs)
        return Op(
            kind, [self.tensor(x, dtype), self.tensor(y, dtype)], [self.tensor(x, dtype)], attrs
        )

    def quantize(self, kind: str, src: Tensor | None = None, low: str | None = None) -> Op:
        r = self.rng
        dims = src.dims if src is not None and src.dims is not None else self.dims(1, 4)
        per_channel = bool(dims) and r.random() < 0.4
        axis = r.randrange(len(dims)) if dims else 0
        count = dims[axis] if per_channel else 1
        attrs: dict[str, Any] = {"scales": [0.5] * count}
        if per_channel or r.random() < 0.3:
            attrs |= {"qtype": "per_channel" if per_channel else "per_tensor", "axis": axis}
        low = low or r.choice(("s8", "u8", "s8", "u8", "f8_e4m3", "f8_e5m2"))
        if not low.startswith("f8") and r.random() < 0.6:
            attrs["zps"] = [0 if r.random() < 0.5 else 3] * count
        if kind == "Quantize":
            src = src or self.tensor(dims)
            return Op(kind, [src], [self.tensor(dims, low)], attrs)
        return Op(kind, [src or self.tensor(dims, low)], [self.tensor(dims)], attrs)

    def dynamic(self, kind: str) -> Op:
        r = self.rng
        dims = self.dims(1, 4)
        qtype = r.choice(("per_tensor", "per_channel", "per_group"))
        axis = r.randrange(len(dims))
        attrs: dict[str, Any] = {"qtype": qtype, "axis": axis}
        count: Dims = (1,)
        if qtype == "per_channel":
            count = (dims[axis],)
        if qtype == "per_group":
            group = [1] * len(dims)
            axis = r.randrange(max(0, len(dims) - 2), len(dims))
            group[axis] = r.choice([g for g in range(1, dims[axis] + 1) if dims[axis] % g == 0])
            attrs["group_shape"] = group
            count = tuple(d // g for d, g in zip(dims, group, strict=True))
        if kind == "DynamicQuantize":
            zps = [self.tensor(count, r.choice(("s8", "u8", "s32")))] if r.random() < 0.5 else []
            return Op(
                kind,
                [self.tensor(dims), self.tensor(count), *zps],
                [self.tensor(dims, r.choice(("s8", "u8")))],
                attrs,
            )
        low = r.choice(("s8", "u8", "s4", "u4"))
        wide = self.dtype()
        zps = [self.tensor(count, r.choice((low, "s32")))] if r.random() < 0.5 else []
        return Op(
            kind,
            [self.tensor(dims, low), self.tensor(count, wide), *zps],
            [self.tensor(dims, wide)],
            attrs,
        )

    def prelu(self, kind: str) -> Op:
        r = self.rng
        fmt = r.choice(("NCX", "NXC"))
        dims, dtype = self.dims(2, 5), self.dtype()
        c = dims[1] if fmt == "NCX" else dims[-1]
        slope = r.choice(((c,), (1,), dims, tuple(1 for _ in dims)))
        attrs: dict[str, Any] = {"data_format": fmt}
        src = self.tensor(dims, dtype)
        if kind == "PReLU":
            attrs["per_channel_broadcast"] = r.random() < 0.7
            return Op(kind, [src, self.tensor(slope, dtype)], [self.tensor(dims, dtype)], attrs)
        inputs = [src, self.tensor(slope, dtype), self.tensor(dims, dtype)]
        return Op(kind, inputs, [self.tensor(dims, dtype), self.tensor(slope, dtype)], attrs)

    def bias(self, kind: str, src: Tensor | None = None) -> Op:
        fmt = self.rng.choice(("NCX", "NXC"))
        src = src or self.tensor(self.dims(2, 5), self.dtype())
        assert src.dims is not None
        dims = src.dims if len(src.dims) > 1 else (1, 1)
        c = dims[1] if fmt == "NCX" else dims[-1]
        bias = self.tensor((c,), src.dtype)
        attrs = {"data_format": fmt}
        if kind == "BiasAdd":
            return Op(kind, [src, bias], [self.tensor(src.dims, src.dtype)], attrs)
        return Op(kind, [src], [bias], attrs)

    def odd(self, kind: str) -> Op:
        dims, dtype = self.dims(1, 4), self.dtype()
        x = self.tensor(dims, dtype)
        if kind == "End":
            return Op(kind, [x], [])
        if kind == "Dropout":
            scalars = [self.tensor((), t, property="host_scalar") for t in ("s64", "s64", "f32")]
            outs = [self.tensor(dims, dtype)]
            if self.rng.random() < 0.5:
                outs.append(self.tensor(dims, "u8"))
            return Op(kind, [x, *scalars], outs)
        return Op(kind, [x], [self.tensor(dims, dtype)])

    def single(self, kind: str) -> Op:
        if kind in BINARY or kind == "GreaterEqual":
            return self.binary(kind)
        if kind.startswith("Conv"):
            return self.conv(kind)
        if "Pool" in kind:
            return self.pool(kind)
        if "Norm" in kind:
            return self.norm(kind)
        if kind.startswith("Reduce"):
            return self.reduce(kind)
        if kind.startswith("Interpolate"):
            return self.interpolate(kind)
        if kind.startswith("PReLU"):
            return self.prelu(kind)
        if kind.startswith("BiasAdd"):
            return self.bias(kind)
        if kind.startswith("Dynamic"):
            return self.dynamic(kind)
        if kind in ("Quantize", "Dequantize"):
            return self.quantize(kind)
        if kind.endswith("Backward"):
            return self.backward(kind)
        family = {
            "MatMul": self.matmul,
            "Select": self.select,
            "Concat": self.concat,
            "StaticReshape": self.reshape,
            "StaticTranspose": self.transpose,
            "End": self.odd,
            "Wildcard": self.odd,
            "Dropout": self.odd,
        }
        if kind in family:
            return family[kind](kind)  # type: ignore[operator]
        return self.unary(kind)

    # -- chains ------------------------------------------------------------------------------------

    def epilogue(self, src: Tensor) -> Op:
        r = self.rng
        choice = r.random()
        if choice < 0.45:
            return self.binary(r.choice(BINARY), src)
        if choice < 0.7:
            return self.unary(r.choice(UNARY), src)
        if choice < 0.78 and src.dtype == "f32":
            return self.quantize("Quantize", src, r.choice(("s8", "u8")))
        if choice < 0.84 and src.dims:
            return self.unary("SoftMax", src)
        if choice < 0.88:
            return self.unary("TypeCast", src)
        if choice < 0.92:
            return self.select("Select", src)
        if choice < 0.95 and src.dims:
            return self.reshape("StaticReshape", src)
        if choice < 0.98 and src.dims:
            return self.transpose("StaticTranspose", src)
        return self.bias("BiasAdd", src)

    def chain(self) -> list[Op]:
        r = self.rng
        ops: list[Op] = []
        kind = r.choice(PRODUCERS)
        quantized = kind in ("MatMul", "Convolution", "ConvTranspose") and r.random() < 0.35
        if kind in ("AvgPool", "MaxPool") and r.random() < 0.4:
            return self.quantized_pool(kind)
        if kind == "MatMul" and r.random() < 0.15:
            return self.compressed_weights()
        if kind == "MatMul":
            head = self.matmul(dtype="f32" if quantized else None)
        elif kind in ("Convolution", "ConvTranspose"):
            head = self.conv(kind, "f32" if quantized else None)
        else:
            head = self.single(kind)
        if quantized:
            for i, low in enumerate((r.choice(("u8", "s8")), "s8")):
                wide = head.inputs[i]
                assert wide.dims is not None
                ops.append(self.quantize("Dequantize", self.tensor(wide.dims, low)))
                ops[-1].outputs = [wide]
        ops.append(head)
        for _ in range(r.randint(1, 4)):
            if not ops[-1].outputs:
                break
            last = ops[-1].outputs[0]
            if last.dtype not in ("f32", "bf16", "f16"):
                break
            ops.append(self.epilogue(last))
        return ops

    def quantized_pool(self, kind: str) -> list[Op]:
        r = self.rng
        pool = self.pool(kind)
        src, dst = pool.inputs[0], pool.outputs[0]
        for t in (src, dst):
            t.dtype = "f32"
        assert src.dims is not None and dst.dims is not None
        low = r.choice(("s8", "u8"))
        ops = [self.quantize("Dequantize", self.tensor(src.dims, low)), pool]
        ops[0].outputs = [src]
        last = dst
        if r.random() < 0.7:
            other = self.tensor(dst.dims)
            if r.random() < 0.6:
                ops.append(self.quantize("Dequantize", self.tensor(dst.dims, low)))
                ops[-1].outputs = [other]
            ops.append(Op(r.choice(BINARY), [dst, other], [self.tensor(dst.dims)]))
            last = ops[-1].outputs[0]
        ops.append(self.quantize("Quantize", last, low))
        return ops

    def compressed_weights(self) -> list[Op]:
        """MatMul with weights that a DynamicDequantize expands."""
        r = self.rng
        m, k, n = r.choice((1, 4, 7)), r.choice((8, 16, 32)), r.choice((8, 16, 24))
        wide = self.dtype()
        lead: Dims = (2,) if r.random() < 0.3 else ()
        low = r.choice(("s8", "u8", "s4", "u4"))
        qtype = r.choice(("per_tensor", "per_channel", "per_group"))
        weights, expanded = self.weight((*lead, k, n), low), self.tensor((*lead, k, n), wide)
        attrs: dict[str, Any] = {"qtype": qtype, "axis": len(lead) + 1}
        count: Dims = (1,) if qtype == "per_tensor" else (n,)
        if qtype == "per_group":
            group = r.choice((4, 8))
            attrs["group_shape"] = [1] * len(lead) + [group, 1]
            count = (*lead, k // group, n)
        inputs = [weights, self.tensor(count, wide)]
        if r.random() < 0.5:
            inputs.append(self.tensor(count if r.random() < 0.7 else (1,), low))
        ops = [Op("DynamicDequantize", inputs, [expanded], attrs)]
        if wide == "f32" and r.random() < 0.3:
            cast = self.tensor(expanded.dims, "bf16")
            ops.append(Op("TypeCast", [expanded], [cast]))
            expanded, wide = cast, "bf16"
        src = self.tensor((*lead, m, k), wide)
        ops.append(Op("MatMul", [src, expanded], [self.tensor((*lead, m, n), wide)]))
        if r.random() < 0.4:
            ops.append(self.epilogue(ops[-1].outputs[0]))
        return ops

    def attention(self) -> list[Op]:
        r = self.rng
        dtype = self.dtype()
        batch: Dims = (r.randint(1, 2), r.choice((1, 2, 4)))
        q, kv, d = r.choice((1, 3, 16, 33)), r.choice((1, 4, 16, 31)), r.choice((4, 8, 16))
        grouped = r.random() < 0.3
        if grouped:
            batch = (batch[0], 2, 2)
        kv_batch = (batch[0], 2, 1) if grouped else batch
        query, key = self.tensor((*batch, q, d), dtype), self.tensor((*kv_batch, kv, d), dtype)
        value = self.tensor((*kv_batch, kv, d), dtype)
        score = self.tensor((*batch, q, kv), dtype)
        ops = [Op("MatMul", [query, key], [score], {"transpose_b": True})]
        current = score
        if r.random() < 0.8:
            scaled = self.tensor(score.dims, dtype)
            scale = self.tensor(r.choice(((1,), (1,) * (len(batch) + 2))), dtype)
            ops.append(Op(r.choice(("Divide", "Multiply")), [current, scale], [scaled]))
            current = scaled
        if r.random() < 0.6:
            masked = self.tensor(score.dims, dtype)
            mask_dims = r.choice(((*batch, q, kv), (*(1 for _ in batch), q, kv), (*batch, 1, kv)))
            ops.append(Op("Add", [current, self.tensor(mask_dims, dtype)], [masked]))
            current = masked
        probs = self.tensor(score.dims, dtype)
        ops.append(Op("SoftMax", [current], [probs], {"axis": -1}))
        out = self.tensor((*batch, q, d), dtype)
        ops.append(Op("MatMul", [probs, value], [out]))
        if r.random() < 0.4 and not grouped:
            order = [0, 2, 1, 3]
            assert out.dims is not None
            moved = self.tensor(tuple(out.dims[i] for i in order), dtype)
            ops.append(Op("StaticTranspose", [out], [moved], {"order": order}))
            if r.random() < 0.5:
                assert moved.dims is not None
                flat = (moved.dims[0], moved.dims[1], moved.dims[2] * moved.dims[3])
                ops.append(
                    Op(
                        "StaticReshape",
                        [moved],
                        [self.tensor(flat, dtype)],
                        {"shape": list(flat), "special_zero": False},
                    )
                )
        return ops

    def gated_mlp(self) -> list[Op]:
        r = self.rng
        dtype = self.dtype()
        m, k, n = r.choice((1, 2, 8)), r.choice((4, 16)), r.choice((4, 16, 17))
        x = self.tensor((m, k), dtype)
        up, gate = self.tensor((m, n), dtype), self.tensor((m, n), dtype)
        sig, act, both = (self.tensor((m, n), dtype) for _ in range(3))
        return [
            Op("MatMul", [x, self.weight((k, n), dtype)], [up]),
            Op("MatMul", [x, self.weight((k, n), dtype)], [gate]),
            Op("Sigmoid", [gate], [sig]),
            Op("Multiply", [gate, sig], [act]),
            Op("Multiply", [act, up], [both]),
            Op("MatMul", [both, self.weight((n, k), dtype)], [self.tensor((m, k), dtype)]),
        ]

    def shuffle(self) -> list[Op]:
        """Reshape, transpose, reshape: channel shuffle."""
        n, h, w, c = self.rng.randint(1, 2), 3, 2, self.rng.choice((4, 6))
        a, b = self.tensor((n, h, w, c)), self.tensor((n, h, w, 2, c // 2))
        t, d = self.tensor((n, h, w, c // 2, 2)), self.tensor((n, h, w, c))
        assert b.dims is not None and d.dims is not None
        return [
            Op("StaticReshape", [a], [b], {"shape": list(b.dims), "special_zero": False}),
            Op("StaticTranspose", [b], [t], {"order": [0, 1, 2, 4, 3]}),
            Op("StaticReshape", [t], [d], {"shape": list(d.dims), "special_zero": False}),
        ]


BINARY = ("Add", "Multiply", "Maximum", "Minimum", "Divide", "Subtract", "SquaredDifference")
UNARY = (
    "Abs",
    "Clamp",
    "Elu",
    "Exp",
    "GELU",
    "HardSigmoid",
    "HardSwish",
    "LeakyReLU",
    "Log",
    "Mish",
    "ReLU",
    "Round",
    "Sigmoid",
    "SoftPlus",
    "Sqrt",
    "Square",
    "Tanh",
    "Reciprocal",
)
PRODUCERS = (
    "MatMul",
    "MatMul",
    "Convolution",
    "Convolution",
    "ConvTranspose",
    "AvgPool",
    "MaxPool",
    "BatchNormInference",
    "Interpolate",
    "SoftMax",
    "ReduceSum",
    "ReduceMax",
    "Reorder",
    "LayerNorm",
    "GroupNorm",
    "Concat",
    "Dequantize",
    "DynamicDequantize",
    "ReLU",
    "Add",
    "StaticTranspose",
    "StaticReshape",
    "TypeCast",
    "PReLU",
    "BiasAdd",
)
KINDS = tuple(k.name for k in og.op.kind if k.name != "LastSymbol")


# -- mutations -------------------------------------------------------------------------------------


def _other_size(rng: random.Random, d: int) -> int:
    return rng.choice((0, 1, 2, d + 1, max(0, d - 1), d * 2, 3, 64, 129))


def _set_dims(case: Case, old: Tensor, dims: Dims | None) -> None:
    """Changes a tensor's dims at one use, or at all."""
    everywhere = case.seed % 5 != 0
    for t in case.tensors():
        if t is old or (everywhere and t.id == old.id):
            t.dims, t.strides = dims, None


def mutate(rng: random.Random, case: Case) -> None:
    """Makes one thing wrong, or unusual."""
    o = rng.choice(case.ops)
    tensors = [*o.inputs, *o.outputs]
    t = rng.choice(tensors) if tensors else None
    choice = rng.random()
    note = case.mutations.append
    if choice < 0.2 and t is not None and t.dims:
        i = rng.randrange(len(t.dims))
        dims = list(t.dims)
        dims[i] = _other_size(rng, dims[i])
        note(f"dims of {t.id}: {t.dims} -> {dims}")
        _set_dims(case, t, tuple(dims))
    elif choice < 0.3 and t is not None and t.dims is not None:
        dims = list(t.dims)
        if dims and rng.random() < 0.5:
            del dims[rng.randrange(len(dims))]
        else:
            dims.insert(rng.randint(0, len(dims)), rng.choice((1, 1, 2, 3)))
        note(f"rank of {t.id}: {t.dims} -> {dims}")
        _set_dims(case, t, tuple(dims[:12]))
    elif choice < 0.5 and o.attrs:
        name = rng.choice(sorted(o.attrs))
        value = o.attrs[name]
        new: Any = value
        if isinstance(value, list) and value:
            new = list(value)
            how = rng.random()
            if how < 0.25:
                new.pop()
            elif how < 0.45:
                new.append(rng.choice(new))
            elif how < 0.5:
                new = new * 7
            else:
                number = (0, 1, -1, 2, 5, 63, 1 << 20, 1 << 29, -3, 1 << 40)
                new[rng.randrange(len(new))] = (
                    rng.choice((0.0, -1.0, float("nan"), 1e30, 0.3))
                    if isinstance(new[0], float)
                    else rng.choice(number)
                )
        elif isinstance(value, bool):
            new = not value
        elif isinstance(value, int):
            new = rng.choice((0, 1, -1, 2, 3, -2, 5, 11, -12, 1 << 20, 1 << 40, -7))
        elif isinstance(value, float):
            new = rng.choice((0.0, -1.0, float("nan"), float("inf"), 1e30))
        elif isinstance(value, str):
            new = rng.choice(
                (
                    "NCX",
                    "NXC",
                    "XIO",
                    "OIX",
                    "IOX",
                    "XOI",
                    "per_tensor",
                    "per_channel",
                    "per_group",
                    "none",
                    "numpy",
                    "None",
                    "SAME_UPPER",
                    "SAME_LOWER",
                    "VALID",
                    "nearest",
                    "linear",
                    "bilinear",
                    "trilinear",
                    "ceil",
                    "bogus",
                )
            )
        if rng.random() < 0.1:
            del o.attrs[name]
            note(f"without {name}")
        else:
            if new != []:
                o.attrs[name] = new
            note(f"{name}: {value} -> {new}")
    elif choice < 0.55 and t is not None:
        new_type = rng.choice(("f32", "bf16", "f16", "s8", "u8", "s32", "boolean", "s4", "u4"))
        note(f"dtype of {t.id}: {t.dtype} -> {new_type}")
        for x in case.tensors():
            if x.id == t.id:
                x.dtype = new_type
    elif choice < 0.6 and o.inputs:
        if rng.random() < 0.5:
            note("an input less")
            o.inputs.pop(rng.randrange(len(o.inputs)))
        else:
            note("an input again")
            o.inputs.insert(rng.randint(0, len(o.inputs)), rng.choice(o.inputs))
    elif choice < 0.63 and len(o.inputs) > 1:
        note("inputs shuffled")
        rng.shuffle(o.inputs)
    elif choice < 0.66 and len(o.inputs) > 1:
        a, b = rng.sample(range(len(o.inputs)), 2)
        o.inputs[a] = o.inputs[b]
        note(f"input {b} also as {a}")
    elif choice < 0.8 and t is not None and t.dims:
        # The graph does not know; compile is told the truth or a lie.
        produced = {x.id for p in case.ops for x in p.outputs}
        unknown: Dims | None = None if rng.random() < 0.4 else tuple(-1 for _ in t.dims)
        if t.id in produced or rng.random() < 0.5:
            told = replace(t)
            if rng.random() < 0.5:
                dims = list(t.dims)
                i = rng.randrange(len(dims))
                dims[i] = _other_size(rng, dims[i])
                told.dims = tuple(dims)
            elif rng.random() < 0.3:
                told.dims = (*t.dims, 2) if rng.random() < 0.5 else t.dims[1:]
            elif rng.random() < 0.5 and t.id in produced:
                told = None  # type: ignore[assignment]
            note(f"{t.id} unknown {unknown}, told {told and told.dims}")
            _set_dims(case, t, unknown)
            if told is not None:
                case.told[t.id] = told
    elif choice < 0.95 and t is not None and t.dims:
        how = rng.random()
        order = list(range(len(t.dims)))
        rng.shuffle(order)
        strides = [0] * len(order)
        step = 1
        for i in order:
            strides[i] = 0 if how < 0.15 and rng.random() < 0.5 else step
            step *= max(1, t.dims[i]) + (rng.randint(1, 3) if how > 0.6 else 0)
        note(f"strides of {t.id}: {strides}")
        for x in case.tensors():
            if x.id == t.id and x.dims is not None and len(x.dims) == len(strides):
                x.strides = tuple(strides)
    elif t is not None:
        layout = rng.choice(("any", "any", "undef"))
        note(f"layout of {t.id}: {layout}")
        for x in case.tensors():
            if x.id == t.id:
                x.layout, x.strides = layout, None


def make_case(seed: int, kinds: tuple[str, ...] = KINDS) -> Case:
    """A case from a seed, always the same for the same linked oneDNN."""
    rng = random.Random(seed)
    maker = Maker(rng)
    shape = rng.random()
    if shape < 0.5:
        ops = [maker.single(kinds[seed % len(kinds)])]
    elif shape < 0.88:
        ops = maker.chain()
    elif shape < 0.95:
        ops = maker.attention()
    elif shape < 0.98:
        ops = maker.gated_mlp()
    else:
        ops = maker.shuffle()
    # Each use its own object, so that a mutation can make uses differ.
    for o in ops:
        o.inputs = [replace(t) for t in o.inputs]
        o.outputs = [replace(t) for t in o.outputs]
    case = Case(seed, ops)
    # What a chain computes in between, its maker often does not know.
    produced = {t.id for o in ops for t in o.outputs}
    if rng.random() < 0.3:
        any_layouts = {id_ for id_ in produced if rng.random() < 0.1}
        for t in case.tensors():
            if t.id in produced:
                t.dims, t.layout = None, "any" if t.id in any_layouts else "strided"
    for _ in range(rng.choice((0, 0, 1, 1, 1, 2, 3))):
        mutate(rng, case)
    case.any_outputs = rng.random() < 0.2
    case.policy = "debug" if rng.random() < 0.1 else "fusion"
    case.alone = len(ops) == 1 and rng.random() < 0.15
    case.fpmath = rng.choice(("strict",) * 6 + ("bf16", "any"))
    case.apply_to_int = rng.random() < 0.3
    return case


# -- running ---------------------------------------------------------------------------------------

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
MAX_BYTES = 1 << 24


class GuardedBuffer:
    """Memory with unreadable pages right behind it (or right before it)."""

    CANARY = 0xA5
    GUARD = 1 << 22  # wide, because a wrong stride leads far away

    def __init__(self, size: int, align: int = 8, *, before: bool = False) -> None:
        span = -(-max(size, 1) // PAGE) * PAGE
        self._map = mmap.mmap(-1, span + 2 * self.GUARD, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        first = base + self.GUARD
        for guard in (base, first + span):
            if _libc.mprotect(guard, self.GUARD, 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        self.address = first if before else (first + span - size) // align * align
        start = self.address - first
        whole = np.frombuffer(self._map, np.uint8)[self.GUARD : self.GUARD + span]
        whole[:] = self.CANARY
        self._slack = (whole[:start], whole[start + size :])
        self.bytes = whole[start : start + size]

    def check(self) -> None:
        """Raise if something was written beside the buffer."""
        for slack in self._slack:
            if (slack != self.CANARY).any():
                raise AssertionError("written outside the buffer")


class OutOfBounds(Exception):
    """A kernel wrote beside its buffer."""


def _fill(rng: random.Random, buffer: np.ndarray, dtype: str) -> None:
    if dtype == "boolean":
        buffer[:] = np.random.RandomState(rng.randrange(1 << 31)).randint(0, 2, buffer.size)
    elif dtype == "f32":
        random_state = np.random.RandomState(rng.randrange(1 << 31))
        count = buffer.size // 4
        buffer[: count * 4].view(np.float32)[:] = random_state.rand(count)
    else:
        buffer[:] = np.random.RandomState(rng.randrange(1 << 31)).randint(0, 60, buffer.size)


def run_case(case: Case) -> str:
    """Take the case as far as it goes; return how far, e.g. "executed 2" or the exception."""
    rng = random.Random(case.seed + 1)
    told: dict[int, Tensor] = dict(case.told)
    stage = "build"
    try:
        g = og.graph("cpu")
        g.set_fpmath_mode(case.fpmath, case.apply_to_int)
        for i, o in enumerate(case.ops):
            made = og.op(i, o.kind, f"{o.kind.lower()}{i}")
            made.add_inputs([t.logical() for t in o.inputs])
            made.add_outputs([t.logical() for t in o.outputs])
            for name, value in o.attrs.items():
                made.set_attr(name, value)
            stage = "add_op"
            if case.alone:
                partitions = [og.partition(made, "cpu")]
            else:
                g.add_op(made)
        if not case.alone:
            stage = "finalize"
            g.finalize()
            stage = "partition"
            partitions = g.get_partitions(case.policy)
        engine = og.engine("cpu", 0)
        stream = og.stream(engine)
        known: dict[int, og.logical_tensor] = {
            t.id: t.logical() for o in case.ops for t in o.inputs
        }
        known |= {id_: t.logical() for id_, t in told.items()}
        done = 0
        data: dict[int, GuardedBuffer] = {}
        pending = list(partitions)
        compiled_of: dict[int, og.logical_tensor] = {}
        while pending:
            produced = {lt.get_id() for p in pending for lt in p.get_output_ports()}
            ready = [
                p for p in pending if not any(lt.get_id() in produced for lt in p.get_input_ports())
            ]
            part = (ready or pending)[0]
            pending.remove(part)
            stage = "compile"
            inputs = []
            seen = set()
            for lt in part.get_input_ports():
                if lt.get_id() in seen:
                    continue
                seen.add(lt.get_id())
                inputs.append(compiled_of.get(lt.get_id(), known.get(lt.get_id(), lt)))
            outputs = []
            for lt in part.get_output_ports():
                out = known[lt.get_id()] if lt.get_id() in told else lt
                if case.any_outputs and rng.random() < 0.7:
                    dims = _dims_of(out)
                    out = (
                        og.logical_tensor(out.get_id(), out.get_data_type(), -1, "any")
                        if dims is None
                        else og.logical_tensor(out.get_id(), out.get_data_type(), dims, "any")
                    )
                outputs.append(out)
            compiled = part.compile(inputs, outputs, engine)
            stage = "tensors"
            tensors: list[list[og.tensor]] = [[], []]
            buffers = []
            for which, lts in enumerate((compiled.get_inputs(), compiled.get_outputs())):
                for lt in lts:
                    id_ = lt.get_id()
                    compiled_of[id_] = lt
                    if lt.get_property_type().name == "host_scalar":
                        tensors[which].append(og.tensor.make_scalar_tensor(lt, 1))
                        continue
                    size = lt.get_mem_size()
                    if size > MAX_BYTES:
                        return "too large to run"
                    if id_ not in data or which == 1:
                        item = max(1, BITS[lt.get_data_type().name] // 8)
                        data[id_] = GuardedBuffer(size, item, before=rng.random() < 0.2)
                        if which == 0:
                            _fill(rng, data[id_].bytes, lt.get_data_type().name)
                    buffers.append(data[id_])
                    tensors[which].append(og.tensor(lt, engine, data[id_].address))
            stage = "execute"
            compiled.execute(stream, tensors[0], tensors[1])
            stream.wait()
            for buffer in buffers:
                try:
                    buffer.check()
                except AssertionError as e:
                    raise OutOfBounds(f"{part}: {e}") from e
            done += 1
        return f"executed {done}"
    except (og.OneDNNError, TypeError, ValueError, OverflowError) as e:
        return f"{stage}: {type(e).__name__}: {e}"


def _dims_of(lt: og.logical_tensor) -> list[int] | None:
    try:
        return lt.get_dims()
    except og.InvalidArgumentsError:
        return None


def describe(case: Case) -> str:
    """The case in words, to reproduce it by hand."""
    lines = [
        f"seed {case.seed}, policy {case.policy}, fpmath {case.fpmath}, "
        f"apply_to_int {case.apply_to_int}, any outputs {case.any_outputs}, alone {case.alone}"
    ]
    for i, o in enumerate(case.ops):
        lines.append(f"op {i} {o.kind} {o.attrs}")
        for which, ts in (("in", o.inputs), ("out", o.outputs)):
            lines += [f"  {which} {t}" for t in ts]
    lines += [f"told {t}" for t in case.told.values()]
    lines += [f"mutation {m}" for m in case.mutations]
    return "\n".join(lines)


SECONDS_FOR_A_CASE = 60


def main(arguments: list[str]) -> None:
    """Run one seed, or a range of them."""
    faulthandler.enable()
    first = int(arguments[0])
    if len(arguments) == 1:
        case = make_case(first)
        print(describe(case), flush=True)
        print(run_case(case))
        return
    # The cache would hide what a case does behind what an earlier one did.
    og.set_compiled_partition_cache_capacity(0)
    for seed in range(first, int(arguments[1])):
        print(f"start {seed}", flush=True)
        faulthandler.dump_traceback_later(SECONDS_FOR_A_CASE, exit=True)
        outcome = run_case(make_case(seed)).replace("\n", " ")
        faulthandler.cancel_dump_traceback_later()
        print(f"end {seed} {outcome}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
