"""Make a `Drawing` of a builder, a model or a graph of the mirror: `assemble`."""

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ... import _core
from ...base.dtypes import HOST_DTYPES
from ...base.errors import OneDNNError
from ...model.building.builder import GraphBuilder
from ...model.building.infer import infer_shapes
from ...model.building.order import least_first
from ...model.building.value import Value, bytes_of, is_whole
from ...model.planning import Plan
from ...model.running.model import CompiledGraph
from ...ops.terms import Shape, shape_text
from .drawing import WORDS, Drawing, Edge, Group, OpNode, Status, Tensor, Terminal, layout_text


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
        Group(f"{graph.what} {i + 1}{WORDS[status][0]}", status)
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


def tensor_of(lt: _core.logical_tensor) -> Tensor:
    """Return the tensor that a logical tensor describes."""
    dtype = lt.get_data_type().name
    kind = lt.get_layout_type().name
    try:
        shape = tuple(-1 if d < 0 else d for d in lt.get_dims())
    except OneDNNError:  # even the rank is unknown
        return Tensor(dtype, None, kind if kind in ("any", "opaque") else "")
    layout = layout_text(shape, lt.get_strides()) if kind == "strided" else kind
    return Tensor(dtype, shape, "" if layout == "undef" else layout)


def tensor_of_value(value: Value) -> Tensor:
    """Return the tensor of a builder's value."""
    shape = value.shape
    strided = shape is not None and value.strides is not None
    layout = layout_text(shape or (), value.strides or ()) if strided else ""
    return Tensor(value.dtype, shape, layout)


def _statuses(
    partitions: Sequence[_core.partition], numbers: dict[int, int]
) -> list[tuple[Status, list[int]]]:
    """Return partitions as groups of ops by index, without partitions that have no drawn op."""
    groups: list[tuple[Status, list[int]]] = []
    for partition in partitions:
        members = [numbers[i] for i in partition.get_ops() if i in numbers]
        if members:
            status: Status = "oneDNN" if partition.is_supported() else "unsupported"
            groups.append((status, members))
    return groups


def graph_of_builder(builder: GraphBuilder) -> Graph:
    """Return a builder's ops, in the partitions that oneDNN makes."""
    nodes = [n for n in builder.nodes if n.kind != "End"]
    numbers = {n.id: i for i, n in enumerate(nodes)}
    notes = []
    partitions: Sequence[_core.partition] = []
    try:
        partitions = builder.graph.get_partitions()
    except OneDNNError as e:  # an unfinished graph can be drawn too
        # Ids differ between processes, and a diagram should not.
        why = re.sub(r"\bop \d+", "op", str(e))
        notes.append(f"oneDNN made no partitions: {why}")
    values = [
        *builder.inputs,
        *builder.constants,
        *(v for n in builder.nodes for v in (*n.inputs, *n.outputs)),
    ]
    outputs = [(name, v.id) for name, v in builder.outputs.items()]
    marked = {i for _, i in outputs}
    ends = [(n.name, v.id) for n in builder.nodes if n.kind == "End" for v in n.inputs]
    outputs += [(name, i) for name, i in ends if i not in marked]
    return Graph(
        "graph",
        [
            DrawnOp(n.kind, n.name, [v.id for v in n.inputs], [v.id for v in n.outputs])
            for n in nodes
        ],
        _statuses(partitions, numbers),
        {v.id: v.name for v in builder.inputs},
        outputs,
        {v.id: 0 if v.data is None else v.data.nbytes for v in builder.constants},
        {v.id: tensor_of_value(v) for v in values},
        notes=notes,
    )


def _bytes(lt: _core.logical_tensor) -> int:
    try:
        return max(lt.get_mem_size(), 0)
    except OneDNNError:  # dims or layout are not known yet
        return 0


def graph_of_mirror(graph: _core.graph) -> Graph:
    """Return the ops of the mirror's graph, in oneDNN's partitions if it is finalized."""
    every = graph.get_ops()
    ops = [o for o in every if o.get_kind().name != "End"]
    numbers = {o.get_id(): i for i, o in enumerate(ops)}
    partitions = graph.get_partitions() if graph.is_finalized() else []
    notes = [] if graph.is_finalized() else ["not finalized, so not partitioned"]
    tensors: dict[int, _core.logical_tensor] = {}
    for o in every:
        for lt in (*o.get_inputs(), *o.get_outputs()):
            tensors.setdefault(lt.get_id(), lt)
    results = {lt.get_id() for o in ops for lt in o.get_outputs()}
    read = {lt.get_id() for o in ops for lt in o.get_inputs()}
    ended = {lt.get_id() for o in every if o.get_kind().name == "End" for lt in o.get_inputs()}
    sources = [i for i in tensors if i not in results]
    constant = _core.logical_tensor.property_type.constant
    constants = {
        i: _bytes(tensors[i]) for i in sources if tensors[i].get_property_type() == constant
    }
    return Graph(
        "graph",
        [
            DrawnOp(
                o.get_kind().name,
                o.get_name(),
                [lt.get_id() for lt in o.get_inputs()],
                [lt.get_id() for lt in o.get_outputs()],
            )
            for o in ops
        ],
        _statuses(partitions, numbers),
        {i: f"tensor {i}" for i in sources if i not in constants},
        [(f"tensor {i}", i) for i in tensors if i in ended or (i in results and i not in read)],
        constants,
        {i: tensor_of(lt) for i, lt in tensors.items()},
        notes=notes,
    )


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
    tensors = {}
    for value in values:
        declared = tensor_of_value(value)
        shape = shapes.get(value.id, declared.shape)
        tensors[value.id] = sized(value.dtype, shape, declared.layout)
    # What oneDNN lacks the data type for is described in bytes.
    foreign = {v.id for v in values if v.dtype in HOST_DTYPES}
    steps = (lt for s in plan.steps for lt in (*s.inputs, *s.outputs))
    for lt in (*(lt for _, lt in plan.inputs), *steps, *(lt for _, lt in plan.outputs)):
        if lt.get_id() in foreign:
            continue
        tensor = tensor_of(lt)
        tensors[lt.get_id()] = sized(tensor.dtype, tensor.shape, tensor.layout)
        if tensor.layout == "opaque":
            with contextlib.suppress(OneDNNError):
                tensors[lt.get_id()] = tensor, lt.get_mem_size()
    return tensors


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
