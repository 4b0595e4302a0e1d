"""Host steps: Python functions that run between partitions; updates, and views."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import _core
from ...base.dtypes import HOST_DTYPES
from ...ops.tensor_spec import TensorSpec
from ..building.foreign import ForeignNode, HostNode, UpdateNode, ViewNode, read_only
from ..building.value import Node, Value, new_id
from ..rewriting import REORDERED
from . import partitions
from .constants import fold_view
from .fates import Runs, add_group
from .group import facts_of
from .plan import PlannedStep
from .plan_draft import PlanDraft
from .steps import add_reference, add_view, origin_of
from .views import is_dense, is_refused, view_of

Array = npt.NDArray[Any]


_Call = tuple[HostNode, tuple[TensorSpec, ...]]
"""A call of a function, with the shapes of its outputs."""


class _HostFunction:
    """Runs functions in order, over the arrays of a step's inputs and outputs by id."""

    def __init__(self, calls: Sequence[_Call], inputs: Sequence[int], outputs: Sequence[int]):
        self.calls = tuple(calls)
        place = {id: i for i, id in enumerate((*inputs, *outputs))}

        def ports(values: Sequence[Value], first: int = 0) -> list[tuple[int, Any]]:
            return [(place[v.id] - first, HOST_DTYPES.get(v.dtype)) for v in values]

        self._runs = [
            (node.run, ports(node.inputs), ports(node.outputs, len(inputs)), made)
            for node, made in calls
        ]
        read = [i for _, ports_read, _, _ in self._runs for i, _ in ports_read]
        self._reads_results = max(read, default=-1) >= len(inputs)

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        known = [*inputs, *map(read_only, outputs)] if self._reads_results else inputs
        for run, reads, writes, made in self._runs:
            given = [_elements(known[i], dtype) for i, dtype in reads]
            run(given, [_elements(outputs[i], dtype) for i, dtype in writes], made)


def _elements(array: Array, dtype: np.dtype[Any] | None) -> Array:
    """Return a view of the elements, in bytes in memory if oneDNN lacks their data type."""
    return array.view() if dtype is None else array.view(dtype)[..., 0]


def host_step(
    node: HostNode,
    shapes: Mapping[int, tuple[int, ...]],
    inputs: Sequence[_core.logical_tensor],
    outputs: Sequence[_core.logical_tensor],
) -> PlannedStep:
    """Make the step of one function, for these shapes of its tensors by id."""
    made = tuple(TensorSpec(shapes[v.id], v.dtype) for v in node.outputs)
    return _step([(node, made)], inputs, outputs)


def joined(one: PlannedStep, other: PlannedStep) -> PlannedStep:
    """Make one step of two host steps that follow each other."""
    calls = [c for s in (one, other) for c in _calls(s)]
    made = {lt.get_id() for lt in one.outputs}
    inputs = [*one.inputs, *(lt for lt in other.inputs if lt.get_id() not in made)]
    return _step(calls, inputs, [*one.outputs, *other.outputs])


def _calls(step: PlannedStep) -> tuple[_Call, ...]:
    assert isinstance(step.function, _HostFunction)
    return step.function.calls


def _step(
    calls: Sequence[_Call],
    inputs: Sequence[_core.logical_tensor],
    outputs: Sequence[_core.logical_tensor],
) -> PlannedStep:
    inputs = list({lt.get_id(): lt for lt in inputs}.values())
    ids = ([lt.get_id() for lt in side] for side in (inputs, outputs))
    function = _HostFunction(calls, *ids)
    nodes = tuple(node for node, _ in calls)
    return PlannedStep(nodes, None, function, inputs, list(outputs))


def add_foreign(draft: PlanDraft, node: ForeignNode) -> None:
    """Add the step of a node that is none of oneDNN's."""
    if isinstance(node, HostNode):
        _add_host_step(draft, node)
        return
    assert isinstance(node, ViewNode)
    if fold_view(draft, node):
        return
    (source,), (value,) = node.inputs, node.outputs
    view = view_of(node, draft.known[source.id], draft.shapes[value.id])
    assert view is not None
    slow = value.id in draft.shared.without_gaps and not is_dense(view[0])
    if slow or (value.id in draft.shared.read_by_ops and is_refused(view[0])):
        _add_copy(draft, node, *view)
    else:
        add_view(draft, node, *view)


def _add_host_step(draft: PlanDraft, node: HostNode) -> None:
    """Add a step that a Python function computes, to the one before if that is such a step."""
    outputs = [draft.plain(v) for v in node.outputs]
    inputs = [draft.known[v.id] for v in node.inputs]
    if isinstance(node, UpdateNode):
        draft.views[outputs[0].get_id()] = origin_of(draft, inputs[0].get_id(), 0)
    step = host_step(node, draft.shapes, inputs, outputs)
    draft.known.update((lt.get_id(), lt) for lt in step.outputs)
    steps = draft.steps
    last = next((i for i in range(len(steps) - 1, -1, -1) if steps[i].runs), -1)
    if last >= 0 and steps[last].implementation == "host":
        step = joined(steps.pop(last), step)
    steps.append(step)


def _add_copy(draft: PlanDraft, node: ViewNode, view: _core.logical_tensor, offset: int) -> None:
    """Copy a view, because an op does not take it or is faster on a copy."""
    (value,) = node.outputs
    source = Value(draft.builder, draft.shapes[value.id], value.dtype, value.name)
    draft.shapes[source.id] = draft.shapes[value.id]
    draft.views[source.id] = origin_of(draft, node.inputs[0].id, offset)
    draft.known[source.id] = _core.logical_tensor(source.id, *facts_of(view))
    copy = Node(new_id(), "Reorder", node.name, (source,), (value,), {}, node.where)
    reorders = value.dtype in REORDERED and not is_refused(view)
    groups = partitions.groups(draft, [copy]) if reorders else []
    nodes, partition = groups[0] if groups else ((copy,), None)
    if partition is None or not isinstance(add_group(draft, nodes, partition), Runs):
        add_reference(draft, copy)
    draft.steps[-1] = replace(draft.steps[-1], nodes=(node,))
