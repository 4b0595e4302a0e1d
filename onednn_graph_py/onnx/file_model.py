"""Load an ONNX model: `load`; its nodes and weights, prepared for calls: `FileModel`."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import onnx_ir as ir

from ..base.errors import (
    GraphFormatError,
    InvalidArgumentsError,
    OneDNNError,
    OutOfMemoryError,
    reworded,
)
from ..base.processes.forked import renew_in_forks
from ..base.text.names import did_you_mean
from ..model.running.memory_limit import MemoryLimit
from . import lowering, packing  # noqa: F401  # lowering fills the table
from .assembly import Weights
from .inference import name_of
from .inputs import InputCheck, Inputs
from .loading import Source, described, loaded
from .model import OnnxModel
from .options import (
    Activations,
    DynamicQuantization,
    Fallback,
    FpmathMode,
    Islands,
    KnownDefects,
    Options,
    Requantize,
    Tune,
)
from .packing import lengths_of, require_files
from .preparing import prepare
from .programs import Programs
from .rivals import Rival
from .survey import Section
from .tensors import SEQUENCE


class FileModel:
    """A model's nodes and weights, and the programs for calls that give some of its inputs."""

    def __init__(self, model: ir.Model, options: Options, inputs: Inputs) -> None:
        self.name = inputs.model
        self.options = options
        self.model = model
        self._inputs = inputs
        limit = options.memory_limit
        self._weights = Weights(None if limit is None else MemoryLimit(self.name, limit))
        self._after_fork()
        renew_in_forks(self)
        self.required = self._made(inputs.required)
        self.programs = {inputs.required: self.required}
        if self._weights.limit is not None:
            weights = self.required.section.known.values()
            self._weights.limit.require_constants(sum(a.nbytes for a in weights))

    def _after_fork(self) -> None:
        self._lock = threading.Lock()

    def of(self, names: tuple[str, ...]) -> Programs:
        """Return the programs for calls that give these inputs."""
        with self._lock:
            if names not in self.programs:
                self.programs[names] = self._made(names)
            return self.programs[names]

    def _made(self, names: tuple[str, ...]) -> Programs:
        model = self.model.clone()
        graph = model.graph
        require_files(lengths_of(v.const_value for v in graph.initializers.values()))
        inputs = [v for v in graph.inputs if v.name in names]
        for name in set(names) - set(self._inputs.required):  # which have weights as defaults
            value = graph.initializers.pop(name)
            value.const_value = None
        graph.inputs[:] = inputs
        try:
            prepare(model, self.options)
        except GraphFormatError as e:
            raise reworded(e, f"{self.name}: {e}") from e.__cause__
        weights = {n: v for n, v in graph.initializers.items() if v.const_value is not None}
        section = Section(
            list(graph),
            tuple(graph.inputs),
            tuple(graph.outputs),
            {v: packing.numbers(v) for v in weights.values()},
            {
                v: name_of(v.dtype) if isinstance(v.type, ir.TensorType) else SEQUENCE
                for v in graph.inputs
            },
            dict(model.opset_imports),
            model.ir_version,
            files=lengths_of(v.const_value for v in weights.values()),
            most=self.options.most,
        )
        unknown = {
            v: None if v.shape is None else [not isinstance(d, int) for d in v.shape]
            for v in graph.inputs
        }
        rival = Rival.of(self.model, section, self.options)
        return Programs(section, self._weights, self.options, self.name, unknown, rival)


def opened(model: ir.Model, options: Options, name: str) -> OnnxModel:
    """Return a model that was read, for calls."""
    graph = model.graph
    defaults = {v.name or "" for v in graph.initializers.values() if v in graph.inputs}
    inputs = Inputs(name, map(_check, graph.inputs), defaults)
    made = FileModel(model, options, inputs)
    return OnnxModel(inputs, tuple(v.name or "" for v in graph.outputs), options, lambda: made)


def _check(value: ir.Value) -> InputCheck:
    is_tensor = isinstance(value.type, ir.TensorType)
    dims: list[Any] | None = None
    if value.shape is not None:
        dims = [d if isinstance(d, int) else d.value for d in value.shape]
    numpy = value.dtype.numpy() if value.dtype is not None and is_tensor else None
    return InputCheck(value.name or "", name_of(value.dtype), dims, numpy, is_tensor)


def ending(file: FileModel, names: Sequence[str]) -> OnnxModel:
    """Return the same model with other outputs."""
    model = file.model.clone()
    made = [(f"{n.name}:{i}", v) for n in model.graph for i, v in enumerate(n.outputs)]
    known = {name: v for name, v in made if name[0] != ":"} | {v.name or "": v for _, v in made}
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            raise InvalidArgumentsError(f"{file.name}: no node makes {name!r}{hint}")
    model.graph.outputs[:] = [known[name] for name in names]
    return opened(model, replace(file.options, islands="fewest"), file.name)


