"""Turn a built graph into a plan: `make_plan`."""

import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing

import numpy as np

from ... import _core
from ...base.errors import InvalidGraphError
from ...machine.constant_cache import turn_on
from ..building.builder import GraphBuilder
from ..building.infer import infer_shapes
from ..building.value import Node, Value, new_id
from ..verdicts import Judge
from . import partitions
from .arena import lay_out
from .choosing import add
from .constants import know_constants
from .fallback import reference_function
from .forms import note_measured
from .options import CompileOptions, engine_of
from .plan import Plan, PlannedStep, Slot
from .plan_draft import PlanDraft
from .shared import Nodes, Shared
from .tuning import tune
from .views import is_dense

_SMALL = 1.0  # MiB

_LONGEST = 2.0
"""The seconds for which a quick search measures at most; it takes no longer than planning did."""

# What it costs to have no kernel.
_IN_NUMPY = (
    "runs in NumPy at each call, on one thread and tens to hundreds of times slower "
    "(compile(fallback='error') raises instead)"
)


def make_plan(
    builder: GraphBuilder,
    shapes: Mapping[int, tuple[int, ...]],
    options: CompileOptions,
    *,
    threads: int = 0,
    shared: Shared | None = None,
    engine: _core.engine | None = None,
) -> Plan:
    """Partition, compile and lay out a graph for one set of input shapes, by id.

    - `threads`: the number that a call will use; 0 for the runtime's own number
    - `shared`: the facts and partitions that the model's plans have in common
    - `engine`: by default the engine that all models of the builder's kind share
    """
    if not builder.outputs:
        raise InvalidGraphError("the graph has no output; call output first")
    every = infer_shapes(builder, shapes)
    engine = engine or engine_of(builder.engine_kind)
    if any(v.data is not None and v.data.nbytes for v in builder.constants):
        turn_on(builder.engine_kind)
    shared = shared if shared is not None else Shared(builder, options)
    with ExitStack() as stack:
        judge = stack.enter_context(closing(Judge())) if options.check == "verify" else None
        stack.enter_context(_core._compiling_with(threads))
        began = time.monotonic()
        draft = PlanDraft(builder, engine, dict(every), options, threads, shared, judge)
        _add_groups(draft)
        took = time.monotonic() - began
        if options.tune != "off" and tune(draft, min(took, _LONGEST)):
            known = draft.candidates, draft.choices
            draft = PlanDraft(builder, engine, every, options, threads, shared, judge)
            draft.candidates, draft.choices = known
            _add_groups(draft)
        note_measured(draft)
    if options.warn:
        _warn(draft.splits, "runs in parts", "does not run as it is")
        _warn(draft.unverified, "is not verified", "is not verified")
        _warn(draft.in_numpy, _IN_NUMPY, _IN_NUMPY)
        _warn_of_size(draft)
    return _laid_out(draft)


def _add_groups(draft: PlanDraft) -> None:
    know_constants(draft, draft.nodes)
    for nodes, partition in partitions.groups(draft, draft.nodes):
        add(draft, nodes, partition)


def _warn(groups: Sequence[tuple[Nodes, str]], what: str, what_of_one: str) -> None:
    """Warn about groups of ops, once for each reason."""
    by_reason: dict[str, list[Nodes]] = {}
    for nodes, why in groups:
        by_reason.setdefault(why, []).append(nodes)
    for why, alike in by_reason.items():
        first = alike[0]
        more = f" (and {len(alike) - 1} more)" if len(alike) > 1 else ""
        warnings.warn(
            f"{' + '.join(n.kind for n in first)} made at {first[0].where}{more} "
            f"{what if len(first) > 1 else what_of_one}: {why}",
            RuntimeWarning,
            stacklevel=2,
        )


def _warn_of_size(draft: PlanDraft) -> None:
    """Warn if what is computed from constants makes them more than twice as large."""
    if not draft.folded:
        return
    read = {i for step in draft.steps if step.runs for i in step.read}
    constants = [v.data for v in draft.builder.constants if v.data is not None]
    results = [v.data for i, v in draft.folded.items() if i in read and v.data is not None]
    if not results:
        return
    before, after = (
        sum({a.ctypes.data: a.nbytes for a in arrays}.values()) / (1 << 20)
        for arrays in (constants, constants + results)
    )
    if after - before > max(_SMALL, before):
        warnings.warn(
            f"constants of {before:.0f} MiB take {after:.0f} MiB, as ops on them are computed when "
            "compiling; with fold_constants=False each call computes them, and products by "
            "compressed weights that round activations to 8 bits need no others",
            RuntimeWarning,
            stacklevel=2,
        )


def _laid_out(draft: PlanDraft) -> Plan:
    """Give each tensor of a draft its place."""
    builder = draft.builder
    slots = {v.id: Slot("input", i) for i, v in enumerate(builder.inputs)}
    used = {i for step in draft.steps if step.runs for i in step.read}
    used |= {origin.id for origin in draft.views.values()}
    used |= {v.id for v in builder.outputs.values()}
    kept = [v for v in (*builder.constants, *draft.folded.values()) if v.id in used]
    slots.update({v.id: Slot("constant", i) for i, v in enumerate(kept)})
    outputs = []
    for i, (name, value) in enumerate(builder.outputs.items()):
        lt = draft.known[value.id]
        place = _whole_tensor(draft, value)
        if value.id in slots or place in slots or place is None:
            step, lt = _copy_step(value, lt)
            draft.steps.append(step)
            place = lt.get_id()
        slots[place] = Slot("output", i)
        outputs.append((name, lt))
    return Plan(
        draft.engine,
        [(v, draft.known[v.id]) for v in builder.inputs],
        outputs,
        [v.dtype for v in builder.outputs.values()],
        [np.asarray(v.data) for v in kept],
        draft.steps,
        slots,
        lay_out([s for s in draft.steps if s.runs], slots, draft.views),
        draft.threads,
    )


def _whole_tensor(draft: PlanDraft, value: Value) -> int | None:
    """Return the id of the tensor that a value is, perhaps with other dims; None if of a part."""
    origin = draft.views.get(value.id)
    if origin is None:
        return value.id
    view, whole = draft.known[value.id], draft.known.get(origin.id)
    if whole is None or origin.offset or view.get_mem_size() != whole.get_mem_size():
        return None
    strided = _core.logical_tensor.layout_type.strided
    dense = all(t.get_layout_type() == strided and is_dense(t) for t in (view, whole))
    return origin.id if dense else None


def _copy_step(value: Value, lt: _core.logical_tensor) -> tuple[PlannedStep, _core.logical_tensor]:
    """Make a step that fills an output which is also another output, an input or a constant."""
    copy = _core.logical_tensor(new_id(), lt.get_data_type(), lt.get_dims(), "strided")
    node = Node(new_id(), "Reorder", "copy", (value,), (), {}, "")
    return PlannedStep((node,), None, reference_function(node, {}), [lt], [copy]), copy
