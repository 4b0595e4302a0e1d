"""The fate of a group of ops that oneDNN would run as one partition: `fate`."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ... import _core
from ...base.errors import KnownDefectError, OneDNNError
from ...machine import Conditions
from ...safety.group import Group
from ...safety.table import slow_fusion, wrong_result
from ..verdicts import Outcome
from . import pace, partitions
from .compiling import Compiled, compile_group, ports_of
from .constants import is_constant, know_constants, reading_folded
from .pace import Kept, Key
from .plan import PlannedStep
from .plan_draft import PlanDraft
from .shared import Nodes
from .steps import add_reshape, add_step, step_of
from .work import may_be_slow


@dataclass(frozen=True)
class Runs:
    """The group runs as one partition."""

    compiled: Compiled
    verified: str = ""
    """The verdict of a helper process; empty if none was asked."""
    unverified: str = ""  # why it is not verified; empty if it is, or need not be


@dataclass(frozen=True)
class Wrong:
    """As one partition it would compute wrong results, crash, or never end."""

    why: str


@dataclass(frozen=True)
class Slow:
    """As one partition it is slower than its separate ops."""

    why: str


@dataclass(frozen=True)
class Refused:
    """oneDNN does not compile it."""

    error: OneDNNError


Fate = Runs | Wrong | Slow | Refused

_Judge = Callable[["PlanDraft", "Candidate"], Fate | None]
"""A function that answers with a candidate's fate, or None if all is well."""


@dataclass
class Candidate:
    """A group that may run as one partition, and its fates.

    They are those of equal groups too, which take each other's place here.
    """

    nodes: Nodes
    partition: _core.partition
    group: Group
    conditions: Conditions
    fates: dict[bool, Fate | None] = field(default_factory=dict)  # by whether it may be slow
    compiled: dict[tuple[int, ...], Compiled] = field(default_factory=dict)  # by `Form.lent`
    verified: str = ""
    unverified: str = ""


# -- the judges


def known_defect(draft: PlanDraft, candidate: Candidate) -> Wrong | None:
    """Look for the group in the table of oneDNN's defects."""
    if draft.options.known_defects == "run":
        return None
    found = wrong_result(candidate.group, candidate.conditions)
    return None if found is None else Wrong(found.message)


def _judges_speed(draft: PlanDraft, candidate: Candidate) -> bool:
    """Return whether speed matters; what is known and measured of it holds for CPUs."""
    return draft.options.slow_fusions == "avoid" and len(candidate.nodes) > 1 and draft.on_cpu


def known_slow(draft: PlanDraft, candidate: Candidate) -> Fate | None:
    """Look for the group in the table of slow fusions."""
    if not _judges_speed(draft, candidate):
        return None
    found = slow_fusion(candidate.group, candidate.conditions)
    return None if found is None else Slow(found.what)


def measured_slow(draft: PlanDraft, candidate: Candidate) -> Fate | None:
    """Look for what another plan of the model measured of a group of about this size."""
    shared = draft.shared
    if not shared.has_unknown_dims:
        return None
    why = shared.paces.get(draft.size_key(candidate.nodes))
    return None if why is None else Slow(why)


def helper(draft: PlanDraft, candidate: Candidate) -> Fate | None:
    """Have a helper process try the partition, if the options ask for that."""
    if draft.judge is None:
        return None
    ports = ports_of(draft, candidate.nodes, candidate.partition)
    verdict = draft.judge.verdict(draft.subject(candidate.nodes, ports.inputs, ports.outputs))
    failed = verdict.outcome in (Outcome.WRONG, Outcome.CRASHED, Outcome.HUNG)
    if failed and draft.options.known_defects == "avoid":
        return Wrong(f"a test of this partition on this machine: {verdict}")
    candidate.verified = str(verdict)
    candidate.unverified = verdict.detail if verdict.outcome == Outcome.UNVERIFIED else ""
    return None


def compiles(draft: PlanDraft, candidate: Candidate) -> Fate | None:
    """Compile the partition, unless it is for an equal group with the same constants."""
    lent, nodes = draft.form(candidate.nodes).lent, candidate.nodes
    if lent in candidate.compiled:
        return None
    group = None if candidate.compiled else candidate.group  # the mirror knows what it checked
    try:
        candidate.compiled[lent] = compile_group(draft, nodes, candidate.partition, group)
    except KnownDefectError as e:
        return Wrong(str(e))
    except OneDNNError as e:
        return Refused(e.with_traceback(None))
    return None


