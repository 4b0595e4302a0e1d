"""The results of running one graph under one setting."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from ...model.running.model import Step
from ..replay.verdicts import Verdict


@dataclass
class Run:
    """One setting, and the results of its run; None for stages that it did not reach."""

    label: str  # the settings that differ from those of the other runs
    python: str  # the executable
    # package, onednn, runtime: versions of both, and oneDNN's runtime
    package: str
    onednn: str
    runtime: str
    isa: str = ""  # the highest instruction set that oneDNN used
    threads: int | None = None  # threads per call; None also if oneDNN's runtime decides
    # the graph's floating-point math mode, with `:true` if it applies to integers
    fpmath: str | None = None
    verdict: Verdict = Verdict.RAN
    reason: str = ""  # the reason for the verdict
    notes: tuple[str, ...] = ()  # remarks on settings that differ from the requested ones
    partitions: int | None = None  # number of partitions that oneDNN makes of the graph
    steps: tuple[Step, ...] = ()  # the steps that ran, in order; the ops of a step are fused
    # the number of the first run, from 1, before this one that ran the same steps
    same_steps_as: int | None = None
    # error, share: the largest difference to the reference, and the largest fraction of a tolerance
    error: float | None = None
    share: float | None = None
    difference: float | None = None  # the largest difference to the first run's outputs
    # milliseconds, spread, fastest: the median of the calls' times, with equal weight for all
    # rounds; the difference between the first and the third quartile; and the shortest time
    milliseconds: float | None = None
    spread: float | None = None
    fastest: float | None = None
    # its time divided by the first run's: the median of the rounds' ratios
    ratio: float | None = None
    calls: int = 0  # number of timed samples

    def to_dict(self) -> dict[str, Any]:
        """Return the data as a dict for JSON, with infinite numbers as text."""
        made = {**asdict(self), "verdict": self.verdict.value}
        made["steps"] = [s._asdict() for s in self.steps]
        return {
            k: str(v) if isinstance(v, float) and not math.isfinite(v) else v
            for k, v in made.items()
        }
