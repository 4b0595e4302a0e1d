"""Summaries of the times in a verbose log: `summarize`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ...base.text.names import printable
from ...base.text.table import text_table
from .verbose_records import (
    InfoRecord,
    MalformedRecord,
    PartitionRecord,
    PrimitiveRecord,
    Record,
)

# The number of malformed lines that a summary keeps.
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """A row of a table, which adds up all lines of the same primitive or partition."""

    what: str  # the primitive's kind, or the partition's kind and ops
    id: int | None  # the partition's id; None for primitives
    implementation: str  # the kernel's name in oneDNN
    problem: str  # the shapes, if different shapes have separate rows; else empty
    calls: int
    # total_ms, mean_ms, max_ms: milliseconds
    total_ms: float
    mean_ms: float
    max_ms: float
    share: float  # its share of the time of its table, from 0 to 1


@dataclass(frozen=True, slots=True)
class VerboseSummary:
    """A summary of a log's times, in tables with the most expensive row first.

    Partitions run primitives and oneDNN logs both, so their times overlap.
    """

    oneDNN: str  # the version, if the log has the header; else empty
    # partitions, primitives: their runs
    partitions: tuple[SummaryRow, ...]
    primitives: tuple[SummaryRow, ...]
    # compiled, created: compilations of partitions and creations of primitives; `implementation`
    # begins with the result of the cache's lookup, such as `cache_hit`
    compiled: tuple[SummaryRow, ...]
    created: tuple[SummaryRow, ...]
    messages: dict[str, int]  # the number of messages of each kind, such as `create:dispatch`
    malformed: int  # the number of lines that can't be parsed
    malformed_first: tuple[MalformedRecord, ...]  # the first of these lines

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


_Sums = tuple[int, float, float]  # of calls, of milliseconds, and the most of them


def _rows(sums: Mapping[_Key, _Sums]) -> tuple[SummaryRow, ...]:
    whole = sum(total for _, total, _ in sums.values())
    rows = [
        SummaryRow(*key, calls, total, total / calls, most, total / whole if whole > 0 else 0.0)
        for key, (calls, total, most) in sums.items()
    ]
    return tuple(sorted(rows, key=lambda row: -row.total_ms))


def _key(record: PartitionRecord | PrimitiveRecord, problems: bool) -> _Key:
    if isinstance(record, PartitionRecord):
        p = record.partition
        tensors = (f"{t.port}:{t.dtype}:{'x'.join(map(str, t.shape))}" for t in p.tensors)
        what, number, problem = f"{p.kind} ({', '.join(p.ops)})", p.id, " ".join(tensors)
        implementation = p.implementation
    else:
        q = record.primitive
        what, number, problem, implementation = q.kind, None, q.problem, q.implementation
    if record.operation != "exec":
        implementation = f"{record.outcome} {implementation}".strip()
    return what, number, implementation, problem if problems else ""


def summarize(records: Iterable[Record], *, problems: bool = False) -> VerboseSummary:
    """Add up a log's times, with separate rows for different shapes if asked.

    The records, such as those of `read_verbose_log`, need not fit into memory together.
    """
    tables: dict[tuple[type[Record], bool], dict[_Key, _Sums]] = {
        (kind, runs): {} for kind in (PartitionRecord, PrimitiveRecord) for runs in (True, False)
    }
    messages: Counter[str] = Counter()
    malformed: list[MalformedRecord] = []
    count, version = 0, ""
    for r in records:
        if isinstance(r, (PartitionRecord, PrimitiveRecord)):
            table = tables[type(r), r.operation == "exec"]
            key = _key(r, problems)
            calls, total, most = table.get(key, (0, 0.0, r.milliseconds))
            table[key] = calls + 1, total + r.milliseconds, max(most, r.milliseconds)
        elif isinstance(r, InfoRecord):
            if not r.api and r.text.startswith("oneDNN v"):
                version = r.text.removeprefix("oneDNN v")
        elif isinstance(r, MalformedRecord):
            count += 1
            if len(malformed) < _SHOWN:
                malformed.append(r)
        else:
            messages[r.kind] += 1
    return VerboseSummary(
        version,
        _rows(tables[PartitionRecord, True]),
        _rows(tables[PrimitiveRecord, True]),
        _rows(tables[PartitionRecord, False]),
        _rows(tables[PrimitiveRecord, False]),
        dict(messages),
        count,
        tuple(malformed),
    )
