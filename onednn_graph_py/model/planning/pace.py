"""Paces: how fast a group runs as written and in another way, as this machine measured it once.

What the first process measured counts for all processes, so that equal models get equal plans: a
pace is kept on disk, by oneDNN's build, instruction set, CPU, threads and the group's signature.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy.typing as npt

from ... import _core
from ...machine.pace import Pace
from ...machine.store import Entries, folder
from ..verdicts import Subject
from .plan import PlannedStep
from .trial import Trial

APART = "apart"  # the way in which each op of a group runs by itself

_UNDECIDED = 600.0  # seconds for which nobody measures again what could not be measured


class Key(NamedTuple):
    """A group, the number of its threads, and a way to run it other than as it is written."""

    threads: int
    way: str
    signature: str
    written: str = ""
    """A digest of the ops of that way, where they depend on more than the signature."""

    @classmethod
    def of(cls, subject: Subject, way: str = APART, written: str = "") -> Key:
        """Return the key of a group."""
        return cls(subject.threads, way, subject.signature, written)


class Kept(NamedTuple):
    """The pace of a group; None if it could not be measured, which counts until a time."""

    pace: Pace | None
    until: float = math.inf

    @property
    def counts(self) -> bool:
        """Whether nobody is to measure it again yet."""
        return time.time() < self.until


Paces = dict[Key, Kept]

# Without a lock, which a fork could leave locked: single operations on a dict are atomic.
_known: Paces = {}


@cache
def _entries_in(folder: Path, isa_hints: str) -> Entries:
    return Entries("paces", isa_hints)


def _entries() -> Entries:
    """Return the paces on disk."""
    return _entries_in(folder(), _core.get_cpu_isa_hints().name)


def read(entry: dict[str, Any]) -> Kept | None:
    """Return what an entry on disk says; None if it is damaged."""
    seconds, until = entry.get("seconds"), entry.get("until")
    if isinstance(until, float) and until < time.time() + _UNDECIDED:
        return Kept(None, until)
    if not isinstance(seconds, list) or len(seconds) != 2:
        return None
    if not all(isinstance(s, float) and 0 < s < math.inf for s in seconds):
        return None
    return Kept(Pace(*seconds))


def measured(
    engine: _core.engine,
    fused: PlannedStep,
    apart: Sequence[PlannedStep],
    constants: Mapping[int, npt.NDArray[Any]],
) -> Pace | None:
    """Measure a fused step and its separate steps, as `Pace.measured` does."""
    one, other = (Trial(engine, steps, constants).run for steps in ([fused], apart))
    return Pace.measured(one, other)


def known(key: Key, *, undecided: bool = True) -> Kept | None:
    """Return what this process, or one before it, measured; None if there is nothing.

    That nobody could measure it counts as well, for some minutes, if `undecided` is true.
    """
    kept = _known.get(key)
    if kept is None:
        entry = _entries().find(json.dumps(key))
        kept = None if entry is None else read(entry)
        if kept is not None:
            _known[key] = kept
    if kept is None or not kept.counts or (kept.pace is None and not undecided):
        return None
    return kept


def keep(key: Key, pace: Pace | None, *, undecided: bool = True) -> Kept:
    """Keep a pace, unless another process was first; return what counts.

    So does that another one could not measure it, as for `known`: that process has its plan.
    """

    def counts(entry: dict[str, Any]) -> bool:
        before = read(entry)
        return before is not None and before.counts and (before.pace is not None or undecided)

    own = Kept(pace, math.inf if pace is not None else time.time() + _UNDECIDED)
    entry = {"until": own.until} if pace is None else {"seconds": [pace.fused, pace.apart]}
    kept = read(_entries().keep_first(json.dumps(key), entry, counts)) or own
    _known[key] = kept
    return kept


def on_disk() -> Paces:
    """Return all paces that this oneDNN, on this CPU, has on disk."""
    result: Paces = {}
    for entry in _entries().all():
        kept = read(entry)
        if kept is not None and kept.pace is not None:
            result[Key(*json.loads(entry["of"]))] = kept
    return result


def forget() -> None:
    """Drop all paces of this process and on disk."""
    _known.clear()
    _entries().clear()


def rows_of(paces: Mapping[Key, Kept]) -> list[list[Any]]:
    """Return paces as rows that JSON can hold; without seconds those that nobody could measure."""
    return [
        [*key, *((kept.pace.fused, kept.pace.apart) if kept.pace is not None else (None, None))]
        for key, kept in paces.items()
    ]


def paces_of(rows: Any) -> Paces:
    """Return the paces of rows that a file holds; raise if one is not as `rows_of` writes it."""
    result: Paces = {}
    for row in rows:
        threads, way, signature, written, one, other = row
        undecided = Kept(None, time.time() + _UNDECIDED)
        kept = undecided if one is other is None else read({"seconds": [one, other]})
        texts = all(isinstance(t, str) for t in (way, signature, written))
        if not texts or not isinstance(threads, int) or kept is None:
            raise TypeError(f"{row!r} is no timing")
        json.loads(signature)
        result[Key(threads, way, signature, written)] = kept
    return result


def paces() -> Paces:
    """Return all paces of this process, for another process that must decide alike."""
    return dict(_known)


def remember(paces: Paces) -> None:
    """Take over paces of another process; they count before what is on disk."""
    _known.update(paces)
