"""A report on a graph that runs, as text and HTML: `Explanation`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...base.text.names import printable
from ...base.text.numbers import bytes_text, counted, seconds_text
from ...base.text.table import element, html_table, joined, text_table
from ...ops.terms import shape_text
from ..inspect.drawing import WORDS
from ..inspect.labels import kinds_text, visible
from .facts import Kernel, StepFacts, TensorFacts
from .peaks import Machine
from .reasons import Reason

HEADER = ("step", "ops", "by", "kernel", "time", "share", "GFLOP/s", "GB/s", "bound by")
"""The header of the table of steps; `cells` returns one row of it."""

NUMBERS = range(4, len(HEADER) - 1)  # the columns of numbers

_LONGEST_OPS = 60


def rate_text(rate: float | None, peak: float | None) -> str:
    """Format a rate in units of 1e9 a second, with its share of the peak.

    >>> rate_text(2.5e11, 5e11), rate_text(2.5e11, None)
    ('250 (50%)', '250')
    """
    if not rate:
        return ""
    shown = f"{rate / 1e9:.3g}" if rate >= 1e7 else "<0.01"
    if not peak:
        return shown
    return f"{shown} ({rate / peak:.0%})" if rate / peak >= 0.005 else f"{shown} (<1%)"


def heading(step: StepFacts) -> str:
    """Return a step's ops with their names."""
    return " + ".join(visible(str(op)) for op in step.ops)


def _main_kernel(step: StepFacts) -> str:
    """Return the kernel that computes most of each call, and the number of others.

    Reorders come last, however long they take: on a busy machine their logged time is mostly
    waiting. If no kernel is logged, return the implementation of the whole partition.
    """
    each = [k for k in step.kernels if k.when == "each call"]
    if not each:
        return step.partition.rpartition(" ")[2]
    most = max(each, key=lambda k: (k.kind != "reorder", k.seconds))
    others = sum(k.count for k in each) - most.count
    times = f" x{most.count}" if most.count > 1 else ""
    return f"{most.kind} {most.implementation}{times}" + (f" + {others} more" if others else "")


def cells(number: int, step: StepFacts) -> tuple[str, ...]:
    """Return a step's row of the table under `HEADER`."""
    ops = kinds_text([op.kind for op in step.ops])
    if len(step.ops) == 1 and step.ops[0].name:
        ops = str(step.ops[0])
    work = step.work
    return (
        str(number),
        visible(ops, _LONGEST_OPS),
        WORDS[step.by][2],
        _main_kernel(step),
        seconds_text(step.seconds) if step.by not in ("view", "constant") else "",
        "" if step.share is None else f"{step.share:.1%}",
        "" if work is None else rate_text(work.operations_per_second, work.peak_operations),
        "" if work is None else rate_text(work.bytes_per_second, work.peak_bytes),
        "" if work is None or work.bound is None or step.by != "oneDNN" else work.bound,
    )


def tensor_line(facts: TensorFacts) -> str:
    """Describe a tensor in one line: its role, layout and bytes."""
    name = f"{facts.role} {visible(facts.name)}" if facts.name else facts.role
    layout = "" if facts.tensor.layout else " row-major"
    size = "" if facts.bytes is None else f", {bytes_text(facts.bytes)}"
    return f"{name}: {facts.tensor}{layout}{size}"


def kernel_line(kernel: Kernel) -> str:
    """Describe a kernel in one line: its implementation, layouts, attributes, shapes and time."""
    times = f" x{kernel.count}" if kernel.count > 1 else ""
    parts = [f"{kernel.kind} {kernel.implementation}{times}", " ".join(kernel.memory)]
    parts += [" ".join(kernel.attributes)] if kernel.attributes else []
    parts += [kernel.problem, f"{seconds_text(kernel.seconds)} {kernel.when}"]
    return ", ".join(t for t in parts if t)


