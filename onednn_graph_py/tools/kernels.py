"""The kernels that oneDNN runs in a model's steps.

Another process runs the model with oneDNN's verbose log on: oneDNN reads the setting only once, the
log would slow down this process, and it goes to standard output, which the caller may need.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .. import _core
from ..base.processes import MODELS, Isolated, failure, instructions, printed, quiet
from ..model.building.builder import GraphBuilder
from ..model.building.value import Node
from ..model.checking.filling import fill_inputs
from ..model.planning import Plan
from ..model.planning.pace import Paces, paces, remember
from ..model.running.model import CompiledGraph, Specialization


def node_keys(builder: GraphBuilder, nodes: Sequence[Node]) -> dict[int, str]:
    """Name nodes, by id, so that the names are the same in each plan and in each process.

    A plan has nodes that the builder does not have: a Dequantize for each reader of a dequantized
    tensor, and those of an op that is written in another way.
    """
    position = {n.id: i for i, n in enumerate(builder.nodes)}
    reader = {v.id: (n, i) for n in nodes for i, v in enumerate(n.inputs)}
    maker = {v.id: (n, i) for n in nodes for i, v in enumerate(n.outputs)}
    keys: dict[int, str] = {}
    for node in reversed(nodes):  # readers first
        read = reader.get(node.outputs[0].id) if node.outputs else None
        wrote = maker.get(node.inputs[0].id) if node.inputs else None
        if node.id in position:
            keys[node.id] = str(position[node.id])
        elif read is not None and read[0].id in keys:
            keys[node.id] = f"{node.kind} before {keys[read[0].id]}, input {read[1]}"
        elif wrote is not None and wrote[0].id in position:
            keys[node.id] = f"{node.kind} behind {position[wrote[0].id]}, output {wrote[1]}"
        else:  # the step that copies into an output
            keys[node.id] = node.name
    return keys


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


def logged(job: Job, capacity: int) -> tuple[list[list[str]], list[str]] | str:
    """Run a job; return the keys of its steps and the log of each call, or an error.

    - `capacity`: that of the cache of constants in the caller's process
    """
    if capacity:
        _core.set_constant_tensor_cache_capacity("cpu", capacity)
    try:
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


_EXECUTED = "onednn_verbose,v1,{},exec"
_PRIMITIVE, _PARTITION = _EXECUTED.format("primitive"), _EXECUTED.format("graph")


@dataclass(frozen=True)
class LoggedPrimitive:
    """A primitive, as a line describes it."""

    kind: str
    implementation: str
    memory: tuple[str, ...]
    attributes: tuple[str, ...]
    problem: str


@dataclass(frozen=True)
class LoggedPartition:
    """A partition that ran, with the primitives that it ran and the milliseconds of each."""

    kind: str  # `convolution_post_ops`, `sdp`, `misc_post_ops`, ...
    implementation: str  # the backend's kernel, such as `conv_fwd_t`; empty in old versions
    primitives: tuple[tuple[LoggedPrimitive, float], ...]


def _memory(text: str) -> str | None:
    """Return a tensor's name, data type and layout; None if there is no such tensor."""
    # name:dtype:properties:kind of format:tag:strides:extra
    name, dtype, _, kind, tag, strides, *_ = [*text.split(":"), *[""] * 6]
    if dtype == "undef":
        return None
    return ":".join(part for part in (name, dtype, tag or kind, strides) if part)


def _primitive(columns: list[str]) -> LoggedPrimitive:
    if len(columns) < 8:  # another library runs it
        return LoggedPrimitive("external", ",".join(columns), (), (), "")
    _, kind, implementation, _, memory, attributes, _, problem = columns
    tensors = map(_memory, memory.split())
    own = (a for a in attributes.split() if a != "attr-scratchpad:user")
    return LoggedPrimitive(
        kind, implementation, tuple(t for t in tensors if t), tuple(own), problem
    )


def partitions_of(lines: Iterable[str]) -> Iterator[LoggedPartition]:
    """Yield the partitions that ran, with their primitives; the ops' names must have no commas."""
    waiting: list[tuple[LoggedPrimitive, float]] = []
    for line in lines:
        *columns, milliseconds = line.split(",")
        if line.startswith(_PRIMITIVE):
            waiting.append((_primitive(columns[4:]), float(milliseconds)))
        elif line.startswith(_PARTITION):
            # After the math mode: the scratchpad from 3.13 on, the implementation, the backend.
            mode = next(i for i, c in enumerate(columns) if c.startswith("fpm:"))
            *_, implementation, _ = ["", *columns[mode + 1 :]]
            yield LoggedPartition(columns[6], implementation, tuple(waiting))
            waiting = []


