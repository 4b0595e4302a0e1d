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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _models import EPSILON, Array, Network, Parameters, stored


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

    def __init__(self, feed: Callable[[Array], tuple[Callable[[], Any], Callable[[], Array]]]):
        self._feed = feed
        self.phases: dict[str, float] = {}
        self.later: Callable[[], dict[str, float]] = dict
        self.run: Callable[[], Any]
        self.result: Callable[[], Array]

    def feed(self, x: Array) -> None:
        """Take an input, given in float32."""
        self.run, self.result = self._feed(x)


class Peer:
    """A library."""

    name = ""
    modules: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ("f32", "bf16", "int8")

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
        if self.parameters.dtype != "int8":
            return self._constant(f"{name}.weight")
        integers, scales, axis = self.parameters.weight(name)
        return self.builder.constant(integers, name=f"{name}.weight").dequantize(
            scales=scales.tolist(), zps=[0] * len(scales), qtype="per_channel", axis=axis
        )

    def linear(self, x: Any, name: str) -> Any:
        return value_of(x).matmul(self._weight(name), self._constant(f"{name}.bias"), name=name)

    def heads(self, x: Any, count: int) -> Any:
        shape = [1, x.shape[1], count, x.shape[2] // count]
        split = x.static_reshape(shape=shape, special_zero=False)
        return split.static_transpose(order=[0, 2, 1, 3])

    def merged(self, x: Any) -> Any:
        back = x.static_transpose(order=[0, 2, 1, 3])
        shape = [1, x.shape[2], x.shape[1] * x.shape[3]]
        return back.static_reshape(shape=shape, special_zero=False)

    def attention(self, query: Any, key: Any, value: Any) -> Any:
        import onednn_graph_py as og

        # Scores stay in f32 in a bf16 network, as oneDNN's own example has it, from 3.8 on.
        linked = og.version()
        kept = "f32" if (linked["major"], linked["minor"]) >= (3, 8) else query.dtype
        scores = query.matmul(key, transpose_b=True, dtype=kept)
        weights = (scores / math.sqrt(query.shape[-1])).softmax(axis=-1, dtype=query.dtype)
        return weights.matmul(value)

    def layer_norm(self, x: Any, name: str) -> Any:
        scale, shift = (self._constant(f"{name}.{part}", "f32") for part in ("weight", "bias"))
        return x.layer_norm(scale, shift, keep_stats=False, epsilon=EPSILON)

    def gelu(self, x: Any) -> Any:
        return x.gelu()

    def relu(self, x: Any) -> Any:
        return x.relu()

    def add(self, x: Any, y: Any) -> Any:
        made: Any = value_of(x) + value_of(y)
        return made

    def convolution(self, x: Any, name: str, stride: int, padding: int) -> Any:
        return value_of(x).convolution(
            self._weight(name),
            self._constant(f"{name}.bias"),
            strides=[stride] * 2,
            pads_begin=[padding] * 2,
            pads_end=[padding] * 2,
            dilations=[1, 1],
            data_format="NCX",
            weights_format="OIX",
            name=name,
        )

    def max_pool(self, x: Any, kernel: int, stride: int, padding: int) -> Any:
        return value_of(x).max_pool(
            strides=[stride] * 2,
            pads_begin=[padding] * 2,
            pads_end=[padding] * 2,
            kernel=[kernel] * 2,
            data_format="NCX",
        )

    def mean(self, x: Any) -> Any:
        x = value_of(x)
        pooled = x.reduce_mean(axes=[2, 3], keep_dims=True)
        return pooled.static_reshape(shape=[1, x.shape[1]], special_zero=False)

    def quantized(self, x: Any, name: str, *, summand: bool = False) -> Any:
        if self.parameters.dtype != "int8" or summand:
            return x
        scale, signed = self.parameters.activation(name)
        rounding = {"scales": [scale], "zps": [0], "qtype": "per_tensor"}
        return Rounded(x.quantize(dtype="s8" if signed else "u8", **rounding), rounding)


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
        from onednn_graph_py.building.builder import GraphBuilder

        network, parameters, opened = source
        begin = time.perf_counter()
        builder = GraphBuilder()
        dtype = "bf16" if parameters.dtype == "bf16" else "f32"
        shape = network.open_shape() if opened else network.input().shape
        x = builder.input(shape, dtype, name="x")
        builder.output(network.run(BuilderOps(builder, parameters), x))
        built = time.perf_counter()
        model = builder.compile()
        compiled = time.perf_counter()

        def feed(values: Array) -> tuple[Callable[[], Any], Callable[[], Array]]:
            given = aligned_copy(stored(values, dtype))
            if opened:
                made = [model(given)]  # its shape is only known now

                def call() -> None:
                    made[0] = model(given)

                return call, lambda: made[0].astype(np.float32)
            out = aligned(network.output_shape(), given.dtype)
            return (lambda: model(given, out=out)), lambda: out.astype(np.float32)

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

    def _two(self, name: str) -> tuple[Any, Any]:
        flat = name.replace(".", "_")
        return getattr(self.module, f"{flat}_weight"), getattr(self.module, f"{flat}_bias")

    def linear(self, x: Any, name: str) -> Any:
        return self.functional.linear(x, *self._two(name))

    def heads(self, x: Any, count: int) -> Any:
        return x.view(1, x.shape[1], count, -1).transpose(1, 2)

    def merged(self, x: Any) -> Any:
        return x.transpose(1, 2).flatten(2)

    def attention(self, query: Any, key: Any, value: Any) -> Any:
        return self.functional.scaled_dot_product_attention(query, key, value)

    def layer_norm(self, x: Any, name: str) -> Any:
        return self.functional.layer_norm(x, x.shape[-1:], *self._two(name), EPSILON)

    def gelu(self, x: Any) -> Any:
        return self.functional.gelu(x)

    def relu(self, x: Any) -> Any:
        return self.functional.relu(x, inplace=True)

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def convolution(self, x: Any, name: str, stride: int, padding: int) -> Any:
        return self.functional.conv2d(x, *self._two(name), stride, padding)

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
    dtypes = ("f32", "bf16")

    def load(self, source: Any, threads: int) -> Prepared:
        import torch

        network, parameters, _ = source
        torch.set_num_threads(threads)
        dtype = torch.bfloat16 if parameters.dtype == "bf16" else torch.float32

        class Module(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                for name, array in parameters.arrays.items():
                    # Copied, as if read from a file.
                    values = torch.from_numpy(array).clone()
                    if ".norm" not in name:
                        values = values.to(dtype)
                    if values.ndim == 2:
                        values = values.t().contiguous()
                    if values.ndim == 4:
                        values = values.contiguous(memory_format=torch.channels_last)
                    frozen = torch.nn.Parameter(values, requires_grad=False)
                    setattr(self, name.replace(".", "_"), frozen)

            def forward(self, x: Any) -> Any:
                return network.run(TorchOps(self), x)

        function = self.compiled(Module().eval())

        def feed(values: Array) -> tuple[Callable[[], Any], Callable[[], Array]]:
            x = torch.from_numpy(values.copy()).to(dtype)
            if x.ndim == 4:
                x = x.contiguous(memory_format=torch.channels_last)
            made: list[Any] = [None]

            def call() -> None:
                with torch.inference_mode():
                    made[0] = function(x)

            return call, lambda: made[0].float().numpy()

        return Prepared(feed)

    def compiled(self, module: Any) -> Any:
        """What is called."""
        return module


class TorchCompile(Torch):
    """``torch.compile`` with its defaults."""

    name = "torch.compile"

    def compiled(self, module: Any) -> Any:
        import torch

        return torch.compile(module)


class TorchFreezing(Torch):
    """With inductor's ``freezing``: weights are folded and reordered for the CPU."""

    name = "torch.compile, freezing"

    def compiled(self, module: Any) -> Any:
        import torch

        return torch.compile(module, options={"freezing": True})


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
        self.widths: dict[str, int] = {}

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        output = f"t{len(self.nodes)}"
        made = self.onnx.helper.make_node(kind, inputs, [output], output, **attributes)
        self.nodes.append(made)
        return output

    def constant(self, name: str, array: Array) -> str:
        if name not in self.initializers:
            kinds = self.onnx.TensorProto
            kind = {
                np.dtype(np.float32): kinds.FLOAT,
                np.dtype(np.int8): kinds.INT8,
                np.dtype(np.uint8): kinds.UINT8,
                np.dtype(np.int32): kinds.INT32,
                np.dtype(np.int64): kinds.INT64,
            }.get(array.dtype, kinds.BFLOAT16)
            content = np.ascontiguousarray(array).tobytes()
            make = self.onnx.helper.make_tensor
            self.initializers[name] = make(name, kind, array.shape, content, raw=True)
        return name

    def parameter(self, name: str) -> str:
        return self.constant(name, stored(self.parameters.arrays[name], self.parameters.dtype))

    def weight(self, name: str) -> str:
        if self.parameters.dtype != "int8":
            return self.parameter(f"{name}.weight")
        integers, scales, axis = self.parameters.weight(name)
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
        product = self.node("MatMul", x, self.weight(name))
        made = self.node("Add", product, self.parameter(f"{name}.bias"))
        self.widths[made] = self.parameters.arrays[f"{name}.bias"].size
        return made

    def heads(self, x: str, count: int) -> str:
        size = self.widths[x] // count
        shape = self.constant(f"split{count}x{size}", np.array([1, -1, count, size], np.int64))
        made = self.node("Transpose", self.node("Reshape", x, shape), perm=[0, 2, 1, 3])
        self.widths[made] = size
        return made

    def merged(self, x: str) -> str:
        back = self.node("Transpose", x, perm=[0, 2, 1, 3])
        return self.node("Reshape", back, self.constant("merge", np.array([0, 0, -1], np.int64)))

    def attention(self, query: str, key: str, value: str) -> str:
        root = np.array(math.sqrt(self.widths[query]), np.float32)
        scale = self.constant("root", stored(root, self.parameters.dtype))
        scores = self.node("MatMul", query, self.node("Transpose", key, perm=[0, 1, 3, 2]))
        weights = self.node("Softmax", self.node("Div", scores, scale), axis=-1)
        return self.node("MatMul", weights, value)

    def layer_norm(self, x: str, name: str) -> str:
        scale, shift = (self.parameter(f"{name}.{part}") for part in ("weight", "bias"))
        return self.node("LayerNormalization", x, scale, shift, axis=-1, epsilon=EPSILON)

    def gelu(self, x: str) -> str:
        return self.node("Gelu", x)

    def relu(self, x: str) -> str:
        return self.node("Relu", x)

    def add(self, x: str, y: str) -> str:
        return self.node("Add", x, y)

    def convolution(self, x: str, name: str, stride: int, padding: int) -> str:
        kernel = self.parameters.arrays[f"{name}.weight"].shape[2:]
        return self.node(
            "Conv",
            x,
            self.weight(name),
            self.bias(x, name),
            strides=[stride] * 2,
            pads=[padding] * 4,
            kernel_shape=kernel,
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
        shape: list[Any] = list(network.open_shape() if opened else network.input().shape)
        dims = [f"dim{i}" if d < 0 else d for i, d in enumerate(shape)]
        x = helper.make_tensor_value_info("x", self.float, dims)
        last = network.run(self, "x")
        self.nodes[-1].output[0] = "y"
        assert last == self.nodes[-1].name
        y = helper.make_tensor_value_info("y", self.float, None)
        graph = helper.make_graph(self.nodes, "network", [x], [y], list(self.initializers.values()))
        # Gelu is of 20; a version of the format that all read.
        versions = [helper.make_opsetid("", 20)]
        return helper.make_model(graph, opset_imports=versions, ir_version=9)


class Onnx(Peer):
    """What takes an ONNX file."""

    modules: tuple[str, ...] = ("onnx",)

    def source(self, network: Network, parameters: Parameters, *, opened: bool) -> Any:
        model = OnnxOps(parameters).model(network, opened)
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


class OnnxRuntime(Onnx):
    """A session with all optimizations, and memory bound to it."""

    name = "onnxruntime"
    modules = ("onnxruntime", "onnx")

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

        def feed(values: Array) -> tuple[Callable[[], Any], Callable[[], Array]]:
            binding = session.io_binding()
            x = aligned_copy(stored(values, dtype))
            binding.bind_cpu_input("x", x)
            binding.bind_output("y")

            def call(x: Array = x) -> None:  # keeps the input's memory
                session.run_with_iobinding(binding)

            return call, lambda: binding.copy_outputs_to_cpu()[0].astype(np.float32)

        return Prepared(feed)


class OpenVino(Onnx):
    """Compiled for latency; bf16 as its own conversion of the f32 network."""

    name = "openvino"
    modules = ("openvino", "onnx")

    def source(self, network: Network, parameters: Parameters, *, opened: bool) -> Any:
        kept = "f32" if parameters.dtype == "bf16" else parameters.dtype
        same = Parameters(parameters.arrays, kept, parameters.ranges)
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

        def feed(values: Array) -> tuple[Callable[[], Any], Callable[[], Array]]:
            x = aligned_copy(values)
            request.set_input_tensor(openvino.Tensor(x, shared_memory=True))

            def call(x: Array = x) -> None:  # keeps the input's memory
                request.infer()

            return call, lambda: request.get_output_tensor().data.copy()

        return Prepared(feed)


PEERS: list[Peer] = [
    Ours(),
    Torch(),
    TorchCompile(),
    TorchFreezing(),
    OnnxRuntime(),
    OpenVino(),
]
