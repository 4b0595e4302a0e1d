"""The process in which models run with oneDNN's verbose log on.

oneDNN reads its settings only once, so the log can't be turned on in the caller's process; and it
writes to standard output, which the caller may need. Jobs come pickled on standard input; marker
lines of JSON separate the parts of the log.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import _core
from ...base.errors import OneDNNError
from ...base.processes import end_without_caller
from ...model.building.builder import GraphBuilder
from ...model.checking.filling import fill_inputs
from ...model.planning.engines import set_engine
from ...model.planning.pace import Paces, remember
from ...model.running.model import CompiledGraph, Specialization
from .step_keys import step_keys

MARKER = "onednn_graph_py kernels: "

CALLS = 4  # the most calls of a model that are logged, after the first one
_SECONDS = 3.0


@dataclass(frozen=True)
class Job:
    """A model to be run: its graph, the options of `CompiledGraph`, and the shapes of its inputs.

    `paces` are those that the caller's process measured, so that planning makes the same
    partitions.
    """

    builder: GraphBuilder
    options: dict[str, Any]
    shapes: tuple[tuple[int, ...], ...]
    paces: Paces = field(default_factory=dict)


def _tell(event: str, **facts: Any) -> None:
    sys.stdout.write(f"{MARKER}{json.dumps({'event': event, **facts})}\n")
    sys.stdout.flush()


def _nothing(inputs: Sequence[npt.NDArray[Any]], outputs: Sequence[npt.NDArray[Any]]) -> None:
    """Fill outputs with zeros in place of NumPy's steps, which may take minutes.

    The choice of kernels does not depend on the numbers.
    """
    for output in outputs:
        output[...] = np.zeros((), output.dtype)


class _Counted:
    """Allocates memory for oneDNN, and prints each allocation and release."""

    def __init__(self) -> None:
        self.taken: dict[int, npt.NDArray[np.uint8]] = {}

    def allocate(self, size: int, alignment: int) -> int:
        """Allocate memory, and return its address."""
        memory = np.empty(size + alignment, np.uint8)
        address = -(-memory.ctypes.data // alignment) * alignment
        self.taken[address] = memory[:size]
        _tell("memory", bytes=size)
        return address

    def free(self, address: int) -> None:
        """Free the bytes at an address."""
        _tell("memory", bytes=-self.taken.pop(address).nbytes)


def _count_memory() -> bool:
    """Let models run on an engine that counts memory; return whether this oneDNN has one."""
    counted = _Counted()
    try:
        allocator = _core.allocator(counted.allocate, counted.free)
        set_engine("cpu", _core.make_engine_with_allocator("cpu", 0, allocator))
    except OneDNNError:  # SYCL allocates memory itself
        return False
    return True


def _run(job: Job, counted: bool) -> None:
    remember(job.paces)
    model = CompiledGraph(job.builder, **job.options)
    plan = model.specialization(job.shapes).plan
    keys = step_keys(model.builder, plan)
    for step in plan.steps:
        if step.function is not None:
            step.function = _nothing
    _tell("plan", steps=keys, counted=counted and job.builder.engine_kind.name == "cpu")
    run = Specialization(model, plan).run
    named = {v.name: s for v, s in zip(model.inputs, job.shapes, strict=True)}
    arrays: list[Any] = list(fill_inputs(job.builder, shapes=named))
    end = time.monotonic() + _SECONDS
    for number in range(1 + CALLS):
        if number > 1 and time.monotonic() > end:
            break
        _tell("call", number=number)
        run(*arrays)
    _tell("end")


def main() -> None:
    """Run each job of standard input, and print a line before each."""
    end_without_caller(sys.stdout.fileno())
    constant_capacity, jobs = pickle.load(sys.stdin.buffer)
    if constant_capacity:
        _core.set_constant_tensor_cache_capacity("cpu", constant_capacity)
    counted = _count_memory()
    for number, job in jobs:
        _tell("job", number=number)
        try:
            _run(pickle.loads(job), counted)
        except Exception as e:
            _tell("failed", why=f"{type(e).__name__}: {e}")
