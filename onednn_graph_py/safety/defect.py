"""Rows of what oneDNN gets wrong: `Defect`, with which `defect` decorates a predicate."""

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from enum import Flag, auto
from typing import NamedTuple

from ..machine import Conditions
from ..machine.cpu import Feature
from ..ops.describe import version_text
from ..ops.terms import OLDEST, Version
from .calls import Op
from .group import Features, Group


class Effect(Flag):
    """The effect of a defect on a partition."""

    WRONG = auto()  # some results are wrong
    OUT_OF_BOUNDS = auto()  # it reads or writes outside of its buffers
    CRASH = auto()  # it ends the process
    HANG = auto()  # it never returns
    SLOW = auto()  # it takes longer than for the separate ops
    FORM = auto()  # it takes longer than for the same computation in the form that the remedy names


WRONG, OUT_OF_BOUNDS, CRASH, HANG, SLOW, FORM = Effect

REFUSED = OUT_OF_BOUNDS | CRASH | HANG  # the effects for which the mirror refuses a partition

_EFFECTS = {
    OUT_OF_BOUNDS: "access memory out of bounds",
    CRASH: "crash",
    HANG: "compile without an end",
}
SPLIT = "get partitions with policy debug"
APART = f"{SPLIT}, or put the op into a graph of its own"
_BY_A_MODEL = "let a model of GraphBuilder run it, which computes it in another way"


@dataclass(frozen=True)
class Where:
    """Conditions in which oneDNN has a defect; a union of them is a tuple."""

    # since, until: the first version, and the first one that is right again; None if none is
    since: Version = OLDEST
    until: Version | None = None
    # has, lacks: features that the instruction set has, and those that it lacks
    has: tuple[Feature, ...] = ()
    lacks: tuple[Feature, ...] = ()
    sycl: bool | None = None  # whether the runtime is SYCL; None if that makes no difference
    threads: int = 1  # the smallest number of threads

    def holds(self, conditions: Conditions) -> bool:
        """Whether these are such conditions."""
        return (
            self.since <= conditions.version
            and (self.until is None or conditions.version < self.until)
            and self.sycl in (None, conditions.runtime == "SYCL")
            and self.threads <= conditions.threads
            and all(map(conditions.has, self.has))
            and not any(map(conditions.has, self.lacks))
        )

    def __str__(self) -> str:
        """Return them in words, such as ``oneDNN 3.8 and newer on CPUs with AVX2``."""
        since, until = version_text(self.since), self.until and version_text(self.until)
        if self.since > OLDEST:
            versions = f"from {since} on, before {until}" if until else f"{since} and newer"
        else:
            versions = f"before {until}" if until else ""
        text = f"oneDNN {versions}" if versions else "every version"
        has, lacks = (" and ".join(f.upper() for f in names) for names in (self.has, self.lacks))
        if has or lacks:
            text += f" on CPUs {f'with {has}' if has else ''}"
            text += f"{' but not' if has else 'without'} {lacks}" if lacks else ""
        if self.sycl is not None:
            text += " over SYCL" if self.sycl else ", not over SYCL"
        return text + (f" on {self.threads} threads or more" if self.threads > 1 else "")


def unmeasured(since: Version, until: Version) -> tuple[Where, ...]:
    """Return where versions were not measured: their wheels' CPU had neither f16 nor AVX-VNNI."""
    return (
        Where(since, until, sycl=False),
        Where(since, until, has=("f16",)),
        Where(since, until, has=("vnni",), lacks=("avx512",)),
    )


@dataclass(frozen=True)
class Needs:
    """Facts that a partition must have before a row's predicate is asked."""

    kinds: Set[str]  # the kinds of the ops that the predicate looks at
    # fused, strided, narrow: whether only partitions with that one of `Features` meet the defect
    fused: bool = False
    strided: bool = False
    narrow: bool = False
    rank: int = 0  # the rank that some tensor of the partition must have at least
    # op kinds of which the partition must have one too; empty if it needs none
    beside: Set[str] = frozenset()

    def met_by(self, features: Features) -> bool:
        """Whether a partition with these features may meet the defect."""
        return (
            not features.kinds.isdisjoint(self.kinds)
            and (not self.beside or not features.kinds.isdisjoint(self.beside))
            and features.fused >= self.fused
            and features.strided >= self.strided
            and features.narrow >= self.narrow
            and features.rank >= self.rank
        )


