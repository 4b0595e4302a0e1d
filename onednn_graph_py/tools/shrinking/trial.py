"""Try a graph in this process, with oneDNN's own partitions.

Models (`GraphBuilder.compile`) work around oneDNN's defects. Shrinking looks for defects, so this
module works around none: it compiles each partition with the layouts of the graph, and runs it on
the results of earlier ones.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from ... import _core
from ...base.errors import OneDNNError, UnimplementedError
from ...base.text.numbers import gib_text
from ...machine.memory import free_bytes
from ...model.building.builder import GraphBuilder
from ...model.checking.expected import Expected, reference_values
from ...model.checking.filling import fill_inputs
from ...model.verdicts.running import GuardedMemory
from ...serialization import GraphDocument, OpRecord, to_builder, to_graph
from ...serialization.tags import strides_of
from ..replay.stages import bytes_needed, why_unsupported
from .outcome import Outcome, Symptom, signature_of

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


def trial_of(symptom: str) -> Any:
    """Return the fastest trial that finds a symptom."""
    return partition_trial if symptom in ("unsupported", "refused") else run_trial


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
            given = [arrays[id] for id in self.document.inputs()]
            try:
                exact = reference_values(self.builder, given)
            except OneDNNError as e:
                raise _Ended(Outcome("failed", f"the reference can't compute it: {e}")) from None
        left = self.partitions
        while left:
            ready = [p for p in left if not run or self._can_run(p, arrays)]
            for partition in ready:
                for id, array in self._done(partition, arrays, exact, run=run).items():
                    arrays[id] = array
                    actual[self.values[id].id] = array
            if not ready:
                raise _Ended(Outcome("refused", "the partitions form a cycle", ("circle",)))
            left = [p for p in left if p not in ready]
        if run:
            names = {v.id: f"tensor {id}" for id, v in self.values.items()}
            checked = Expected(self.builder, given, self.seed).compare(actual, names)
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
            made = fill_inputs(self.builder, self.seed)
        except OneDNNError as e:
            raise _failed(e) from None
        return dict(zip(self.document.inputs(), made, strict=True))

    def _can_run(self, partition: _core.partition, arrays: dict[int, Array]) -> bool:
        return all(lt.get_id() in arrays for lt in partition.get_input_ports())

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
        taken = [self._described(lt.get_id()) for lt in partition.get_input_ports()]
        made = [self._described(id) for id in outputs]
        try:
            compiled = partition.compile(taken, made, self.engine)
            if not run:
                return {}
            sources = [self._memory(lt) for lt in taken]
            for memory, lt in zip(sources, taken, strict=True):
                memory.fill(arrays[lt.get_id()])
            results = [self._memory(lt) for lt in made]
            given = [memory.tensor for memory in sources]
            compiled.execute(self.stream, given, [memory.tensor for memory in results])
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
