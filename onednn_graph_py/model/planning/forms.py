"""Run a group in another form, where that is faster: `add_form`."""

from dataclasses import dataclass
from hashlib import sha256

from ... import _core
from ...base.errors import OneDNNError
from ...machine.pace import LIMIT
from ...safety.table import faster_form
from ..building.builder import leaving_of
from ..building.foreign import ForeignNode
from ..building.value import Node
from ..rewriting import FORMS, Ops
from . import pace, partitions
from .compiling import ports_of
from .constants import reading_folded
from .fates import Runs, add_group
from .host_steps import add_foreign
from .pace import Kept, Key
from .plan_draft import PlanDraft
from .shared import Nodes
from .work import flop

_LEAST = 2_000_000  # the number of operations from which a group is worth a search
always = False  # whether groups run in a form that fits them, however fast: for tests


@dataclass(frozen=True)
class Choice:
    """A group that can be written in other forms."""

    nodes: Nodes
    partition: _core.partition
    keys: dict[str, Key]  # what was measured of each form is kept under this key
    known: str  # the form that the table of known speeds names; empty if it names none
    why: str  # what the table says of it
    flop: int


def _takes_forms(draft: PlanDraft, nodes: Nodes) -> bool:
    options = draft.options
    as_written = options.slow_fusions == "run" or options.policy == "debug"
    # A form has the weights with other dims: as constants, or oneDNN packs them at each call.
    if as_written or not options.fold_constants or not draft.on_cpu:
        return False
    # oneDNN packs weights of convolutions in several layouts, by the number of rows: with 12 sizes
    # they took up to 1.1 times their memory more, for a gain of 1.04 to 1.15.
    return not draft.shared.has_unknown_dims or draft.form(nodes).is_whole


def _written(draft: PlanDraft, nodes: Nodes, form: str) -> Ops | None:
    """Return the ops of a group in a form; None if the form does not fit."""
    ops = Ops(draft.builder, nodes[0], draft.shapes)
    return ops if FORMS[form](ops, nodes, leaving_of(nodes, draft.shared.readers)) else None


def _digest(draft: PlanDraft, ops: Ops) -> str:
    """Tell forms of equal groups apart, which may depend on the numbers of a mask."""
    dims = [(n.kind, [draft.shapes[v.id] for v in n.inputs]) for n in ops.nodes]
    return sha256(repr(dims).encode()).hexdigest()[:16]


def _choice_of(draft: PlanDraft, nodes: Nodes) -> Choice | None:
    """Return the forms of a group; None if it has only one."""
    work = flop(nodes, draft.shapes)
    table = faster_form(draft.group(nodes), draft.conditions)
    if table is None and work < _LEAST and not always:
        return None
    fitting = {form: _written(draft, nodes, form) for form in FORMS}
    if not any(fitting.values()):
        return None
    groups = partitions.groups(draft, nodes)
    if len(groups) != 1 or groups[0][1] is None:
        return None
    nodes, partition = groups[0][0], groups[0][1]
    ports = ports_of(draft, nodes, partition)
    subject = draft.subject(nodes, ports.inputs, ports.outputs)
    keys = {
        form: Key.of(subject, form, _digest(draft, ops))
        for form, ops in fitting.items()
        if ops is not None
    }
    known, why = table if table is not None and table[0] in keys else ("", "")
    return Choice(nodes, partition, keys, known, why, work)


def chosen(draft: PlanDraft, choice: Choice) -> tuple[str, str]:
    """Return the form in which a group runs, empty as it is written, and why.

    What was measured decides; the table does where nothing was, and where both ways take about as
    long: a group by itself does not show what it takes among others, whose weights come between.
    """
    if always:
        return next(iter(choice.keys)), "it fits"
    best, gain, why = choice.known, LIMIT, choice.why
    for form, key in choice.keys.items():
        kept = pace.known(key)
        if kept is None:
            continue
        draft.shared.measured[key] = kept
        if kept.pace is None:
            continue
        if kept.pace.slow is None:
            if form == best and kept.pace.ratio * LIMIT < 1:
                best, why = "", ""
        elif kept.pace.ratio > gain or form == best:
            best, gain = form, kept.pace.ratio
            why = f"measured to be {gain:.3g} times as fast"
    return best, why


def _measured_text(draft: PlanDraft, choice: Choice) -> str:
    """Say what was measured of a group's forms; empty if nothing was."""
    kept: dict[str, Kept | None] = {f: draft.shared.measured.get(k) for f, k in choice.keys.items()}
    paces = {form: k.pace for form, k in kept.items() if k is not None and k.pace is not None}
    return "; ".join(
        f"as written {p.fused * 1e6:.0f} us, {form} {p.apart * 1e6:.0f} us"
        for form, p in paces.items()
    )


def add_form(draft: PlanDraft, nodes: Nodes, why: str = "") -> bool:
    """Add a group in the form that is faster, if there is one that runs.

    `why` is the reason why it is a group of its own, if it was a part of another.
    """
    if not _takes_forms(draft, nodes):
        return False
    nodes = reading_folded(draft, nodes)
    key = draft.key(nodes)
    if key not in draft.choices:
        draft.choices[key] = _choice_of(draft, nodes)
    choice = draft.choices[key]
    if choice is None:
        return False
    draft.choice_of[tuple(n.id for n in nodes)] = choice
    form, reason = chosen(draft, choice)
    if not form:
        return False
    why = "; ".join(filter(None, (why, f"written {form}: {reason}")))
    return add_in_form(draft, nodes, form, why)


def add_in_form(draft: PlanDraft, nodes: Nodes, form: str, why: str = "") -> bool:
    """Add a group in a form, if each of its parts is one good partition; return whether it did."""
    ops = _written(draft, nodes, form)
    if ops is None:
        return False
    part: list[Node] = []

    def add_part() -> bool:
        try:
            groups = partitions.groups(draft, reading_folded(draft, tuple(part)))
        except OneDNNError:
            return False
        part.clear()
        return all(
            partition is not None and isinstance(add_group(draft, nodes, partition, why), Runs)
            for nodes, partition in groups
        )

    with draft.attempt() as keep:
        for node in ops.nodes:
            if not isinstance(node, ForeignNode):
                part.append(node)
                continue
            source = node.inputs[0]
            if any(v is source for n in part for v in n.outputs) and not add_part():
                return False
            add_foreign(draft, node)
        if not add_part():
            return False
        keep()
    return True


def note_measured(draft: PlanDraft) -> None:
    """Write into each step what was measured of its group's forms."""
    for step in draft.steps:
        choice = draft.choice_of.get(tuple(n.id for n in step.nodes))
        if choice is not None:
            step.measured = _measured_text(draft, choice)
