"""Whether a fused partition is slower than its ops apart: measured where that is in doubt.

oneDNN has fusions for which it falls back to kernels that no one tuned, 50 to 1,200 times slower
than the same ops one after the other. Those without a product or a convolution among their ops,
small transposed convolutions, and attention of many heads over few tokens, are cheap to measure: no
call of them takes longer than one of the model itself.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from .. import _core
from ..ops.lookup import row
from ..ops.table import convolution, matmul
from ..value import Node
from ..verdicts import Subject
from .plan import PlannedStep
from .trial import Trial

__all__ = ["LIMIT", "Pace", "Paces", "may_be_slow", "paces", "remember"]

LIMIT = 1.2
"""How many times longer than its ops apart a fused partition may take."""

_FEW, _RUNS = 3, 60
_SECONDS = 0.1
_CLEARLY = 4
# What a clock, a call and whatever else runs here may add to either side.
_NOISE = 10e-6
# Elements that a kernel which no one tuned gets through in about a third of a second.
_ELEMENTS = 1 << 22
_COMPRESSED = ("DynamicDequantize",)
# Operations that a tuned kernel gets through in at most a fifth of a second.
_FLOP = 1 << 30
# Of attention: where many heads have few scores each, what is spent on each head counts.
_HEADS, _SCORES = 32, 64 * 64
# oneDNN's kernels for it may apply what is fused behind it one element at a time.
_HALF_TUNED = "ConvTranspose"
# Ops that sum up many elements for each result, for which oneDNN has tuned kernels.
_TUNED = {r.kind for family in (convolution, matmul) for r in family.ROWS} - {_HALF_TUNED}


def _flop(nodes: Sequence[Node], shapes: Mapping[int, tuple[int, ...]]) -> int:
    return sum(
        row(n.kind).flop(
            [shapes[v.id] for v in n.inputs], [shapes[v.id] for v in n.outputs], n.attrs
        )
        for n in nodes
    )


def may_be_slow(nodes: Sequence[Node], shapes: Mapping[int, tuple[int, ...]]) -> bool:
    """Whether ops are worth measuring: not the products and windows that oneDNN is tuned for."""
    kinds = {n.kind for n in nodes}
    if not kinds.isdisjoint(_COMPRESSED):
        return _flop(nodes, shapes) <= 8 * _ELEMENTS
    scores = [shapes[n.outputs[0].id] for n in nodes if n.kind == "SoftMax"]
    if any(math.prod(s[:-2]) >= _HEADS and math.prod(s[-2:]) <= _SCORES for s in scores):
        return _flop(nodes, shapes) <= 8 * _ELEMENTS
    elements = max(math.prod(shapes[v.id]) for n in nodes for v in (*n.inputs, *n.outputs))
    if not 0 < elements <= _ELEMENTS or not kinds.isdisjoint(_TUNED):
        return False
    return _HALF_TUNED not in kinds or _flop(nodes, shapes) <= _FLOP


@dataclass(frozen=True)
class Pace:
    """How long a partition takes fused, and its ops apart, in seconds a call."""

    fused: float
    apart: float

    @property
    def slow(self) -> str | None:
        """What to say of a fused partition that should not be used, or None."""
        if self.fused <= LIMIT * self.apart or self.fused - self.apart < _NOISE:
            return None
        return f"fused it takes {self.fused / self.apart:.3g} times as long as apart"

    @classmethod
    def measured(
        cls,
        engine: _core.engine,
        fused: PlannedStep,
        apart: Sequence[PlannedStep],
        constants: Mapping[int, npt.NDArray[Any]],
    ) -> Pace:
        """Run both in turn, and take the shortest of each, until it is clear which is faster."""
        trials = [Trial(engine, steps, constants) for steps in ([fused], apart)]
        spent = sum(trial.run() for trial in trials)  # the first run also sets up
        best = [math.inf, math.inf]
        for number in range(1, _RUNS + 1):
            for i, trial in enumerate(trials):
                seconds = trial.run()
                spent += seconds
                best[i] = min(best[i], seconds)
            pace = cls(*best)
            # Whatever else runs here only adds to a time, so slow takes more runs than fast.
            if pace.slow is None and number >= _FEW:
                break
            enough = number >= _FEW and spent > _SECONDS
            if enough or (pace.fused > _CLEARLY * pace.apart and spent > _SECONDS / 5):
                break
        return pace

    @classmethod
    def known(cls, subject: Subject) -> Pace | None:
        """What was measured of an equal partition in this process."""
        with _lock:
            return _measured.get((subject.threads, subject.signature))

    @classmethod
    def keep(cls, subject: Subject, pace: Pace) -> None:
        """Remember it."""
        with _lock:
            _measured[subject.threads, subject.signature] = pace


Paces = dict[tuple[int, str], Pace]
"""By the number of threads and the partition's signature."""

_lock = threading.Lock()
_measured: Paces = {}


def paces() -> Paces:
    """All that was measured in this process, for another one that is to decide alike."""
    with _lock:
        return dict(_measured)


def remember(measured: Paces) -> None:
    """Take what another process measured."""
    with _lock:
        _measured.update(measured)
