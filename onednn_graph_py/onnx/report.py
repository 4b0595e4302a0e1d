"""A report on the parts of a model, where they run, and why: `OnnxReport`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import onnx_ir as ir

from ..base.text.names import printable
from ..base.text.numbers import counted, seconds_text
from ..frontends.division import grouped
from ..frontends.report import Partitions, latest_steps, partitions_text, products_of
from ..model.running.model import Step
from ..ops.lookup import with_trait
from ..ops.terms import shape_text
from .division import operations
from .programs import Entry, Programs, Tail
from .survey import why_unknown
from .tensors import Shape

__all__ = ["Left", "OnnxReport", "ProgramReport", "reported"]


@dataclass(frozen=True)
class Left:
    """Nodes of one op that do not run in oneDNN, for one reason.

    Parameters
    ----------
    op : str
    why : str
    nodes : tuple of str
        Their names.
    """

    op: str
    why: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class ProgramReport(Partitions):
    """A report on the program for one set of shapes, or for all.

    Parameters
    ----------
    shapes : tuple
        The sets of input shapes that it runs.
    is_general : bool
        Whether it runs other shapes too.
    share : float
        The part of the arithmetic that runs in oneDNN, from 0 to 1. It is estimated: products and
        convolutions by their sizes, other nodes by the elements of their results.
    nodes, regions : int
    islands : tuple of str
    left : tuple of Left
    steps : tuple of Step
        The partitions and host steps.
    memory_bytes : int
        See `Stats`.
    failure : str or None
        Why oneDNN does not run the regions, if it refuses to.
    rest : OnnxReport or None
        What runs after it, for dims that follow from numbers that it computes.
    times : tuple of float, or None
        Seconds of a call in oneDNN with its islands, and in onnxruntime alone, where they were
        measured.
    products : dict of str to int
        Of the products in oneDNN, how many are not in 8 bits for each reason, and under "" how
        many are.
    """

    shapes: tuple[tuple[Shape, ...], ...]
    is_general: bool
    share: float
    nodes: int
    regions: int
    islands: tuple[str, ...]
    left: tuple[Left, ...]
    steps: tuple[Step, ...]
    memory_bytes: int
    failure: str | None
    rest: OnnxReport | None
    times: tuple[float, float] | None = None
    products: Mapping[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON has it."""
        return {
            **asdict(self),
            "partitions": self.partitions,
            "int8_partitions": self.int8_partitions,
            "steps": [s._asdict() for s in self.steps],
            "rest": [p.to_dict() for p in self.rest.programs] if self.rest is not None else [],
        }

    def __str__(self) -> str:
        sets = "; ".join(", ".join(map(shape_text, s)) for s in self.shapes[-3:])
        lines = [
            f"  {'all shapes, so far' if self.is_general else 'shapes'} {sets}: "
            f"{self.share:.1%} of the arithmetic in oneDNN",
            f"    {counted(self.nodes, 'node')}, {counted(self.regions, 'region')}, "
            f"{counted(self.partitions, 'partition')} "
            f"({self.int8_partitions} of them int8), {self.memory_bytes / 2**20:.1f} MiB",
        ]
        if self.times is not None:
            ours, theirs = map(seconds_text, self.times)
            lines.append(f"    a call takes {ours} in oneDNN with islands, {theirs} in onnxruntime")
        if self.failure:
            lines.append(f"    oneDNN refuses it: {self.failure}")
        lines += partitions_text(self.steps)
        rounding = with_trait("quantizes") | with_trait("dequantizes")
        if any(rounding.intersection(s.ops) for s in self.steps):
            count = sum(self.products.values())
            lines.append(f"    {self.products.get('', 0)} of {count} products in int8")
            lines += [f"    {n:4} x not in int8: {why}" for why, n in self.products.items() if why]
        lines += [f"    {island}" for island in self.islands]
        lines += [f"    {len(x.nodes):4} x {x.op}: {x.why}" for x in self.left]
        if self.rest is not None:
            lines += ["    then", *(f"  {line}" for line in str(self.rest).splitlines())]
        return printable("\n".join(lines))


