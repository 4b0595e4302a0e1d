"""Choose the fused partitions to measure, and keep the paces that this process measured.

For some fusions oneDNN falls back to kernels that no one tuned, 50 to 1,200 times slower than the
same ops one after the other. This package measures all small partitions; of larger ones those
without a product or convolution, transposed convolutions, attention of many heads over few tokens,
and ops that read strided tensors. No call of them takes longer than one of the model itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from ... import _core
from ...machine.pace import Pace
from ...ops.lookup import row, with_trait
from ..building.value import Node, row_major
from ..verdicts import Subject
from .plan import PlannedStep
from .trial import Trial

__all__ = ["Paces", "keep", "known", "may_be_slow", "measured", "paces", "remember"]

# The number of elements that an untuned kernel processes in about a third of a second.
_ELEMENTS = 1 << 22
_COMPRESSED = ("DynamicDequantize",)
# Numbers of operations: any kernel computes the first in a tenth of a second and the second in a
# third of a second; a tuned kernel computes the third in a fifth of a second.
_FLOP_OF_ANY, _FLOP_IN_DOUBT, _FLOP = 1 << 22, 1 << 25, 1 << 30
# Attention of at least this many heads, with at most this many scores each, is worth measuring, as
# the time spent on each head counts.
_HEADS, _SCORES = 32, 64 * 64
# oneDNN's kernels for ConvTranspose may apply fused ops one element at a time.
_HALF_TUNED = "ConvTranspose"
# Ops that sum up many elements for each result, for which oneDNN has tuned kernels.
_TUNED = with_trait("product") - {_HALF_TUNED}


def _flop(nodes: Sequence[Node], shapes: Mapping[int, tuple[int, ...]]) -> int:
    return sum(
        row(n.kind).flop(
            [shapes[v.id] for v in n.inputs], [shapes[v.id] for v in n.outputs], n.attrs
        )
        for n in nodes
    )


def _strided(lt: _core.logical_tensor) -> bool:
    """Return whether a tensor is strided but not row-major, for which few kernels are tuned."""
    if lt.get_layout_type() != _core.logical_tensor.strided:
        return False
    dims = lt.get_dims()
    plain = zip(dims, lt.get_strides(), row_major(dims), strict=True)
    return any(dim > 1 and stride != usual for dim, stride, usual in plain)


def may_be_slow(
    nodes: Sequence[Node],
    shapes: Mapping[int, tuple[int, ...]],
    inputs: Sequence[_core.logical_tensor] = (),
) -> bool:
    """Return whether ops are worth measuring; large products and convolutions are not."""
    kinds = {n.kind for n in nodes}
    elements = max(math.prod(shapes[v.id]) for n in nodes for v in (*n.inputs, *n.outputs))
    flop = _flop(nodes, shapes)
    if not kinds.isdisjoint(_COMPRESSED):
        return flop <= _FLOP_IN_DOUBT
    if not 0 < elements <= _ELEMENTS:
        return False
    if kinds.isdisjoint(_TUNED):
        return flop <= _FLOP
    scores = [shapes[n.outputs[0].id] for n in nodes if n.kind == "SoftMax"]
    if any(math.prod(s[:-2]) >= _HEADS and math.prod(s[-2:]) <= _SCORES for s in scores):
        return flop <= _FLOP_IN_DOUBT
    return flop <= (_FLOP_IN_DOUBT if any(map(_strided, inputs)) else _FLOP_OF_ANY)


Paces = dict[tuple[int, str], Pace]
"""Each partition's pace, by the number of threads and the partition's signature."""

# Without a lock, which a fork could leave locked: single operations on a dict are atomic.
_measured: Paces = {}


def measured(
    engine: _core.engine,
    fused: PlannedStep,
    apart: Sequence[PlannedStep],
    constants: Mapping[int, npt.NDArray[Any]],
) -> Pace | None:
    """Measure a fused step and its separate steps, as `Pace.measured` does."""
    one, other = (Trial(engine, steps, constants).run for steps in ([fused], apart))
    return Pace.measured(one, other)


def known(subject: Subject) -> Pace | None:
    """Return the pace of an equal partition that this process measured, or None."""
    return _measured.get((subject.threads, subject.signature))


def keep(subject: Subject, pace: Pace) -> None:
    """Remember the pace of a partition for this process."""
    _measured[subject.threads, subject.signature] = pace


def paces() -> Paces:
    """Return all paces of this process, for another process that must decide alike."""
    return dict(_measured)


def remember(measured: Paces) -> None:
    """Keep paces that another process measured."""
    _measured.update(measured)
