"""Try a graph with oneDNN's own partitions, in a helper process that may crash or hang: `Shows`.

Models (`GraphBuilder.compile`) work around oneDNN's defects. Shrinking looks for defects, so this
module works around none: it compiles each partition with the layouts of the graph, and runs it on
the results of earlier ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ... import _core
from ...base.arguments import need_choice
from ...base.errors import InvalidArgumentsError, OneDNNError, UnimplementedError
from ...base.processes import MODELS, Isolated, cause, ending, too_long
from ...base.refusals import with_reason
from ...base.text.numbers import gib_text
from ...machine.memory import free_bytes
from ...model.building.builder import GraphBuilder
from ...model.checking.expected import Expected, reference_values
from ...model.checking.filling import fill_inputs
from ...model.verdicts.running import GuardedMemory
from ...serialization import GraphDocument, OpRecord, to_builder, to_graph
from ...serialization.links import strides_of
from ..replay.stages import bytes_needed, why_unsupported

Symptom = Literal[
    "passed", "mismatch", "unsupported", "refused", "crash", "hang", "too large", "failed"
]

SYMPTOMS: tuple[Symptom, ...] = ("mismatch", "crash", "hang", "unsupported", "refused")
"""The symptoms that shrinking can keep."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of trying a graph; its symptom is ``failed`` if the trial itself raised."""

    symptom: Symptom
    reason: str = ""
    # Marks of this symptom: a kind of op that has no kernel, a signal, an error without its numbers
    # and names. A smaller graph shows the same symptom if it shares one of them.
    signatures: tuple[str, ...] = ()
    error: OneDNNError | None = field(default=None, compare=False)

    def with_reason(self) -> str:
        """Say it all, with oneDNN's reason, which another process finds."""
        return str(self if self.error is None else replace(self, reason=with_reason(self.error)))

    def __str__(self) -> str:
        return f"{self.symptom}: {self.reason}" if self.reason else self.symptom


_PLACES = re.compile(r"\bgraph\[\d+\](\.[a-z_]+(\[\d+\])?)*")
_NAMES = re.compile(r"'[^']*'|\"[^\"]*\"")
_NUMBERS = re.compile(r"-?\d+(\.\d+)?(e[-+]?\d+)?")
_LISTS = re.compile(r"#([ ,x]*#)+")


def signature_of(error: BaseException) -> str:
    """Return an error's text without places, names and numbers, which change with shrinking.

    >>> signature_of(ValueError("graph[3]: op 7 'fc' (MatMul): 2x8 does not fit 4x16x5"))
    'ValueError: : op # ~ (MatMul): # does not fit #'
    """
    text = _NAMES.sub("~", _PLACES.sub("", str(error)))
    return f"{type(error).__name__}: {_LISTS.sub('#', _NUMBERS.sub('#', text))}"


Array = npt.NDArray[Any]

_MEMORY_SHARE = 0.5


class _Ended(Exception):
    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome


def partition_trial(document: GraphDocument, seed: int) -> Outcome:
    """Partition a graph, and compile the partitions that have a kernel."""
    return _tried(document, seed, run=False)


def run_trial(document: GraphDocument, seed: int) -> Outcome:
    """Run a graph's partitions, or NumPy for ops without a kernel, and compare all results."""
    return _tried(document, seed, run=True)


def _tried(document: GraphDocument, seed: int, *, run: bool) -> Outcome:
    try:
        return _Trial(document, seed).outcome(run=run)
    except _Ended as e:
        return e.outcome
    except MemoryError as e:
        return Outcome("too large", str(e) or "out of memory")


def _failed(error: OneDNNError) -> _Ended:
    symptom: Symptom = "unsupported" if isinstance(error, UnimplementedError) else "refused"
    return _Ended(Outcome(symptom, str(error), (signature_of(error),), error))


