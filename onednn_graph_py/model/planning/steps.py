"""Steps of a draft that need no choice: compiled groups, views, and ops in NumPy."""

from ... import _core
from ..building.value import Node
from .compiling import Compiled
from .constants import fold, reading_folded
from .fallback import reference_function
from .plan import PlannedStep
from .plan_draft import PlanDraft
from .shared import Nodes
from .views import Origin, view_of


def step_of(
    draft: PlanDraft, nodes: Nodes, compiled: Compiled, why: str = "", verified: str = ""
) -> PlannedStep:
    """Make the step of a group, given what was compiled for it or an equal group."""
    ids = draft.form(nodes).ids
    read, made = [ids[i] for i in compiled.reads], [ids[i] for i in compiled.makes]
    return PlannedStep(
        nodes,
        compiled.compiled,
        None,
        [draft.known[i] for i in read],
        [_core.logical_tensor(i, *f) for i, f in zip(made, compiled.outputs, strict=True)],
        as_compiled=compiled.ports,
        in_place={ids[o]: ids[i] for i, o in compiled.in_place},
        scratchpad_bytes=compiled.scratchpad_bytes,
        why=why,
        verified=verified,
    )


def add_step(draft: PlanDraft, step: PlannedStep) -> None:
    """Add a step; compute it now if it is constant."""
    draft.steps.append(step)
    draft.known.update(zip(step.made, step.outputs, strict=True))
    fold(draft, step)


def origin_of(draft: PlanDraft, id: int, offset: int) -> Origin:
    """Return where a view of a tensor lies, which may be a view too."""
    of = draft.views.get(id, Origin(id, 0))
    return Origin(of.id, of.offset + offset)


def add_view(
    draft: PlanDraft, node: Node, view: _core.logical_tensor, offset: int, why: str = ""
) -> None:
    """Add a step whose result lies in the memory of its input."""
    draft.views[view.get_id()] = origin_of(draft, node.inputs[0].id, offset)
    draft.known[view.get_id()] = view
    draft.steps.append(PlannedStep((node,), None, None, [], [], why=why))


def add_reference(draft: PlanDraft, node: Node, why: str = "") -> None:
    """Add a step that computes an op in NumPy, or a view if no element moves."""
    (node,) = reading_folded(draft, (node,))
    inputs = [draft.known[v.id] for v in node.inputs]
    view = view_of(node, inputs[0], draft.shapes[node.outputs[0].id]) if inputs else None
    if view is not None:
        add_view(draft, node, *view, why=why)
        return
    outputs = [draft.plain(v) for v in node.outputs]
    function = reference_function(node, draft.shapes)
    add_step(draft, PlannedStep((node,), None, function, inputs, outputs, why=why))


def add_reshape(draft: PlanDraft, part: Nodes) -> bool:
    """Add an op that only gives a tensor other dims, if it is one; return whether it did."""
    node, *others = part
    if others or not node.inputs or not node.outputs:
        return False
    known, shape = draft.known[node.inputs[0].id], draft.shapes[node.outputs[0].id]
    if view_of(node, known, shape) is None:
        return False
    add_reference(draft, node)
    return True
