"""Make a `Drawing` of ops, their tensors and groups: `assemble`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...model.building.order import least_first
from .drawing import Drawing, Edge, Group, OpNode, Status, Tensor, Terminal


@dataclass
class DrawnOp:
    """An op, with its tensors by id."""

    kind: str
    name: str
    inputs: Sequence[int]
    outputs: Sequence[int]


@dataclass
class Graph:
    """The ops, tensors and groups of anything that can be drawn.

    `groups` have ops by their index in `ops`; each is in one group at most. By tensor, `inputs` has
    the names of the graph's inputs, and `constants` sizes in bytes. `what` is the word for a group:
    ``partition`` or ``step``.
    """

    title: str
    ops: list[DrawnOp]
    groups: list[tuple[Status, list[int]]]
    inputs: Mapping[int, str]
    outputs: Sequence[tuple[str, int]]
    constants: Mapping[int, int]
    tensors: Mapping[int, Tensor]
    what: str = "partition"
    notes: list[str] = field(default_factory=list)


_REMARKS: Mapping[Status, str] = {
    "oneDNN": "",
    "unsupported": ": no kernel in oneDNN",
    "host": ": host, in Python",
    "reference": ": reference, in NumPy",
    "view": ": view, not run",
    "constant": ": computed once, when compiled",
}


def _runnable(
    groups: Sequence[tuple[Status, list[int]]], ops: Sequence[DrawnOp]
) -> list[tuple[Status, list[int]]]:
    """Sort groups so that each comes after those it reads from, else in the order of their ops."""
    made_by = {
        t: i for i, (_, members) in enumerate(groups) for n in members for t in ops[n].outputs
    }
    before = [
        {made_by[t] for n in members for t in ops[n].inputs if t in made_by} - {i}
        for i, (_, members) in enumerate(groups)
    ]
    order = least_first(before, [min(members, default=0) for _, members in groups])
    # Groups that depend on each other in a circle can't run, but can be drawn.
    placed = set(order)
    order += [i for i in range(len(groups)) if i not in placed]
    return [groups[i] for i in order]


def assemble(graph: Graph) -> Drawing:
    """Make a drawing with a node for each op and with all groups."""
    ordered = _runnable(graph.groups, graph.ops)
    group_of = {n: i for i, (_, members) in enumerate(ordered) for n in members}
    groups = tuple(
        Group(f"{graph.what} {i + 1}{_REMARKS[status]}", status)
        for i, (status, _) in enumerate(ordered)
    )
    nodes = []
    source: dict[int, str] = {t: f"i{k}" for k, t in enumerate(graph.inputs)}
    for n, op in enumerate(graph.ops):
        read = {t for t in op.inputs if t in graph.constants}
        held = sum(graph.constants[t] for t in read)
        nodes.append(OpNode(f"n{n}", (n,), (op.kind,), op.name, group_of.get(n), len(read), held))
        source.update(dict.fromkeys(op.outputs, f"n{n}"))
    terminals = [
        Terminal(f"i{k}", "input", name, graph.tensors[t])
        for k, (t, name) in enumerate(graph.inputs.items())
    ]
    links: dict[tuple[str, str], list[int]] = {}
    for n, op in enumerate(graph.ops):
        for t in op.inputs:
            if t in source:
                links.setdefault((source[t], f"n{n}"), []).append(t)
    constants: dict[int, str] = {}
    for k, (name, t) in enumerate(graph.outputs):
        if t in graph.constants and t not in source:  # no op that it could be drawn in
            constants[t] = source[t] = f"c{len(constants)}"
            terminals.append(Terminal(source[t], "constant", "", graph.tensors[t]))
        terminals.append(Terminal(f"o{k}", "output", name, graph.tensors[t]))
        if t in source:
            links.setdefault((source[t], f"o{k}"), []).append(t)
    edges = tuple(
        Edge(a, b, tuple(graph.tensors[t] for t in dict.fromkeys(ids)), len(ids))
        for (a, b), ids in links.items()
    )
    return Drawing(graph.title, tuple(nodes), tuple(terminals), groups, edges, tuple(graph.notes))
