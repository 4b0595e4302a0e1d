"""The libraries that run.py compares: this package, and those that do the same work.

Each is set up as its own documentation recommends for inference on a CPU. None is imported before
it is its turn: a benchmark's memory and threads are to be its own.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from _models import EPSILON, GROUP, Array, Network, Parameters, Window, stored


class NotSupportedError(Exception):
    """A library can't express a network."""


def aligned(shape: tuple[int, ...], dtype: Any) -> Array:
    """New memory that begins at a multiple of 64 bytes."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype).reshape(shape)


def aligned_copy(array: Array) -> Array:
    """The same, at such an address."""
    made = aligned(array.shape, array.dtype)
    made[...] = array
    return made


Inputs = Mapping[str, Array]
# What to call, and what then has the answer, in float32.
Fed = tuple[Callable[[], Any], Callable[[], Array]]


class Prepared:
    """A network, ready to run in one library.

    Attributes
    ----------
    run : callable
        Computes once, from memory to memory.
    result : callable
        What the last run computed, in float32.
    phases : dict of str to float
        Seconds that parts of the preparation took.
    later : callable
        More of those, which are measured apart.
    """

    def __init__(self, feed: Callable[[Inputs], Fed]) -> None:
        self._feed = feed
        self.phases: dict[str, float] = {}
        self.later: Callable[[], dict[str, float]] = dict
        self.run: Callable[[], Any]
        self.result: Callable[[], Array]

    def feed(self, inputs: Inputs) -> None:
        """Take inputs, given in float32."""
        self.run, self.result = self._feed(inputs)


def shapes_of(network: Any, opened: bool) -> dict[str, tuple[int, ...]]:
    """Of the inputs; `opened`: with -1 for dims of any size."""
    if opened:
        made: dict[str, tuple[int, ...]] = network.open_shapes()
        return made
    return {name: values.shape for name, values in network.inputs().items()}


class Peer:
    """A library."""

    name = ""
    modules: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ("f32", "bf16", "int8", "w8", "w4")

    def missing(self) -> str | None:
        """Which module is not there, if one is not."""
        return next((m for m in self.modules if importlib.util.find_spec(m) is None), None)

    def version(self) -> str:
        """Of what is installed."""
        made: str = importlib.import_module(self.modules[0]).__version__
        return made

    def source(self, network: Network, parameters: Parameters, *, opened: bool) -> Any:
        """What `load` takes: the network as a user has it, on disk or in arrays.

        `opened`: for inputs of more than one shape.
        """
        return network, parameters, opened

    def load(self, source: Any, threads: int) -> Prepared:
        """Make it ready; this is what building and compiling takes."""
        raise NotImplementedError


# -- this package


class Rounded:
    """An 8-bit tensor, dequantized anew for each op that takes it.

    oneDNN fuses a Dequantize with one op; a shared one stays alone, and what follows stays f32.
    """

    def __init__(self, integers: Any, rounding: dict[str, Any]) -> None:
        self.integers = integers
        self.rounding = rounding


def value_of(x: Any) -> Any:
    """Something to compute with."""
    return x.integers.dequantize(**x.rounding) if isinstance(x, Rounded) else x


class BuilderOps:
    """`Ops` that add to a `GraphBuilder`."""

    def __init__(self, builder: Any, parameters: Parameters) -> None:
        self.builder = builder
        self.parameters = parameters

    def _constant(self, name: str, dtype: str | None = None) -> Any:
        array = stored(self.parameters.arrays[name], dtype or self.parameters.dtype)
        return self.builder.constant(array, name=name)

    def _weight(self, name: str) -> Any:
        if not self.parameters.integer_weights:
            return self._constant(f"{name}.weight")
        integers, scales, axis = self.parameters.weight(name)
        return self.builder.constant(integers, name=f"{name}.weight").dequantize(
            scales=scales.tolist(), zps=[0] * len(scales), qtype="per_channel", axis=axis
        )

    def linear(self, x: Any, name: str) -> Any:
        biased = f"{name}.bias" in self.parameters.arrays
        bias = self._constant(f"{name}.bias") if biased else None
        if self.parameters.dtype in ("w8", "w4"):  # as peers do by default, activations are rounded
            from onednn_graph_py.blocks import linear

            integers, scales, _ = self.parameters.weight(name)
            return linear(value_of(x), integers, bias, scales=scales, activations="int8", name=name)
        return value_of(x).matmul(self._weight(name), bias, name=name)

    def heads(self, x: Any, count: int) -> Any:
        shape = [1, x.shape[1], count, x.shape[2] // count]
        split = x.static_reshape(shape=shape, special_zero=False)
        return split.static_transpose(order=[0, 2, 1, 3])

    def merged(self, x: Any) -> Any:
        back = x.static_transpose(order=[0, 2, 1, 3])
        shape = [1, x.shape[2], x.shape[1] * x.shape[3]]
        return back.static_reshape(shape=shape, special_zero=False)

    def attention(
        self, query: Any, key: Any, value: Any, *, causal: bool = False, past: Any = None
    ) -> Any:
        import onednn_graph_py as og

        if past is not None:
            key, value = (
                self.builder.concat(*pair, axis=2) for pair in zip(past, (key, value), strict=True)
            )
        # The last query sees every key.
        hides = causal and query.shape[2] != 1
        return og.blocks.sdpa(
            query, key, value, scale_by="divide", causal="bottom_right" if hides else False
        )

    def rotated(self, x: Any, name: str) -> Any:
        # oneDNN has no op that takes a part of a tensor: a product turns the halves around.
        half = x.shape[-1] // 2
        turn = np.eye(2 * half, k=half, dtype=np.float32) - np.eye(2 * half, k=-half)
        turned = x.matmul(self.builder.constant(turn[None, None], x.dtype))
        return x * self._constant(f"{name}.cos") + turned * self._constant(f"{name}.sin")

    def layer_norm(self, x: Any, name: str) -> Any:
        scale, shift = (self._constant(f"{name}.{part}", "f32") for part in ("weight", "bias"))
        return x.layer_norm(scale, shift, keep_stats=False, epsilon=EPSILON)

    def rms_norm(self, x: Any, name: str) -> Any:
        import onednn_graph_py as og

        scale = self._constant(f"{name}.weight", "f32")
        linked = og.version()
        if (linked["major"], linked["minor"]) >= (3, 11):
            return x.rms_norm(scale, epsilon=EPSILON)
        wide = x if x.dtype == "f32" else x.type_cast(dtype="f32")
        mean = wide.square().reduce_mean(axes=[2], keep_dims=True)
        made = wide / (mean + EPSILON).sqrt() * scale
        return made if x.dtype == "f32" else made.type_cast(dtype=x.dtype)

    def gelu(self, x: Any) -> Any:
        return x.gelu()

    def silu(self, x: Any) -> Any:
        return x * x.sigmoid()

    def relu(self, x: Any) -> Any:
        return x.relu()

    def relu6(self, x: Any) -> Any:
        return x.clamp(min=0, max=6)

    def add(self, x: Any, y: Any) -> Any:
        made: Any = value_of(x) + value_of(y)
        return made

    def multiply(self, x: Any, y: Any) -> Any:
        return x * y

    def convolution(self, x: Any, name: str, window: Window) -> Any:
        stride, padding, groups, dilation, transposed = window
        rank = self.parameters.arrays[f"{name}.weight"].ndim - 2
        options = {
            "strides": [stride] * rank,
            "pads_begin": [padding] * rank,
            "pads_end": [padding] * rank,
            "dilations": [dilation] * rank,
            "groups": groups,
            "data_format": "NCX",
            "name": name,
        }
        weight, bias = self._weight(name), self._constant(f"{name}.bias")
        if transposed:
            product = value_of(x).conv_transpose(weight, **options, weights_format="IOX")
            return product.bias_add(bias, data_format="NCX")
        return value_of(x).convolution(weight, bias, **options, weights_format="OIX")

    def max_pool(self, x: Any, kernel: int, stride: int, padding: int) -> Any:
        return value_of(x).max_pool(
            strides=[stride] * 2,
            pads_begin=[padding] * 2,
            pads_end=[padding] * 2,
            kernel=[kernel] * 2,
            data_format="NCX",
        )

    def mean(self, x: Any) -> Any:
        from onednn_graph_py.blocks import global_avg_pool

        x = value_of(x)
        pooled = global_avg_pool(x)
        return pooled.static_reshape(shape=[1, x.shape[1]], special_zero=False)

    def quantized(self, x: Any, name: str, *, summand: bool = False) -> Any:
        if self.parameters.dtype != "int8" or summand:
            return x
        scale, signed = self.parameters.activation(name)
        # Without VNNI oneDNN halves the weights of s8 sources, which is exact for even ones only.
        shifted = signed and self.parameters.largest < 127
        zero = 128 if shifted else 0
        rounding = {"scales": [scale], "zps": [zero], "qtype": "per_tensor"}
        dtype = "s8" if signed and not shifted else "u8"
        return Rounded(x.quantize(dtype=dtype, **rounding), rounding)


def seconds_to_partition(builder: Any) -> float:
    """The part of compilation that finds out what is fused with what."""
    begin = time.perf_counter()
    builder.graph.get_partitions()
    return time.perf_counter() - begin


class Ours(Peer):
    """A `GraphBuilder`, compiled, and called with an array for the output."""

    name = "onednn_graph_py"
    modules = ("onednn_graph_py",)

    def load(self, source: Any, threads: int) -> Prepared:
        from onednn_graph_py.model.building.builder import GraphBuilder

        network, parameters, opened = source
        begin = time.perf_counter()
        builder = GraphBuilder()
        dtype = "bf16" if parameters.dtype == "bf16" else "f32"
        inputs = [builder.input(s, dtype, name=n) for n, s in shapes_of(network, opened).items()]
        builder.output(network.run(BuilderOps(builder, parameters), *inputs))
        built = time.perf_counter()
        model = builder.compile()
        compiled = time.perf_counter()

        def feed(inputs: Inputs) -> Fed:
            given = [aligned_copy(stored(values, dtype)) for values in inputs.values()]
            if opened:
                made: list[Any] = [None]

                def call() -> None:
                    made[0] = model(*given)

                return call, lambda: made[0].astype(np.float32)
            out = aligned(network.output_shape(), given[0].dtype)
            return (lambda: model(*given, out=out)), lambda: out.astype(np.float32)

        made = Prepared(feed)
        made.phases = {"graph": built - begin, "compile": compiled - built}
        made.later = lambda: {"of that, partition": seconds_to_partition(builder)}
        return made


# -- torch


class TorchOps:
    """`Ops` of torch, with the parameters of a module."""

    def __init__(self, module: Any) -> None:
        import torch

        self.module = module
        self.torch = torch
        self.functional = torch.nn.functional

    def _get(self, name: str) -> Any:
        return getattr(self.module, name.replace(".", "_"), None)

    def _two(self, name: str) -> tuple[Any, Any]:
        return self._get(f"{name}.weight"), self._get(f"{name}.bias")

    def linear(self, x: Any, name: str) -> Any:
        weight, bias = self._two(name)
        scales = self._get(f"{name}.scales")
        if scales is None:
            return self.functional.linear(x, weight, bias)
        # In the form that inductor has a kernel for.
        return self.functional.linear(x, weight.to(x.dtype)) * scales

    def heads(self, x: Any, count: int) -> Any:
        return x.view(1, x.shape[1], count, -1).transpose(1, 2)

    def merged(self, x: Any) -> Any:
        return x.transpose(1, 2).flatten(2)

    def attention(
        self, query: Any, key: Any, value: Any, *, causal: bool = False, past: Any = None
    ) -> Any:
        if past is not None:
            key, value = (self.torch.cat(pair, 2) for pair in zip(past, (key, value), strict=True))
        return self.functional.scaled_dot_product_attention(
            query,
            key,
            value,
            # Its mask begins at the first key, so that with keys before it would hide too many.
            is_causal=causal and query.shape[2] == key.shape[2],
            enable_gqa=query.shape[1] != key.shape[1],
        )

    def rotated(self, x: Any, name: str) -> Any:
        first, second = x.chunk(2, -1)
        turned = self.torch.cat((-second, first), -1)
        return x * self._get(f"{name}.cos") + turned * self._get(f"{name}.sin")

    def layer_norm(self, x: Any, name: str) -> Any:
        return self.functional.layer_norm(x, x.shape[-1:], *self._two(name), EPSILON)

    def rms_norm(self, x: Any, name: str) -> Any:
        return self.functional.rms_norm(x, x.shape[-1:], self._get(f"{name}.weight"), EPSILON)

    def gelu(self, x: Any) -> Any:
        return self.functional.gelu(x)

    def silu(self, x: Any) -> Any:
        return self.functional.silu(x)

    def relu(self, x: Any) -> Any:
        return self.functional.relu(x, inplace=True)

    def relu6(self, x: Any) -> Any:
        return self.functional.relu6(x, inplace=True)

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def multiply(self, x: Any, y: Any) -> Any:
        return x * y

    def convolution(self, x: Any, name: str, window: Window) -> Any:
        stride, padding, groups, dilation, transposed = window
        weight, bias = self._two(name)
        rank = weight.ndim - 2
        if transposed:
            function = getattr(self.functional, f"conv_transpose{rank}d")
            return function(x, weight, bias, stride, padding, 0, groups, dilation)
        function = getattr(self.functional, f"conv{rank}d")
        return function(x, weight, bias, stride, padding, dilation, groups)

    def max_pool(self, x: Any, kernel: int, stride: int, padding: int) -> Any:
        return self.functional.max_pool2d(x, kernel, stride, padding)

    def mean(self, x: Any) -> Any:
        return x.mean((2, 3))

    def quantized(self, x: Any, name: str, *, summand: bool = False) -> Any:
        return x


class Torch(Peer):
    """A module in eager mode; convolutions with channels last."""

    name = "torch eager"
    modules = ("torch",)
    # It has no product with 4-bit weights of its own that is public.
    dtypes = ("f32", "bf16", "w8")

    def load(self, source: Any, threads: int) -> Prepared:
        import torch

        network, parameters, opened = source
        torch.set_num_threads(threads)
        dtype = torch.bfloat16 if parameters.dtype == "bf16" else torch.float32

        class Module(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                for name, array in parameters.arrays.items():
                    for key, values in self.kept(name, array).items():
                        frozen = torch.nn.Parameter(values, requires_grad=False)
                        setattr(self, key.replace(".", "_"), frozen)

            def kept(self, name: str, array: Array) -> dict[str, Any]:
                if parameters.integer_weights and array.ndim == 2 and name.endswith(".weight"):
                    stem = name.removesuffix(".weight")
                    integers, scales, _ = parameters.weight(stem)
                    transposed = torch.from_numpy(integers.T.copy())
                    return {name: transposed, f"{stem}.scales": torch.from_numpy(scales)}
                # Copied, as if read from a file.
                values = torch.from_numpy(array).clone()
                if ".norm" not in name:
                    values = values.to(dtype)
                if values.ndim == 2 and name.endswith(".weight"):
                    values = values.t().contiguous()
                if values.ndim == 4:
                    values = values.contiguous(memory_format=torch.channels_last)
                return {name: values}

            def forward(self, *inputs: Any) -> Any:
                return network.run(TorchOps(self), *inputs)

        function = self.compiled(Module().eval(), opened)

        def feed(inputs: Inputs) -> Fed:
            given = [torch.from_numpy(values.copy()).to(dtype) for values in inputs.values()]
            if given[0].ndim == 4 and given[0].shape[1] == 3:
                given[0] = given[0].contiguous(memory_format=torch.channels_last)
            if opened:
                self.open(given, list(shapes_of(network, True).values()))
            made: list[Any] = [None]

            def call() -> None:
                with torch.inference_mode():
                    made[0] = function(*given)

            return call, lambda: made[0].float().numpy()

        return Prepared(feed)

    def open(self, tensors: list[Any], shapes: list[tuple[int, ...]]) -> None:
        """Tell torch which dims of inputs are unknown, if `compiled` doesn't."""

    def compiled(self, module: Any, opened: bool) -> Any:
        """What is called; `opened`: with inputs of several shapes."""
        return module


