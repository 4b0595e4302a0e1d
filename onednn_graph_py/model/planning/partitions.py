"""oneDNN's partitions of a draft's ops, in the order in which they run."""

from bisect import bisect_left
from collections.abc import Sequence

from ... import _core
from ...base.errors import OneDNNError
from ...safety.partitioning import partitioned_apart
from ..building.foreign import ForeignNode
from ..building.value import Node
from .grouping import ordered, without_circles
from .plan_draft import PlanDraft
from .shared import Grouping


def groups(draft: PlanDraft, nodes: Sequence[Node]) -> Grouping:
    """Group nodes by oneDNN's partitions, in the order in which they run.

    The partition is None if oneDNN can't run the group.
    """
    computing = [n for n in nodes if n.kind != "End"]
    if all(map(draft.shared.has, computing)):
        strict = draft.is_strict(computing)
        return draft.shared.groups(computing, strict, lambda part: _grouped(draft, part))
    return ordered(_grouped(draft, computing))


def _grouped(draft: PlanDraft, computing: Sequence[Node]) -> Grouping:
    """Group nodes by oneDNN's partitions of a graph with the plan's shapes."""
    if not computing:
        return []
    foreign = [n for n in computing if isinstance(n, ForeignNode)]
    if foreign:
        rest = [n for n in computing if not isinstance(n, ForeignNode)]
        alone: Grouping = [((n,), None) for n in foreign]
        every = [*alone, *_grouped(draft, rest)]
        return without_circles(computing, every, lambda part: _grouped(draft, part))
    apart = partitioned_apart(computing) if len(computing) > 1 else []
    if apart:
        rest = [n for n in computing if n not in apart]
        return [g for part in (rest, *([n] for n in apart)) for g in _grouped(draft, part)]
    try:
        partitions = _partitions(draft, computing)
    except OneDNNError:
        if len(computing) == 1:
            if draft.options.fallback == "error":
                raise
            return [((computing[0],), None)]
        # oneDNN 3.13's search for fusions fails on parts of attention's gradients, with
        # "range_check", and graphs refuse products over a dim of 0.
        counts = range(1, len(computing))
        last = bisect_left(counts, True, key=lambda n: _fails(draft, computing[:n]))
        parts = (computing[:last], computing[last : last + 1], computing[last + 1 :])
        return [g for part in parts for g in _grouped(draft, part)]
    grouping: Grouping = []
    for partition in partitions:
        ids = set(partition.get_ops())
        members = tuple(n for n in computing if n.id in ids)  # in the order in which they run
        if members:
            grouping.append((members, partition if partition.is_supported() else None))
    return grouping


def _partitions(draft: PlanDraft, nodes: Sequence[Node]) -> list[_core.partition]:
    """Return oneDNN's partitions of a graph of these nodes alone."""
    return draft.graph(nodes).get_partitions(draft.options.policy)


def _fails(draft: PlanDraft, nodes: Sequence[Node]) -> bool:
    """Return whether oneDNN refuses to partition these nodes."""
    try:
        _partitions(draft, nodes)
    except OneDNNError:
        return True
    return False
