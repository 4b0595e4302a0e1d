"""Run a graph of an example, check it against NumPy, or say why it can't run here."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import (
    GraphBuilder,
    Value,
    bound_execution,
    compiled_partition,
    engine,
    graph,
    logical_tensor,
    op,
    partition,
    stream,
)
from .. import tensor as memory_tensor
from ..base.errors import NoDeviceError
from ..base.linked import linked_version
from ..base.text.numbers import counted
from ..machine.cpu import lacks
from ..machine.hardware import require
from ..machine.timing import time_calls
from ..model.checking.expected import Expected, OutputCheck, Verification
from ..model.planning import KnownDefects

Array = npt.NDArray[Any]
Arrays = Mapping[int, Array]

# The data types in which oneDNN's examples run.
DATA_TYPES = ("f32", "bf16", "f16")

WITH_NUMPY = "all elements with NumPy in float64"


# -- reports


@dataclass(frozen=True)
class Case:
    """One configuration of an example, run and checked.

    The comparisons are by a text that says what was compared; that of the result comes last.
    """

    name: str
    partitions: Sequence[Sequence[str]]
    comparisons: Mapping[str, Verification]
    milliseconds: float
    facts: Sequence[str] = ()
    expected_partitions: int = 1

    def all_faults(self) -> list[str]:
        """Return all faults; none if the case has passed."""
        faults = []
        if self.expected_partitions != len(self.partitions):
            faults = [f"expected {self.expected_partitions} partitions, got {len(self.partitions)}"]
        for what, compared in self.comparisons.items():
            if wrong := sum(output.wrong for output in compared.outputs):
                count = sum(output.count for output in compared.outputs)
                faults.append(
                    f"{wrong} of {count} elements are off by more than their tolerance ({what})"
                )
        return faults

    def lines(self) -> list[str]:
        """Return the lines of a report on the case."""
        lines = [self.name, *_partition_lines(self.partitions)]
        for what, compared in self.comparisons.items():
            lines += [
                f"compared: {what}",
                f"  maximum error: {compared.max_error:.3g} of values up to"
                f" {max(output.largest for output in compared.outputs):.3g};"
                f" at most {compared.share:.2g} of a tolerance used",
            ]
        lines += [f"time: {self.milliseconds:.3f} ms (median)", *self.facts]
        return lines + [f"WRONG: {fault}" for fault in self.all_faults()]


@dataclass(frozen=True)
class Skipped:
    """A configuration that this machine or the linked oneDNN can't run, and why.

    It has the ops of each partition, where the graph could at least be partitioned.
    """

    name: str
    reason: str
    partitions: Sequence[Sequence[str]] = ()

    def lines(self) -> list[str]:
        """Return the lines of a report on the configuration."""
        partitions = _partition_lines(self.partitions) if self.partitions else []
        return [self.name, *partitions, f"skipped: {self.reason}"]


def _partition_lines(partitions: Sequence[Sequence[str]]) -> list[str]:
    shown = (f"{counted(len(ops), 'op')}: {' + '.join(ops)}" for ops in partitions)
    return [
        f"partitions: {len(partitions)}",
        *(f"  {number}. {line}" for number, line in enumerate(shown, 1)),
    ]


# -- what can run


def without_device(engine_kind: str) -> str | None:
    """Say why oneDNN can't compile for ``cpu`` or ``gpu`` here, or None if it can."""
    try:
        require(graph(engine_kind).get_engine_kind())
    except NoDeviceError as e:
        return str(e)
    return None


def only_partitioned(name: str, net: graph, reason: str) -> Skipped:
    """Partition a finalized graph that can't be compiled here, as oneDNN can without a device."""
    parts = net.get_partitions()
    text = f"partitioned for {net.get_engine_kind().name}: {counted(len(parts), 'partition')}"
    if refused := sum(not part.is_supported() for part in parts):
        text += f", {refused} of them without a kernel"
    return Skipped(name, f"{reason}; {text}", fused_ops(net.get_ops(), parts))


def too_old(name: str, since: tuple[int, int]) -> Skipped | None:
    """Skip a configuration for a feature that the linked oneDNN does not have yet."""
    linked = linked_version()
    if linked >= since:
        return None
    wanted, have = (".".join(str(n) for n in release) for release in (since, linked))
    return Skipped(name, f"needs oneDNN >= {wanted}, linked is {have}")


def cannot_run(name: str, data_type: str, net: graph) -> Skipped | None:
    """Skip a graph whose engine, or a CPU's support of its data type, is missing here."""
    engine_kind = net.get_engine_kind().name
    if (missing := without_device(engine_kind)) is not None:
        return only_partitioned(name, net, missing)
    reason = lacks(data_type) if engine_kind == "cpu" else None
    return None if reason is None else Skipped(name, reason)