class TorchCompile(Torch):
    """``torch.compile`` with its defaults; for several shapes, told so."""

    name = "torch.compile"

    def compiled(self, module: Any, opened: bool) -> Any:
        import torch

        return torch.compile(module, dynamic=True if opened else None)


class TorchFreezing(Torch):
    """With inductor's ``freezing``: weights are folded and reordered for the CPU."""

    name = "torch.compile, freezing"

    def compiled(self, module: Any, opened: bool) -> Any:
        import torch

        dynamic = True if opened else None
        return torch.compile(module, dynamic=dynamic, options={"freezing": True})


class TorchOnednn(Torch):
    """With this package's backend."""

    name = "torch.compile, onednn_graph"

    def compiled(self, module: Any, opened: bool) -> Any:
        import torch

        from onednn_graph_py.torch import backend

        return torch.compile(module, backend=backend)

    def open(self, tensors: list[Any], shapes: list[tuple[int, ...]]) -> None:
        import torch

        # dynamic=True would make numbers of Python unknown, too, such as that of the heads.
        for tensor, shape in zip(tensors, shapes, strict=True):
            torch._dynamo.mark_dynamic(tensor, [i for i, d in enumerate(shape) if d == -1])


# -- ONNX


class OnnxOps:
    """`Ops` that add to an ONNX graph; int8 as QuantizeLinear and DequantizeLinear."""

    def __init__(self, parameters: Parameters) -> None:
        import onnx

        self.onnx = onnx
        self.parameters = parameters
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}
        kinds = onnx.TensorProto
        self.float = kinds.BFLOAT16 if parameters.dtype == "bf16" else kinds.FLOAT
        # The scale of what `quantized` made, which a bias is quantized with.
        self.scales: dict[str, float] = {}
        # Features of a linear layer's result, then of a head; and how many heads.
        self.widths: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        # Tokens of inputs.
        self.tokens: dict[str, int] = {}

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        output = f"t{len(self.nodes)}"
        made = self.onnx.helper.make_node(kind, inputs, [output], output, **attributes)
        self.nodes.append(made)
        return output

    def likewise(self, made: str, x: str) -> str:
        """Note that it has as many heads, of as many features."""
        self.widths[made] = self.widths[x]
        if x in self.counts:
            self.counts[made] = self.counts[x]
        return made

    def constant(self, name: str, array: Array) -> str:
        if name not in self.initializers:
            kinds = self.onnx.TensorProto
            kind = {
                np.dtype(np.float32): kinds.FLOAT,
                np.dtype(np.int8): kinds.INT8,
                np.dtype(np.uint8): kinds.UINT8,
                np.dtype(np.int32): kinds.INT32,
                np.dtype(np.int64): kinds.INT64,
                np.dtype(ml_dtypes.int4): kinds.INT4,
            }.get(array.dtype, kinds.BFLOAT16)
            content = np.ascontiguousarray(array).tobytes()
            if kind == kinds.INT4:
                flat = np.ascontiguousarray(array).view(np.uint8).ravel() & 15
                content = (flat[::2] | flat[1::2] << 4).tobytes()
            make = self.onnx.helper.make_tensor
            self.initializers[name] = make(name, kind, array.shape, content, raw=True)
        return name

    def number(self, value: float) -> str:
        """In the type of activations."""
        return self.constant(f"{value}", stored(np.array(value, np.float32), self.parameters.dtype))

    def parameter(self, name: str) -> str:
        return self.constant(name, stored(self.parameters.arrays[name], self.parameters.dtype))

    def weight(self, name: str) -> str:
        if not self.parameters.integer_weights:
            return self.parameter(f"{name}.weight")
        integers, scales, axis = self.parameters.weight(name)
        if scales.ndim == 2:
            return self.node(
                "DequantizeLinear",
                self.constant(f"{name}.weight", integers.astype(ml_dtypes.int4)),
                self.constant(f"{name}.scales", scales),
                axis=axis,
                block_size=GROUP,
            )
        return self.node(
            "DequantizeLinear",
            self.constant(f"{name}.weight", integers),
            self.constant(f"{name}.scales", scales),
            self.constant(f"{name}.zeros", np.zeros(len(scales), np.int8)),
            axis=axis,
        )

    def bias(self, x: str, name: str) -> str:
        """In int8 networks, 32-bit integers in the unit of the products."""
        if self.parameters.dtype != "int8":
            return self.parameter(f"{name}.bias")
        unit = self.parameters.weight(name)[1] * np.float32(self.scales[x])
        integers = np.rint(self.parameters.arrays[f"{name}.bias"] / unit).astype(np.int32)
        return self.node(
            "DequantizeLinear",
            self.constant(f"{name}.bias", integers),
            self.constant(f"{name}.unit", unit),
            self.constant(f"{name}.bias_zeros", np.zeros(len(unit), np.int32)),
            axis=0,
        )

    def linear(self, x: str, name: str) -> str:
        made = self.node("MatMul", x, self.weight(name))
        if f"{name}.bias" in self.parameters.arrays:
            made = self.node("Add", made, self.parameter(f"{name}.bias"))
        self.widths[made] = self.parameters.arrays[f"{name}.weight"].shape[1]
        return made

    def heads(self, x: str, count: int) -> str:
        size = self.widths[x] // count
        shape = self.constant(f"split{count}x{size}", np.array([1, -1, count, size], np.int64))
        made = self.node("Transpose", self.node("Reshape", x, shape), perm=[0, 2, 1, 3])
        self.widths[made], self.counts[made] = size, count
        return made

    def merged(self, x: str) -> str:
        back = self.node("Transpose", x, perm=[0, 2, 1, 3])
        return self.node("Reshape", back, self.constant("merge", np.array([0, 0, -1], np.int64)))

    def attention(
        self, query: str, key: str, value: str, *, causal: bool = False, past: Any = None
    ) -> str:
        shared = self.counts[query] // self.counts[key]
        if past is not None:
            key, value = (
                self.likewise(self.node("Concat", before, x, axis=2), before)
                for before, x in zip(past, (key, value), strict=True)
            )
        if shared > 1:
            key, value = (self.repeated(x, shared, self.counts[query]) for x in (key, value))
        scale = self.number(math.sqrt(self.widths[query]))
        scores = self.node("MatMul", query, self.node("Transpose", key, perm=[0, 1, 3, 2]))
        scores = self.node("Div", scores, scale)
        # Where there is a past there is one query, which sees every key.
        if causal and past is None:
            (tokens,) = {*self.tokens.values()}
            table = np.where(np.tri(tokens, dtype=bool), np.float32(0), np.float32(-np.inf))
            mask = self.constant("causal", stored(table, self.parameters.dtype))
            scores = self.node("Add", scores, mask)
        return self.node("MatMul", self.node("Softmax", scores, axis=-1), value)

    def repeated(self, x: str, times: int, heads: int) -> str:
        """Each head as often as query heads share it."""
        one = self.node("Unsqueeze", x, self.constant("two", np.array([2], np.int64)))
        many = self.constant(f"times{times}", np.array([1, 1, times, 1, 1], np.int64))
        size = self.constant(f"heads{heads}", np.array([0, heads, -1, self.widths[x]], np.int64))
        return self.node("Reshape", self.node("Expand", one, many), size)

    def rotated(self, x: str, name: str) -> str:
        half = self.widths[x] // 2
        zero, middle, end, last = (
            self.constant(f"at{i}", np.array([i], np.int64)) for i in (0, half, 2 * half, -1)
        )
        first = self.node("Slice", x, zero, middle, last)
        second = self.node("Neg", self.node("Slice", x, middle, end, last))
        turned = self.node("Concat", second, first, axis=-1)
        cos, sin = (self.parameter(f"{name}.{part}") for part in ("cos", "sin"))
        made = self.node("Add", self.node("Mul", x, cos), self.node("Mul", turned, sin))
        return self.likewise(made, x)

    def layer_norm(self, x: str, name: str) -> str:
        scale, shift = (self.parameter(f"{name}.{part}") for part in ("weight", "bias"))
        return self.node("LayerNormalization", x, scale, shift, axis=-1, epsilon=EPSILON)

    def rms_norm(self, x: str, name: str) -> str:
        last = self.constant("at-1", np.array([-1], np.int64))
        mean = self.node("ReduceMean", self.node("Pow", x, self.number(2)), last, keepdims=1)
        root = self.node("Sqrt", self.node("Add", mean, self.number(EPSILON)))
        return self.node("Mul", self.node("Div", x, root), self.parameter(f"{name}.weight"))

    def gelu(self, x: str) -> str:
        return self.node("Gelu", x)

    def silu(self, x: str) -> str:
        return self.node("Mul", x, self.node("Sigmoid", x))

    def relu(self, x: str) -> str:
        return self.node("Relu", x)

    def relu6(self, x: str) -> str:
        return self.node("Clip", x, self.number(0), self.number(6))

    def add(self, x: str, y: str) -> str:
        return self.node("Add", x, y)

    def multiply(self, x: str, y: str) -> str:
        return self.node("Mul", x, y)

    def convolution(self, x: str, name: str, window: Window) -> str:
        stride, padding, groups, dilation, transposed = window
        kernel = self.parameters.arrays[f"{name}.weight"].shape[2:]
        return self.node(
            "ConvTranspose" if transposed else "Conv",
            x,
            self.weight(name),
            self.bias(x, name),
            strides=[stride] * len(kernel),
            pads=[padding] * 2 * len(kernel),
            dilations=[dilation] * len(kernel),
            kernel_shape=kernel,
            group=groups,
        )

    def max_pool(self, x: str, kernel: int, stride: int, padding: int) -> str:
        return self.node(
            "MaxPool", x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[padding] * 4
        )

    def mean(self, x: str) -> str:
        return self.node("Flatten", self.node("GlobalAveragePool", x))

    def quantized(self, x: str, name: str, *, summand: bool = False) -> str:
        if self.parameters.dtype != "int8":
            return x
        # Summands too: without, ONNX Runtime convolves in f32; OpenVINO is as fast either way.
        scale, signed = self.parameters.activation(name)
        # Always u8: ONNX Runtime adds only what is of one type.
        zero = np.array(128 if signed else 0, np.uint8)
        rounding = (
            self.constant(f"{name}.scale", np.array(scale, np.float32)),
            self.constant(f"{name}.zero", zero),
        )
        made = self.node("DequantizeLinear", self.node("QuantizeLinear", x, *rounding), *rounding)
        self.scales[made] = scale
        return made

    def model(self, network: Network, opened: bool) -> Any:
        """Of a whole network."""
        helper = self.onnx.helper
        given = []
        for name, shape in shapes_of(network, opened).items():
            dims = [f"dim{i}" if d < 0 else d for i, d in enumerate(shape)]
            given.append(helper.make_tensor_value_info(name, self.float, dims))
            self.tokens[name] = shape[-2]
            if len(shape) == 4:
                self.counts[name], self.widths[name] = shape[1], shape[3]
        last = network.run(self, *shapes_of(network, opened))
        self.nodes[-1].output[0] = "y"
        assert last == self.nodes[-1].name
        y = helper.make_tensor_value_info("y", self.float, None)
        constants = list(self.initializers.values())
        graph = helper.make_graph(self.nodes, "network", given, [y], constants)
        # Gelu is of 20, and groups of integers of 21; a version of the format that all read.
        versions = [helper.make_opsetid("", 21 if self.parameters.dtype == "w4" else 20)]
        versions.append(helper.make_opsetid("com.microsoft", 1))
        return helper.make_model(graph, opset_imports=versions, ir_version=10)


