"""Names of a model's steps that are the same in other processes: `step_keys`."""

from __future__ import annotations

from collections.abc import Sequence

from ...model.building.builder import GraphBuilder
from ...model.building.value import Node
from ...model.planning import Plan


def node_keys(builder: GraphBuilder, nodes: Sequence[Node]) -> dict[int, str]:
    """Name nodes, by id, so that the names are the same in each plan and in each process.

    A plan has nodes that the builder does not have: a Dequantize for each reader of a dequantized
    tensor, and those of an op that is written in another way.
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
    """Return for each step its implementation and the names of its ops (`node_keys`).

    The order of the steps, and of the ops in a step, may differ between processes.
    """
    keys = node_keys(builder, [n for s in plan.steps for n in s.nodes])
    return [[s.implementation, *sorted(keys[n.id] for n in s.nodes)] for s in plan.steps]
