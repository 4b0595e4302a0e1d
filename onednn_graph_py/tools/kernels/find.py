"""Search for the kernels of a model's steps: another process runs it with the verbose log on."""

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ... import _core
from ...base.processes import MODELS, Isolated, failure, instructions, quiet
from ...model.planning.pace import paces
from ...model.running.model import CompiledGraph
from .worker import Job, logged

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
class Kernel:
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

    kind: str
    implementation: str
    memory: tuple[str, ...]
    attributes: tuple[str, ...]
    problem: str
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


def _environment() -> dict[str, str]:
    return {**quiet(), **instructions(), "ONEDNN_VERBOSE": "profile_exec"}


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
    with Isolated(*MODELS, environment=_environment()) as process:
        return [_kernels(process, job, capacity, timeout) for job in jobs]


def _kernels(process: Isolated, job: Job, capacity: int, timeout: float) -> Kernels:
    try:
        packed = pickle.dumps(job)
    except Exception as e:  # pickling a caller's own classes may raise anything
        return Kernels(unknown=f"the model does not pickle: {e}")
    answer = process.call(logged, packed, capacity, timeout=timeout)
    if answer[0] != "returned":
        return Kernels(unknown=failure(answer, timeout, "the process that logs"))
    return Kernels(unknown=answer[1]) if isinstance(answer[1], str) else _understood(*answer[1])
