"""A report on the parts of a model, where they ran, and why: `report`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch

from ..base.arguments import need_callable
from ..base.text.numbers import counted
from ..frontends.division import grouped
from ..frontends.report import Partitions, latest_steps, partitions_text
from ..model.running.model import CompiledGraph, Step
from ..tools.explaining.peaks import timed
from . import capture
from .captured import CAPTURED, Captured, arithmetic
from .division import source


@dataclass(frozen=True)
class Left:
    """Calls of one op that stay in torch for one reason."""

    # In the words of torch, such as aten.embedding.default.
    op: str
    why: str
    # The line of the program that makes the first of them; empty if torch does not know it.
    where: str
    count: int


@dataclass(frozen=True)
class RegionReport(Partitions):
    """A region of a graph.

    Parameters
    ----------
    calls : int
        The number of torch's calls in it.
    steps : tuple of Step
        Its partitions, for the latest shapes; empty before the first call.
    shapes : int
        The number of sets of input shapes for which it is compiled.
    memory_bytes : int
        See `Stats`.
    failure : str or None
        Why torch runs it instead of oneDNN, if it does.
    seconds : tuple of float or None
        The median time of each step; None where it was not measured.
    """

    calls: int
    steps: tuple[Step, ...]
    shapes: int
    memory_bytes: int
    failure: str | None
    seconds: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class GraphReport:
    """A graph that torch captured.

    Parameters
    ----------
    name : str
    share : float
        The part of the arithmetic that runs in oneDNN, from 0 to 1. It is estimated: products,
        convolutions and attention by their sizes, other calls by the elements of their results.
    regions : tuple of RegionReport
    left : tuple of Left
        What stays in torch.
    weights : int
        The number of sets of weights for which the graph is compiled.
    weights_are_inputs : bool
        Whether they changed so often that they are inputs of each call.
    work : float
        The estimated arithmetic of one run of the graph.
    """

    name: str
    share: float
    regions: tuple[RegionReport, ...]
    left: tuple[Left, ...]
    weights: int
    weights_are_inputs: bool
    work: float = 0.0

    def __str__(self) -> str:
        if not self.weights:
            return f"{self.name}: ran with weights that have gone; the next call compiles it anew"
        count = sum(r.partitions for r in self.regions)
        integer = sum(r.int8_partitions for r in self.regions)
        lines = [
            f"{self.name}: {self.share:.1%} of the arithmetic in oneDNN, "
            f"{counted(len(self.regions), 'region')}, {counted(count, 'partition')} "
            f"({integer} of them int8)"
        ]
        if self.weights_are_inputs:
            lines.append("  weights that changed before several calls are inputs of each call")
        elif self.weights != 1:
            lines.append(f"  compiled for {self.weights} sets of weights")
        for i, region in enumerate(self.regions):
            lines.append(
                f"  region {i}: {counted(region.calls, 'call')}, "
                f"{counted(region.shapes, 'set')} of shapes, "
                f"{region.memory_bytes / 2**20:.1f} MiB"
            )
            if region.failure:
                lines.append(f"    runs in torch: {region.failure}")
            lines += partitions_text(region.steps, region.seconds)
            for why in dict.fromkeys(s.why for s in region.steps if s.why):
                lines.append(f"    {'' if why.startswith('written ') else 'not fused: '}{why}")
        if self.left:
            lines.append("  in torch:")
        for left in self.left:
            lines.append(f"    {left.count:4} x {left.op}: {left.why}")
            if left.where:
                lines.append(f"           {left.where}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Report:
    """A report on a module, by `report`; as text it is one line, and `details` are a table.

    Parameters
    ----------
    graphs : tuple of GraphReport
    recurrent : tuple of str
        The module's recurrent layers, which torch does not hand to any compiler.
    breaks : tuple of str
        The lines at which torch ended a graph and went on in Python.
    """

    graphs: tuple[GraphReport, ...]
    recurrent: tuple[str, ...] = ()
    breaks: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.graphs and not self.recurrent:
            return "no graph has run in oneDNN yet"
        work = sum(g.work for g in self.graphs)
        share = sum(g.work * g.share for g in self.graphs) / work if work else 1.0
        regions = [r for g in self.graphs for r in g.regions]
        parts = [
            f"{share:.1%} of the arithmetic in oneDNN, {counted(len(self.graphs), 'graph')}, "
            f"{counted(sum(r.partitions for r in regions), 'partition')}"
        ]
        if self.breaks:
            parts.append(f"broken at {', '.join(self.breaks)}")
        left = [f"{n} (recurrent)" for n in self.recurrent]
        left += [f"{one.count} x {one.op} ({one.why})" for g in self.graphs for one in g.left]
        left += [f"a region ({r.failure})" for r in regions if r.failure]
        if left:
            parts.append("in torch: " + ", ".join(left[:3]) + ", ..." * (len(left) > 3))
        steps = [r.steps for r in regions if r.seconds]
        times = [r.seconds for r in regions if r.seconds]
        slowest = partitions_text([*chain(*steps)], [*chain(*times)])[:3]
        if slowest:
            parts.append("most time: " + ", ".join(line.strip() for line in slowest))
        return "; ".join(parts)

    @property
    def details(self) -> str:
        """Each graph with its regions, their partitions, and all that stays in torch."""
        lines = [*map(str, self.graphs)] or ["no graph has run in oneDNN yet"]
        lines += [f"broken at {place}" for place in self.breaks]
        if self.recurrent:
            lines.append(
                f"in torch, with the functions that call them: {', '.join(self.recurrent)}, since "
                "torch captures recurrent layers only with torch._dynamo.config.allow_rnn"
            )
        if any(g.weights and not g.weights_are_inputs for g in self.graphs):
            lines.append(UNSEEN)
        return "\n".join(lines)


UNSEEN = (
    "weights are constants: a write that torch does not count, as to weight.data, is seen in a "
    "sample of their bytes; the option freeze=False sees all"
)


def report(compiled: Callable[..., Any] | None = None, *, seconds: float | None = None) -> Report:
    """Say which parts of a compiled module or function run in oneDNN, and why others don't.

    Parameters
    ----------
    compiled : Module or callable, optional
        What ``torch.compile(..., backend="onednn_graph")`` was given or returned, after a call; by
        default all graphs that exist.
    seconds : float, optional
        Call each region for so long, with random inputs of its latest shapes, and report the times
        of its steps. By default nothing is called.
    """
    if compiled is not None:
        need_callable("report: compiled", compiled)
    graphs = [c for c in CAPTURED if compiled is None or _belongs(c, compiled)]
    recurrent: list[str] = []
    if isinstance(compiled, torch.nn.Module) and not capture.recurrent_layers_are_captured():
        inner = getattr(compiled, "_orig_mod", compiled)
        recurrent = [n for n, m in inner.named_modules() if isinstance(m, torch.nn.RNNBase)]
    graphs.sort(key=lambda c: c.number)
    places = dict.fromkeys(p for c in graphs for p in _breaks(c))
    return Report(tuple(_of(c, seconds) for c in graphs), tuple(recurrent), tuple(places))


def _breaks(captured: Captured) -> list[str]:
    """Return the line after which torch began a graph, if that is not a function's first."""
    traces = (n.meta.get("stack_trace") or "" for n in captured.graph.nodes)
    resumed = (_RESUMED.search(trace) for trace in traces)
    return [f"{m[1]}, line {m[3]}, in {m[2]}" for m in resumed if m]