class Onnx(Peer):
    """What takes an ONNX file."""

    modules: tuple[str, ...] = ("onnx",)
    ops = OnnxOps

    def source(self, network: Network, parameters: Parameters, *, opened: bool) -> Any:
        model = self.ops(parameters).model(network, opened)
        handle, path = tempfile.mkstemp(suffix=".onnx")
        with os.fdopen(handle, "wb") as file:
            file.write(model.SerializeToString())
        return network, parameters.dtype, Path(path)

    def load(self, source: Any, threads: int) -> Prepared:
        network, dtype, path = source
        try:
            return self.load_file(network, dtype, path, threads)
        finally:
            path.unlink()

    def load_file(self, network: Network, dtype: str, path: Path, threads: int) -> Prepared:
        raise NotImplementedError


class OnnxRuntimeOps(OnnxOps):
    """With ONNX Runtime's own op for causal attention, which needs less time and memory there."""

    def attention(
        self, query: str, key: str, value: str, *, causal: bool = False, past: Any = None
    ) -> str:
        if not causal:
            return super().attention(query, key, value)
        flat = self.constant("flat", np.array([0, 0, -1], np.int64))
        merged = (
            self.node("Reshape", self.node("Transpose", x, perm=[0, 2, 1, 3]), flat)
            for x in (query, key, value)
        )
        first, *_ = self.tokens.values()
        tokens = first + (0 if past is None else self.tokens[past[0]])
        made = self.node(
            "GroupQueryAttention",
            *merged,
            *(past or ("", "")),
            self.constant("last", np.array([tokens - 1], np.int32)),
            self.constant("tokens", np.array(tokens, np.int32)),
            domain="com.microsoft",
            num_heads=self.counts[query],
            kv_num_heads=self.counts[key],
        )
        self.nodes[-1].output.extend([f"{made}.keys", f"{made}.values"])
        self.widths[made] = self.counts[query] * self.widths[query]
        return self.heads(made, self.counts[query])