def stop_watch(draft: PlanDraft, candidate: Candidate) -> Fate | None:
    """Measure the compiled partition against its separate ops."""
    nodes = candidate.nodes
    if not _judges_speed(draft, candidate):
        return None
    if draft.shared.has_unknown_dims and draft.size_key(nodes) in draft.shared.paces:
        return measured_slow(draft, candidate)
    fused = step_of(draft, nodes, candidate.compiled[draft.form(nodes).lent])
    if is_constant(draft, fused):
        return None
    if not may_be_slow(nodes, draft.shapes, fused.inputs):
        return None
    why = _slowness(draft, fused)
    if draft.shared.has_unknown_dims:
        draft.shared.paces[draft.size_key(nodes)] = why
    return None if why is None else Slow(why)


def _slowness(draft: PlanDraft, fused: PlannedStep) -> str | None:
    """Return how much slower a step is than its separate ops; None if it is not."""
    key = Key.of(draft.subject(fused.nodes, fused.inputs, fused.outputs))
    kept = pace.known(key)
    if kept is None and draft.options.tune != "off":
        kept = _measured(draft, fused, key)
    if kept is None:
        return None
    draft.shared.measured[key] = kept
    return None if kept.pace is None else kept.pace.slow


def _measured(draft: PlanDraft, fused: PlannedStep, key: Key) -> Kept | None:
    """Measure a step against its separate ops; None if one of them does not run alone."""
    with draft.attempt():
        draft.steps.clear()
        if not all(add_part(draft, (node,)) for node in fused.nodes):
            return None
        result = pace.measured(draft.engine, fused, draft.steps, draft.constant_arrays())
        return pace.keep(key, result)


JUDGES = (known_defect, known_slow, measured_slow, helper, compiles, stop_watch)
"""All judges, in the order in which they are asked."""

_OF_SPEED = frozenset({known_slow, measured_slow, stop_watch})


def fate(draft: PlanDraft, nodes: Nodes, partition: _core.partition, *, slow: bool = False) -> Fate:
    """Return what becomes of a group: the first answer of the judges.

    If `slow`, it runs as one partition even if that is slow.
    """
    key = draft.key(nodes)
    candidate: Candidate | None = draft.candidates.get(key)
    if candidate is None:
        # One whose results must be plain equals one for which oneDNN chose plain layouts.
        candidate = draft.candidates.get(draft.key(nodes, free=True))
        if candidate is None or not any(c.is_plain for c in candidate.compiled.values()):
            candidate = Candidate(nodes, partition, draft.group(nodes), draft.conditions_of(nodes))
        draft.candidates[key] = candidate
    candidate.nodes, candidate.partition = nodes, partition
    if slow not in candidate.fates:
        answers = (j(draft, candidate) for j in JUDGES if not (slow and j in _OF_SPEED))
        candidate.fates[slow] = next((a for a in answers if a is not None), None)
    answer = candidate.fates[slow] or compiles(draft, candidate)
    lent = draft.form(nodes).lent
    return answer or Runs(candidate.compiled[lent], candidate.verified, candidate.unverified)


# -- steps of groups that run


def add_group(
    draft: PlanDraft, nodes: Nodes, partition: _core.partition, why: str = "", *, slow: bool = False
) -> Fate:
    """Add the step of a group if it runs as one partition; return its fate."""
    found = fate(draft, nodes, partition, slow=slow)
    if isinstance(found, Runs):
        if found.unverified:
            draft.unverified.append((nodes, found.unverified))
        add_step(draft, step_of(draft, nodes, found.compiled, why, found.verified))
    return found


def add_part(draft: PlanDraft, part: Nodes, why: str = "", *, slow: bool = False) -> bool:
    """Add the step of a part if it is one good partition; return whether it did.

    A slow partition is good only if allowed.
    """
    part = reading_folded(draft, part)
    know_constants(draft, part)
    try:
        groups = partitions.groups(draft, part)
    except OneDNNError:  # reshapes of booleans, if no op may run in NumPy
        groups = []
    nodes, partition = groups[0] if len(groups) == 1 else ((), None)
    if partition is None:
        return add_reshape(draft, part)
    return isinstance(add_group(draft, nodes, partition, why, slow=slow), Runs)