# -- running partitions


def fused_ops(ops: Iterable[op], partitions: Iterable[partition]) -> list[list[str]]:
    """Name the ops of each partition."""
    kinds = {one.get_id(): one.get_kind().name for one in ops}
    return [[kinds[number] for number in part.get_ops()] for part in partitions]


class Pipeline:
    """Partitions of one graph, compiled for given inputs, in an order in which they can run.

    Only inputs need dims and a layout; oneDNN infers those of all other tensors. The outputs, which
    are read afterwards, are row-major; oneDNN chooses the layout of others.
    """

    def __init__(
        self,
        partitions: Sequence[partition],
        inputs: Iterable[logical_tensor],
        outputs: Iterable[logical_tensor],
        device: engine,
    ) -> None:
        self.partitions = partitions
        self.outputs = list(outputs)
        self.device = device
        self.steps: list[compiled_partition] = []
        known = {lt.get_id(): lt for lt in inputs}
        plain = {lt.get_id() for lt in self.outputs}
        waiting = list(partitions)
        while waiting:
            # oneDNN does not promise to list partitions in an order in which they can run.
            ready = [part for part in waiting if _inputs_of(part) <= known.keys()]
            if not ready:
                missing = sorted(_inputs_of(waiting[0]) - known.keys())
                raise ValueError(f"{waiting[0]}: nothing is known of its inputs {missing}")
            for part in ready:
                waiting.remove(part)
                self.steps.append(_compile(part, known, plain, device))
                for lt in self.steps[-1].get_outputs():
                    known[lt.get_id()] = lt

    def bind(self, arrays: Arrays) -> Execution:
        """Attach arrays, by the id of their logical tensor, to all inputs, and run once."""
        return Execution(self, arrays)


def _inputs_of(part: partition) -> set[int]:
    return {port.get_id() for port in part.get_input_ports()}


def _compile(
    part: partition, known: Mapping[int, logical_tensor], plain: set[int], device: engine
) -> compiled_partition:
    # A tensor that feeds two ports needs one array.
    inputs = [known[number] for number in sorted(_inputs_of(part))]
    outputs = []
    for port in part.get_output_ports():
        layout = logical_tensor.strided if port.get_id() in plain else logical_tensor.any
        outputs.append(logical_tensor(port.get_id(), port.get_data_type(), layout))
    return part.compile(inputs, outputs, device)


class Execution:
    """A pipeline with memory attached, which has run once; call it to run again."""

    def __init__(self, pipeline: Pipeline, arrays: Arrays) -> None:
        self.pipeline = pipeline
        self.arrays = arrays
        self.tensors: dict[int, memory_tensor] = {}
        for step in pipeline.steps:
            for lt in step.get_inputs():
                number = lt.get_id()
                if number in self.tensors:
                    continue
                if number not in arrays:
                    raise ValueError(f"no array was given for {lt}")
                self.tensors[number] = self.tensor(lt, arrays[number])
            for lt in step.get_outputs():
                self.tensors[lt.get_id()] = self.tensor(lt)
        self.prepare()
        self()

    def tensor(self, lt: logical_tensor, array: Array | None = None) -> memory_tensor:
        """Make a tensor, with the values of an array."""
        device = self.pipeline.device
        if array is not None and device.get_kind() == engine.cpu:
            return memory_tensor(lt, device, array)
        # A GPU can't reach NumPy's memory. Host and GPU share the memory that oneDNN allocates.
        memory = memory_tensor(lt, device)
        if array is not None:
            np.copyto(memory.numpy(), array)
        return memory

    def operands(self) -> Iterator[tuple[Any, list[memory_tensor], list[memory_tensor]]]:
        """Yield each compiled partition with its inputs and outputs."""
        for step in self.pipeline.steps:
            inputs = [self.tensors[lt.get_id()] for lt in step.get_inputs()]
            yield step, inputs, [self.tensors[lt.get_id()] for lt in step.get_outputs()]

    def prepare(self) -> None:
        """Do what is done once for all calls."""
        self._stream = stream(self.pipeline.device)
        self._calls: list[bound_execution] = [
            step.bind(self._stream, *tensors) for step, *tensors in self.operands()
        ]

    def __call__(self) -> None:
        """Run all partitions and wait for the end."""
        for call in self._calls:
            call()
        self._stream.wait()

    def output(self, lt: logical_tensor) -> Array:
        """Return one of the pipeline's outputs, without a copy."""
        return np.asarray(self.tensors[lt.get_id()].numpy())

    def case(
        self, name: str, ops: Iterable[op], facts: Sequence[str] = (), expected_partitions: int = 1
    ) -> Case:
        """Compare the outputs with what NumPy makes of the ops, and time some calls."""
        ops = list(ops)
        results = {lt.get_id(): self.output(lt) for lt in self.pipeline.outputs}
        return Case(
            name,
            fused_ops(ops, self.pipeline.partitions),
            {WITH_NUMPY: compare(ops, self.arrays, results)},
            median_milliseconds(self),
            facts,
            expected_partitions,
        )


