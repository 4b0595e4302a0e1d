"""Make drawings of compiled models, with their steps and layouts."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.dtypes import HOST_DTYPES
from ...model.building.infer import infer_shapes
from ...model.building.value import is_whole
from ...model.planning import Plan
from ...model.running.model import CompiledGraph
from ...ops.terms import shape_text
from .assemble import DrawnOp, Graph
from .drawing import Status, Tensor
from .of_builder import graph_of_builder, tensor_of, tensor_of_value


def _plan_for(model: CompiledGraph, shapes: Sequence[Sequence[int]]) -> Plan | None:
    """Return the plan for these shapes, or by default for the shapes compiled last."""
    chosen = tuple(tuple(s) for s in shapes) or model.latest_shapes
    return None if chosen is None else model.specialization(chosen).plan


def graph_of_model(model: CompiledGraph, shapes: Sequence[Sequence[int]] = ()) -> Graph:
    """Return a model's ops, in the steps in which they run for these shapes of its inputs.

    By default these are the shapes compiled last; if there are none, the graph is drawn in oneDNN's
    partitions.
    """
    plan = _plan_for(model, shapes)
    if plan is None:
        graph = graph_of_builder(model.builder)
        graph.title = model.name
        graph.notes.append("not compiled for any shapes yet")
        return graph
    builder = model.builder
    values = {
        v.id: v
        for v in (
            *builder.inputs,
            *builder.constants,
            *(v for s in plan.steps for n in s.nodes for v in (*n.inputs, *n.outputs)),
        )
    }
    compiled = [
        *(lt for _, lt in plan.inputs),
        *(lt for s in plan.steps for lt in (*s.inputs, *s.outputs)),
        *(lt for _, lt in plan.outputs),
    ]
    known = {
        lt.get_id(): tensor_of(lt)
        for lt in compiled
        # What oneDNN lacks the data type for is described in bytes.
        if lt.get_id() not in values or values[lt.get_id()].dtype not in HOST_DTYPES
    }
    inferred = infer_shapes(builder, plan.input_shapes)
    tensors = {}
    for i, value in values.items():
        declared = tensor_of_value(value)
        shape = inferred.get(i, declared.shape)
        tensors[i] = known.get(i) or Tensor(value.dtype, shape, declared.layout)
    tensors.update({i: t for i, t in known.items() if i not in tensors})
    ops: list[DrawnOp] = []
    groups: list[tuple[Status, list[int]]] = []
    for step in plan.steps:
        first = len(ops)
        for node in step.nodes:
            # The step that copies a tensor into an output has an op without outputs.
            outputs = [v.id for v in node.outputs] or [lt.get_id() for lt in step.outputs]
            ops.append(DrawnOp(node.kind, node.name, [v.id for v in node.inputs], outputs))
            if not node.outputs:
                continue
            if node.kind == "Dequantize" and node.outputs[0].id not in inferred:
                # Each reader has its own copy, whose shape is its input's.
                source, copy = tensors[node.inputs[0].id], node.outputs[0]
                if copy.id not in known:
                    tensors[copy.id] = Tensor(copy.dtype, source.shape)
        status: Status = step.implementation
        groups.append((status, list(range(first, len(ops)))))
    notes = []
    if any(not is_whole(v.shape or ()) for v in builder.inputs):
        of = ", ".join(f"{v.name} {shape_text(v.dims_of(lt))}" for v, lt in plan.inputs)
        notes.append(f"compiled for {of}")
    return Graph(
        model.name,
        ops,
        groups,
        {v.id: v.name for v in builder.inputs},
        [(name, lt.get_id()) for name, lt in plan.outputs],
        {v.id: 0 if v.data is None else v.data.nbytes for v in builder.constants},
        tensors,
        what="step",
        notes=notes,
    )
