"""A row of the gallery: a documented fusion pattern, its cases, and the function that builds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from onednn_graph_py.model.building.builder import GraphBuilder
from onednn_graph_py.ops.terms import Version

__all__ = ["Case", "Deviation", "Pattern", "named", "patterns"]

ALL_VERSIONS: tuple[Version, Version] = ((3, 0), (99, 0))


@dataclass(frozen=True)
class Deviation:
    """A deviation of oneDNN's versions from the documents, found by trying.

    Parameters
    ----------
    partitions : int, optional
        Number of partitions that oneDNN makes of the case; None if a partition is not supported
        or does not compile.
    why : str
        The reason, if it is known.
    since, until : Version
        The first version that deviates, and the first after it that does not.
    """

    partitions: int | None
    why: str
    since: Version = ALL_VERSIONS[0]
    until: Version = ALL_VERSIONS[1]


@dataclass(frozen=True)
class Case:
    """One data type combination and form of a pattern.

    Parameters
    ----------
    name : str
        The variation, such as ``per channel, 4 post-ops``; unique among the pattern's cases of the
        same `dtypes`.
    dtypes : str
        Data types of sources and destination, such as ``u8 s8 -> s8``, or just ``bf16``.
    arguments : mapping of str to value
        Arguments of the pattern's function.
    partitions : int, optional
        Number of partitions that the documents promise; None if they say that oneDNN must refuse
        the graph when it is built, partitioned or compiled.
    kernels : tuple of str
        Data types of its kernels that not every CPU supports; cases that this CPU can't run are
        counted separately.
    needs : Version
        The first version that has all ops, attributes and data types of the case.
    deviations : tuple of Deviation
        Known deviations of oneDNN's versions from the documents.
    """

    name: str
    dtypes: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    partitions: int | None = 1
    kernels: tuple[str, ...] = ()
    needs: Version = (3, 7)
    deviations: tuple[Deviation, ...] = ()

    def expected(self, linked: Version) -> int | None:
        """Return the number of partitions that a version of oneDNN makes; None if it refuses."""
        deviation = self.deviation(linked)
        return self.partitions if deviation is None else deviation.partitions

    def deviation(self, linked: Version) -> Deviation | None:
        """Return the deviation of a version of oneDNN from the documents, if there is one."""
        for one in self.deviations:
            if one.since <= linked < one.until:
                return one
        return None


Build = Callable[..., GraphBuilder]
Category = Literal["floating point", "quantized", "training", "data model", "operation"]


@dataclass(frozen=True)
class Pattern:
    """A documented fusion pattern.

    Parameters
    ----------
    id : str
        Such as ``FP-05``: its number in the project's inventory of oneDNN's documents.
    title : str
        The ops, with ``?`` after optional ones and ``{0-3}`` after repeated ones.
    category : str
    rule : str
        The conditions that the documents state.
    page : str
        Page of oneDNN's documentation, such as ``graph/fusion_patterns/matmul_fusion_patterns``.
    build : callable
        Called with the arguments of a `Case`; returns the graph.
    cases : tuple of Case
    """

    id: str
    title: str
    category: Category
    rule: str
    page: str
    build: Build
    cases: tuple[Case, ...]

    @property
    def name(self) -> str:
        """The function's name, which the command line takes."""
        return self.build.__name__

    def graph(self, case: Case) -> GraphBuilder:
        """Build one of its cases."""
        return self.build(**case.arguments)


def named(name: str, build: Build, about: str = "") -> Build:
    """Give a function another name, under which a row of its own is found."""

    def made(*args: Any, **arguments: Any) -> GraphBuilder:
        return build(*args, **arguments)

    made.__name__ = made.__qualname__ = name
    made.__doc__ = about or build.__doc__
    return made


def patterns(*groups: Iterable[Pattern]) -> dict[str, Pattern]:
    """Put patterns together by id.

    Raises
    ------
    ValueError
        Two patterns have the same id or name; a pattern has two cases of the same name, or none.
    """
    made: dict[str, Pattern] = {}
    names: set[str] = set()
    for pattern in (p for group in groups for p in group):
        if pattern.id in made or pattern.name in names:
            raise ValueError(f"two patterns have the name {pattern.id} or {pattern.name}")
        keys = [(case.dtypes, case.name) for case in pattern.cases]
        _unique(pattern.id, keys)
        made[pattern.id] = pattern
        names.add(pattern.name)
    return made


def _unique(pattern: str, keys: Sequence[tuple[str, str]]) -> None:
    if not keys or len(set(keys)) != len(keys):
        twice = sorted({k for k in keys if keys.count(k) > 1})
        raise ValueError(f"{pattern}: it must have cases with different names: {twice}")
