"""Nodes that oneDNN does not take, run by onnxruntime or by onnx's reference: `Island`."""

from __future__ import annotations

import base64
import ctypes
import importlib
import importlib.metadata
import importlib.util
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .._core import num_threads
from ..base.errors import (
    ExecutionError,
    InvalidGraphError,
    InvalidShapeError,
    OneDNNError,
    UnimplementedError,
)
from ..base.processes.forked import renew_in_forks
from ..base.text.names import needs
from ..machine.cpu import largest_int8_weight
from ..serialization.model_file import decoded, encoded
from .host_steps import MOVED
from .options import Options
from .tensors import Shape

Place: TypeAlias = int | npt.NDArray[Any]


class Wiring:
    """Computes a section's outputs for one set of dims.

    - `runner`: takes arrays, and returns one or a tuple; None if it has nothing to compute
    - `reads`: what it takes: an input of the section by its number, or what is known
    - `results`: the outputs: one of the runner's by its number, an input by its own, inverted (~),
      or what is known
    - `inputs`: how many the section has
    """

    def __init__(
        self,
        runner: Callable[..., Any] | None,
        reads: Sequence[Place],
        results: Sequence[Place],
        inputs: int,
    ) -> None:
        self.runner, self.inputs = runner, inputs
        self.reads, self.results = [*reads], [*results]
        taken = [r for r in results if isinstance(r, int) and r >= 0]
        self._repeated = len(set(taken)) < len(taken)  # outputs do not share memory
        # Something reads each of the runner's outputs.
        straight = _are_all(reads, inputs) and _are_all(results, len(results))
        self.direct = self._call if runner is None or not straight else runner

    def __call__(self, given: Sequence[Any]) -> list[Any]:
        """Compute the outputs of what the section's inputs are."""
        made: Any = ()
        if self.runner is not None:
            try:
                made = self.runner(*[given[r] if isinstance(r, int) else r for r in self.reads])
            except Exception as e:
                notes = getattr(e, "__notes__", ())  # which host step raised it, as NumPy does
                if notes and not isinstance(e, (OneDNNError, MemoryError)):
                    raise ExecutionError(f"{e}; {notes[0]}") from e
                raise
            made = made if isinstance(made, tuple) else (made,)
        return [self._result(r, given, made) for r in self.results]

    def _call(self, *given: Any) -> Any:
        made = self(given)
        return made[0] if len(made) == 1 else tuple(made)

    def _result(self, place: Place, given: Sequence[Any], made: Sequence[Any]) -> Any:
        if isinstance(place, int) and place >= 0:
            return np.array(made[place]) if self._repeated else made[place]
        taken = given[~place] if isinstance(place, int) else place
        return np.array(taken) if isinstance(taken, np.ndarray) else taken  # a sequence


def _are_all(places: Sequence[Place], count: int) -> bool:
    return all(isinstance(p, int) for p in places) and [*places] == [*range(count)]


ONLY_IN_REFERENCE = ("bfloat16", "float8", "float4", "int4", "int2")
"""Parts of the names of data types that onnxruntime does not take as NumPy's arrays."""


INTEGER_PRODUCTS = frozenset({"ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul"})
"""Ops whose sums of products onnxruntime keeps in 16 bits on CPUs without VNNI."""

FUSED_TO_INTEGERS = frozenset({"QuantizeLinear", "DequantizeLinear"})
"""Ops around products that onnxruntime's optimizations make such products of."""

MOST_KEPT = 1 << 20  # bytes of an island that a file's header may hold


def module(name: str, what: str) -> Any:
    """Import a module of this folder, which may need onnx for what is named."""
    try:
        return importlib.import_module(f"{__package__}.{name}")
    except ModuleNotFoundError as e:
        if e.name not in ("onnx", "onnx_ir"):
            raise
        raise needs(what, e.name, "onnx") from None


def has_onnxruntime() -> bool:
    """Return whether onnxruntime is installed."""
    return importlib.util.find_spec("onnxruntime") is not None


def release() -> str:
    """Return the version of onnxruntime, of any of its packages."""
    try:
        return importlib.metadata.version("onnxruntime")
    except importlib.metadata.PackageNotFoundError:
        return str(imported().__version__)


