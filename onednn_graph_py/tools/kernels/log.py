"""The lines of oneDNN's verbose log about partitions and primitives that ran."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

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
