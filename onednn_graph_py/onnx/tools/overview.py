"""What the command shows of a model: its parts, their shares, and where the time goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import onnx_ir as ir

from ...base.text.names import printable, shortened
from ...base.text.numbers import bytes_text, counted
from ...base.text.table import text_table
from ...frontends.report import latest_steps
from ...model.running.model import Step
from ...ops.lookup import is_quantized
from ...ops.terms import shape_text
from ..programs import Entry
from ..report import stages
from ..survey import Survey, why_unknown
from ..tensors import Shape
from ..work import operations


@dataclass(frozen=True)
class PartRow:
    """Nodes that run together."""

    is_region: bool  # whether oneDNN runs them
    nodes: int
    share: float  # their part of the model's arithmetic, from 0 to 1
    ops: dict[str, int]  # how many nodes there are of each op
    reasons: tuple[str, ...]  # why oneDNN does not run them
    runs_in: str


@dataclass(frozen=True)
class Kind:
    """Steps that are alike: partitions of the same ops, host steps of the same island."""

    ops: tuple[str, ...]
    implementation: str
    count: int
    seconds: float | None  # of all of them in one call, if that was measured


@dataclass(frozen=True)
class Overview:
    """A model for one set of sizes; as text it is what the command prints."""

    name: str
    opset: int
    inputs: dict[str, tuple[str, Shape]]  # dict of str to (str, shape), data types and shapes
    guessed: dict[str, int]  # sizes that nobody gave
    weights_bytes: int  # in the file's data types
    memory_bytes: int  # see `Stats`
    is_general: bool  # whether the same partitions run other sizes too
    parts: tuple[PartRow, ...]  # in the order in which they run
    kinds: tuple[Kind, ...]  # what the regions are in oneDNN, and the host steps between

    @property
    def share(self) -> float:
        """The part of the arithmetic in oneDNN, from 0 to 1."""
        return sum(p.share for p in self.parts if p.is_region) if self.parts else 1.0

    @property
    def partitions(self) -> int:
        """The number of partitions that oneDNN runs."""
        return sum(k.count for k in self.kinds if k.implementation == "oneDNN")

    @property
    def int8_partitions(self) -> int:
        """The number of partitions that oneDNN computes in 8 bits."""
        return sum(
            k.count for k in self.kinds if k.implementation == "oneDNN" and is_quantized(k.ops)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON has it."""
        counts = {"partitions": self.partitions, "int8_partitions": self.int8_partitions}
        inputs = {n: {"dtype": t, "shape": list(s)} for n, (t, s) in self.inputs.items()}
        return {**asdict(self), "inputs": inputs, "share": self.share, **counts}

    def __str__(self) -> str:
        nodes = sum(p.nodes for p in self.parts)
        regions = sum(p.is_region for p in self.parts)
        islands = len(self.parts) - regions
        inputs = ", ".join(f"{n}: {t} {shape_text(s)}" for n, (t, s) in self.inputs.items())
        lines = [
            f"{self.name}: opset {self.opset}, {counted(nodes, 'node')}, "
            f"{bytes_text(self.weights_bytes)} of weights",
            f"  {inputs or 'no inputs'}",
        ]
        if self.guessed:
            sizes = ", ".join(f"{n}={size}" for n, size in self.guessed.items())
            lines.append(f"  open dims, without a size from --set: {sizes}")
        same = ", the same for all sizes" if self.is_general else ""
        lines += [
            f"{self.share:.1%} of the arithmetic in oneDNN: {counted(regions, 'region')}, "
            f"{counted(self.partitions, 'partition')} ({self.int8_partitions} of them int8), "
            f"{counted(islands, 'island')}{same}",
            "",
            *text_table([("part", "nodes", "share", "ops"), *self._parts()], right=(1, 2)),
        ]
        if self.kinds:
            lines += ["", *self._table()]
        return printable("\n".join(lines))

    def _parts(self) -> Iterator[tuple[str, str, str, str]]:
        numbers = {True: 0, False: 0}
        for part in self.parts:
            number = numbers[part.is_region]
            numbers[part.is_region] += 1
            if sum(numbers.values()) > MOST_PARTS:
                yield f"{len(self.parts) - MOST_PARTS} more", "", "", ""
                return
            counts = [f"{n} {op}" if n > 1 else op for op, n in part.ops.items()]
            text = ", ".join(shortened(counts, 8))
            where = f" (in {part.runs_in})" if part.runs_in and not part.is_region else ""
            yield (
                f"{'region' if part.is_region else 'island'} {number}",
                str(part.nodes),
                f"{part.share:.1%}",
                "\n".join((text + where, *(f"  {why}" for why in part.reasons))),
            )

    def _table(self) -> list[str]:
        whole = sum(k.seconds or 0 for k in self.kinds)
        rows = [["count", "ms", "time", "by", "ops"]]
        for kind in self.kinds:
            seconds, ops = kind.seconds or 0, " + ".join(shortened(kind.ops, MOST_OPS))
            times = [f"{1e3 * seconds:.3f}", f"{seconds / (whole or 1):.1%}"]
            rows.append([str(kind.count), *times, kind.implementation, ops])
        if whole:
            return text_table(rows, right=(0, 1, 2))
        return text_table([[row[0], *row[3:]] for row in rows], right=(0,))


