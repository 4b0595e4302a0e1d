"""Regions and islands of a graph, with the reasons why nodes are in islands: `Division`."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from .regions import Part, split

Node = TypeVar("Node", bound=Hashable)


@dataclass
class Division(Generic[Node]):
    """A graph divided into regions, which oneDNN runs, and islands."""

    parts: list[Part[Node]]  # in the order in which they run
    reasons: dict[Node, str] = field(default_factory=dict)  # why a node is in an island
    on_host: Container[Node] = ()  # nodes that are host steps where they are in regions

    @classmethod
    def of(
        cls,
        nodes: Iterable[Node],
        reads: Callable[[Node], Iterable[Node]],
        reasons: dict[Node, str],
        worth: Callable[[Sequence[Node]], bool],
        on_host: Container[Node] = (),
    ) -> Division[Node]:
        """Divide nodes as `split` does; those without a reason are lowered."""
        parts = split(nodes, reads, lambda n: n not in reasons, worth, on_host.__contains__)
        for part in parts:
            if not part.is_region:
                for node in part.nodes:
                    reasons.setdefault(node, "too small for a model of its own")
        return cls(parts, reasons, on_host)


def grouped(
    reasons: dict[Node, str], op: Callable[[Node], str]
) -> list[tuple[str, str, list[Node]]]:
    """Return the nodes of each op that are left out for one reason."""
    made: dict[tuple[str, str], list[Node]] = {}
    for node, why in reasons.items():
        made.setdefault((op(node), why), []).append(node)
    return [(name, why, nodes) for (name, why), nodes in made.items()]
