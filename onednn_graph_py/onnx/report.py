"""What runs where, and why: `OnnxReport`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import onnx_ir as ir

from ..errors import OneDNNError
from ..ops.lookup import with_trait
from ..ops.terms import shape_text
from ..running.model import Step
from .programs import Entry, Programs
from .tensors import Shape
from .work import share

__all__ = ["Left", "OnnxReport", "ProgramReport", "reported"]

QUANTIZATION = with_trait("quantizes") | with_trait("dequantizes")


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
class ProgramReport:
    """What runs one set of shapes, or all.

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

    @property
    def partitions(self) -> int:
        """The number of partitions that oneDNN runs."""
        return sum(s.implementation == "oneDNN" for s in self.steps)

    @property
    def int8_partitions(self) -> int:
        """The number of partitions that oneDNN computes in 8 bits."""
        return sum(
            s.implementation == "oneDNN"
            and any(o in QUANTIZATION for o in s.ops)
            and any(o not in QUANTIZATION for o in s.ops)
            for s in self.steps
        )

    def __str__(self) -> str:
        sets = "; ".join(", ".join(map(shape_text, s)) for s in self.shapes[-3:])
        lines = [
            f"  {'all shapes, so far' if self.is_general else 'shapes'} {sets}: "
            f"{self.share:.1%} of the arithmetic in oneDNN",
            f"    {self.nodes} nodes, {self.regions} regions, {self.partitions} partitions "
            f"({self.int8_partitions} of them int8), {self.memory_bytes / 2**20:.1f} MiB",
        ]
        if self.failure:
            lines.append(f"    oneDNN refuses it: {self.failure}")
        fused = Counter("+".join(s.ops) for s in self.steps if s.implementation == "oneDNN")
        lines += [f"    {n:4} x {ops}" for ops, n in fused.most_common()]
        lines += [f"    {island}" for island in self.islands]
        lines += [f"    {len(x.nodes):4} x {x.op}: {x.why}" for x in self.left]
        if self.rest is not None:
            lines += ["    then", *(f"  {line}" for line in str(self.rest).splitlines())]
        return "\n".join(lines)


@dataclass(frozen=True)
class OnnxReport:
    """What `OnnxModel.report` returns; as text it is a table for people.

    Parameters
    ----------
    name : str
    programs : tuple of ProgramReport
    """

    name: str
    programs: tuple[ProgramReport, ...]

    def __str__(self) -> str:
        if not self.programs:
            return f"{self.name}: not compiled for any shapes yet"
        return "\n".join([f"{self.name}:", *map(str, self.programs)])


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
    reasons |= {n: "its dims depend on numbers" for n in program.found.rest}
    grouped: dict[tuple[str, str], list[str]] = {}
    for node, why in reasons.items():
        grouped.setdefault((node.op_type, why), []).append(node.name or "")
    model = program.model
    steps: tuple[Step, ...] = ()
    if model is not None and model.latest_shapes is not None:
        try:
            steps = model.steps(*model.latest_shapes)
        except OneDNNError:  # other shapes took its place meanwhile
            steps = ()
    islands = [*program.islands, *([tail.island] if tail is not None else [])]
    return ProgramReport(
        tuple(s for s, _ in entries),
        program.is_general,
        share(program.found, reasons),
        len(program.found.calls) + len(program.found.rest),
        sum(p.is_region for p in program.division.parts) if model is not None else 0,
        tuple(f"{i.label}, in {i.runs_in or 'nothing yet'}" for i in islands),
        tuple(Left(op, why, tuple(nodes)) for (op, why), nodes in grouped.items()),
        steps,
        0 if model is None else model.stats().memory_bytes,
        program.failure,
        None if tail is None or tail.rest is None else reported(name, tail.rest),
    )
