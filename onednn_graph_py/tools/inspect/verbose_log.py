"""Reading oneDNN's verbose log: `verbose_log`, `read_verbose_log`."""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, overload

from ...base.text.files import lines_of
from .verbose_records import (
    InfoRecord,
    LoggedPartition,
    LoggedPrimitive,
    LoggedTensor,
    MalformedRecord,
    MemoryDescriptor,
    MessageRecord,
    PartitionRecord,
    PrimitiveRecord,
    Record,
)

if TYPE_CHECKING:
    from .verbose_summary import VerboseSummary

# Programs print text before it (ranks, text without a line break), so we search the whole line.
_MARKER = re.compile(r"onednn_verbose,(?=v\d+,)")
_MARKER_TEXT = "onednn_verbose,"
_TIMESTAMP = re.compile(r"\d+(\.\d+)?")
_SOURCE = re.compile(r"\S+\.[ch](pp|xx)?:\d+")
_DTYPES = "f64|f32|f16|bf16|f8_e5m2|f8_e4m3|f4_e2m1|f4_e3m0|e8m0|s64|s32|s8|u8|s4|u4|boolean|undef"
# Format v0, and gemm_api in v1, write "src_f32:..." for "src:f32:...".
_JOINED = re.compile(rf"(.+)_({_DTYPES})")
_TENSOR = re.compile(
    r"((?:in|out)\d+)_([^:]+):(\d{1,20}):(\w+):(\w+):(-?\d{1,20}(?:x-?\d{1,20})*):(.*)"
)
_ENGINE = re.compile(r"(cpu|gpu)(2(cpu|gpu))?(:\d+)?")
_PRIMITIVE_COLUMNS = 8


class _MalformedError(Exception):
    """A line can't be parsed; the message says why."""


def _milliseconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise _MalformedError(f"expected a time in milliseconds, got {text!r}")
    return value


def _memory(text: str) -> MemoryDescriptor:
    parts = text.split(":")
    joined = _JOINED.fullmatch(parts[0])
    if joined and not (len(parts) > 1 and re.fullmatch(_DTYPES, parts[1])):
        parts[:1] = joined.groups()
    if len(parts) < 4:
        raise _MalformedError(f"expected name:dtype:properties:kind:..., got {text!r}")
    parts += [""] * (7 - len(parts))
    if joined and len(parts) == 7 and parts[5].startswith("f") and not parts[6]:
        parts[5:] = ["", parts[5]]  # gemm_api leaves out the strides
    name, dtype, properties, kind, tag, strides, *extra = parts
    return MemoryDescriptor(name, dtype, properties, kind, tag, strides, ":".join(extra))


@lru_cache(maxsize=4096)
def _primitive(columns: str) -> LoggedPrimitive:
    """Parse the columns of a primitive; cached, as a log repeats them often."""
    parts = columns.split(",")
    if len(parts) != _PRIMITIVE_COLUMNS:
        raise _MalformedError(
            f"expected {_PRIMITIVE_COLUMNS} columns that describe a primitive, got {len(parts)}"
        )
    engine, kind, implementation, prop_kind, memory, attributes, auxiliary, problem = parts
    if not _ENGINE.fullmatch(engine):
        raise _MalformedError(f"expected an engine such as cpu or gpu:1, got {engine!r}")
    if not kind:
        raise _MalformedError("the primitive's kind is empty")
    return LoggedPrimitive(
        engine,
        kind,
        implementation,
        prop_kind,
        tuple(_memory(m) for m in memory.split()),
        tuple(attributes.split()),
        tuple(auxiliary.split()),
        problem,
    )


def _tensor(text: str) -> LoggedTensor:
    found = _TENSOR.fullmatch(text)
    if not found:
        raise _MalformedError(
            f"expected port_dtype:id:layout_type:property:dims:layout, got {text!r}"
        )
    port, dtype, number, layout_type, kind, dims, layout = found.groups()
    shape = tuple(int(d) for d in dims.split("x"))
    return LoggedTensor(port, dtype, int(number), layout_type, kind, shape, layout)


