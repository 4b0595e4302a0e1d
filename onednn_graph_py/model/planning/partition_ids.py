"""Partition ids for which oneDNN's cache of constants has no collisions.

Scales and zero points of quantization are constants that oneDNN makes itself. It caches them under
a hash of the partition's id and of their memory descriptors, which are the same for every scale.
The hash ``s`` starts as the id, and becomes ``s ^ (v + c + (s << 6) + (s >> 2))`` for each
descriptor ``v``. Two successive ids give the same hash about once in 16,000 pairs (found by a
random graph in which a Dequantize got the scale of the Quantize before it).

Where ids differ by a multiple of 4**n, the lowest bit in which the hashes differ moves down by two
with each of the first n descriptors, so they stay different. A partition with a constant input
needs none of this if it is a copy: its address enters the hash, and `constant_memory` scatters
addresses. A caller's array that is used where it lies enters no hash (`plan.as_passed`); groups of
such arrays share a partition only if each has a copy besides, which no other has (`shared`).

A partition that is compiled for two sizes has the same hash for both, even where their constants
mean other numbers, since an operand is fused for one size only (`compiling`): each has its own id.
"""

import functools
from collections.abc import Sequence

from ... import _core

SPACING = 4**3
"""The distance between ids: enough for three descriptors, scales, zero points and one more."""

FILLER = "takes a partition id"  # the name of ops that exist only to take a partition id

_ATTEMPTS = 1000


@functools.cache
def _graph_of(ops: int) -> _core.graph:
    """Make a graph of this number of ops, each of which takes an id at every partitioning."""
    g = _core.graph("cpu")
    for i in range(ops):
        tensors = [_core.logical_tensor(2 * i + k, "f32", [1], "strided") for k in (0, 1)]
        g.add_op(_core.op(i, "ReLU", tensors[:1], tensors[1:], FILLER))
    g.finalize()
    return g


def _skip(count: int) -> None:
    for bit in range(count.bit_length()):
        if count & 1 << bit:
            _graph_of(1 << bit).get_partitions(_core.partition.policy.debug)


def partition_of(g: _core.graph, ops: Sequence[int]) -> _core.partition:
    """Partition a graph until the partition of some ops has a multiple of `SPACING` as id."""
    for _ in range(_ATTEMPTS):
        partition = next(p for p in g.get_partitions() if set(p.get_ops()) == set(ops))
        past = partition.get_id() % SPACING
        if past == 0:
            return partition
        _skip(SPACING - 1 - past)
    # Other threads took all suitable ids; even then a collision is improbable.
    return partition
