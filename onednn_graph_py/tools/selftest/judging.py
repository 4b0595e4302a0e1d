"""Judge the findings, and keep the verdicts for models compiled with ``check="verify"``."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Mapping

from ...base.processes import MODELS, Isolated
from ...model.verdicts.kept import number_kept
from ...serialization import parse, to_builder
from .draws import Family
from .report import Report

_ENDING = 5.0  # seconds in which an interrupted process ends


def judged(draw: Family, seed: int, graph: str, seconds: float) -> None:
    """Judge a graph's partitions, as compiling with verification does, for so many seconds at most.

    `graph` is JSON of a smaller graph to judge in place of the drawn one; or empty.
    """
    # Killing this process would leave its judging process running.
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    if graph:
        builder = to_builder(parse(json.loads(graph)))
        shapes = [v.shape or () for v in builder.inputs]
    else:
        drawn = draw(seed)
        builder, shapes = drawn.builder, [a.shape for a in drawn.calls[0]]
    builder.compile(check="verify").steps(*shapes)


def keep_verdicts(
    report: Report,
    families: Mapping[str, Family],
    seconds: float,
    *,
    judge: Callable[[Family, int, str, float], None] = judged,
) -> None:
    """Judge the findings and slow graphs within a time limit in seconds; count the new verdicts.

    It sets the report's `verdicts`. `judge` is a function of a module, such as `judged`.
    """
    until = time.monotonic() + seconds
    before = number_kept()
    # Reduced findings come first: there is one of each kind, if time allowed.
    findings = sorted(report.findings, key=lambda f: not f.graph)
    found = [(f.family, f.seed, f.graph) for f in findings]
    found += [(s.family, s.seed, "") for s in sorted(report.slow, key=lambda s: -s.ratio)]
    with Isolated(*MODELS) as process:
        for family, seed, graph in found:
            left = until - time.monotonic()
            if left <= 0:
                break
            process.call(judge, families[family], seed, graph, left, timeout=left + _ENDING)
    report.verdicts = number_kept() - before