class OnnxRuntime(Onnx):
    """A session with all optimizations, and memory bound to it."""

    name = "onnxruntime"
    modules = ("onnxruntime", "onnx")
    ops = OnnxRuntimeOps

    def load_file(self, network: Network, dtype: str, path: Path, threads: int) -> Prepared:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 4
        try:
            session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
        except Exception as error:
            raise NotSupportedError(str(error).strip().splitlines()[0]) from error

        def feed(inputs: Inputs) -> Fed:
            binding = session.io_binding()
            given = {n: aligned_copy(stored(values, dtype)) for n, values in inputs.items()}
            for name, values in given.items():
                binding.bind_cpu_input(name, values)
            binding.bind_output("y")

            def call(given: Inputs = given) -> None:  # keeps the inputs' memory
                session.run_with_iobinding(binding)

            return call, lambda: binding.copy_outputs_to_cpu()[0].astype(np.float32)

        return Prepared(feed)


class OpenVino(Onnx):
    """Compiled for latency; bf16 as its own conversion of the f32 network."""

    name = "openvino"
    modules = ("openvino", "onnx")

    def source(self, network: Network, parameters: Parameters, *, opened: bool) -> Any:
        kept = "f32" if parameters.dtype == "bf16" else parameters.dtype
        same = replace(parameters, dtype=kept)
        made = super().source(network, same, opened=opened)
        return made[0], parameters.dtype, made[2]

    def load_file(self, network: Network, dtype: str, path: Path, threads: int) -> Prepared:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import openvino

        options = {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "bf16" if dtype == "bf16" else "f32",
        }
        core = openvino.Core()
        compiled = core.compile_model(core.read_model(path), "CPU", options)
        request = compiled.create_infer_request()

        def feed(inputs: Inputs) -> Fed:
            given = {n: aligned_copy(values) for n, values in inputs.items()}
            for name, values in given.items():
                request.set_tensor(name, openvino.Tensor(values, shared_memory=True))

            def call(given: Inputs = given) -> None:  # keeps the inputs' memory
                request.infer()

            return call, lambda: request.get_output_tensor().data.copy()

        return Prepared(feed)


class OnnxOnednn(Onnx):
    """With this package's front end."""

    name = "onnx, onednn_graph"
    modules = ("onnx", "onnx_ir")

    def load_file(self, network: Network, dtype: str, path: Path, threads: int) -> Prepared:
        from onednn_graph_py.onnx import load

        rounded = "int8" if dtype in ("w8", "w4") else "file"
        model = load(path, threads=threads, activations=rounded)

        def feed(inputs: Inputs) -> Fed:
            given = [aligned_copy(stored(values, dtype)) for values in inputs.values()]
            made: list[Any] = [None]

            def call() -> None:
                made[0] = model(*given)

            return call, lambda: made[0].astype(np.float32)

        return Prepared(feed)


PEERS: list[Peer] = [
    Ours(),
    Torch(),
    TorchCompile(),
    TorchFreezing(),
    TorchOnednn(),
    OnnxOnednn(),
    OnnxRuntime(),
    OpenVino(),
]
