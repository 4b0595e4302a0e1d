"""Compare a graph's partitions with those of other installs of oneDNN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...model.building.builder import GraphBuilder
from ...model.running.model import Step
from .. import comparing
from .changes import called
from .probe import specialised
from .reasons import Reason


def elsewhere(
    builder: GraphBuilder,
    shapes: Sequence[Sequence[int]],
    onednn: str | Sequence[str],
    reasons: Sequence[Reason],
    timeout: float,
) -> tuple[list[str], tuple[Reason, ...]]:
    """Report how other installs partition the graph, and which reasons do not hold there.

    Return a line for each install, and the reasons with the differences in those installs. `onednn`
    names environments, as `onednn_graph_py.compare` takes them; the timeout is for each, in
    seconds.
    """
    found = comparing.compare(
        specialised(builder, shapes), onednn=onednn, seconds=0, verify=False, timeout=timeout
    )
    lines, told = [], list(reasons)
    for run in found.runs:
        where = f"oneDNN {run.onednn} ({run.runtime}, {run.python})"
        if not run.steps:
            lines.append(f"with {where}: {run.verdict.value}: {run.reason}")
            continue
        parts = "; ".join(" + ".join(step.ops) for step in run.steps)
        steps = "1 step" if len(run.steps) == 1 else f"{len(run.steps)} steps"
        lines.append(f"with {where}: {steps}: {parts}")
        for i, reason in enumerate(told):
            better = _better(builder, reason, run.steps)
            if better:
                text = f"use oneDNN {run.onednn}: {better}"
                told[i] = replace(reason, elsewhere=(*told[i].elsewhere, text))
    return lines, tuple(told)


def _better(builder: GraphBuilder, reason: Reason, steps: Sequence[Step]) -> str:
    """Return how the op runs in other steps, if it runs better than here."""
    if not reason.op:
        return ""
    step = next((s for s in steps if reason.op in s.names), None)
    if step is None or step.implementation != "oneDNN":
        return ""
    others = [n for n in builder.nodes if n.name in step.names and n.name != reason.op]
    if others:
        return f"fuses with {', '.join(called(n) for n in others)}"
    return "supported" if reason.status == "unsupported" else ""