@lru_cache(maxsize=4096)
def _partition(columns: str) -> LoggedPartition:
    """Parse the columns of a partition, without the time."""
    parts = columns.split(",")
    # Names of ops may contain commas, so columns are counted from the end.
    mode = max((i for i, p in enumerate(parts) if p.startswith("fpm:")), default=-1)
    if mode < 6:
        raise _MalformedError(
            "expected engine, id, kind, ops, formats, tensors and fpm:MODE, got too few columns"
        )
    tail = parts[mode + 1 :]
    scratchpad = ""
    if tail and tail[0].startswith("scratchpad:"):
        scratchpad = tail.pop(0)[len("scratchpad:") :]
    if len(tail) not in (1, 2):
        raise _MalformedError(
            f"expected implementation and backend after {parts[mode]}, got {len(tail)} columns"
        )
    engine, number, kind = parts[:3]
    if not _ENGINE.fullmatch(engine):
        raise _MalformedError(f"expected an engine such as cpu or gpu:1, got {engine!r}")
    if not re.fullmatch(r"\d{1,20}", number):
        raise _MalformedError(f"expected the partition's id, got {number!r}")
    return LoggedPartition(
        engine,
        int(number),
        kind,
        tuple(",".join(parts[3 : mode - 2]).split(";")),
        parts[mode - 2].strip(),
        tuple(_tensor(t) for t in parts[mode - 1].split()),
        parts[mode][len("fpm:") :],
        scratchpad,
        tail[0] if len(tail) == 2 else "",
        tail[-1],
    )


def _timed(
    number: int, version: str, stamp: float | None, api: str, operation: str, rest: str
) -> Record:
    kind, _, outcome = operation.partition(":")
    what, comma, time = rest.rpartition(",")
    if not comma:
        raise _MalformedError(f"{api},{operation}: expected columns and a time, got {rest!r}")
    milliseconds = _milliseconds(time)
    if api == "graph":
        return PartitionRecord(
            number, version, stamp, kind, outcome, _partition(what), milliseconds
        )
    if outcome == "external":
        external = LoggedPrimitive("", "external", what, "", (), (), (), "")
        return PrimitiveRecord(number, version, stamp, api, kind, outcome, external, milliseconds)
    return PrimitiveRecord(
        number, version, stamp, api, kind, outcome, _primitive(what), milliseconds
    )


def _message(
    number: int, version: str, stamp: float | None, api: str, kind: str, rest: str
) -> MessageRecord:
    component, _, rest = rest.partition(",")
    rest, comma, source = rest.rpartition(",")
    if not _SOURCE.fullmatch(source.strip()):
        rest, source = rest + comma + source, ""
    primitive = None
    parts = rest.split(",", _PRIMITIVE_COLUMNS)
    if len(parts) > _PRIMITIVE_COLUMNS and _ENGINE.fullmatch(parts[0]):
        primitive = _primitive(",".join(parts[:-1]))
        rest = parts[-1]
    return MessageRecord(
        number, version, stamp, api, kind, component, primitive, rest.strip(), source.strip()
    )


_TIMED = {
    "primitive": ("exec", "create", "create_nested"),
    "ukernel": ("exec", "create"),
    "graph": ("exec", "compile"),
}
_MESSAGES = ("error", "warning", "debuginfo")
_REMARKS = ("check", "dispatch", "debug")  # "create:check" and so on


def _record(number: int, text: str) -> Record:
    """Return the record of the text after the marker."""
    version, _, rest = text.partition(",")
    first, _, after = rest.partition(",")
    stamp = None
    if _TIMESTAMP.fullmatch(first):
        stamp = float(first)
        first, _, after = after.partition(",")
    if first == "info":
        return InfoRecord(number, version, "", after)
    operation, comma, rest = after.partition(",")
    if not comma:
        raise _MalformedError("it ends early")
    if operation == "info":
        return InfoRecord(number, version, first, rest)
    kind, _, outcome = operation.partition(":")
    if kind in _MESSAGES or outcome in _REMARKS:
        return _message(number, version, stamp, first, operation, rest)
    if kind in _TIMED.get(first, ()):
        return _timed(number, version, stamp, first, operation, rest)
    raise _MalformedError(f"unknown kind of line: {first!r} with {operation!r}")