class Hit(NamedTuple):
    """An op that meets a defect, with what a message says about it."""

    detail: str = ""  # the subject of "... makes oneDNN 3.7 access memory out of bounds".
    remedy: str = ""  # an imperative, such as "pass a contiguous array", instead of the row's
    alone: bool = True
    """Whether the op meets the defect in a partition of its own too, if the row's ops can."""


Answer = bool | Hit  # whether an op meets a defect; a `Hit` says more than True

Predicate = Callable[[Group, Op, Conditions], Answer]
"""Asked about each op of a partition that is of the row's kinds."""


class Finding(NamedTuple):
    """A defect that a partition meets."""

    name: str
    """The row's name, which is that of its entry in docs/onednn_defects.md."""
    what: str
    """A sentence about the wrong behaviour."""
    alone: bool
    """True if one of the ops shows the defect in a partition of its own too."""

    @property
    def message(self) -> str:
        """The sentence with the name, for warnings and errors."""
        return f"{self.what} [{self.name}]"


@dataclass(frozen=True, eq=False)
class Defect:
    """A row: what oneDNN does wrong, with which partitions, in which conditions."""

    name: str  # that of the predicate, and of the entry in docs/onednn_defects.md
    # what is wrong, without versions: a sentence for warnings if results are wrong or slow, else
    # the noun that the page explains
    what: str
    effect: Effect  # all that may happen
    needs: Needs  # what is asked before the predicate. If `fused`, no op shows the defect alone.
    where: tuple[Where, ...]  # the conditions: the union of these
    # what the caller of the mirror can do, if the hits do not say it; with the effect FORM the name
    # of the form in `onednn_graph_py.model.rewriting`
    remedy: str
    # takes the partition, one of its ops, and `Conditions`; returns whether the op meets the defect
    meets: Predicate

    def is_in(self, conditions: Conditions) -> bool:
        """Whether oneDNN has the defect under these conditions."""
        return any(where.holds(conditions) for where in self.where)

    def hits(self, group: Group, conditions: Conditions) -> Iterator[tuple[Op, Hit]]:
        """Yield the ops of a partition that meet the defect where oneDNN has it."""
        for op in group.ops:
            answer = op.kind in self.needs.kinds and self.meets(group, op, conditions)
            if not answer:
                continue
            hit = answer if isinstance(answer, Hit) else Hit()
            if self.needs.fused:
                hit = Hit(hit.detail, hit.remedy, alone=False)
            if hit.alone or len(group.ops) > 1:
                yield op, hit

    def found(self, group: Group, conditions: Conditions) -> Finding | None:
        """Return the finding about a partition where oneDNN has the defect, or None."""
        alone = [hit.alone for _, hit in self.hits(group, conditions)]
        return Finding(self.name, self.what, any(alone)) if alone else None

    def find(self, group: Group, conditions: Conditions) -> Finding | None:
        """Return the finding about a partition, or None if this defect does not affect it."""
        if not self.is_in(conditions) or not self.needs.met_by(group.features):
            return None
        return self.found(group, conditions)

    def refusal(self, op: Op, hit: Hit, version: Version) -> str:
        """Return a message that names the op, the cause, the effect, a remedy and the row."""
        if hit.detail:
            effect = next(text for effect, text in _EFFECTS.items() if effect in self.effect)
            what = f"{hit.detail} makes oneDNN {version_text(version)} {effect}"
        else:
            what = f"{self.what}, and accesses memory out of bounds"
        remedy = hit.remedy or self.remedy or _BY_A_MODEL
        return f"{op.label}: {what}; {remedy} [{self.name}]"


def defect(
    what: str, needs: Needs, *where: Where, effect: Effect = WRONG, remedy: str = ""
) -> Callable[[Predicate], Defect]:
    """Make a row of a predicate, whose name it gets; see `Defect` for the parameters."""

    def row(meets: Predicate) -> Defect:
        return Defect(meets.__name__, what, effect, needs, where or (Where(),), remedy, meets)

    return row
