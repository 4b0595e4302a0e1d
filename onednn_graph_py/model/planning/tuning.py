"""Measure the forms of a draft's groups: `tune`."""

import sys
import time
from collections.abc import Callable

import numpy as np

from ...machine.memory import last_cache_bytes
from ...machine.pace import Pace
from . import pace
from .fates import Runs, add_group
from .forms import Choice, add_in_form, chosen
from .plan_draft import PlanDraft
from .trial import Trial

_QUICKLY, _SECONDS = 0.05, 0.5
"""The seconds that one comparison takes at most, quickly or fully."""
_LARGEST = 64 << 20
"""The bytes of a group's constants up to which a quick search measures it."""
_TRIES = 5  # how often a full search measures again what other processes disturbed


def _call(draft: PlanDraft, add: Callable[[], bool]) -> Callable[[], None] | None:
    """Return what runs the steps that a function adds to a draft, without keeping them there."""
    with draft.attempt():
        draft.steps.clear()
        if not add():
            return None
        return Trial(draft.engine, draft.steps, draft.constant_arrays()).run


def _emptied_cache(draft: PlanDraft) -> Callable[[], object] | None:
    """Return a function that takes the weights out of the cache; None if they stay in it.

    A model reads all its weights at a call, so one group's are cold if all of them do not fit. Half
    of the last cache is for intermediate tensors, and for other processes.
    """
    weights = sum(v.data.nbytes for v in draft.builder.constants if v.data is not None)
    cache = last_cache_bytes()
    if weights <= cache // 2:
        return None
    # It is read only: what is written has to go to memory first, while the group is measured.
    return np.ones(cache // 4, np.int32).max


def _measured(
    draft: PlanDraft, choice: Choice, form: str, before: Callable[[], object] | None
) -> Pace | None:
    """Measure a group as written against a form; None if that is disturbed, or does not run."""
    nodes, partition = choice.nodes, choice.partition
    one = _call(draft, lambda: isinstance(add_group(draft, nodes, partition, slow=True), Runs))
    other = _call(draft, lambda: add_in_form(draft, nodes, form))
    if one is None or other is None:
        return None
    full = draft.options.tune == "full"
    for _ in range(_TRIES if full else 1):
        result = Pace.measured(one, other, _SECONDS if full else _QUICKLY, before)
        if result is not None:
            return result
    return None


def tune(draft: PlanDraft, seconds: float) -> bool:
    """Measure what is not known of the forms of a draft's groups, the largest groups first.

    What can't be measured in time is left to other compilations, but not to those of the next
    minutes: processes that compile equal models at once are to have equal plans.

    - `seconds`: the time for all groups, unless the options ask for a full search
    - returns: whether a group of the draft is to run in another form than it does
    """
    choices = [c for c in draft.choices.values() if c is not None]
    if not choices:
        return False
    choices.sort(key=lambda c: c.flop, reverse=True)
    before = [chosen(draft, c)[0] for c in choices]
    spent = 0.0
    full = draft.options.tune == "full"
    empty = _emptied_cache(draft)
    for number, choice in enumerate(choices, 1):
        if full and sys.stderr.isatty():
            print(f"\rtuning group {number} of {len(choices)}", end="", file=sys.stderr, flush=True)
        constants = {v.id: v.data for n in choice.nodes for v in n.inputs if v.data is not None}
        is_small = sum(data.nbytes for data in constants.values()) <= _LARGEST
        for form, key in choice.keys.items():
            kept = pace.known(key, undecided=not full)
            if kept is None:
                began = time.monotonic()
                # One comparison in any case. Each form packs the weights once more.
                in_time = full or (spent < seconds and is_small)
                result = _measured(draft, choice, form, empty) if in_time else None
                pace.keep(key, result, undecided=not full)
                spent += time.monotonic() - began
    if full and sys.stderr.isatty():
        print(file=sys.stderr)
    return before != [chosen(draft, c)[0] for c in choices]