@dataclass(frozen=True)
class Kernel(LoggedPrimitive):
    """A primitive of oneDNN that runs in a step, as its verbose log describes it.

    Parameters
    ----------
    kind : str
        ``matmul``, ``convolution``, ``reorder``, ...
    implementation : str
        Such as ``brg_matmul:avx512_core_amx``.
    memory : tuple of str
        Name, data type and layout of its tensors, such as ``wei:f32:BA16a64b``.
    attributes : tuple of str
        Such as ``attr-post-ops:eltwise_relu``.
    problem : str
        The shapes, as benchdnn writes them.
    when : str
        ``each call``, or ``first call`` for a kernel whose result is kept from then on.
    count : int
        Number of times that it runs in a call.
    seconds : float
        Time of all its runs in one call; the least of the few calls observed. Logging makes calls
        slower, so use this only to compare kernels with each other.
    """

    when: Literal["each call", "first call"]
    count: int
    seconds: float


@dataclass(frozen=True)
class StepKernels:
    """The kernels of one step that oneDNN runs, from its log; first those that run at each call."""

    partition: LoggedPartition
    kernels: tuple[Kernel, ...]


@dataclass(frozen=True)
class Kernels:
    """The kernels of each step that oneDNN runs, by the step's key, as `step_keys` has it.

    `unknown` is the reason if there are none; else empty.
    """

    of: Mapping[tuple[str, ...], StepKernels] = field(default_factory=dict)
    unknown: str = ""


def job_of(model: CompiledGraph, shapes: tuple[tuple[int, ...], ...]) -> Job:
    """Describe a model for the process that runs it.

    Ops are named by their numbers there, as a name may have characters that break a log line.
    """
    builder = model.builder.snapshot()
    nodes = builder.contents.nodes
    builder.contents.nodes = [replace(n, name=f"op{i}") for i, n in enumerate(nodes)]
    return Job(builder, {**model.options, "threads": model.threads}, shapes, paces())


def _counted(partition: LoggedPartition) -> dict[LoggedPrimitive, tuple[int, float]]:
    """Return the number of runs of each primitive, in order, and their seconds together."""
    counts = Counter(primitive for primitive, _ in partition.primitives)
    return {
        one: (count, sum(ms for other, ms in partition.primitives if other == one) / 1e3)
        for one, count in counts.items()
    }


def _step(first: LoggedPartition, later: Sequence[LoggedPartition]) -> StepKernels:
    """Collect a step's kernels: first those of each call, then those of the first call alone."""
    counts: dict[LoggedPrimitive, int] = {}
    spent: dict[LoggedPrimitive, list[float]] = {}
    for partition in later:
        for primitive, (count, seconds) in _counted(partition).items():
            counts[primitive] = count
            spent.setdefault(primitive, []).append(seconds)
    kernels = [
        # The least time is the one that other processes disturbed least.
        Kernel(**vars(p), when="each call", count=count, seconds=min(spent[p]))
        for p, count in counts.items()
    ]
    for primitive, (count, seconds) in _counted(first).items():
        more = count - counts.get(primitive, 0)
        if more > 0:
            share = seconds * more / count
            kernels.append(Kernel(**vars(primitive), when="first call", count=more, seconds=share))
    return StepKernels(first, tuple(kernels))


def _understood(keys: Sequence[Sequence[str]], logs: Sequence[str]) -> Kernels:
    """Parse the log of each call of a model."""
    calls = [list(partitions_of(text.splitlines())) for text in logs]
    wanted = [tuple(key) for key in keys if key[0] == "oneDNN"]
    for call in calls:
        if len(call) != len(wanted):
            return Kernels(
                unknown=f"oneDNN logged {len(call)} partitions in a call, expected {len(wanted)}"
            )
    steps = [_step(first, later) for first, *later in zip(*calls, strict=True)]
    return Kernels(dict(zip(wanted, steps, strict=True)))


def kernels_of(jobs: Sequence[Job], *, timeout: float = 120.0) -> list[Kernels]:
    """Run models in another process, and read what its log says of each; an error is in `unknown`.

    The time limit is that of a model in seconds.
    """
    capacity = _core.get_constant_tensor_cache_capacity("cpu")
    environment = {**quiet(), **instructions(), "ONEDNN_VERBOSE": "profile_exec"}
    with Isolated(*MODELS, environment=environment) as process:
        return [_kernels(process, job, capacity, timeout) for job in jobs]


def _kernels(process: Isolated, job: Job, capacity: int, timeout: float) -> Kernels:
    try:
        answer = process.call(logged, job, capacity, timeout=timeout)
    except Exception as e:  # pickling a caller's own classes may raise anything
        return Kernels(unknown=f"the model does not pickle: {e}")
    if answer[0] != "returned":
        return Kernels(unknown=failure(answer, timeout, "the process that logs"))
    return Kernels(unknown=answer[1]) if isinstance(answer[1], str) else _understood(*answer[1])
