"""Steps of a draft for nodes that are none of oneDNN's: Python functions, updates and views."""

from dataclasses import replace

from ... import _core
from ..building.foreign import ForeignNode, HostNode, UpdateNode, ViewNode
from ..building.value import Node, Value, new_id
from ..rewriting import REORDERED
from . import partitions
from .constants import fold_view
from .fates import Runs, add_group
from .group_keys import renamed
from .host_steps import host_step, joined
from .plan_draft import PlanDraft
from .steps import add_reference, add_view, origin_of
from .views import is_dense, repeats, view_of


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
    if slow or (value.id in draft.shared.read_by_ops and repeats(view[0])):
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
    """Copy a view, because an op that reads it is faster on a copy."""
    (value,) = node.outputs
    source = Value(draft.builder, draft.shapes[value.id], value.dtype, value.name)
    draft.shapes[source.id] = draft.shapes[value.id]
    draft.views[source.id] = origin_of(draft, node.inputs[0].id, offset)
    draft.known[source.id] = renamed(view, source.id)
    copy = Node(new_id(), "Reorder", node.name, (source,), (value,), {}, node.where)
    # oneDNN does not take tensors whose elements lie in the same memory.
    reorders = value.dtype in REORDERED and not repeats(view)
    groups = partitions.groups(draft, [copy]) if reorders else []
    nodes, partition = groups[0] if groups else ((copy,), None)
    if partition is None or not isinstance(add_group(draft, nodes, partition), Runs):
        add_reference(draft, copy)
    draft.steps[-1] = replace(draft.steps[-1], nodes=(node,))