class _Trial:
    def __init__(self, document: GraphDocument, seed: int) -> None:
        self.document = document
        self.seed = seed
        self.records = document.tensors()
        self.ops = {op.id: op for op in document.graph}
        self.unsupported: list[OpRecord] = []
        try:
            self.builder: GraphBuilder = to_builder(document)
            self.partitions = list(to_graph(document).get_partitions())
            self.engine = _core.engine(document.engine_kind, 0)
        except OneDNNError as e:
            raise _failed(e) from None
        values = [*self.builder.inputs, *(v for n in self.builder.nodes for v in n.outputs)]
        self.values = {self.builder.records[v.id].id: v for v in values}
        self.stream = _core.stream(self.engine)

    def outcome(self, *, run: bool) -> Outcome:
        arrays: dict[int, Array] = self._inputs() if run else {}
        # The builder's values, as partitions computed them and as they should be.
        actual: dict[int, Array] = {}
        exact: dict[int, Array] = {}
        if run:
            inputs = [arrays[id] for id in self.document.inputs()]
            try:
                exact = reference_values(self.builder, inputs)
            except OneDNNError as e:
                raise _Ended(Outcome("failed", f"the reference can't compute it: {e}")) from None
        left = self.partitions
        while left:
            ready = [
                p
                for p in left
                if not run or all(lt.get_id() in arrays for lt in p.get_input_ports())
            ]
            for partition in ready:
                for id, array in self._done(partition, arrays, exact, run=run).items():
                    arrays[id] = array
                    actual[self.values[id].id] = array
            if not ready:
                raise _Ended(Outcome("refused", "the partitions form a cycle", ("circle",)))
            left = [p for p in left if p not in ready]
        if run:
            names = {v.id: f"tensor {id}" for id, v in self.values.items()}
            checked = Expected(self.builder, inputs, self.seed).compare(actual, names)
            wrong = [check for check in checked.outputs if not check.ok]
            if wrong:
                return Outcome("mismatch", str(wrong[0]), ("mismatch",))
        if self.unsupported:
            kinds = dict.fromkeys(f"no kernel: {op.kind}" for op in self.unsupported)
            return Outcome("unsupported", why_unsupported(self.unsupported[0]), tuple(kinds))
        return Outcome("passed")

    def _inputs(self) -> dict[int, Array]:
        needed, free = bytes_needed(self.builder, verify=True), free_bytes()
        if free is not None and needed > free * _MEMORY_SHARE:
            raise _Ended(Outcome("too large", f"it takes about {gib_text(needed)}"))
        try:
            inputs = fill_inputs(self.builder, self.seed)
        except OneDNNError as e:
            raise _failed(e) from None
        return dict(zip(self.document.inputs(), inputs, strict=True))

    def _done(
        self,
        partition: _core.partition,
        arrays: dict[int, Array],
        exact: dict[int, Array],
        *,
        run: bool,
    ) -> dict[int, Array]:
        """Compile a partition, and run it if asked; return its results by tensor id."""
        members = [self.ops[i] for i in partition.get_ops()]
        if all(op.kind == "End" for op in members):
            return {}
        outputs = [lt.get_id() for lt in partition.get_output_ports()]
        if not partition.is_supported():
            self.unsupported += [op for op in members if op.kind != "End"]
            return {id: exact[self.values[id].id] for id in outputs} if run else {}
        inputs = [self._described(lt.get_id()) for lt in partition.get_input_ports()]
        described = [self._described(id) for id in outputs]
        try:
            compiled = partition.compile(inputs, described, self.engine)
            if not run:
                return {}
            sources = [self._memory(lt) for lt in inputs]
            for memory, lt in zip(sources, inputs, strict=True):
                memory.fill(arrays[lt.get_id()])
            results = [self._memory(lt) for lt in described]
            read = [memory.tensor for memory in sources]
            compiled.execute(self.stream, read, [memory.tensor for memory in results])
            self.stream.wait()
        except OneDNNError as e:
            raise _failed(e) from None
        return {id: np.array(m.elements()) for id, m in zip(outputs, results, strict=True)}

    def _described(self, id: int) -> _core.logical_tensor:
        """Return the logical tensor to compile a partition with: strided, with known dims."""
        record, shape = self.records[id], self.values[id].shape or ()
        strides = record.strides if record.layout_type == "strided" else None
        if record.dims != shape or strides is None:
            strides = strides_of(shape)
        dtype, kind = self.values[id].dtype, record.property_type
        return _core.logical_tensor(id, dtype, list(shape), list(strides), kind)

    def _memory(self, lt: _core.logical_tensor) -> GuardedMemory:
        """Make memory for a tensor, with all bits set, which is NaN in floats.

        So gaps between rows, which oneDNN should not read, are the same in each try.
        """
        memory = GuardedMemory(lt, self.values[lt.get_id()].dtype, self.engine)
        memory.own[...] = 0xFF
        return memory


class Shows:
    """A predicate: whether a graph shows the same symptom as the first graph that it tried.

    Parameters
    ----------
    symptom : str
        ``mismatch`` (oneDNN's fused partitions, without workarounds for known defects, differ from
        the reference), ``crash``, ``hang``, ``unsupported`` (oneDNN has no kernel for an op here)
        or ``refused`` (oneDNN or this package rejects the graph).
    seed : int
        Seed for generated inputs.
    timeout : float
        Seconds after which a graph counts as hanging.
    trial : callable, optional
        Takes a `GraphDocument` and the seed, and returns an `Outcome`. It must be a module's
        function, since another process calls it. By default the trial that finds `symptom`.

    Raises
    ------
    InvalidArgumentsError
        The symptom is unknown, or the timeout is not positive.
    """

    def __init__(
        self,
        symptom: str,
        *,
        seed: int = 0,
        timeout: float = 60.0,
        trial: Callable[[GraphDocument, int], Outcome] | None = None,
    ) -> None:
        need_choice("symptom", symptom, SYMPTOMS)
        if not timeout > 0:
            raise InvalidArgumentsError(f"timeout must be positive, got {timeout!r}")
        self.symptom = symptom
        self.seed = seed
        self.timeout = timeout
        fastest = partition_trial if symptom in ("unsupported", "refused") else run_trial
        self._trial = trial if trial is not None else fastest
        self._process = Isolated(*MODELS)
        self._wanted: str | None = None

    def outcome(self, document: GraphDocument) -> Outcome:
        """Try a graph; the symptom is ``failed`` if the trial itself raises."""
        kind, value = self._process.call(self._trial, document, self.seed, timeout=self.timeout)
        if kind == "returned":
            outcome: Outcome = value
            return outcome
        if kind == "hang":
            return Outcome("hang", too_long(self.timeout), ("hang",))
        if kind == "raised":
            return Outcome("failed", value)
        return Outcome("crash", ending(value), (cause(value),))

    def __call__(self, document: GraphDocument) -> bool:
        """Return whether a graph shows the same symptom as the first graph that showed one."""
        outcome = self.outcome(document)
        if outcome.symptom != self.symptom:
            return False
        if self._wanted is None:
            self._wanted = outcome.signatures[0]
        return self._wanted in outcome.signatures

    def close(self) -> None:
        """End the process."""
        self._process.close()

    def __enter__(self) -> Shows:
        return self

    def __exit__(self, *of: object) -> None:
        self.close()
