"""Partition changed graphs: find the library's groups of ops, and whether each runs.

Only planning executes partitions, to measure whether they are slower than separate ops.

A `Probe` does so for changed copies of one graph.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ... import _core
from ...base.arguments import need_integers
from ...base.errors import InvalidArgumentsError, OneDNNError
from ...machine import current
from ...model.building.builder import GraphBuilder
from ...model.building.infer import infer_shapes, require_fit
from ...model.building.value import Node, Value, is_whole
from ...model.planning import CompileOptions, SlowFusions, engine_of, partitions
from ...model.planning.choosing import split_for_speed
from ...model.planning.fates import Candidate, Refused, Slow, Wrong, add_group, known_defect
from ...model.planning.group import group_of
from ...model.planning.plan_draft import PlanDraft
from ...model.rewriting.rebuild import Copy, Edit, rebuild, values_of
from ...safety.table import wrong_result

# Of a graph with more ops, only a part is tried: about this many around the op, in whole groups.
_NEAR = 12


@dataclass(frozen=True)
class Group:
    """Ops that the library wants to run together.

    `trouble` is the reason why they can't: a known defect, or the error when compiling. `slow` is
    the reason why they run separately though they could run together: fused they are slower.
    """

    nodes: tuple[Node, ...]
    supported: bool
    trouble: str = ""
    slow: str = ""
    kinds: tuple[str, ...] = ()  # of the ops as rules wrote them
    _compile: Callable[[], tuple[str, str]] | None = None

    def compiled(self) -> Group:
        """Compile the group if there is an engine; return it with its trouble or slowness."""
        if self.trouble or self._compile is None:
            return self
        trouble, slow = self._compile()
        return replace(self, trouble=trouble, slow=slow)

    @property
    def runs(self) -> bool:
        """Whether the ops can run together."""
        return self.supported and not self.trouble


def chosen_shapes(
    name: str, builder: GraphBuilder, shapes: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of a graph's inputs; raise if they do not fit those declared."""
    chosen = tuple(need_integers("explain: a shape", s) for s in shapes)
    if chosen and len(chosen) != len(builder.inputs):
        raise InvalidArgumentsError(
            f"explain: {name} has {len(builder.inputs)} inputs, got {len(chosen)} shapes"
        )
    for value, shape in zip(builder.inputs, chosen, strict=False):
        require_fit(f"explain: input {value.name!r}", value.shape or (), shape)
    return chosen or tuple(v.shape or () for v in builder.inputs)


def specialised(builder: GraphBuilder, shapes: Sequence[Sequence[int]]) -> GraphBuilder:
    """Copy the graph with these shapes of its inputs; return the builder itself without shapes."""
    if not shapes:
        return builder
    chosen = chosen_shapes("the graph", builder, shapes)
    known = {v.id: s for v, s in zip(builder.inputs, chosen, strict=True)}
    return rebuild(builder, shapes=known).builder


def can_compile(builder: GraphBuilder) -> bool:
    """Whether there is an engine."""
    try:
        engine_of(builder.engine_kind)
    except OneDNNError:
        return False
    return True


def _draft(builder: GraphBuilder, slow_fusions: SlowFusions = "avoid") -> PlanDraft:
    """Begin a plan of the graph."""
    every = values_of(builder)
    # A copy's shapes are inferred as it is written.
    shapes = {v.id: v.shape for v in every if v.shape is not None and is_whole(v.shape)}
    if len(shapes) < len(every):
        shapes = infer_shapes(builder, {v.id: v.shape or () for v in builder.inputs})
    # Without a device there is nothing to compile for; groups don't need one.
    engine = engine_of(builder.engine_kind) if can_compile(builder) else None
    return PlanDraft(builder, engine, shapes, CompileOptions(slow_fusions=slow_fusions))


def grouped(
    builder: GraphBuilder, *, compiled: bool = False, slow_fusions: SlowFusions = "avoid"
) -> list[Group]:
    """Group a graph's ops, without those that no output depends on.

    If asked, compile each group, to see that it runs. `slow_fusions` is that of
    `GraphBuilder.compile`.
    """
    draft = _draft(builder, slow_fusions)
    by_id = {n.id: n for n in builder.nodes}
    groups = []
    for nodes, partition in partitions.groups(draft, draft.nodes):
        own = (one for n in nodes for one in n.parts or (by_id.get(n.id, n),))
        known = tuple({n.id: n for n in own}.values())
        if partition is None:
            groups.append(Group(known, False))
            continue
        compiling = partial(_compiled, draft, nodes, partition) if can_compile(builder) else None
        as_seen = draft.group(nodes), draft.conditions_of(nodes)
        defect = known_defect(draft, Candidate(nodes, partition, *as_seen))
        trouble = "" if defect is None else defect.why
        kinds = tuple(n.kind for n in nodes)
        group = Group(known, True, trouble, kinds=kinds, _compile=compiling)
        groups.append(group.compiled() if compiled else group)
    return groups


def _compiled(
    draft: PlanDraft, nodes: tuple[Node, ...], partition: _core.partition
) -> tuple[str, str]:
    """Compile a partition; return the error and the reason to split it, or empty strings."""
    for node in nodes:
        for value in node.inputs:
            # Row-major, even if the step before it would choose another layout.
            draft.known.setdefault(value.id, draft.plain(value))
    slow = ""
    fate = add_group(draft, nodes, partition)
    if isinstance(fate, Slow):
        with draft.attempt():
            slow = fate.why if split_for_speed(draft, nodes, fate.why) else ""
        fate = add_group(draft, nodes, partition, slow=True)
    if isinstance(fate, Refused):
        return str(fate.error), ""
    return (fate.why, "") if isinstance(fate, Wrong) else ("", slow)


