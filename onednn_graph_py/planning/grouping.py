"""Choose the ops to plan, and the order in which groups of them run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from graphlib import CycleError
from typing import Any

from ..building.builder import GraphBuilder
from ..building.order import run_order
from ..building.value import Node, Value, new_id
from ..errors import InvalidGraphError

__all__ = ["needed", "one_dequantize_each", "ordered"]


def needed(builder: GraphBuilder) -> list[Node]:
    """Return the ops on which outputs depend, in the order in which they were made."""
    wanted = {value.id for value in builder.outputs.values()}
    nodes = []
    for node in reversed(builder.nodes):
        if any(value.id in wanted for value in node.outputs):
            nodes.append(node)
            wanted.update(value.id for value in node.inputs)
    return nodes[::-1]


def one_dequantize_each(
    builder: GraphBuilder, nodes: Sequence[Node]
) -> tuple[list[Node], dict[int, int]]:
    """Give every op that reads a dequantized tensor its own Dequantize.

    oneDNN computes an op in integers only if no other op reads the result of its Dequantize.

    Returns
    -------
    list of Node
    dict of int to int
        For each new value, by its id, the id of the value that it equals.
    """
    equals: dict[int, int] = {}
    readers: dict[int, int] = {v.id: 1 for v in builder.outputs.values()}
    for node in nodes:
        for i in {v.id for v in node.inputs}:
            readers[i] = readers.get(i, 0) + 1
    shared = {
        n.outputs[0].id: n for n in nodes if n.kind == "Dequantize" and readers[n.outputs[0].id] > 1
    }
    if not shared:
        return list(nodes), equals
    kept = {v.id for v in builder.outputs.values()}
    made: list[Node] = []
    for node in nodes:
        inputs = {v.id: v for v in node.inputs}
        for i in inputs.keys() & shared.keys():
            if i not in kept:
                kept.add(i)  # the first reader keeps the original
                continue
            original = shared[i]
            value = Value(builder, inputs[i].shape, inputs[i].dtype, inputs[i].name)
            equals[value.id] = i
            made.append(replace(original, id=new_id(), outputs=(value,)))
            inputs[i] = value
        made.append(replace(node, inputs=tuple(inputs[v.id] for v in node.inputs)))
    return made, equals


def ordered(groups: list[tuple[tuple[Node, ...], Any]]) -> list[tuple[tuple[Node, ...], Any]]:
    """Sort groups so that each follows those whose tensors it reads; oneDNN promises no order."""
    made_by = {v.id: i for i, (nodes, _) in enumerate(groups) for n in nodes for v in n.outputs}
    before = [
        sorted({made_by[v.id] for n in nodes for v in n.inputs if v.id in made_by} - {i})[::-1]
        for i, (nodes, _) in enumerate(groups)
    ]
    try:
        return [groups[i] for i in run_order(before)]
    except CycleError:
        raise InvalidGraphError("the partitions depend on each other in a circle") from None
