"""The results of running one graph under one setting."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from ...model.running.model import Step
from ..replay.verdicts import Verdict

__all__ = ["Run"]


@dataclass
class Run:
    """One setting, and the results of its run; None for stages that it did not reach.

    Parameters
    ----------
    label : str
        The settings that differ from those of the other runs.
    python : str
        The executable.
    package, onednn, runtime : str
        Versions of both, and oneDNN's runtime.
    isa : str
        The highest instruction set that oneDNN used.
    threads : int or None
        Threads per call; None also if oneDNN's runtime decides.
    fpmath : str or None
        The graph's floating-point math mode, with ``:true`` if it applies to integers.
    verdict : Verdict
    reason : str
        The reason for the verdict.
    notes : tuple of str
        Remarks on settings that differ from the requested ones.
    partitions : int or None
        Number of partitions that oneDNN makes of the graph.
    steps : tuple of Step
        The steps that ran, in order; the ops of a step are fused.
    kernels : tuple of tuple of str
        The kernels that each step runs at each call, as oneDNN's log names them.
    same_steps_as : int or None
        The number of the first run, from 1, before this one that ran the same steps.
    error, share : float or None
        The largest difference to the reference, and the largest fraction of a tolerance.
    difference : float or None
        The largest difference to the first run's outputs.
    milliseconds, spread, fastest : float or None
        The median of the calls' times, with equal weight for all rounds; the difference between
        the first and the third quartile; and the shortest time.
    ratio : float or None
        Its time divided by the first run's: the median of the rounds' ratios.
    calls : int
        Number of timed samples.
    """

    label: str
    python: str
    package: str
    onednn: str
    runtime: str
    isa: str = ""
    threads: int | None = None
    fpmath: str | None = None
    verdict: Verdict = Verdict.RAN
    reason: str = ""
    notes: tuple[str, ...] = ()
    partitions: int | None = None
    steps: tuple[Step, ...] = ()
    kernels: tuple[tuple[str, ...], ...] = ()
    same_steps_as: int | None = None
    error: float | None = None
    share: float | None = None
    difference: float | None = None
    milliseconds: float | None = None
    spread: float | None = None
    fastest: float | None = None
    ratio: float | None = None
    calls: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the data as a dict for JSON, with infinite numbers as text."""
        made = {**asdict(self), "verdict": self.verdict.value}
        made["steps"] = [s._asdict() for s in self.steps]
        return {
            k: str(v) if isinstance(v, float) and not math.isfinite(v) else v
            for k, v in made.items()
        }
