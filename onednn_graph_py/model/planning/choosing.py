"""Choose the steps that run a group: as one partition, in parts, or in another way."""

from collections.abc import Iterator, Sequence

from ... import _core
from ...base.errors import InvalidGraphError, OneDNNError, UnimplementedError, reworded
from ...ops.lookup import with_trait
from ..building.foreign import ForeignNode
from ..building.value import Node
from ..rewriting import AVOIDING, RECIPES
from . import partitions
from .constants import reading_folded
from .fates import Refused, Runs, Slow, add_group, add_part
from .forms import add_form
from .grouping import ordered
from .host_steps import add_foreign
from .plan_draft import PlanDraft
from .shared import Nodes, Way
from .steps import add_reference


def add(draft: PlanDraft, nodes: Nodes, partition: _core.partition | None, why: str = "") -> None:
    """Add the steps that run a group, split if needed.

    - raises `OneDNNError`: an op of it does not run, and the options forbid that NumPy computes it
    """
    nodes, partition = _with_folded(draft, nodes, partition)
    if isinstance(nodes[0], ForeignNode):
        add_foreign(draft, nodes[0])
        return
    if partition is None:
        for node in nodes:
            error = _unsupported(node, draft.builder.engine_kind.name)
            if node.kind == "Wildcard":
                raise error
            _add_without_kernel(draft, node, error)
        return
    if add_form(draft, nodes, why):
        return
    found = add_group(draft, nodes, partition, why)
    if isinstance(found, Slow):
        if split_for_speed(draft, nodes, found.why):
            return
        found = add_group(draft, nodes, partition, why, slow=True)
    if isinstance(found, Runs):
        return
    if isinstance(found, Refused):
        if len(nodes) > 1:
            _split(draft, nodes, f"in one partition it does not compile: {found.error}")
            return
        message = f"{nodes[0].label} made at {nodes[0].where}: {found.error}"
        _add_without_kernel(draft, nodes[0], reworded(found.error, message))
        return
    if len(nodes) > 1:
        _split(draft, nodes, found.why)
        return
    how = _add_alternative(draft, nodes[0], found.why)
    if how is None:
        how = "in NumPy"
        add_reference(draft, nodes[0], found.why)
    draft.splits.append((nodes, f"{found.why}; it is computed {how}"))


def _with_folded(
    draft: PlanDraft, nodes: Nodes, partition: _core.partition | None
) -> tuple[Nodes, _core.partition | None]:
    """Replace folded inputs of a group, if oneDNN still makes one partition of it."""
    reading = reading_folded(draft, nodes)
    if reading is nodes or partition is None:
        return reading, partition
    groups = partitions.groups(draft, reading)
    return groups[0] if len(groups) == 1 else (nodes, partition)


# -- one op in another way


def _unsupported(node: Node, engine_kind: str) -> UnimplementedError:
    where = f"{node.label} made at {node.where}"
    if node.kind == "Wildcard":
        return UnimplementedError(f"{where}: a Wildcard stands for an op that oneDNN does not know")
    return UnimplementedError(
        f"{where}: oneDNN has no {engine_kind} kernel for this op alone; without "
        "fallback='error' NumPy computes it"
    )


def _add_without_kernel(draft: PlanDraft, node: Node, error: OneDNNError) -> None:
    """Add an op that oneDNN can't run alone: written in another way, or computed in NumPy."""
    draft.without_kernel += 1
    why = f"oneDNN has no kernel for this {node.kind}"
    if _add_alternative(draft, node, why) is not None:
        return
    if draft.options.fallback == "error":
        raise error from None
    add_reference(draft, node, why)
    if draft.steps[-1].implementation == "reference":
        draft.in_numpy.append(((node,), why))