def median_milliseconds(run: Callable[[], object]) -> float:
    """Time a call that has run before: 15 calls, or as many as take 1.5 s, and at least one."""
    return statistics.median(time_calls(run, 1.5, most=15)) * 1e3


# -- running models


class BuiltRun:
    """A built graph, compiled with the named defects avoided or run, and run once.

    - `arrays`: the inputs, by name
    - `entry`: the same graph for one batch entry, to compare one after the other, as all might not
      fit into memory. What has one dim belongs to all entries.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        arrays: Mapping[str, Array],
        known_defects: KnownDefects = "avoid",
        entry: GraphBuilder | None = None,
    ) -> None:
        self.arrays = arrays
        # An example shows oneDNN's fusions, also where its kernel for one is slow here.
        self.model = builder.compile(known_defects=known_defects, slow_fusions="run")
        self._entry = entry
        self._bound = self.model.bind(arrays)
        self._bound()

    def output(self, name: str) -> Array:
        """Return an output, without a copy."""
        return np.asarray(self._bound.outputs[self.model.output_names.index(name)])

    def compared(self) -> dict[str, Verification]:
        """Compare each output with the reference, by a text that says what was compared."""
        builder = self._entry or self.model.builder
        inputs = [self.arrays[v.name] for v in builder.inputs]
        results = {value.id: self.output(name) for name, value in builder.outputs.items()}
        verification = _checked(builder, inputs, results, by_entry=self._entry is not None)
        if len(results) == 1:
            return {WITH_NUMPY: verification}
        return {
            f"all elements of the {name} with NumPy in float64": Verification((check,))
            for name, check in zip(builder.outputs, verification.outputs, strict=True)
        }

    def case(self, name: str, facts: Sequence[str] = ()) -> Case:
        """Time the model, and return a `Case` that reports on it."""
        partitions = [list(step.ops) for step in self.model.steps()]
        spent = median_milliseconds(self._bound)
        return Case(name, partitions, self.compared(), spent, facts)


# -- comparing


def normal(random: np.random.Generator, shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
    """Draw normally distributed numbers."""
    return random.standard_normal(tuple(shape), np.float32).astype(dtype)


def _checked(
    builder: GraphBuilder, inputs: Sequence[Array], results: Arrays, *, by_entry: bool = False
) -> Verification:
    # One sample of rounding errors tells enough of a thousand elements.
    samples = 1 if all(a.size >= 1024 for a in results.values()) else 4
    if not by_entry:
        return Expected(builder, inputs, samples=samples).compare(results)
    expected: Expected | None = None
    checks: list[OutputCheck] = []
    for n in range(max(len(array) for array in results.values())):
        given = [a[n : n + 1] if a.ndim > 1 else a for a in inputs]
        expected = expected.of(given) if expected else Expected(builder, given, samples=samples)
        checks += expected.compare({i: a[n : n + 1] for i, a in results.items()}).outputs
    return Verification(tuple(checks))


def compare(ops: Iterable[op], arrays: Arrays, results: Arrays) -> Verification:
    """Compare what ops, which are in an order in which they can run, computed with the reference.

    The inputs, and what oneDNN made of them, are by the id of the logical tensor.
    """
    builder = GraphBuilder()
    values: dict[int, Value] = {}
    for one in ops:
        for lt in one.get_inputs():
            number = lt.get_id()
            if number not in values:
                values[number] = builder.input(arrays[number].shape, lt.get_data_type().name)
        outputs = one.get_outputs()
        values[outputs[0].get_id()] = builder.op(
            one.get_kind().name,
            *(values[lt.get_id()] for lt in one.get_inputs()),
            outputs=[(None, lt.get_data_type().name) for lt in outputs],
            **one.get_attrs(),
        )
    inputs = [arrays[i] for i, value in values.items() if value.producer is None]
    return _checked(builder, inputs, {values[i].id: array for i, array in results.items()})