def imported() -> Any:
    """Import onnxruntime; without its telemetry, whose thread hangs forked processes' end."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    return onnxruntime


class Misinferred(InvalidShapeError):
    """An island makes other dims than onnx infers; the island is right."""

    def __init__(self, island: Island, wanted: Any, given: Any) -> None:
        super().__init__(f"{island.label}: onnx infers {wanted}, {island.runs_in} makes {given}")
        self.nodes = island.nodes


class IslandShapes:
    """The shapes of an island's results, by those of its operands; ONNX inferred them."""

    def __init__(self, general: list[tuple[Shape, str]]) -> None:
        self.general = general
        self.table: dict[tuple[Shape, ...], list[tuple[Shape, str]]] = {}

    def __call__(self, *shapes: Shape) -> list[tuple[Shape, str]]:
        """Return shapes and data types, as a host step asks for them."""
        return self.table.get(tuple(tuple(s) for s in shapes), self.general)

    def kept(self) -> Any:
        """Return what `from_kept` reads."""
        return [self.general, [*self.table.items()]]

    @classmethod
    def from_kept(cls, kept: Any) -> IslandShapes:
        """Return the shapes of which a file has what `kept` says."""
        general, table = kept
        made = cls([(s, d) for s, d in general])
        made.table.update((k, [(s, d) for s, d in row]) for k, row in table)
        return made


class IslandModel(NamedTuple):
    """An ONNX model, serialized, with its inputs, outputs and kinds of ops."""

    serialized: bytes
    inputs: Sequence[str]
    outputs: Sequence[str]
    kinds: frozenset[str]


class Island:
    """A model that runs outside of oneDNN; the options' `fallback` says what runs it.

    `weights` are numbers that the model lacks, if it is a file's whole model.
    """

    def __init__(
        self,
        model: IslandModel,
        label: str,
        options: Options,
        weights: Mapping[str, npt.NDArray[Any]] | None = None,
    ) -> None:
        self.model = model
        self.weights = weights
        self.label = label
        self.options = options
        self.names = list(model.inputs)
        self.nodes: tuple[Any, ...] = ()
        self._outputs = list(model.outputs)
        self._right: list[Shape] = []  # shapes of a call that were as promised
        self.promised: IslandShapes | None = None
        self.runs_in = ""
        self._run: Any = None
        self._worked = False
        self._lock = threading.Lock()
        renew_in_forks(self)

    def _after_fork(self) -> None:
        # A session's threads do not survive a fork, and its end, which would wait for them, must
        # not come, even when Python ends.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._run))
        self._run = None
        self._lock = threading.Lock()

    def __reduce__(self) -> Any:
        return Island, (self.model, self.label, self.options)

    def kept(self) -> Any:
        """Return what JSON can hold of it, for `from_file`."""
        nodes, _, outputs, kinds = self.model
        if len(nodes) > MOST_KEPT:
            raise InvalidGraphError(f"{self.label} is too large for a file's header")
        shapes = self.promised
        promised = None if shapes is None else shapes.kept()
        text, ops = base64.b64encode(nodes).decode(), sorted(kinds)
        options = asdict(self.options)
        return encoded([text, self.names, outputs, ops, self.label, options, promised])

    def __call__(self, *arrays: npt.NDArray[Any]) -> Any:
        """Run it: arrays in the order of its inputs; one array, or a tuple."""
        given = dict(zip(self.names, arrays, strict=True))
        try:  # without a further call of Python
            made = self._run(self._outputs, given, None)
        except Exception:
            made = self.named(given)
        if self.promised is not None:
            shapes = [getattr(a, "shape", ()) for a in (*arrays, *made)]  # sequences have none
            if shapes != self._right:
                self._require_promised(shapes[: len(arrays)], shapes[len(arrays) :])
                self._right = shapes
        return made[0] if len(made) == 1 else tuple(made)

    def _require_promised(self, read: Sequence[Shape], given: Sequence[Shape]) -> None:
        assert self.promised is not None
        wanted = [shape for shape, _ in self.promised(*read)]
        if any(
            len(w) != len(g) or any(a not in (-1, b) for a, b in zip(w, g, strict=True))
            for w, g in zip(wanted, given, strict=True)
        ):
            raise Misinferred(self, wanted, given)

    def named(self, arrays: dict[str, Any]) -> list[Any]:
        """Run it with arrays by name."""
        if self._run is None:
            with self._lock:
                self._start()
        try:
            made: list[Any] = self._run(self._outputs, arrays, None)
        except Exception as e:  # both runtimes raise what they meet
            made = self._in_reference(arrays, e)
        self._worked = True
        return made

    def _in_reference(self, arrays: dict[str, Any], error: Exception) -> Any:
        """Run what onnxruntime has never run, and fails at; else raise."""
        failure = ExecutionError(f"{self.label} fails in {self.runs_in}: {error}")
        only = self.options.fallback == "onnxruntime" or self.weights is not None
        if only or self.runs_in != "onnxruntime" or self._worked:
            raise failure from error
        try:
            run = self._evaluator()
            made = run(self._outputs, arrays, None)
        except Exception:  # it raises what it meets
            raise failure from error
        self._run, self.runs_in = run, "onnx.reference"
        return made

    def _evaluator(self) -> Any:
        from onnx.reference import ReferenceEvaluator

        from .corrections import CORRECTED

        run = ReferenceEvaluator(self.model.serialized, new_ops=[*CORRECTED.values()]).run

        def arrays(names: list[str], given: dict[str, Any], options: None) -> list[Any]:
            with np.errstate(all="ignore"):  # infinities and NaN are valid, as in onnxruntime
                made = run(names, given)
            return [np.asarray(m) if isinstance(m, np.generic) else m for m in made]

        return arrays

    @property
    def saturation(self) -> str:
        """Say why onnxruntime would compute the island wrongly here; "" if it would not."""
        if largest_int8_weight() == 127:
            return ""
        more = FUSED_TO_INTEGERS if self.weights is not None else frozenset()
        found = ", ".join(sorted(self.model.kinds & (INTEGER_PRODUCTS | more)))
        return found and f"without VNNI onnxruntime's sums saturate in {found}"

    def _start(self) -> None:
        if self._run is not None:
            return
        why = self.saturation if self.options.fallback == "auto" else ""
        if self.options.fallback != "reference" and not why:
            try:
                self._run, self.runs_in = self._session(), "onnxruntime"
                return
            except Exception as e:  # onnxruntime has a class for each of its statuses
                why = f"onnxruntime: {e}"
                if self.options.fallback == "onnxruntime" or self.weights is not None:
                    raise UnimplementedError(f"{self.label}: {why}") from e
        try:
            self._run, self.runs_in = self._evaluator(), "onnx.reference"
        except Exception as e:  # it raises what it meets
            reasons = "; ".join(filter(None, (why, f"onnx.reference: {e}")))
            raise UnimplementedError(f"{self.label}: nothing runs it: {reasons}") from e

    def _session(self) -> Any:
        onnxruntime = imported()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # what it says is raised
        options.intra_op_num_threads = self.options.threads or num_threads()
        if self.options.activations != "int8":  # it rounds what integers multiply
            options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
        if self.weights is not None:  # as a user would run it, but that it disturbs nobody else
            options.add_session_config_entry("session.force_spinning_stop", "1")
            values = map(onnxruntime.OrtValue.ortvalue_from_numpy, self.weights.values())
            options.add_external_initializers([*self.weights], [*values])
        else:
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        levels = onnxruntime.GraphOptimizationLevel
        if self.weights is None and "QuantizeLinear" in self.model.kinds:
            # It takes out a Clip and a Relu before one, which changes numbers if its scale is
            # negative, and makes products whose sums saturate.
            options.graph_optimization_level = levels.ORT_DISABLE_ALL
        elif any(w.dtype == np.float16 for w in (self.weights or {}).values()):
            # The others end the process at some recurrent models (1.32).
            options.graph_optimization_level = levels.ORT_ENABLE_EXTENDED
        session = onnxruntime.InferenceSession(
            self.model.serialized, options, providers=["CPUExecutionProvider"]
        )
        types = {edge.type for edge in (*session.get_inputs(), *session.get_outputs())}
        refused = [t for t in types if any(name in t for name in ONLY_IN_REFERENCE)]
        if refused:
            raise UnimplementedError(f"it gives no NumPy arrays of {', '.join(refused)}")
        # Names and options are right: what checks them takes a fifth of a small model's call.
        return getattr(session, "_sess", session).run