def _add_alternative(draft: PlanDraft, node: Node, why: str, depth: int = 3) -> str | None:
    """Add an op written in another way, if one is right; return the name of that way.

    The ops of one way may be written in other ways in turn: an op is written anew up to `depth`
    times, as few as possible.
    """
    for within in range(depth):
        for rule in (*AVOIDING, *RECIPES):
            nodes = rule.written(draft.builder, node, draft.shapes)
            if nodes is not None and _add_all(draft, [(n,) for n in nodes], why, depth=within):
                return rule.how
    if draft.builder.fpmath_mode.name != "strict" and not draft.is_strict([node]):
        with draft.attempt() as keep:
            draft.strict.add(node.id)
            if _add_all(draft, [(node,)], why):
                keep()
                return "without a smaller floating-point type"
    return None


# -- several steps


def _add_all(
    draft: PlanDraft, parts: Sequence[Nodes], why: str, *, slow: bool = False, depth: int = 0
) -> bool:
    """Add parts if each is one good partition; return whether it did.

    Slow partitions are good only if allowed. Parts of one op may be written in other ways, if
    `depth` is positive.
    """
    with draft.attempt() as keep:
        for part in parts:
            if add_form(draft, part, why) or add_part(draft, part, why, slow=slow):
                continue
            if depth == 0 or len(part) > 1:
                return False
            (node,) = reading_folded(draft, part)
            if not _add_alternative(draft, node, why, depth):
                return False
        keep()
    return True


def _split(draft: PlanDraft, nodes: Nodes, why: str, *, warn: bool = True) -> None:
    """Add steps that run a group in parts, because it would be wrong or slow as one."""
    # The layout of views is our choice, so there is no warning if it costs a fusion.
    if warn and not any(v.id in draft.views for n in nodes for v in n.inputs):
        draft.splits.append((nodes, why))
    why = f"oneDNN would fuse {' + '.join(n.kind for n in nodes)}: {why}"
    depth = 2 if warn else 0
    key, ways = (draft.size_key(nodes), depth), draft.shared.ways
    way = ways.get(key)
    if way is not None:
        parts = [tuple(nodes[i] for i in part) for part in way.parts]
        if _add_all(draft, parts, why, slow=way.slow, depth=depth):
            return
    apart = ordered([g for n in nodes for g in partitions.groups(draft, [n])])
    has_kernels = all(partition is not None for _, partition in apart)
    known_apart = way is None and key in ways
    for slow in () if known_apart else (False,) if has_kernels else (False, True):
        for parts in _ways_to_split(draft, nodes):
            if _add_all(draft, parts, why, slow=slow, depth=depth):
                place = {n.id: i for i, n in enumerate(nodes)}
                ways[key] = Way([[place[n.id] for n in part] for part in parts], slow)
                return
    ways[key] = None
    for part, partition in apart:
        add(draft, part, partition, why)


def split_for_speed(draft: PlanDraft, nodes: Nodes, why: str) -> bool:
    """Add steps that run a group in parts, and return True, if oneDNN has kernels for all."""
    with draft.attempt() as keep:
        before = draft.without_kernel
        try:
            _split(draft, nodes, why, warn=False)
        except OneDNNError:
            return False
        if draft.without_kernel > before:
            return False
        keep()
    return True


def _ways_to_split(draft: PlanDraft, nodes: Nodes) -> Iterator[list[Nodes]]:
    """Yield ways to split a group, each a list of parts in the order in which they run.

    First come the cuts in two, then ways with more parts, those with the fewest first.
    """
    for cut in range(1, len(nodes)):
        yield [nodes[:cut], nodes[cut:]]
    # Some ops run unfused, and oneDNN partitions the rest again: the ops that convert integers
    # to floats, or any single op.
    peels = [[n] for n in nodes]
    converting = [n for n in nodes if n.kind in with_trait("dequantizes")]
    if len(converting) > 1:
        peels.insert(0, converting)
    ways = []
    for peeled in peels:
        rest = [n for n in nodes if n not in peeled]
        try:
            groups = [
                g for part in (*([n] for n in peeled), rest) for g in partitions.groups(draft, part)
            ]
            parts = [members for members, _ in ordered(groups)]
        except InvalidGraphError:  # the parts read each other's results
            continue
        if len(parts) < len(nodes):
            ways.append(parts)
    yield from sorted(ways, key=len)