MOST_PARTS = 40  # parts that are shown; what is divided more often is not worth reading

MOST_OPS = 10  # ops of a step that are shown

# -- where it comes from


def _models(entry: Entry) -> Iterator[Any]:
    for stage, _ in stages(entry):
        if stage.program.model is not None:
            yield stage.program.model


def steps_of(entry: Entry) -> list[Step]:
    """Return the steps of all stages in the order in which they run; without those that don't."""
    steps = (s for model in _models(entry) for s in latest_steps(model))
    return [s for s in steps if s.implementation not in ("view", "constant")]


def _kinds(steps: Sequence[Step], seconds: Sequence[float] | None) -> tuple[Kind, ...]:
    counts: Counter[tuple[tuple[str, ...], str]] = Counter()
    times: dict[tuple[tuple[str, ...], str], float] = {}
    for i, step in enumerate(steps):
        names = dict.fromkeys(n for n in step.names if n)
        ops = tuple(names) if step.implementation == "host" and names else step.ops
        key = ops, step.implementation
        counts[key] += 1
        if seconds is not None:
            times[key] = times.get(key, 0.0) + seconds[i]
    made = [Kind(ops, how, n, times.get((ops, how))) for (ops, how), n in counts.items()]
    return tuple(sorted(made, key=lambda k: (-(k.seconds or 0), -k.count)))


def _parts(entry: Entry) -> Iterator[PartRow]:
    rows: list[tuple[bool, Sequence[ir.Node], Survey, Mapping[ir.Node, str], str]] = []
    for stage, tail in stages(entry):
        program = stage.program
        found = program.found
        reasons: Mapping[ir.Node, str] = program.division.reasons
        islands = iter(program.islands)
        if program.model is None and found.calls:
            why = program.failure or "oneDNN computes no part of it"
            reasons = {n: reasons.get(n, why) for n in found.calls}
            runs_in = program.islands[0].runs_in if program.islands else ""
            rows.append((False, found.calls, found, reasons, runs_in))
        elif program.model is not None:
            for part in program.division.parts:
                runs_in = "" if part.is_region else getattr(next(islands, None), "runs_in", "")
                rows.append((part.is_region, part.nodes, found, reasons, runs_in))
        if tail is not None:
            why_not: Mapping[ir.Node, str] = {
                n: why_unknown(program.section, found, n) for n in tail.first
            }
            rows.append((False, tail.first, found, why_not, tail.island.runs_in))
            if tail.rest is None and tail.second:
                why = "known after a call: the dims depend on numbers"
                rows.append((False, tail.second, found, dict.fromkeys(tail.second, why), ""))
    work = [sum(operations(n, found) for n in nodes) for _, nodes, found, _, _ in rows]
    whole = max(sum(work), 1)
    for (is_region, nodes, _, why_not, runs_in), done in zip(rows, work, strict=True):
        ops = Counter(n.op_type for n in nodes)
        whys: dict[tuple[str, str], int] = Counter(
            (n.op_type, why_not[n]) for n in nodes if n in why_not and not is_region
        )
        yield PartRow(
            is_region,
            len(nodes),
            done / whole,
            dict(ops.most_common()),
            tuple(
                f"{f'{count} x ' if count > 1 else ''}{op}: {why}"
                for (op, why), count in whys.items()
            ),
            runs_in,
        )


def overview_of(
    name: str,
    entry: Entry,
    inputs: Mapping[str, tuple[str, Shape]],
    guessed: Mapping[str, int],
    seconds: Sequence[float] | None = None,
) -> Overview:
    """Describe what runs a set of dims.

    - `inputs`: mapping of str to (str, shape)
    - `seconds`: times of the steps that `steps_of` gives
    """
    section = entry.program.section
    return Overview(
        name,
        section.opsets.get("", 0),
        dict(inputs),
        dict(guessed),
        sum(a.nbytes for a in section.known.values()),
        sum(m.stats().memory_bytes for m in _models(entry)),
        entry.program.is_general,
        tuple(_parts(entry)),
        _kinds(steps_of(entry), seconds),
    )
