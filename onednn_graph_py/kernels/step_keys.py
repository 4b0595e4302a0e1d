"""Names of a model's steps that other processes know too: `step_keys`."""

from __future__ import annotations

from collections.abc import Sequence

from ..building.builder import GraphBuilder
from ..building.value import Node
from ..planning import Plan

__all__ = ["node_keys", "step_keys"]


def node_keys(builder: GraphBuilder, nodes: Sequence[Node]) -> dict[int, str]:
    """Names of nodes, by id, that are the same in each plan of a builder, in each process.

    A plan has nodes that the builder has not: a Dequantize for each reader of a dequantized tensor,
    and those of an op that is written in another way.
    """
    position = {n.id: i for i, n in enumerate(builder.nodes)}
    reader = {v.id: (n, i) for n in nodes for i, v in enumerate(n.inputs)}
    maker = {v.id: (n, i) for n in nodes for i, v in enumerate(n.outputs)}
    made = {}
    for node in nodes:
        read = reader.get(node.outputs[0].id) if node.outputs else None
        wrote = maker.get(node.inputs[0].id) if node.inputs else None
        if node.id in position:
            made[node.id] = str(position[node.id])
        elif read is not None and read[0].id in position:
            made[node.id] = f"{node.kind} before {position[read[0].id]}, input {read[1]}"
        elif wrote is not None and wrote[0].id in position:
            made[node.id] = f"{node.kind} behind {position[wrote[0].id]}, output {wrote[1]}"
        else:  # the step that copies into an output
            made[node.id] = node.name
    return made


def step_keys(builder: GraphBuilder, plan: Plan) -> list[list[str]]:
    """For each step who computes it, and its ops by names that other processes know too.

    Neither the order of steps nor that of the ops in one is the same in all of them.
    """
    keys = node_keys(builder, [n for s in plan.steps for n in s.nodes])
    return [[s.implementation, *sorted(keys[n.id] for n in s.nodes)] for s in plan.steps]
