"""Summaries of the times in a verbose log: `summarize`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from ...base.text.names import printable
from ...base.text.table import text_table
from .verbose_records import (
    InfoRecord,
    LoggedPartition,
    LoggedPrimitive,
    MalformedRecord,
    PartitionRecord,
    PrimitiveRecord,
    Record,
)

__all__ = ["SummaryRow", "VerboseSummary", "summarize"]

# The number of malformed lines that a summary keeps.
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """A row of a table, which adds up all lines of the same primitive or partition.

    Parameters
    ----------
    what : str
        The primitive's kind, or the partition's kind and ops.
    id : int or None
        The partition's id; None for primitives.
    implementation : str
        The kernel's name in oneDNN.
    problem : str
        The shapes, if different shapes have separate rows; else empty.
    calls : int
    total_ms, mean_ms, max_ms : float
        Milliseconds.
    share : float
        Its share of the time of its table, from 0 to 1.
    """

    what: str
    id: int | None
    implementation: str
    problem: str
    calls: int
    total_ms: float
    mean_ms: float
    max_ms: float
    share: float


@dataclass(frozen=True, slots=True)
class VerboseSummary:
    """A summary of a log's times, in tables with the most expensive row first.

    Partitions run primitives and oneDNN logs both, so their times overlap.

    Parameters
    ----------
    oneDNN : str
        The version, if the log has the header; else empty.
    partitions, primitives : tuple of SummaryRow
        Their runs.
    compiled, created : tuple of SummaryRow
        Compilations of partitions and creations of primitives; `implementation` begins with the
        result of the cache's lookup, such as ``cache_hit``.
    messages : dict of str to int
        The number of messages of each kind, such as ``create:dispatch``.
    malformed : int
        The number of lines that can't be parsed.
    malformed_first : tuple of MalformedRecord
        The first of these lines.
    """

    oneDNN: str
    partitions: tuple[SummaryRow, ...]
    primitives: tuple[SummaryRow, ...]
    compiled: tuple[SummaryRow, ...]
    created: tuple[SummaryRow, ...]
    messages: dict[str, int]
    malformed: int
    malformed_first: tuple[MalformedRecord, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a dict for `json.dumps`."""
        return asdict(self)

    def __str__(self) -> str:
        parts = [f"oneDNN {self.oneDNN}"] if self.oneDNN else []
        for title, rows in (
            ("Partitions run", self.partitions),
            ("Primitives run", self.primitives),
            ("Partitions compiled", self.compiled),
            ("Primitives created", self.created),
        ):
            if rows:
                parts.append(_table(title, rows))
        if self.messages:
            counted = ", ".join(f"{n} {kind}" for kind, n in sorted(self.messages.items()))
            parts.append(f"Messages: {counted}")
        if self.malformed:
            lines = [f"Lines that can't be parsed: {self.malformed}"]
            lines += [f"  line {m.line}: {m.reason}" for m in self.malformed_first]
            lines += ["  ..."] if self.malformed > len(self.malformed_first) else []
            parts.append("\n".join(lines))
        # Programs may write any bytes into a log.
        return printable("\n\n".join(parts)) or "No line of oneDNN's."


def _table(title: str, rows: tuple[SummaryRow, ...]) -> str:
    total = sum(r.total_ms for r in rows)
    calls = sum(r.calls for r in rows)
    table: list[tuple[str, ...]] = [("share", "calls", "total ms", "mean ms", "max ms", "")]
    for r in rows:
        what = r.what if r.id is None else f"{r.id} {r.what}"
        told = "  ".join(t for t in (what, r.implementation, r.problem) if t)
        times = (f"{ms:.4g}" for ms in (r.total_ms, r.mean_ms, r.max_ms))
        table.append((f"{r.share:.1%}", str(r.calls), *times, told))
    lines = text_table(table, right=range(5), indent="  ")
    return "\n".join([f"{title}: {calls} in {total:.4g} ms", *lines])


_Key = tuple[str, int | None, str, str]


@dataclass(slots=True)
class _Table:
    sums: dict[_Key, tuple[int, float, float]] = field(default_factory=dict)

    def add(self, row: _Key, milliseconds: float) -> None:
        calls, total, most = self.sums.get(row, (0, 0.0, milliseconds))
        self.sums[row] = calls + 1, total + milliseconds, max(most, milliseconds)

    def rows(self) -> tuple[SummaryRow, ...]:
        whole = sum(total for _, total, _ in self.sums.values())
        ordered = sorted(self.sums.items(), key=lambda item: -item[1][1])
        return tuple(
            SummaryRow(*row, calls, total, total / calls, most, total / whole if whole > 0 else 0.0)
            for row, (calls, total, most) in ordered
        )


def _partition_row(p: LoggedPartition, problems: bool) -> _Key:
    shapes = " ".join(f"{t.port}:{t.dtype}:{'x'.join(str(d) for d in t.shape)}" for t in p.tensors)
    return f"{p.kind} ({', '.join(p.ops)})", p.id, p.implementation, shapes if problems else ""


def _primitive_row(p: LoggedPrimitive, problems: bool) -> _Key:
    return p.kind, None, p.implementation, p.problem if problems else ""


def summarize(records: Iterable[Record], *, problems: bool = False) -> VerboseSummary:
    """Add up a log's times, with separate rows for different shapes if asked.

    The records, such as those of `read_verbose_log`, need not fit into memory together.
    """
    partitions, primitives, compiled, created = (_Table() for _ in range(4))
    messages: dict[str, int] = {}
    malformed: list[MalformedRecord] = []
    count, version = 0, ""
    for r in records:
        if isinstance(r, PartitionRecord):
            row = _partition_row(r.partition, problems)
            if r.operation == "exec":
                partitions.add(row, r.milliseconds)
            else:
                compiled.add(_with_outcome(row, r.outcome), r.milliseconds)
        elif isinstance(r, PrimitiveRecord):
            row = _primitive_row(r.primitive, problems)
            if r.operation == "exec":
                primitives.add(row, r.milliseconds)
            else:
                created.add(_with_outcome(row, r.outcome), r.milliseconds)
        elif isinstance(r, InfoRecord):
            if not r.api and r.text.startswith("oneDNN v"):
                version = r.text.removeprefix("oneDNN v")
        elif isinstance(r, MalformedRecord):
            count += 1
            if len(malformed) < _SHOWN:
                malformed.append(r)
        else:
            messages[r.kind] = messages.get(r.kind, 0) + 1
    return VerboseSummary(
        version,
        partitions.rows(),
        primitives.rows(),
        compiled.rows(),
        created.rows(),
        messages,
        count,
        tuple(malformed),
    )


def _with_outcome(row: _Key, outcome: str) -> _Key:
    what, number, implementation, problem = row
    return what, number, f"{outcome} {implementation}".strip(), problem
