"""Describe steps and partitions without running them."""

from collections.abc import Iterable, Mapping, Sequence

from ...base.errors import UnimplementedError
from ...model.building.builder import GraphBuilder
from ...model.building.foreign import ForeignNode
from ...model.building.value import Node, is_whole
from ...model.planning import Plan, PlannedStep
from ...model.rewriting.rebuild import values_of
from ...model.running.model import CompiledGraph
from ...ops.lookup import row, with_trait
from ..inspect.assemble import Sized, sized, tensor_of_value, tensors_of_plan
from ..inspect.drawing import Status
from .facts import OpFacts, StepFacts, TensorFacts, Work

Shapes = Mapping[int, tuple[int, ...]]

PASSED = with_trait("dequantizes") | with_trait("moves")
"""Ops between a tensor and a product whose kernel reads that tensor as it is."""


def _op(node: Node) -> OpFacts:
    return OpFacts(node.kind, node.name, node.where)


def _dtype_of_products(builder: GraphBuilder, nodes: Sequence[Node]) -> str | None:
    """Return the data type that the kernel multiplies; None without products.

    If the same step converts integers to floats, it is the integers' type.
    """
    made = {v.id: n for n in nodes for v in n.outputs}
    types = set()
    for node in nodes:
        if node.kind not in with_trait("product"):
            continue
        for value in node.inputs[:2]:
            while (maker := made.get(value.id)) is not None and maker.kind in PASSED:
                value = maker.inputs[0]
            types.add(value.dtype)
    if not types:
        return None
    if types <= {"s8", "u8"}:
        return "s8"
    # If one operand is compressed, the other one decides; f32 may be computed in a lower type.
    floats = types - {"s8", "u8", "s4", "u4", "f8_e5m2", "f8_e4m3"}
    found = min(floats, default="f32")  # bf16 and f16 before f32
    mode = builder.fpmath_mode.name
    if found == "f32" and mode in ("bf16", "f16"):
        return mode
    return found if found in ("f32", "bf16", "f16") else None


class _Described:
    """Descriptions of some tensors: their roles, names, shapes and layouts."""

    def __init__(
        self,
        builder: GraphBuilder,
        nodes: Iterable[Node],
        tensors: Mapping[int, Sized],
        outputs: Iterable[tuple[str, int]],
    ) -> None:
        self.builder = builder
        self.tensors = tensors
        values = [v for n in nodes for v in (*n.inputs, *n.outputs)]
        self.named = {v.id: ("intermediate", v.name) for v in values}
        self.named.update((v.id, ("input", v.name)) for v in builder.inputs)
        self.named.update((v.id, ("constant", v.name)) for v in builder.constants)
        self.named.update((i, ("output", name)) for name, i in outputs)

    def facts(self, ids: Iterable[int]) -> tuple[TensorFacts, ...]:
        named = ((i, self.named.get(i, ("intermediate", ""))) for i in ids)
        return tuple(TensorFacts(role, name, *self.tensors[i]) for i, (role, name) in named)

    def operations(self, nodes: Sequence[Node]) -> int | None:
        """Count the operations of all ops together; None if a dim is unknown."""
        total = 0
        for node in nodes:
            if not node.outputs:
                continue
            inputs = [self.tensors[v.id][0].shape for v in node.inputs]
            outputs = [self.tensors[v.id][0].shape for v in node.outputs]
            if not all(s is not None and is_whole(s) for s in (*inputs, *outputs)):
                return None
            known = [s for s in inputs if s is not None], [s for s in outputs if s is not None]
            if not isinstance(node, ForeignNode):
                total += row(node.kind).flop(*known, node.attrs)
        return total

    def work(
        self, nodes: Sequence[Node], tensors: Sequence[TensorFacts], *, moves: bool = True
    ) -> Work | None:
        operations = self.operations(nodes)
        sizes = [t.bytes for t in tensors]
        if operations is None or None in sizes:
            return None
        moved = sum(s for s in sizes if s is not None) if moves else 0
        return Work(operations, moved, _dtype_of_products(self.builder, nodes))


def _edge(nodes: Sequence[Node], outside: set[int]) -> tuple[list[int], list[int]]:
    """Return the ids of values that ops read from other ops, and of results that leave them.

    A result leaves if it is in `outside`, or if none of the ops reads it.
    """
    results = {v.id for n in nodes for v in n.outputs}
    read = {v.id for n in nodes for v in n.inputs}
    inputs = list(dict.fromkeys(v.id for n in nodes for v in n.inputs if v.id not in results))
    outputs = [v.id for n in nodes for v in n.outputs if v.id in outside or v.id not in read]
    return inputs, outputs


# -- steps of a plan


def _scratch_bytes(step: PlannedStep) -> int | None:
    if step.compiled is None:
        return 0
    try:
        return step.compiled.get_scratchpad_logical_tensor().get_mem_size()
    except UnimplementedError:  # an older oneDNN does not report it
        return None


def _step(described: _Described, step: PlannedStep, outside: set[int]) -> StepFacts:
    by: Status = step.implementation
    if by == "view":
        inputs, outputs = map(described.facts, _edge(step.nodes, outside))
    else:
        inputs, outputs = (
            described.facts(lt.get_id() for lt in side) for side in (step.inputs, step.outputs)
        )
    return StepFacts(
        tuple(_op(n) for n in step.nodes),
        by,
        inputs,
        outputs,
        scratch_bytes=_scratch_bytes(step),
        work=described.work(step.nodes, (*inputs, *outputs), moves=by != "view"),
        split=step.why,
        measured=step.measured,
    )


def steps_of_plan(model: CompiledGraph, plan: Plan) -> list[StepFacts]:
    """Describe the steps of one of a model's compiled plans."""
    builder = model.builder
    nodes = [n for s in plan.steps for n in s.nodes]
    outputs = [(name, lt.get_id()) for name, lt in plan.outputs]
    described = _Described(builder, nodes, tensors_of_plan(builder, plan), outputs)
    outside = {v.id for v in builder.outputs.values()}
    return [_step(described, step, outside) for step in plan.steps]


def steps_of_builder(builder: GraphBuilder, shapes: Shapes) -> list[StepFacts]:
    """Describe the partitions that oneDNN makes as steps, for shapes by id, uncompiled."""
    tensors = {
        v.id: sized(v.dtype, shapes.get(v.id, v.shape), tensor_of_value(v).layout)
        for v in values_of(builder)
    }
    outputs = [(n, v.id) for n, v in builder.outputs.items()]
    by_id = {n.id: n for n in builder.nodes if n.kind != "End"}
    described = _Described(builder, by_id.values(), tensors, outputs)
    ended = {v.id for n in builder.nodes if n.kind == "End" for v in n.inputs}
    steps = []
    for partition in builder.graph.get_partitions():
        nodes = [by_id[i] for i in partition.get_ops() if i in by_id]
        if not nodes:
            continue
        members = {n.id for n in nodes}
        others = [n for n in by_id.values() if n.id not in members]
        outside = {v.id for n in others for v in n.inputs} | ended
        outside |= {v.id for v in builder.outputs.values()}
        read, left = map(described.facts, _edge(nodes, outside))
        steps.append(
            StepFacts(
                tuple(_op(n) for n in nodes),
                "oneDNN" if partition.is_supported() else "unsupported",
                read,
                left,
                work=described.work(nodes, (*read, *left)),
            )
        )
    return steps