def step_lines(step: StepFacts) -> list[tuple[str, str]]:
    """Return all further facts about a step as pairs of a label and a line."""
    lines = [("in", tensor_line(t)) for t in step.inputs]
    lines += [("out", tensor_line(t)) for t in step.outputs]
    if step.partition:
        lines.append(("partition", step.partition))
    lines += [("kernel", kernel_line(k)) for k in step.kernels]
    if step.by == "oneDNN" and step.kernels_unknown:
        lines.append(("kernels", f"not known: {step.kernels_unknown}"))
    if step.by == "oneDNN" and step.scratch_bytes is not None:
        lines.append(("scratch", bytes_text(step.scratch_bytes)))
    work = step.work
    if work is not None and (work.operations or work.bytes):
        text = f"{work.operations / 1e9:.3g} GFLOP, {bytes_text(work.bytes)} moved"
        if work.operations_per_byte is not None:
            text += f", {work.operations_per_byte:.3g} FLOP a byte"
        if work.dtype:
            text += f", products in {work.dtype}"
        lines.append(("work", text))
    if step.split:
        lines.append(("split", step.split))
    if step.measured:
        lines.append(("measured", step.measured))
    places = dict.fromkeys(printable(o.where) for o in step.ops if place_known(o.where))
    return lines + ([("made at", ", ".join(places))] if places else [])


def place_known(where: str) -> bool:
    """Whether an op's place is known: neither empty nor a name in angle brackets."""
    return bool(where) and not where.startswith("<")


_TABLE = "border-collapse:collapse"
_CELL = "text-align:left;padding:2px 8px;border-bottom:1px solid rgba(128,128,128,0.4)"


def _sections(explanation: Explanation) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return a title for each step and each reason, with lines that have a label."""
    sections = []
    for number, step in enumerate(explanation.steps, 1):
        sections.append((f"step {number}: {heading(step)}", step_lines(step)))
    for reason in explanation.reasons:
        name = f"{reason.kind} {visible(reason.op)!r}" if reason.op else reason.kind
        lines = [("to fuse it:", f"{c.description} ({c.result})") for c in reason.changes]
        lines += [("made at", printable(reason.where))] if place_known(reason.where) else []
        sections.append((f"{name}, {reason.status}: {reason.why}", lines))
    return sections


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align the columns, without those in which all cells are empty."""
    shown = [i for i in range(len(HEADER)) if any(row[i] for row in rows)]
    right = [k for k, i in enumerate(shown) if i in NUMBERS]
    return text_table([[row[i] for i in shown] for row in (HEADER, *rows)], right=right)


def _step(step: StepFacts) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(json.dumps(asdict(step)))  # tuples become lists
    for tensor in (*fields["inputs"], *fields["outputs"]):
        tensor.update(tensor.pop("tensor"))
        tensor["layout"] = tensor["layout"] or "row-major"
    if step.work is not None:
        fields["work"]["operations_per_byte"] = step.work.operations_per_byte
    return fields


