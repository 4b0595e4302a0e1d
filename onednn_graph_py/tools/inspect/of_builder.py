"""Make drawings of graphs that are not compiled: builders, the mirror's graphs and partitions."""

import re
from collections.abc import Sequence

from ... import _core
from ...base.errors import OneDNNError
from ...model.building.builder import GraphBuilder
from ...model.building.value import Value
from .assemble import DrawnOp, Graph
from .drawing import Status, Tensor, layout_text


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
    made: list[tuple[Status, list[int]]] = []
    for partition in partitions:
        members = [numbers[i] for i in partition.get_ops() if i in numbers]
        if members:
            status: Status = "oneDNN" if partition.is_supported() else "unsupported"
            made.append((status, members))
    return made


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
    made = {lt.get_id() for o in ops for lt in o.get_outputs()}
    read = {lt.get_id() for o in ops for lt in o.get_inputs()}
    ended = {lt.get_id() for o in every if o.get_kind().name == "End" for lt in o.get_inputs()}
    sources = [i for i in tensors if i not in made]
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
        [(f"tensor {i}", i) for i in tensors if i in ended or (i in made and i not in read)],
        constants,
        {i: tensor_of(lt) for i, lt in tensors.items()},
        notes=notes,
    )
