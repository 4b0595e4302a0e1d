"""The machine's CPUs by core and NUMA node, and which of them to take."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

SYSTEM = Path("/sys/devices/system")


class Cpu(NamedTuple):
    """A CPU, as the system counts them; its NUMA node is 0 if the system does not tell.

    `rank` is the number of CPUs of the same core before it: 0 unless it is a hyper-thread.
    """

    number: int
    node: int
    rank: int


def cpus(allowed: Iterable[int], system: Path = SYSTEM) -> tuple[Cpu, ...]:
    """Return the CPUs with these numbers, from the folder in which the system describes itself."""
    numbers = sorted(allowed)
    nodes: dict[int, int] = {}
    for folder in system.glob("node/node[0-9]*"):
        for number in _list(folder / "cpulist"):
            nodes[number] = int(folder.name.removeprefix("node"))
    made = []
    for number in numbers:
        siblings = _list(system / f"cpu/cpu{number}/topology/thread_siblings_list")
        rank = sum(s < number and s in numbers for s in siblings)
        made.append(Cpu(number, nodes.get(number, 0), rank))
    return tuple(made)


def _list(file: Path) -> list[int]:
    """Return the numbers of a file such as ``0-3,8``; none if it can't be read."""
    made: list[int] = []
    try:
        for part in file.read_text().strip().split(","):
            first, _, last = part.partition("-")
            made += range(int(first), int(last or first) + 1)
    except (OSError, ValueError):
        return []
    return made


def choose(free: Collection[Cpu], count: int, held: Collection[Cpu] = ()) -> tuple[int, ...] | None:
    """Choose CPUs: whole cores before hyper-threads, all of one NUMA node where it has enough.

    The node of those that the process holds already is the first choice. None if there are not
    enough.
    """
    if len(free) < count:
        return None
    nodes = {cpu.node for cpu in free}
    own = {cpu.node for cpu in held}
    by_node = {n: sorted((c.rank, c.number) for c in free if c.node == n) for n in nodes}

    def effort(node: int) -> tuple[bool, bool, int, int, int]:
        there = by_node[node]
        ranks = sum(rank for rank, _ in there[:count])
        # Of nodes that are as good, the emptiest: workers then share the memory's speed least.
        return len(there) < count, node not in own, ranks, -len(there), node

    order = [entry for node in sorted(nodes, key=effort) for entry in by_node[node]]
    if len(by_node[min(nodes, key=effort)]) < count:
        order.sort(key=lambda entry: entry[0])  # stable: nodes stay together
    return tuple(sorted(number for _, number in order[:count]))
