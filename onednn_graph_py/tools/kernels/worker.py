"""Runs of models in a process in which oneDNN's verbose log is on.

oneDNN reads its settings only once, so the log can't be turned on in the caller's process; and it
writes to standard output, which the caller may need.
"""

import pickle
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import _core
from ...base.processes import printed
from ...model.building.builder import GraphBuilder
from ...model.building.value import Node
from ...model.checking.filling import fill_inputs
from ...model.planning import Plan
from ...model.planning.pace import Paces, remember
from ...model.running.model import CompiledGraph, Specialization


def node_keys(builder: GraphBuilder, nodes: Sequence[Node]) -> dict[int, str]:
    """Name nodes, by id, so that the names are the same in each plan and in each process.

    A plan has nodes that the builder does not have: a Dequantize for each reader of a dequantized
    tensor, and those of an op that is written in another way.
    """
    position = {n.id: i for i, n in enumerate(builder.nodes)}
    reader = {v.id: (n, i) for n in nodes for i, v in enumerate(n.inputs)}
    maker = {v.id: (n, i) for n in nodes for i, v in enumerate(n.outputs)}
    made: dict[int, str] = {}
    for node in reversed(nodes):  # readers first
        read = reader.get(node.outputs[0].id) if node.outputs else None
        wrote = maker.get(node.inputs[0].id) if node.inputs else None
        if node.id in position:
            made[node.id] = str(position[node.id])
        elif read is not None and read[0].id in made:
            made[node.id] = f"{node.kind} before {made[read[0].id]}, input {read[1]}"
        elif wrote is not None and wrote[0].id in position:
            made[node.id] = f"{node.kind} behind {position[wrote[0].id]}, output {wrote[1]}"
        else:  # the step that copies into an output
            made[node.id] = node.name
    return made


def step_keys(builder: GraphBuilder, plan: Plan) -> list[list[str]]:
    """Return for each step its implementation and the names of its ops (`node_keys`).

    The order of the steps, and of the ops in a step, may differ between processes.
    """
    keys = node_keys(builder, [n for s in plan.steps for n in s.nodes])
    return [[s.implementation, *sorted(keys[n.id] for n in s.nodes)] for s in plan.steps]


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


def _nothing(inputs: Sequence[npt.NDArray[Any]], outputs: Sequence[npt.NDArray[Any]]) -> None:
    """Fill outputs with zeros in place of NumPy's steps, which may take minutes.

    The choice of kernels does not depend on the numbers.
    """
    for output in outputs:
        output[...] = np.zeros((), output.dtype)


def logged(packed: bytes, capacity: int) -> tuple[list[list[str]], list[str]] | str:
    """Run a pickled job; return the keys of its steps and the log of each call, or an error.

    - `capacity`: that of the cache of constants in the caller's process
    """
    if capacity:
        _core.set_constant_tensor_cache_capacity("cpu", capacity)
    try:
        job: Job = pickle.loads(packed)
        remember(job.paces)
        model = CompiledGraph(job.builder, **job.options)
        plan = model.specialization(job.shapes).plan
        keys = step_keys(model.builder, plan)
        for step in plan.steps:
            if step.function is not None:
                step.function = _nothing
        run = Specialization(model, plan).run
        named = {v.name: s for v, s in zip(model.inputs, job.shapes, strict=True)}
        arrays: list[Any] = list(fill_inputs(job.builder, shapes=named))
        end = time.monotonic() + _SECONDS
        calls: list[str] = []
        while len(calls) < 2 or (len(calls) <= CALLS and time.monotonic() < end):
            calls.append(printed(lambda: run(*arrays))[1])
        return keys, calls
    except Exception as e:
        return f"{type(e).__name__}: {e}"
