"""Load an ONNX model and call it: `load`, `OnnxModel`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from .._core import num_threads
from ..base.errors import (
    GraphFormatError,
    InvalidArgumentsError,
    OneDNNError,
    OutOfMemoryError,
    UnimplementedError,
    reworded,
)
from ..base.processes.forked import renew_in_forks
from ..base.text.names import did_you_mean, printable
from ..model.building.builder import GraphBuilder
from ..model.checking.expected import Verification
from ..model.running.memory_limit import MemoryLimit
from ..serialization.model_file import write
from . import lowering, packing  # noqa: F401  # lowering fills the table
from .assembly import Weights
from .external import lengths_of, require_files
from .inputs import Inputs
from .loading import Source, described, loaded
from .options import (
    RTOL,
    RTOL_INT8,
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
from .preparing import prepare
from .program import Program
from .programs import Entry, Programs
from .report import OnnxReport, reported
from .rivals import Rival
from .survey import Section
from .tensors import SEQUENCE, Shape, dtype_of, name_of
from .verifying import rounding_of, verified

if TYPE_CHECKING:
    from ..tools.explaining.explanation import Explanation

MOST_BETWEEN = 8  # sets of results between nodes, for each of which a model is kept


class OnnxModel:
    """An ONNX model that is called with arrays; `load` makes it.

    It is compiled for each new set of input shapes. Where the model leaves dims open and its nodes
    allow it, one `CompiledGraph` serves all shapes; others share the weights.

    Several threads may call it.

    Attributes
    ----------
    name : str
        How messages name it.
    input_names, output_names : tuple of str
    """

    def __init__(self, model: ir.Model, options: Options, name: str) -> None:
        self.name = name
        self.options = options
        self._model = model
        graph = model.graph
        self._defaults = {v.name or "": v for v in graph.initializers.values() if v in graph.inputs}
        self._inputs = Inputs(name, graph.inputs, self._defaults)
        self.input_names = self._inputs.required
        self.output_names = tuple(v.name or "" for v in graph.outputs)
        limit = options.memory_limit
        self._weights = Weights(None if limit is None else MemoryLimit(name, limit))
        self._programs: dict[tuple[str, ...], Programs] = {}
        self._between: dict[tuple[str, ...], OnnxModel] = {}
        checks = [self._inputs.checks[n] for n in self.input_names]
        self._types = [np.ndarray for c in checks if c.is_tensor]
        self._dtypes = [c.numpy for c in checks]
        self._after_fork()
        renew_in_forks(self)
        self._required = self._made(self.input_names)
        if self._weights.limit is not None:
            weights = self._required.section.known.values()
            self._weights.limit.require_constants(sum(a.nbytes for a in weights))

    def _after_fork(self) -> None:
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        signature = f"({self._inputs}) -> ({', '.join(self.output_names)})"
        return printable(f"<OnnxModel {self.name!r}: {signature}>")

    def __call__(self, /, *arrays: Any, **named: Any) -> Any:
        """Run the model.

        Parameters
        ----------
        *arrays, **named : arrays
            Its inputs, by position, by name, or as one mapping of names. Those that have weights
            as defaults can only be given by name.

        Returns
        -------
        numpy.ndarray or tuple
            The output, or all of them in the model's order.

        Raises
        ------
        OneDNNError
            Inputs are missing or don't fit, or a node fails.
        """
        if len(arrays) == 1 and type(arrays[0]) is dict and not named:
            named = arrays[0]
            arrays = ()
        if named and not arrays and tuple(named) == self.input_names:
            arrays, named = tuple(named.values()), {}
        if not named and [type(a) for a in arrays] == self._types:
            direct = self._required.direct(tuple([a.shape for a in arrays]))
            if direct is not None and [a.dtype for a in arrays] == self._dtypes:
                try:
                    return direct(*arrays)
                except (OneDNNError, MemoryError):
                    direct = None  # the way below says what is wrong
        names, values = self._inputs.arrays(arrays, named)
        try:
            made = self._of(names)(values)
        except OneDNNError as e:
            found = self._inputs.disagreement(names, values)
            if not found:
                raise
            raise reworded(e, f"{e} ({found})") from e
        except MemoryError as e:
            raise OutOfMemoryError(f"{self.name}: {e}") from e
        return made[0] if len(made) == 1 else tuple(made)

    def run(self, /, *arrays: Any, outputs: Iterable[str], **named: Any) -> tuple[Any, ...]:
        """Compute results of nodes by name, also those between nodes.

        Parameters
        ----------
        *arrays, **named : arrays
            As a call takes them.
        outputs : iterable of str
            Names of results, or ``NODE:0`` for the first one of a node. The nodes that they need
            are compiled by themselves, with a memory limit of their own, and stay for the latest
            8 such sets.

        Returns
        -------
        tuple of numpy.ndarray

        Raises
        ------
        InvalidArgumentsError
            The model has no such result, or only a subgraph has it.
        """
        names = (outputs,) if isinstance(outputs, str) else tuple(map(str, outputs))
        with self._lock:
            model = self._between.pop(names, None) or self._ending(names)
            self._between[names] = model
            if len(self._between) > MOST_BETWEEN:
                del self._between[next(iter(self._between))]
        made = model(*arrays, **named)
        return made if isinstance(made, tuple) else (made,)

    def _ending(self, names: tuple[str, ...]) -> OnnxModel:
        """Return the same model with other outputs."""
        model = self._model.clone()
        made = [(f"{n.name}:{i}", v) for n in model.graph for i, v in enumerate(n.outputs)]
        known = {name: v for name, v in made if name[0] != ":"} | {v.name or "": v for _, v in made}
        for name in names:
            if name not in known:
                hint = did_you_mean(name, known)
                raise InvalidArgumentsError(f"{self.name}: no node makes {name!r}{hint}")
        model.graph.outputs[:] = [known[name] for name in names]
        return OnnxModel(model, replace(self.options, islands="fewest"), self.name)

    # -- programs

    def _of(self, names: tuple[str, ...]) -> Programs:
        """Return the programs for calls that give these inputs."""
        if names == self.input_names:
            return self._required
        with self._lock:
            found = self._programs.get(names)
            if found is None:
                found = self._programs[names] = self._made(names)
            return found

    def _made(self, names: tuple[str, ...]) -> Programs:
        model = self._model.clone()
        graph = model.graph
        require_files(lengths_of(v.const_value for v in graph.initializers.values()))
        inputs = [v for v in graph.inputs if v.name in names]
        for name in self._defaults:
            if name in names:
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
        rival = Rival.of(self._model, section, self.options)
        return Programs(section, self._weights, self.options, self.name, unknown, rival)

    def _entry(self, shapes: Any) -> Entry:
        sizes = self._inputs.shapes(shapes)
        arrays = None
        with suppress(OneDNNError):  # there are no random texts
            arrays = [*self._inputs.random(sizes, 0).values()]
        return self._required.entry(sizes, arrays)

    # -- shapes

    def shapes(self, /, **sizes: int) -> dict[str, Shape]:
        """Return the inputs' shapes for sizes of the model's named dims.

        Parameters
        ----------
        **sizes : int
            A size for each dim that has a name in the model, such as ``batch=1``.

        Raises
        ------
        InvalidArgumentsError
            The model has no such dim, or the size of one is missing.
        """
        return self._inputs.shapes_for(sizes)

    @property
    def input_dims(self) -> dict[str, tuple[int | str | None, ...] | None]:
        """The dims of each input as the model has them: a size, a name, or None.

        None instead of dims means that not even their number is known.
        """
        checks = (self._inputs.checks[n] for n in self.input_names)
        return {c.name: None if c.dims is None else tuple(c.dims) for c in checks}

    @property
    def input_dtypes(self) -> dict[str, str]:
        """OneDNN's name of the data type of each input, or ``string`` and the like."""
        return {n: self._inputs.checks[n].dtype for n in self.input_names}

    def random_inputs(self, shapes: Any = None, seed: int = 0) -> dict[str, npt.NDArray[Any]]:
        """Return inputs that most models can take: floats around 0, and 0 or 1.

        Parameters
        ----------
        shapes : mapping of str to shape, or sequence of shapes, optional
            The inputs' shapes; by default those of the model, if it leaves none open.
        seed : int
        """
        return self._inputs.random(shapes, seed)

    def compile(self, shapes: Any = None) -> OnnxModel:
        """Compile the model ahead of calls.

        Parameters
        ----------
        shapes : mapping of str to shape, sequence of shapes, or list of mappings; optional
            The inputs' shapes, by name or in order, or several such mappings. By default those of
            the model, if it leaves none open.

        Returns
        -------
        OnnxModel
            Itself.
        """
        several = isinstance(shapes, (list, tuple)) and all(isinstance(s, Mapping) for s in shapes)
        for one in shapes if several and shapes else [shapes]:
            self._entry(one)
        return self

    @property
    def threads(self) -> int:
        """The number of threads that a call uses."""
        return self.options.threads or num_threads()

    def with_threads(self, threads: int) -> OnnxModel:
        """Load the same model for calls with another number of threads."""
        return OnnxModel(self._model, replace(self.options, threads=threads), self.name)

    def prepare(self, *shapes: Any) -> None:
        """Compile the model ahead for sets of input shapes, as `CompiledGraph.prepare` does.

        Parameters
        ----------
        *shapes : mapping of str to shape, or sequence of shapes
            If the model has one input, also its shape alone.
        """
        for one in shapes:
            alone = len(self.input_names) == 1 and not isinstance(one, Mapping)
            self.compile([one] if alone and all(isinstance(d, SupportsIndex) for d in one) else one)

    def builder(self, shapes: Any = None) -> GraphBuilder:
        """Return the model for one set of shapes as a graph that is being built.

        Islands are its host steps. It can be explained, exported and written into a file.

        Parameters
        ----------
        shapes : mapping of str to shape, or sequence of shapes, optional

        Raises
        ------
        UnimplementedError
            oneDNN takes no part of the model.
        """
        made = self._alone(shapes).assembly
        if made is None:
            raise UnimplementedError(f"{self.name}: oneDNN takes no part of it; see report")
        return made.b

    def _alone(self, shapes: Any) -> Program:
        dims = dict(zip(self._required.section.inputs, self._inputs.shapes(shapes), strict=True))
        return self._required.alone(dims).program

    def report(self) -> OnnxReport:
        """Return what runs where, for all shapes that it is compiled for, and why."""
        return reported(self.name, self._required)

    def explain(self, shapes: Any = None, **options: Any) -> Explanation:
        """Report what runs and how fast, for one set of shapes: see `GraphBuilder.explain`."""
        model = self._alone(shapes).model
        return (
            self.builder(shapes).explain(**options) if model is None else model.explain(**options)
        )

    def verify(
        self,
        /,
        *arrays: Any,
        shapes: Any = None,
        seed: int = 0,
        rtol: float | None = None,
        atol: float = 1e-5,
        **named: Any,
    ) -> Verification:
        """Compare the results with those of onnxruntime, or of onnx's reference without it.

        Parameters
        ----------
        *arrays, **named : arrays
            The inputs; random ones by default. An input whose name is that of an option is
            given in a mapping: ``verify({"seed": array})``.
        shapes : mapping of str to shape, or sequence of shapes, optional
            The shapes of random inputs.
        seed : int
        rtol, atol : float
            What is allowed, relative to the largest number of an output, and absolute. By default
            `rtol` is 1e-4, and 0.05 if anything is computed in 8 bits, as other runtimes round
            at other places; where an output has 16 bits, what rounding each node's result
            makes.

        Returns
        -------
        Verification
            It is true if all outputs are right, and prints the errors.
        """
        if arrays or named:
            names, given = self._inputs.ordered(arrays, named)
            inputs = {n: np.asarray(a) for n, a in zip(names, given, strict=True)}
        else:
            inputs = self.random_inputs(shapes, seed)
        made = self(inputs)
        results = made if isinstance(made, tuple) else (made,)
        if rtol is None:
            rounding = rounding_of(results, len(self._model.graph))
            rtol = RTOL_INT8 if self.report().has_int8 else max(RTOL, rounding)
        return verified(
            packing.proto_of(self._model), inputs, self.output_names, results, rtol, atol
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model into a file, which `onednn_graph_py.load` compiles again.

        The file has the model with its weights, the options, the sizes for which it is compiled,
        and what was measured: see `CompiledGraph.save`.

        Parameters
        ----------
        path : path-like

        Raises
        ------
        OSError
            The file can't be written; what was there before stays.
        """
        nodes, weights = packing.packed(self._model)
        arrays = {"": np.frombuffer(nodes, np.uint8), **weights}
        with self._lock:
            programs = [self._required, *self._programs.values()]
        header = {
            "onnx": self.name,
            "graph": {"constants": [[a.shape, dtype_of(a), n] for n, a in arrays.items()]},
            "options": asdict(self.options),
            "sizes": [*self._required.entries],
        }
        measured = {key: kept for p in programs for key, kept in p.measured.items()}
        write(path, header, arrays.values(), measured)

    def __reduce__(self) -> Any:
        return _restored, (*packing.packed(self._model), self.options, self.name)


def _restored(model: bytes, weights: dict[str, Any], options: Options, name: str) -> OnnxModel:
    read = ir.from_proto(onnx.ModelProto.FromString(model))
    return OnnxModel(packing.put_into(read, weights), options, name)


def from_file(
    header: Mapping[str, Any], constants: Iterable[tuple[npt.NDArray[Any], str, str]], sizes: Any
) -> Callable[[], OnnxModel]:
    """Return what compiles a model of a file that `OnnxModel.save` wrote for its sizes."""
    weights = {name: array for array, _, name in constants}
    model = packing.put_into(loaded(weights.pop("").tobytes()), weights)
    made = OnnxModel(model, Options(**header["options"]), str(header["onnx"]))

    def compiled() -> OnnxModel:
        for shapes in sizes:
            made._entry(shapes)
        return made

    return compiled


def entry_of(model: OnnxModel, shapes: Any) -> Entry:
    """Return what runs a model for these shapes of its inputs, compiled if it is not yet."""
    return model._entry(shapes)


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
        return OnnxModel(loaded(source), Options(**given), described(source))
    except OneDNNError:
        raise
    except MemoryError as e:
        raise OutOfMemoryError(f"{described(source)}: {e}") from e
