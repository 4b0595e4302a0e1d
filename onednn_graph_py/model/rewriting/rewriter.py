"""The pass that writes a graph in another way, by rules: `rewritten`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...base.linked import linked_version
from ..building.builder import GraphBuilder, readers_of
from ..building.foreign import HostNode, UpdateNode
from ..building.value import Node
from .rule import Ops, Rule


def rewritten(rules: Sequence[Rule], builder: GraphBuilder, nodes: Sequence[Node]) -> list[Node]:
    """Write nodes of a graph in another way, whatever its source.

    The ops whose results nobody reads then are still there. Dims may be unknown.

    - `rules`: they read the ops before an op as they are written already. The first that fits an op
      writes it.
    - `nodes`: each after those that it reads
    - returns: the last op in the place of another one has its id and its outputs. `Node.parts` has
      the ops for which it stands.
    """
    by_kind: dict[str, list[Rule]] = {}
    for rule in rules:
        if rule.since <= linked_version():
            for kind in rule.kinds:
                by_kind.setdefault(kind, []).append(rule)
    readers = dict(readers_of(builder, nodes))
    makers = {v.id: n for n in nodes for v in n.outputs}
    every = (*builder.inputs, *(v for n in nodes for v in (*n.inputs, *n.outputs)))
    shapes = {v.id: v.shape for v in every if v.shape is not None}
    written: list[Node] = []
    for node in nodes:
        touched = (*node.inputs, *node.outputs)
        if isinstance(node, HostNode) or any(v.id not in shapes for v in touched):
            written.append(node)
            continue
        for rule in by_kind.get(node.kind, ()):
            ops = Ops(builder, node, shapes, makers, readers)
            if not rule.write(ops, node):
                continue
            added = ops.end()
            added[-1] = replace(added[-1], id=node.id)
            parts = _parts(node, {v.id for n in added for v in n.inputs}, makers)
            added = [n if n.parts else replace(n, parts=parts) for n in added]
            written += added
            makers |= {v.id: n for n in added for v in n.outputs}
            _exchange(node, added, makers, readers)
            break
        else:
            written.append(node)
    return written


def _exchange(
    node: Node,
    added: Sequence[Node],
    makers: Mapping[int, Node],
    readers: dict[int, set[int | None]],
) -> None:
    """Let ops read in the place of a node, and of those whose results nobody reads then."""
    unread = {node.id: node}
    for value in node.inputs:
        readers[value.id].discard(node.id)
    for one in added:
        for value in one.inputs:
            readers.setdefault(value.id, set()).add(one.id)
    open_ = [node]
    for one in open_:
        for value in one.inputs:
            if one is not node:
                readers[value.id].discard(one.id)
            before = makers.get(value.id)
            if before is None or before.id in unread or readers[value.id]:
                continue
            if not isinstance(before, UpdateNode) and not any(
                readers.get(v.id) for v in before.outputs
            ):
                unread[before.id] = before
                open_.append(before)


def _parts(node: Node, read: set[int], makers: Mapping[int, Node]) -> tuple[Node, ...]:
    """Return the ops that make a node's result of values that are read, the node last."""
    parts = {node.id: node}
    open_ = [node]
    for part in open_:
        before = [makers[v.id] for v in part.inputs if v.id in makers and v.id not in read]
        fresh = [n for n in before if n.id not in parts]
        open_ += fresh
        parts |= {n.id: n for n in fresh}
    whole = [one for n in open_ for one in n.parts or (n,)]
    return tuple(sorted({n.id: n for n in whole}.values(), key=lambda n: n.id))
