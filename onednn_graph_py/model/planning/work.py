"""The work of a group of ops, estimated from shapes: `flop`, `is_brief`, `may_be_slow`.

For some fusions oneDNN falls back to kernels that no one tuned, 50 to 1,200 times slower than the
same ops one after the other. This package measures all small partitions; of larger ones those
without a product or convolution, transposed convolutions, attention of many heads over few tokens,
and ops that read strided tensors. No call of them takes longer than one of the model itself.
"""

import math
from collections.abc import Mapping, Sequence

from ... import _core
from ...ops.lookup import row, with_trait
from ..building.value import Node
from .views import is_dense

# The number of elements that an untuned kernel processes in about a third of a second.
_ELEMENTS = 1 << 22
# Numbers of operations: any kernel computes the first in a tenth of a second and the second in a
# third of a second; a tuned kernel computes the third in a fifth of a second.
_FLOP_OF_ANY, _FLOP_IN_DOUBT, _FLOP = 1 << 22, 1 << 25, 1 << 30
# Attention of at least this many heads, with at most this many scores each, is worth measuring, as
# the time spent on each head counts.
_HEADS, _SCORES = 32, 64 * 64
# Ops that sum up many elements for each result, for which oneDNN has tuned kernels; those for
# ConvTranspose may apply fused ops one element at a time.
_TUNED = with_trait("product") - {"ConvTranspose"}

# What one thread computes, and reads and writes, in about 10 us.
_BRIEF_FLOP, _BRIEF_ELEMENTS = 320_000, 75_000
brief_groups = True  # False lets small groups run on all threads too, so that tests see them


def flop(nodes: Sequence[Node], shapes: Mapping[int, tuple[int, ...]]) -> int:
    """Return the number of operations of a group."""
    return sum(
        row(n.kind).flop(
            [shapes[v.id] for v in n.inputs], [shapes[v.id] for v in n.outputs], n.attrs
        )
        for n in nodes
    )


def is_brief(nodes: Sequence[Node], shapes: Mapping[int, tuple[int, ...]]) -> bool:
    """Return whether one thread runs a group in about 10 us.

    More threads gain nothing there: to wake them takes as long, and beside another process that
    has one of the CPUs a call waits for them, 10 to 1,000 times as long.
    """
    ids = {v.id for n in nodes for v in (*n.inputs, *n.outputs)}
    if not brief_groups or sum(math.prod(shapes[i]) for i in ids) > _BRIEF_ELEMENTS:
        return False
    return flop(nodes, shapes) <= _BRIEF_FLOP


def may_be_slow(
    nodes: Sequence[Node],
    shapes: Mapping[int, tuple[int, ...]],
    inputs: Sequence[_core.logical_tensor] = (),
) -> bool:
    """Return whether ops are worth measuring; large products and convolutions are not."""
    kinds = {n.kind for n in nodes}
    elements = max(math.prod(shapes[v.id]) for n in nodes for v in (*n.inputs, *n.outputs))
    work = flop(nodes, shapes)
    if "DynamicDequantize" in kinds:
        return work <= _FLOP_IN_DOUBT
    if not 0 < elements <= _ELEMENTS:
        return False
    if kinds.isdisjoint(_TUNED):
        return work <= _FLOP
    scores = [shapes[n.outputs[0].id] for n in nodes if n.kind == "SoftMax"]
    if any(math.prod(s[:-2]) >= _HEADS and math.prod(s[-2:]) <= _SCORES for s in scores):
        return work <= _FLOP_IN_DOUBT
    # Few kernels are tuned for what is strided but not row-major.
    strided = [lt for lt in inputs if lt.get_layout_type() == _core.logical_tensor.strided]
    return work <= (_FLOP_OF_ANY if all(map(is_dense, strided)) else _FLOP_IN_DOUBT)
