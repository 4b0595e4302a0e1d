"""Constants of a draft: compute what reads only constants, and let readers read the result."""

from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from ..building.constant_arrays import aligned_copy, placed
from ..building.foreign import ViewNode
from ..building.value import Node, Value
from .plan import PlannedStep
from .plan_draft import PlanDraft
from .shared import Nodes
from .trial import Trial


def reading_folded(draft: PlanDraft, nodes: Nodes) -> Nodes:
    """Replace folded inputs of nodes by the constants that stand for them."""
    folded = draft.folded
    if not folded or all(folded.get(v.id, v) is v for n in nodes for v in n.inputs):
        return nodes
    return tuple(replace(n, inputs=tuple(folded.get(v.id, v) for v in n.inputs)) for n in nodes)


def know_constants(draft: PlanDraft, nodes: Iterable[Node]) -> None:
    """Take the constants that another way to write an op reads."""
    for value in (v for n in nodes for v in n.inputs):
        if value.data is not None and value.id not in draft.known:
            # Not the elements: weights of 4 bits become many.
            key = value.dtype, value.shape, sha256(value.data.tobytes()).digest()
            with draft.constants.lock:
                number = draft.constants.constant(key)
                (array,) = draft.constants.get([number]) or (aligned_copy(value.data),)
                draft.constants.put([number], [array])
            value.data = array
            _keep(draft, value, array, number)


def _may_fold(draft: PlanDraft, results: Iterable[int]) -> bool:
    """Return whether results may be computed when compiling: none is the graph's."""
    folds = draft.options.fold_constants and draft.on_cpu
    return folds and draft.outputs.isdisjoint(results)


def is_constant(draft: PlanDraft, step: PlannedStep) -> bool:
    """Return whether a step reads only constants and makes no output of the graph."""
    known = bool(step.inputs) and all(i in draft.sources for i in step.read)
    return known and _may_fold(draft, step.made)


def fold(draft: PlanDraft, step: PlannedStep) -> None:
    """Compute a step now, if it is constant."""
    if not is_constant(draft, step):
        return
    values = {v.id: v for n in step.nodes for v in n.outputs}
    sources, numbers = dict(draft.sources), dict[int, int]()
    with draft.constants.lock:
        for node in step.nodes:
            read = [sources[v.id] for v in node.inputs]
            for i, value in enumerate(node.outputs):
                numbers[value.id] = draft.constants.result(node, i, draft.shapes[value.id], read)
                sources[value.id] = ~numbers[value.id]  # fused, other bits than the op alone
        arrays = draft.constants.get([numbers[i] for i in step.made])
        if arrays is None:
            trial = Trial(draft.engine, [step], draft.constant_arrays())
            trial.run()
            arrays = [aligned_copy(np.ascontiguousarray(trial.array(lt))) for lt in step.outputs]
            draft.constants.put([numbers[i] for i in step.made], arrays)
    for port, array in zip(step.made, arrays, strict=True):
        _keep(draft, values[port], array, numbers[port])
    step.folded = True
    step.compiled = step.function = None


def fold_view(draft: PlanDraft, node: ViewNode) -> bool:
    """Make a constant of a view of one, without a copy if it has all elements in their order."""
    (source,), (value,) = node.inputs, node.outputs
    if source.data is None or not _may_fold(draft, [value.id]):
        return False
    with draft.constants.lock:
        read = [draft.sources[source.id]]
        number = draft.constants.result(node, 0, draft.shapes[value.id], read)
        arrays = draft.constants.get([number])
        if arrays is None:
            view = node.compute([source.data])[0]
            whole = view.nbytes == source.data.nbytes and view.flags.c_contiguous
            arrays = [placed(view, value.dtype, value.name, copy=None if whole else True)]
            draft.constants.put([number], arrays)
    _keep(draft, value, arrays[0], number)
    draft.steps.append(PlannedStep((node,), None, None, [], [], folded=True))
    return True


def _keep(draft: PlanDraft, value: Value, array: npt.NDArray[Any], source: int) -> None:
    """Put a constant in the place of a value that was computed from constants."""
    constant = Value(draft.builder, draft.shapes[value.id], value.dtype, value.name)
    constant.id, constant.data = value.id, array
    draft.sources[value.id] = source
    draft.folded[value.id] = constant
    draft.known[value.id] = draft.plain(constant)