def read(nodes: bytes, weights: Mapping[str, Any]) -> ir.Model:
    """Return the model that `packing.packed` took apart, whose nodes are not trusted."""
    try:
        return packing.put_into(loaded(nodes), weights)
    except KeyError as e:
        raise GraphFormatError(f"its nodes have no weight {e}") from None


def restored(nodes: bytes, weights: Mapping[str, Any], options: Options, name: str) -> OnnxModel:
    """Return the model that `packing.packed` took apart, compiled for no size."""
    return opened(read(nodes, weights), options, name)


def load(
    source: Source,
    *,
    fallback: Fallback = "auto",
    islands: Islands = "fastest",
    requantize: Requantize = "merge",
    dynamic_quantization: DynamicQuantization = "f32",
    activations: Activations = "file",
    max_shapes: int = 32,
    memory_limit: int | None = None,
    threads: int | None = None,
    fpmath_mode: FpmathMode = "strict",
    known_defects: KnownDefects = "avoid",
    tune: Tune = "quick",
    folding_bytes: int | None = None,
    folding_work: int | None = None,
    **unknown: Any,
) -> OnnxModel:
    """Load an ONNX model.

    Parameters
    ----------
    source : path, bytes, onnx.ModelProto or onnx_ir.Model
        Files are not trusted; external data is mapped, and must be in the model's folder.
    fallback : str
        What runs nodes that oneDNN does not take: ``onnxruntime``, ``reference`` (onnx's own, in
        Python), ``auto`` for onnxruntime where it is installed, or ``error``: then there may be
        none.
    islands : str
        ``fastest`` times a model beside onnxruntime, where it is installed, when it is first
        compiled for a size, and runs the whole model there if that is faster; `report` tells both
        times, and ``tune="off"`` measures nothing. ``fewest`` leaves to islands only what oneDNN
        can't run.
    requantize : str
        ``merge`` leaves out Quantize and Dequantize between a convolution and a residual Add, so
        that oneDNN fuses them; ``exact`` rounds where the file does.
    dynamic_quantization : str
        ``f32`` computes dynamically quantized products in floating point; ``host`` as the file
        says, outside of oneDNN.
    activations : str
        What products by compressed weights read: ``exact`` numbers, or ``int8``, rounded token by
        token as `blocks.linear` does. ``file`` rounds for each `MatMulNBits` whose
        `accuracy_level` is 4.
    max_shapes : int
        The number of sets of input shapes that stay compiled.
    memory_limit : int, optional
        The most bytes of weights and intermediate memory, as for `GraphBuilder.compile`; without
        what onnxruntime takes for islands.
    threads : int, optional
        Threads of a call.
    fpmath_mode : str
        The smaller types that oneDNN may use to compute f32.
    known_defects : str
        ``avoid`` or ``run``; see `GraphBuilder.compile`.
    tune : str
        ``quick``, ``full`` or ``off``; see `GraphBuilder.compile`.
    folding_bytes : int, optional
        The most bytes of results, at one time, that are computed of weights before calls. What
        takes more runs at each call. By default 1 GiB and four times the weights, and at most half
        of the memory.
    folding_work : int, optional
        The most elements that are read and written for that, and products. By default 2^30, and 16
        for each byte of the weights.
    **unknown
        Other names are refused, with the nearest one that there is.

    Returns
    -------
    OnnxModel

    Raises
    ------
    GraphFormatError
        It is not a valid model; the message names the file and the node.
    OutOfMemoryError
        It takes more memory than there is, or than the limit.
    InvalidArgumentsError
        There is no such option, or it has no such value.
    OSError
        The file can't be read.

    Examples
    --------
    >>> import numpy as np, onnx.parser
    >>> import onednn_graph_py.onnx
    >>> model = onednn_graph_py.onnx.load(onnx.parser.parse_model('''
    ...     <ir_version: 10, opset_import: ["": 21]>
    ...     relu (float[n, 2] x) => (float[n, 2] y) { y = Relu(x) }'''))
    >>> model(np.float32([[-1, 2]]))
    array([[0., 2.]], dtype=float32)
    """
    given = {k: v for k, v in locals().items() if k not in ("source", "unknown")}
    Options.refuse(unknown)
    try:
        return opened(loaded(source), Options(**given), described(source))
    except OneDNNError:
        raise
    except MemoryError as e:
        raise OutOfMemoryError(f"{described(source)}: {e}") from e