_RESUMED = re.compile(r'(File "[^"]*"), line \d+, in torch_dynamo_resume_in_(.*)_at_(\d+)')


def _belongs(captured: Captured, compiled: Callable[..., Any]) -> bool:
    """Return whether a graph is of a module, by its weights, or of a function, by its lines."""
    if isinstance(compiled, torch.nn.Module):
        ids = {id(t) for t in (*compiled.parameters(), *compiled.buffers())}
        if ids and captured.static and (captured.programs or captured.relieved):
            return any(ids & set(key) for key in captured.programs)
        inner = getattr(compiled, "_orig_mod", compiled)
        function: Any = type(inner).forward
    else:
        function = inspect.unwrap(compiled)
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    own = {(code.co_filename, str(line)) for _, _, line in code.co_lines()}
    traces = [n.meta.get("stack_trace") or "" for n in captured.graph.nodes]
    return any(place in own for t in traces for place in _PLACE.findall(t))


_PLACE = re.compile(r'File "([^"]*)", line (\d+)')


def _of(captured: Captured, seconds: float | None) -> GraphReport:
    programs = captured.living
    if not programs:
        return GraphReport(captured.name, 0.0, (), (), 0, False)
    program = programs[-1]
    regions = tuple(
        RegionReport(
            len(r.nodes),
            latest_steps(r.model),
            *_memory(r.model),
            r.failure,
            _times(r.model, seconds),
        )
        for r in program.regions
    )
    work, share = arithmetic(captured.graph, program)
    groups = grouped(program.division.reasons, lambda node: str(node.target))
    left = [Left(op, why, source(nodes[0]), len(nodes)) for op, why, nodes in groups]
    return GraphReport(
        captured.name,
        share,
        regions,
        tuple(sorted(left, key=lambda one: -one.count)),
        len(captured.programs),
        captured.weights_change,
        work,
    )


def _times(model: CompiledGraph | None, seconds: float | None) -> tuple[float | None, ...]:
    shapes = None if model is None else model.latest_shapes
    if model is None or shapes is None or seconds is None:
        return ()
    return tuple(timed(model, model.specialization(shapes).plan, shapes, seconds)[0])


def _memory(model: CompiledGraph | None) -> tuple[int, int]:
    if model is None:
        return 0, 0
    stats = model.stats()
    return stats.shapes, stats.memory_bytes