@dataclass(frozen=True, repr=False)
class Explanation:
    """A report of what runs, how fast, and why ops were not fused; made by `explain`.

    ``print`` it, show it in a notebook, or take `to_dict`.

    Parameters
    ----------
    name : str
        The model's name; ``graph`` for a builder that does not compile.
    engine, oneDNN : str
        The engine kind, and the version of oneDNN.
    shapes : tuple of (str, shape)
        The inputs' names and shapes.
    compiled : bool
        Whether the graph compiles; if not, the steps are the partitions that oneDNN makes.
    steps : tuple of StepFacts
        The steps, in order.
    input_bytes, output_bytes, constant_bytes : int or None
        Memory of the model's tensors of these roles; None if dims are unknown.
    intermediate_bytes : int or None
        Memory of all other tensors, and scratch memory if oneDNN leaves that to its callers (from
        3.13 on); None if the graph does not compile.
    seconds : float or None
        The sum of the steps' medians over many calls.
    calls : int
        Number of timed calls.
    machine : Machine or None
        The machine's peaks; None if no calls were timed.
    notes : tuple of str
        Remarks, such as on facts that `explain` could not find.
    reasons : tuple of Reason
        For ops that stayed unfused or are not supported: the reason, and changes that help.
    """

    name: str
    engine: str
    oneDNN: str
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    compiled: bool
    steps: tuple[StepFacts, ...]
    input_bytes: int | None = None
    output_bytes: int | None = None
    constant_bytes: int | None = None
    intermediate_bytes: int | None = None
    seconds: float | None = None
    calls: int = 0
    machine: Machine | None = None
    notes: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return all facts as a dict for JSON: seconds, bytes, operations; rates are per second."""
        return {
            "name": self.name,
            "engine": self.engine,
            "oneDNN": self.oneDNN,
            "shapes": {name: list(shape) for name, shape in self.shapes},
            "compiled": self.compiled,
            "seconds": self.seconds,
            "calls": self.calls,
            "memory": {
                "inputs": self.input_bytes,
                "outputs": self.output_bytes,
                "constants": self.constant_bytes,
                "intermediate": self.intermediate_bytes,
            },
            "machine": None if self.machine is None else asdict(self.machine),
            "steps": [_step(s) for s in self.steps],
            "reasons": [
                {
                    "op": r.op,
                    "kind": r.kind,
                    "where": r.where,
                    "status": r.status,
                    "why": r.why,
                    "changes": [
                        {"description": c.description, "result": c.result} for c in r.changes
                    ],
                }
                for r in self.reasons
            ],
            "notes": list(self.notes),
        }

    def _title(self) -> list[str]:
        """Return the lines about the graph, its engine and its memory."""
        ops = sum(len(s.ops) for s in self.steps)
        what = "step" if self.compiled else "partition"
        first = f"{visible(self.name)}: {counted(ops, 'op')} in {counted(len(self.steps), what)}"
        if self.seconds is not None:
            first += f", {seconds_text(self.seconds)} a call (median of {self.calls})"
        lines = [first]
        if self.shapes:
            inputs = ", ".join(
                f"{visible(name)} {shape_text(shape)}" for name, shape in self.shapes
            )
            lines.append(f"inputs: {inputs}")
        if self.machine is None:
            lines.append(f"oneDNN {self.oneDNN}, {self.engine}")
        else:
            m = self.machine
            where = f"{m.cpu}, {counted(m.threads, 'thread')}"
            lines.append(f"oneDNN {m.oneDNN} ({m.runtime}, {m.isa}) on {where}")
            peaks = ", ".join(f"{t} {v / 1e9:.3g} GFLOP/s" for t, v in m.operations.items())
            lines.append(f"peak: {peaks}, {m.bandwidth / 1e9:.3g} GB/s: {m.how}")
        sizes = (
            ("inputs", self.input_bytes),
            ("outputs", self.output_bytes),
            ("constants", self.constant_bytes),
            ("intermediate", self.intermediate_bytes),
        )
        known = [f"{what} {bytes_text(size)}" for what, size in sizes if size is not None]
        if known:
            lines.append(f"memory: {', '.join(known)}")
        return lines

    def __str__(self) -> str:
        parts = ["\n".join([*self._title(), *(f"note: {visible(n, 400)}" for n in self.notes)])]
        if self.steps:
            parts.append("\n".join(_table([cells(i + 1, s) for i, s in enumerate(self.steps)])))
        for title, lines in _sections(self):
            parts.append("\n".join([title, *(f"  {label:9} {line}" for label, line in lines)]))
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        first, *rest = self._title()
        parts = [element("p", joined((element("b", first), *rest), "<br>"))]
        parts += [element("p", note) for note in self.notes]
        if self.steps:
            rows = [cells(i + 1, s) for i, s in enumerate(self.steps)]
            parts.append(html_table(HEADER, rows, right=NUMBERS, cell=_CELL, style=_TABLE))
        for number, (title, lines) in enumerate(_sections(self), 1):
            table = html_table((), lines, cell=_CELL, style=_TABLE)
            shown = "" if number <= len(self.steps) else "open"
            parts.append(element("details", element("summary", title), table, open=shown))
        return element("div", *parts)

    def __repr__(self) -> str:
        return f"<Explanation of {self.name!r}: {len(self.steps)} steps>"
