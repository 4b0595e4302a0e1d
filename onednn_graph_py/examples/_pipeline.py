"""Run a graph's partitions on arrays: compile, bind, run, time.

This is the flow of every program over the mirror of ``dnnl::graph``. Only inputs need dims and a
layout; oneDNN infers those of all other tensors.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import bound_execution, compiled_partition, engine, logical_tensor, op, partition, stream
from .. import tensor as memory_tensor
from ..machine.timing import time_calls

Arrays = Mapping[int, npt.NDArray[Any]]


def fused_ops(ops: Iterable[op], partitions: Iterable[partition]) -> list[list[str]]:
    """Name the ops of each partition."""
    kinds = {one.get_id(): one.get_kind().name for one in ops}
    return [[kinds[number] for number in part.get_ops()] for part in partitions]


class Pipeline:
    """Partitions compiled for given inputs, in an order in which they can run.

    Parameters
    ----------
    partitions : sequence of partition
        The partitions of one graph.
    inputs : iterable of logical_tensor
        The graph's inputs, of known dims.
    outputs : iterable of logical_tensor
        The tensors to read afterwards, which are row-major. oneDNN chooses the layout of others.
    device : engine
    """

    def __init__(
        self,
        partitions: Sequence[partition],
        inputs: Iterable[logical_tensor],
        outputs: Iterable[logical_tensor],
        device: engine,
    ) -> None:
        self.device = device
        self.steps: list[compiled_partition] = []
        known = {lt.get_id(): lt for lt in inputs}
        plain = {lt.get_id() for lt in outputs}
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
        """Attach arrays, by the id of their logical tensor, to all inputs."""
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


def _attached(lt: logical_tensor, device: engine, array: npt.NDArray[Any]) -> memory_tensor:
    if device.get_kind() == engine.cpu:
        return memory_tensor(lt, device, array)
    # A GPU can't reach NumPy's memory. Host and GPU share the memory that oneDNN allocates.
    made = memory_tensor(lt, device)
    np.copyto(made.numpy(), array)
    return made


class Execution:
    """A pipeline with memory attached; call it to run.

    Made by `Pipeline.bind`.
    """

    def __init__(self, pipeline: Pipeline, arrays: Arrays) -> None:
        self._stream = stream(pipeline.device)
        self._calls: list[bound_execution] = []
        self._tensors: dict[int, memory_tensor] = {}
        for step in pipeline.steps:
            for lt in step.get_inputs():
                number = lt.get_id()
                if number in self._tensors:
                    continue
                if number not in arrays:
                    raise ValueError(f"no array was given for {lt}")
                self._tensors[number] = _attached(lt, pipeline.device, arrays[number])
            for lt in step.get_outputs():
                self._tensors[lt.get_id()] = memory_tensor(lt, pipeline.device)
            inputs = [self._tensors[lt.get_id()] for lt in step.get_inputs()]
            outputs = [self._tensors[lt.get_id()] for lt in step.get_outputs()]
            self._calls.append(step.bind(self._stream, inputs, outputs))

    def __call__(self) -> None:
        """Run all partitions and wait for the end."""
        for call in self._calls:
            call()
        self._stream.wait()

    def output(self, lt: logical_tensor) -> npt.NDArray[Any]:
        """Return one of the pipeline's outputs, without a copy."""
        return np.asarray(self._tensors[lt.get_id()].numpy())


def median_milliseconds(run: Callable[[], object], runs: int = 15, seconds: float = 1.5) -> float:
    """Time a call that has run before, up to `runs` times and about `seconds` in all.

    A call that takes longer than that is timed once.
    """
    return statistics.median(time_calls(run, seconds, most=runs)) * 1e3