class Mover:
    """A node that moves elements by numbers of sizes, in NumPy, where oneDNN needs constants.

    It reads `count` arrays; the shapes of the others tell apart what the result's are.
    """

    nodes: tuple[Any, ...] = ()  # that an island would have

    def __init__(self, op_type: str, count: int, options: Mapping[str, Any]) -> None:
        self.label, self._count, self._options = op_type, count, options
        self.promised: IslandShapes | None = None

    def __call__(self, *arrays: npt.NDArray[Any]) -> Any:
        """Return the result, or a tuple of them."""
        return MOVED[self.label][0](*arrays[: self._count], **self._options)

    def kept(self) -> Any:
        """Return what JSON can hold of it, for `from_file`."""
        assert self.promised is not None
        return encoded([self.label, self._count, self._options, self.promised.kept()])


def from_file(record: Any, weights: Mapping[str, Any] | None = None) -> Island | Mover:
    """Return the island of which a file has what `kept` says."""
    made: Island | Mover
    *parts, promised = decoded(record)
    if len(parts) == 3:
        label, count, options = parts
        made = Mover(label, int(count), {k: int(options[k]) for k in MOVED[label][1]})
    else:
        nodes, inputs, outputs, kinds, label, options = parts
        read, result = [*map(str, inputs)], [*map(str, outputs)]
        model = IslandModel(base64.b64decode(nodes), read, result, frozenset(kinds))
        made = Island(model, label, Options(**options), weights)
    if promised is not None:
        made.promised = IslandShapes.from_kept(promised)
    return made