def read_verbose_log(lines: Iterable[str]) -> Iterator[Record]:
    """Iterate over a log without keeping it in memory.

    Parameters
    ----------
    lines : iterable of str
        Such as an open text file. Lines that oneDNN did not write are skipped.

    Yields
    ------
    Record
        One for each line of oneDNN's, and several for lines that run into each other. Lines that
        can't be parsed become `MalformedRecord`.
    """
    for number, line in enumerate(lines, 1):
        if _MARKER_TEXT not in line:
            continue
        line = line.rstrip("\r\n")
        starts = [m.start() for m in _MARKER.finditer(line)]
        if not starts and line.startswith(_MARKER_TEXT):
            yield MalformedRecord(number, "expected the format's version, such as v1", line)
        for start, end in zip(starts, [*starts[1:], len(line)], strict=False):
            try:
                yield _record(number, line[start + len(_MARKER_TEXT) : end])
            except _MalformedError as e:
                yield MalformedRecord(number, str(e), line[start:end])


class VerboseLog(Sequence[Record]):
    """The records of a log, in its order; `verbose_log` makes it.

    ``print(log)`` and `summary` show where time went.

    Parameters
    ----------
    records : iterable of Record
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self._records = tuple(records)

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Record, ...]: ...
    def __getitem__(self, index: int | slice) -> Record | tuple[Record, ...]:
        return self._records[index]

    @property
    def primitives(self) -> tuple[PrimitiveRecord, ...]:
        """Records of primitives created and run."""
        return tuple(r for r in self._records if isinstance(r, PrimitiveRecord))

    @property
    def partitions(self) -> tuple[PartitionRecord, ...]:
        """Records of partitions compiled and run."""
        return tuple(r for r in self._records if isinstance(r, PartitionRecord))

    @property
    def messages(self) -> tuple[MessageRecord, ...]:
        """Messages about rejections, checks and errors."""
        return tuple(r for r in self._records if isinstance(r, MessageRecord))

    @property
    def info(self) -> tuple[InfoRecord, ...]:
        """The header."""
        return tuple(r for r in self._records if isinstance(r, InfoRecord))

    @property
    def malformed(self) -> tuple[MalformedRecord, ...]:
        """Lines that can't be parsed."""
        return tuple(r for r in self._records if isinstance(r, MalformedRecord))

    def summary(self, *, problems: bool = False) -> VerboseSummary:
        """Summarize the log's times.

        Parameters
        ----------
        problems : bool
            Use separate rows for different shapes.
        """
        from .verbose_summary import summarize

        return summarize(self._records, problems=problems)

    def __str__(self) -> str:
        return str(self.summary())

    def __repr__(self) -> str:
        return (
            f"<VerboseLog of {len(self)} records: {len(self.partitions)} of partitions, "
            f"{len(self.primitives)} of primitives, {len(self.messages)} messages, "
            f"{len(self.malformed)} malformed>"
        )


def verbose_log(source: str | os.PathLike[str] | Iterable[str]) -> VerboseLog:
    """Read a log that oneDNN 3.7 to 3.13 wrote with ``ONEDNN_VERBOSE`` set.

    Parameters
    ----------
    source : str, path or iterable of str
        A path; or the text of a log: a string that is empty or contains a line break or the word
        ``onednn_verbose,``; or lines, such as an open file.

    Returns
    -------
    VerboseLog
        The records. Lines that oneDNN did not write are skipped; lines of oneDNN that can't be
        parsed become `MalformedRecord`.

    Raises
    ------
    InvalidArgumentsError
        The file is too large.
    OSError
        The file can't be read.

    Examples
    --------
    >>> log = verbose_log(
    ...     "onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx2,undef,src:f32::blocked:ab"
    ...     "::f0 wei:f32::blocked:ab::f0 dst:f32::blocked:ab::f0,,,4x8:8x8,0.5"
    ... )
    >>> log[0].primitive.implementation, log[0].milliseconds
    ('brg_matmul:avx2', 0.5)
    """
    if isinstance(source, str) and (not source or "\n" in source or _MARKER_TEXT in source):
        return VerboseLog(read_verbose_log(io.StringIO(source)))
    if isinstance(source, (str, os.PathLike)):
        with open(source, encoding="utf-8", errors="replace") as file:
            return VerboseLog(read_verbose_log(lines_of(file)))
    return VerboseLog(read_verbose_log(source))
