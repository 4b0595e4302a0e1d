"""Make drawings of compiled models, with their steps and layouts."""

import contextlib
from collections.abc import Sequence

from ...base.dtypes import HOST_DTYPES
from ...base.errors import OneDNNError
from ...model.building.builder import GraphBuilder
from ...model.building.infer import infer_shapes
from ...model.building.value import bytes_of, is_whole
from ...model.planning import Plan
from ...model.running.model import CompiledGraph
from ...ops.terms import Shape, shape_text
from .assemble import DrawnOp, Graph
from .drawing import Status, Tensor
from .of_builder import graph_of_builder, tensor_of, tensor_of_value

Sized = tuple[Tensor, int | None]
"""A tensor and its bytes, which are None where dims are unknown."""


def sized(dtype: str, shape: Shape, layout: str) -> Sized:
    """Return a tensor with the bytes of its elements."""
    return Tensor(dtype, shape, layout), None if shape is None else bytes_of(dtype, shape)


def tensors_of_plan(builder: GraphBuilder, plan: Plan) -> dict[int, Sized]:
    """Return a plan's tensors by id, as they are compiled."""
    shapes = infer_shapes(builder, plan.input_shapes)
    values = [*builder.inputs, *builder.constants]
    for node in (n for s in plan.steps for n in s.nodes):
        values += (*node.inputs, *node.outputs)
        if node.kind == "Dequantize" and node.inputs[0].id in shapes:
            # Each reader has its own copy, whose shape is its input's.
            shapes.setdefault(node.outputs[0].id, shapes[node.inputs[0].id])
    made = {}
    for value in values:
        declared = tensor_of_value(value)
        shape = shapes.get(value.id, declared.shape)
        made[value.id] = sized(value.dtype, shape, declared.layout)
    # What oneDNN lacks the data type for is described in bytes.
    foreign = {v.id for v in values if v.dtype in HOST_DTYPES}
    steps = (lt for s in plan.steps for lt in (*s.inputs, *s.outputs))
    for lt in (*(lt for _, lt in plan.inputs), *steps, *(lt for _, lt in plan.outputs)):
        if lt.get_id() in foreign:
            continue
        tensor = tensor_of(lt)
        made[lt.get_id()] = sized(tensor.dtype, tensor.shape, tensor.layout)
        if tensor.layout == "opaque":
            with contextlib.suppress(OneDNNError):
                made[lt.get_id()] = tensor, lt.get_mem_size()
    return made


def graph_of_model(model: CompiledGraph, shapes: Sequence[Sequence[int]] = ()) -> Graph:
    """Return a model's ops, in the steps for these shapes, or by default those compiled last.

    If there are none, the graph is drawn in oneDNN's partitions.
    """
    chosen = tuple(tuple(s) for s in shapes) or model.latest_shapes
    if chosen is None:
        graph = graph_of_builder(model.builder)
        graph.title = model.name
        graph.notes.append("not compiled for any shapes yet")
        return graph
    builder, plan = model.builder, model.specialization(chosen).plan
    ops: list[DrawnOp] = []
    groups: list[tuple[Status, list[int]]] = []
    for step in plan.steps:
        first = len(ops)
        for node in step.nodes:
            # The step that copies a tensor into an output has an op without outputs.
            outputs = [v.id for v in node.outputs] or [lt.get_id() for lt in step.outputs]
            ops.append(DrawnOp(node.kind, node.name, [v.id for v in node.inputs], outputs))
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
        {i: tensor for i, (tensor, _) in tensors_of_plan(builder, plan).items()},
        what="step",
        notes=notes,
    )