@dataclass(frozen=True)
class OnnxReport:
    """A report on a model, by `OnnxModel.report`; as text it is a table for people."""

    name: str
    programs: tuple[ProgramReport, ...]

    @property
    def has_int8(self) -> bool:
        """Whether oneDNN computes anything in 8 bits."""
        return any(
            p.int8_partitions or (p.rest is not None and p.rest.has_int8) for p in self.programs
        )

    def __str__(self) -> str:
        if not self.programs:
            return f"{printable(self.name)}: not compiled for any shapes yet"
        return "\n".join([f"{printable(self.name)}:", *map(str, self.programs)])


def stages(entry: Entry) -> Iterator[tuple[Entry, Tail | None]]:
    """Return what runs a set of dims, stage by stage, as far as calls have come."""
    tail = entry.tail
    yield entry, tail
    if tail is not None and tail.rest is not None:
        entries = list(tail.rest.entries.values())
        if entries:
            yield from stages(entries[-1])


def steps_of(entry: Entry) -> list[Step]:
    """Return the steps of all stages in the order in which they run; without those that don't."""
    models = (stage.program.model for stage, _ in stages(entry))
    steps = (s for model in models for s in latest_steps(model))
    return [s for s in steps if s.implementation not in ("view", "constant")]


def _outside(entry: Entry) -> Sequence[ir.Node]:
    """Return the nodes behind a program that no later stage runs."""
    tail = entry.tail
    if tail is None or (tail.rest is not None and tail.rest.entries):
        return tail.first if tail is not None else ()
    return entry.program.found.rest


def share_of(entry: Entry) -> float:
    """Return which part of the arithmetic of all stages runs in oneDNN, from 0 to 1."""
    inside = everything = 0
    for stage, _ in stages(entry):
        program = stage.program
        found, division = program.found, program.division
        outside = _outside(stage)
        work = {n: operations(n, found) for n in (*found.calls, *outside)}
        everything += sum(work.values())
        if program.model is not None:
            left = {*division.reasons, *outside}
            inside += sum(w for n, w in work.items() if n not in left and n not in division.on_host)
    return inside / everything if everything else 1.0


def reported(name: str, programs: Programs) -> OnnxReport:
    """Describe the programs of a section."""
    entries = programs.entries
    together: dict[int, list[tuple[tuple[Shape, ...], Entry]]] = {}
    for shapes, entry in entries.items():
        together.setdefault(id(entry.program), []).append((shapes, entry))
    return OnnxReport(name, tuple(_described(name, found) for found in together.values()))


def _described(name: str, entries: list[tuple[tuple[Shape, ...], Entry]]) -> ProgramReport:
    entry = entries[-1][1]
    program, tail = entry.program, entry.tail
    reasons: dict[ir.Node, str] = dict(program.division.reasons)
    if program.failure is not None:
        reasons = {n: program.failure for n in program.found.calls}
    found = program.found
    reasons = {n: why_unknown(program.section, found, n) for n in _outside(entry)} | reasons
    model = program.model
    islands = [*program.islands, *([tail.island] if tail is not None else [])]
    return ProgramReport(
        tuple(s for s, _ in entries),
        program.is_general,
        share_of(entry),
        len(program.found.calls) + len(program.found.rest),
        sum(p.is_region for p in program.division.parts) if model is not None else 0,
        tuple(f"{i.label}, in {i.runs_in or 'nothing yet'}" for i in islands),
        tuple(
            Left(op, why, tuple(n.name or "" for n in nodes))
            for op, why, nodes in grouped(reasons, lambda node: node.op_type)
        ),
        latest_steps(model),
        0 if model is None else model.stats().memory_bytes,
        program.failure,
        None if tail is None or tail.rest is None else reported(name, tail.rest),
        None if entry.pace is None else (entry.pace.fused, entry.pace.apart),
        products_of(model),
    )
