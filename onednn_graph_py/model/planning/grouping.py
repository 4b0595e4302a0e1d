"""Choose the ops to plan, and the order in which groups of them run."""

from collections.abc import Callable, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from ...base.errors import InvalidGraphError
from ..building.builder import GraphBuilder
from ..building.foreign import ForeignNode, UpdateNode
from ..building.order import run_order
from ..building.value import Node

_Groups = list[tuple[tuple[Node, ...], Any]]


def needed(builder: GraphBuilder, nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes on which outputs depend, and updates, in the order in which they were made.

    It raises InvalidGraphError if an op reads an input that another one updates.
    """
    wanted = {value.id for value in builder.outputs.values()}
    kept = []
    for node in reversed(nodes):
        if isinstance(node, UpdateNode) or any(value.id in wanted for value in node.outputs):
            kept.append(node)
            wanted.update(value.id for value in node.inputs)
    _require_updates_first(builder)
    return kept[::-1]


def _require_updates_first(builder: GraphBuilder) -> None:
    """Raise if something reads an input that another op updates, as it may run before or after."""
    updated = {n.inputs[0].id: n for n in builder.nodes if isinstance(n, UpdateNode)}
    for node in builder.nodes:
        for value in node.inputs:
            by = updated.get(value.id)
            if by is not None and by is not node:
                raise InvalidGraphError(
                    f"{node.label} made at {node.where} reads the input {value.name!r}, which "
                    f"{by.label} updates; it must read what the update returns"
                )
    for name, value in builder.outputs.items():
        if value.id in updated:
            raise InvalidGraphError(
                f"output {name!r} is the input {value.name!r}, which "
                f"{updated[value.id].label} updates; it must be what the update returns"
            )


def _before(groups: _Groups) -> list[list[int]]:
    """Return for each group those whose tensors it reads."""
    made_by = {v.id: i for i, (nodes, _) in enumerate(groups) for n in nodes for v in n.outputs}
    return [
        sorted({made_by[v.id] for n in nodes for v in n.inputs if v.id in made_by} - {i})[::-1]
        for i, (nodes, _) in enumerate(groups)
    ]


def without_circles(
    nodes: Sequence[Node], groups: _Groups, again: Callable[[Sequence[Node]], _Groups]
) -> _Groups:
    """Split groups that depend on each other in a circle, through nodes that are not oneDNN's.

    oneDNN does not see that a result of a group comes back to it. Ops before and after a foreign
    node differ in the number of foreign nodes on the longest way to them. Each group of a circle is
    split by that number; no circle is left among groups of one number each.

    - `nodes`: all nodes, each after those that it reads
    - `groups`: list of (nodes, partition)
    - `again`: groups some of the nodes anew
    """
    made_by = {v.id: n for n in nodes for v in n.outputs}
    depth: dict[int, int] = {}
    for node in nodes:
        before = [made_by[v.id] for v in node.inputs if v.id in made_by]
        depth[node.id] = max((depth[n.id] + isinstance(n, ForeignNode) for n in before), default=0)
    while True:
        try:
            TopologicalSorter(dict(enumerate(_before(groups)))).prepare()
        except CycleError as e:
            circle = set(e.args[1])
        else:
            return groups
        made: _Groups = []
        for i, group in enumerate(groups):
            depths = sorted({depth[n.id] for n in group[0]}) if i in circle else []
            if len(depths) < 2:
                made.append(group)
                continue
            for d in depths:
                made += again([n for n in group[0] if depth[n.id] == d])
        if len(made) == len(groups):  # not our doing
            return groups
        groups = made


def ordered(groups: _Groups) -> _Groups:
    """Sort groups so that each follows those whose tensors it reads; oneDNN promises no order."""
    try:
        return [groups[i] for i in run_order(_before(groups))]
    except CycleError:
        raise InvalidGraphError("the partitions depend on each other in a circle") from None
