"""Names of a model's steps that other processes know too: `step_keys`."""

from __future__ import annotations

from collections.abc import Sequence

from ..builder import GraphBuilder
from ..compiler import Plan
from ..value import Node

__all__ = ["node_keys", "step_keys"]


def node_keys(builder: GraphBuilder, nodes: Sequence[Node]) -> dict[int, str]:
    """Names of nodes, by id, that are the same in each plan of a builder, in each process.

    The compiler gives each reader of a dequantized tensor a Dequantize of its own, with a new id.
    """
    position = {n.id: i for i, n in enumerate(builder.nodes)}
    reader = {v.id: n for n in nodes for v in n.inputs}
    made = {}
    for node in nodes:
        if node.id in position:
            made[node.id] = str(position[node.id])
        elif node.outputs and node.outputs[0].id in reader:
            made[node.id] = f"before {position[reader[node.outputs[0].id].id]}"
        else:  # the step that copies into an output
            made[node.id] = node.name
    return made


def step_keys(builder: GraphBuilder, plan: Plan) -> list[list[str]]:
    """For each step who computes it, and its ops by names that other processes know too.

    Neither the order of steps nor that of the ops in one is the same in all of them.
    """
    keys = node_keys(builder, [n for s in plan.steps for n in s.nodes])
    return [[s.implementation, *sorted(keys[n.id] for n in s.nodes)] for s in plan.steps]
