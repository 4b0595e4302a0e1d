"""An ONNX model that is called: `OnnxModel`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from .._core import num_threads
from ..base.errors import OneDNNError, OutOfMemoryError, UnimplementedError, reworded
from ..base.processes.forked import renew_in_forks
from ..base.text.names import printable
from ..model.building.builder import GraphBuilder
from ..model.checking.expected import Verification
from .inputs import Inputs
from .islands import Misinferred, Wiring, module
from .options import RTOL, RTOL_INT8, Options
from .tensors import Shape, shape_of

if TYPE_CHECKING:  # what needs onnx, as models of files that `save` wrote do not
    from ..tools.explaining.explanation import Explanation
    from .program import Program
    from .programs import Entry, Programs
    from .report import OnnxReport

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

    def __init__(
        self,
        inputs: Inputs,
        output_names: tuple[str, ...],
        options: Options,
        opened: Callable[[], Any],  # what a file has, a `FileModel`
        ready: Mapping[tuple[Shape, ...], Wiring] | None = None,
    ) -> None:
        self.name = inputs.model
        self.options = options
        self._inputs = inputs
        self.input_names = inputs.required
        self.output_names = output_names
        checks = [inputs.checks[n] for n in self.input_names]
        self._types = [np.ndarray for c in checks if c.is_tensor]
        self._dtypes = [c.numpy for c in checks]
        self._open = opened
        self._opened: Any | None = None
        self._between: dict[tuple[str, ...], OnnxModel] = {}
        self._after_fork()
        renew_in_forks(self)
        self._ready = {**(ready or {})}
        self._direct: Callable[[tuple[Shape, ...]], Callable[..., Any] | None]
        self._direct = {s: w.direct for s, w in self._ready.items()}.get
        if ready is None:
            self._file()

    def _after_fork(self) -> None:
        self._lock = threading.RLock()

    def _file(self) -> Any:
        """Return the model as its file has it; calls of sizes that were saved do without."""
        with self._lock:
            if self._opened is None:
                made = self._open()
                for shapes in self._ready:
                    _entry(self._inputs, made, shapes)
                self._opened, self._direct, self._ready = made, made.required.direct, {}
            return self._opened

    @property
    def _required(self) -> Programs:
        made: Programs = self._file().required
        return made

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
            direct = self._direct(tuple([a.shape for a in arrays]))
            if direct is not None and [a.dtype for a in arrays] == self._dtypes:
                try:
                    return direct(*arrays)
                except Exception:
                    direct = None  # the way below says what is wrong
        names, values = self._inputs.arrays(arrays, named)
        try:
            made = self._run(names, values)
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
            model = self._between.pop(names, None) or module("file_model", self.name).ending(
                self._file(), names
            )
            self._between[names] = model
            if len(self._between) > MOST_BETWEEN:
                del self._between[next(iter(self._between))]
        made = model(*arrays, **named)
        return made if isinstance(made, tuple) else (made,)

    def _run(self, names: tuple[str, ...], values: list[Any]) -> list[Any]:
        ready = self._ready.get(tuple(map(shape_of, values)))
        if ready is not None and names == self.input_names:
            with suppress(Misinferred):
                return ready(values)
        made: list[Any] = self._file().of(names)(values)
        return made

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
            _entry(self._inputs, self._file(), one)
        return self

    @property
    def threads(self) -> int:
        """The number of threads that a call uses."""
        return self.options.threads or num_threads()

    def with_threads(self, threads: int) -> OnnxModel:
        """Load the same model for calls with another number of threads."""
        options = replace(self.options, threads=threads)
        made: OnnxModel = module("file_model", self.name).opened(
            self._file().model, options, self.name
        )
        return made

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
        from .report import reported

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
        from .packing import proto_of
        from .rivals import rounding_of, verified

        if arrays or named:
            names, given = self._inputs.ordered(arrays, named)
            inputs = {n: np.asarray(a) for n, a in zip(names, given, strict=True)}
        else:
            inputs = self.random_inputs(shapes, seed)
        made = self(inputs)
        results = made if isinstance(made, tuple) else (made,)
        if rtol is None:
            rounding = rounding_of(results, len(self._file().model.graph))
            rtol = RTOL_INT8 if self.report().has_int8 else max(RTOL, rounding)
        return verified(
            proto_of(self._file().model), inputs, self.output_names, results, rtol, atol
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
        module("saved", self.name).save(self._file(), self._inputs, self.output_names, path)

    def __reduce__(self) -> Any:
        from .packing import packed

        return module("file_model", self.name).restored, (
            *packed(self._file().model),
            self.options,
            self.name,
        )


def _entry(inputs: Inputs, file: Any, shapes: Any) -> Entry:
    sizes = inputs.shapes(shapes)
    arrays = None
    with suppress(OneDNNError):  # there are no random texts
        arrays = [*inputs.random(sizes, 0).values()]
    made: Entry = file.required.entry(sizes, arrays)
    return made


def entry_of(model: OnnxModel, shapes: Any) -> Entry:
    """Return what runs a model for these shapes of its inputs, compiled if it is not yet."""
    return _entry(model._inputs, model._file(), shapes)