def near_defect(builder: GraphBuilder, group: Group) -> bool:
    """Whether these ops would meet a known defect without the TypeCasts between them.

    The table of defects looks at adjacent ops; a cast between them may hide a defect.
    """
    source: dict[int, Value] = {}
    nodes = []
    for node in group.nodes:
        inputs = tuple(source.get(v.id, v) for v in node.inputs)
        if node.kind == "TypeCast":
            source[node.outputs[0].id] = inputs[0]
        else:
            nodes.append(replace(node, inputs=inputs))
    if not nodes:
        return False
    without = group_of(nodes, fpmath=builder.fpmath_mode.name, apply_to_int=builder.apply_to_int)
    return wrong_result(without, current()) is not None


def refused_alone(builder: GraphBuilder, group: Group) -> dict[int, str]:
    """Return the reasons for ops of a group in trouble that can't run alone either, by id."""
    if not group.trouble or len(group.nodes) < 2 or not can_compile(builder):
        return {}
    draft = _draft(builder)
    reasons = {}
    for node in group.nodes:
        for nodes, partition in partitions.groups(draft, [node]):
            if partition is None:
                reasons[node.id] = "no kernel"
            elif why := _compiled(draft, nodes, partition)[0]:
                reasons[node.id] = why
    return reasons


@dataclass(frozen=True)
class Tried:
    """A changed graph, and the groups that the library makes of it."""

    copy: Copy
    groups: list[Group]

    def with_op(self, position: int) -> list[Group]:
        """Return the groups with an op that stands for the source's op at `position`."""
        stands = self.copy.stands
        return [g for g in self.groups if any(stands.get(n.id) == position for n in g.nodes)]

    def partners(self, position: int) -> set[int]:
        """Return the positions of the ops that run together with the one at `position`."""
        inside = {n.id for g in self.with_op(position) if not g.slow for n in g.nodes}
        return {i for id, i in self.copy.stands.items() if id in inside} - {position}

    @property
    def unsupported(self) -> int:
        """The number of groups that the library has no kernel for."""
        return sum(not g.supported for g in self.groups)


class Probe:
    """Tries changes of one graph, which stays as it is, around the op at a position.

    Changes are also about the ops at the positions `concerned`; `groups` are those of the unchanged
    graph, whose shapes are known as far as can be.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        position: int,
        concerned: Collection[int],
        groups: Sequence[Group],
        slow_fusions: SlowFusions = "avoid",
    ) -> None:
        self.builder = builder
        self.position = position
        self.asked = 0
        self._before: Tried | None = None
        self._slow_fusions: SlowFusions = slow_fusions
        self._near = _near(builder, (position, *concerned), groups)
        self.part = len(self._near) < len(builder.nodes)

    @property
    def before(self) -> Tried:
        """The partitions of the graph without a change."""
        if self._before is None:
            self._before = self._ask(Edit())
        return self._before

    def _ask(self, edit: Edit, *, everything: bool = False) -> Tried:
        beyond = any(i not in self._near for i in edit.nodes)
        only = None if everything or beyond or not self.part else self._near
        try:
            copy = rebuild(self.builder, edit, only=only)
        except KeyError:
            if only is None:
                raise
            # A writer may need a value outside the part.
            copy = rebuild(self.builder, edit)
        return Tried(copy, grouped(copy.builder, slow_fusions=self._slow_fusions))

    def ask(self, edit: Edit) -> Tried | None:
        """Try a change; None if the graph is invalid."""
        self.asked += 1
        try:
            return self._ask(edit)
        except (OneDNNError, TypeError, ValueError):
            return None

    def confirmed(self, edit: Edit, tried: Tried) -> Tried | None:
        """Try the change in the whole graph, and compile it; None if it fails."""
        try:
            whole = self._ask(edit, everything=True) if self.part else tried
            groups = whole.with_op(self.position)
            if not groups or not all(g.runs for g in groups):
                return None
            compiled = {id(g): g.compiled() for g in groups}
            if any(g.trouble for g in compiled.values()):
                return None
        except (OneDNNError, TypeError, ValueError):
            return None
        return replace(whole, groups=[compiled.get(id(g), g) for g in whole.groups])


def readers_of(builder: GraphBuilder) -> dict[int, list[Node]]:
    """Return the ops that read each value, by its id."""
    readers: dict[int, list[Node]] = {}
    for node in builder.nodes:
        for value in {v.id: v for v in node.inputs}.values():
            readers.setdefault(value.id, []).append(node)
    return readers


def _near(
    builder: GraphBuilder, positions: Collection[int], groups: Sequence[Group]
) -> Collection[int]:
    """Return the positions of the ops around some, in whole groups; all ops of a small graph."""
    nodes = builder.nodes
    if len(nodes) <= _NEAR:
        return range(len(nodes))
    places = {n.id: i for i, n in enumerate(nodes)}
    group_of = {places[n.id]: [places[m.id] for m in g.nodes] for g in groups for n in g.nodes}
    readers = readers_of(builder)
    region = dict.fromkeys(k for i in positions for k in group_of.get(i, [i]))
    ring = list(region)
    rings = 0
    while ring and (rings < 2 or len(region) < _NEAR):
        rings += 1
        following: dict[int, None] = {}
        for i in ring:
            made_by = [v.producer for v in nodes[i].inputs]
            read_by = [n for v in nodes[i].outputs for n in readers.get(v.id, ())]
            near = [places[n.id] for n in (*made_by, *read_by) if n is not None]
            following.update(dict.fromkeys(k for j in near for k in group_of.get(j, [j])))
        ring = [i for i in following if i not in region]
        region.update(dict.fromkeys(ring))
    return set(region)
