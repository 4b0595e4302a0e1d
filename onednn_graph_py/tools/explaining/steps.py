"""Describe steps and partitions without running them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from ... import _core
from ...base.dtypes import HOST_DTYPES
from ...base.errors import OneDNNError, UnimplementedError
from ...model.building.builder import GraphBuilder
from ...model.building.foreign import ForeignNode
from ...model.building.infer import infer_shapes
from ...model.building.value import Node, Value, bytes_of, is_whole
from ...model.planning import Plan, PlannedStep
from ...model.running.model import CompiledGraph
from ...ops.lookup import row, with_trait
from ..inspect.drawing import Tensor
from ..inspect.of_builder import tensor_of, tensor_of_value
from .facts import By, OpFacts, StepFacts, TensorFacts, Work

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
    """Descriptions of tensors: their roles, names, shapes and layouts."""

    def __init__(
        self,
        builder: GraphBuilder,
        shapes: Mapping[int, tuple[int, ...]],
        outputs: Sequence[tuple[str, int]],
    ) -> None:
        self.builder = builder
        self.shapes = dict(shapes)
        self.values: dict[int, Value] = {}
        self.roles: dict[int, str] = {}
        self.names: dict[int, str] = {}
        for value in builder.inputs:
            self.roles[value.id], self.names[value.id] = "input", value.name
        for value in builder.constants:
            self.roles[value.id], self.names[value.id] = "constant", value.name
        for name, i in outputs:
            self.roles[i], self.names[i] = "output", name

    def shape(self, value: Value) -> tuple[int, ...] | None:
        return self.shapes.get(value.id, value.shape)

    def see(self, node: Node) -> None:
        """Record a node's tensors, also those of a Dequantize that the compiler made."""
        for value in (*node.inputs, *node.outputs):
            self.values[value.id] = value
            self.names.setdefault(value.id, value.name)
        if node.kind == "Dequantize" and node.inputs[0].id in self.shapes:
            self.shapes.setdefault(node.outputs[0].id, self.shapes[node.inputs[0].id])

    def tensor(self, value: Value) -> TensorFacts:
        told = tensor_of_value(value)
        shape = self.shape(value)
        size = None if shape is None else bytes_of(value.dtype, shape)
        return self._facts(value.id, Tensor(value.dtype, shape, told.layout), size)

    def compiled(self, lt: _core.logical_tensor) -> TensorFacts:
        value = self.values.get(lt.get_id())
        if value is not None and value.dtype in HOST_DTYPES:  # described in bytes
            return self.tensor(value)
        told = tensor_of(lt)
        size = None
        if told.layout == "opaque":
            with contextlib.suppress(OneDNNError):
                size = lt.get_mem_size()
        elif told.shape is not None:
            size = bytes_of(told.dtype, told.shape)
        return self._facts(lt.get_id(), told, size)

    def _facts(self, i: int, tensor: Tensor, size: int | None) -> TensorFacts:
        role = self.roles.get(i, "intermediate")
        return TensorFacts(role, self.names.get(i, ""), tensor, size)

    def operations(self, nodes: Sequence[Node]) -> int | None:
        """Count the operations of all ops together; None if a dim is unknown."""
        total = 0
        for node in nodes:
            if not node.outputs:
                continue
            inputs = [self.shape(v) for v in node.inputs]
            outputs = [self.shape(v) for v in node.outputs]
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


def _edge(nodes: Sequence[Node], outside: set[int]) -> tuple[list[Value], list[Value]]:
    """Return the values that ops read from other ops, and their results that leave them.

    A result leaves if it is in `outside`, or if none of the ops reads it.
    """
    made = {v.id for n in nodes for v in n.outputs}
    read = {v.id for n in nodes for v in n.inputs}
    inputs = list({v.id: v for n in nodes for v in n.inputs if v.id not in made}.values())
    outputs = [v for n in nodes for v in n.outputs if v.id in outside or v.id not in read]
    return inputs, outputs


# -- steps of a plan


def _scratch_bytes(step: PlannedStep) -> int | None:
    if step.compiled is None:
        return 0
    try:
        return step.compiled.get_scratchpad_logical_tensor().get_mem_size()
    except UnimplementedError:  # an older oneDNN does not report it
        return None


def _step(told: _Described, step: PlannedStep, outside: set[int]) -> StepFacts:
    by: By = step.implementation
    if by == "view":
        values = _edge(step.nodes, outside)
        inputs, outputs = ([told.tensor(v) for v in side] for side in values)
    else:
        inputs, outputs = (
            [told.compiled(lt) for lt in side] for side in (step.inputs, step.outputs)
        )
    return StepFacts(
        tuple(_op(n) for n in step.nodes),
        by,
        tuple(inputs),
        tuple(outputs),
        scratch_bytes=_scratch_bytes(step),
        work=told.work(step.nodes, (*inputs, *outputs), moves=by != "view"),
        split=step.why,
        measured=step.measured,
    )


def steps_of_plan(model: CompiledGraph, plan: Plan) -> list[StepFacts]:
    """Describe the steps of one of a model's compiled plans."""
    builder = model.builder
    shapes = infer_shapes(builder, plan.input_shapes)
    told = _Described(builder, shapes, [(name, lt.get_id()) for name, lt in plan.outputs])
    for step in plan.steps:
        for node in step.nodes:
            told.see(node)
    outside = {v.id for v in builder.outputs.values()}
    return [_step(told, step, outside) for step in plan.steps]


def steps_of_builder(builder: GraphBuilder, shapes: Shapes) -> list[StepFacts]:
    """Describe the partitions that oneDNN makes as steps, without compiling them.

    `shapes` has those of tensors by id, if more is known of them than in the builder.
    """
    told = _Described(builder, shapes, [(n, v.id) for n, v in builder.outputs.items()])
    by_id = {n.id: n for n in builder.nodes if n.kind != "End"}
    for node in by_id.values():
        told.see(node)
    ended = {v.id for n in builder.nodes if n.kind == "End" for v in n.inputs}
    made = []
    for partition in builder.graph.get_partitions():
        nodes = [by_id[i] for i in partition.get_ops() if i in by_id]
        if not nodes:
            continue
        members = {n.id for n in nodes}
        others = [n for n in by_id.values() if n.id not in members]
        outside = {v.id for n in others for v in n.inputs} | ended
        outside |= {v.id for v in builder.outputs.values()}
        inputs, outputs = ([told.tensor(v) for v in side] for side in _edge(nodes, outside))
        made.append(
            StepFacts(
                tuple(_op(n) for n in nodes),
                "oneDNN" if partition.is_supported() else "unsupported",
                tuple(inputs),
                tuple(outputs),
                work=told.work(nodes, (*inputs, *outputs)),
            )
        )
    return made
