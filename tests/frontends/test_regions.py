"""Splits of graphs into regions and islands: right, as few parts as possible, in linear time."""

import random
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import combinations, pairwise
from types import FrameType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onednn_graph_py.base.errors import InvalidGraphError
from onednn_graph_py.frontends.regions import MOST_PASSES, Part, split

Reads = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Case:
    """A graph whose node i reads nodes before i, what oneDNN takes of it, and what is costly."""

    reads: Reads
    can: Sequence[bool]
    costly: Sequence[bool]
    least: int = 2

    def worth(self, nodes: tuple[int, ...]) -> bool:
        return len(nodes) >= self.least or any(self.costly[i] for i in nodes)

    def split(self, order: Iterable[int] | None = None) -> list[Part[int]]:
        nodes = range(len(self.reads)) if order is None else order
        return split(nodes, self.reads.__getitem__, self.can.__getitem__, self.worth)


def drawn(seed: int, size: int) -> Case:
    """Return a random graph; half of them have edges only between nodes close to each other."""
    rng = random.Random(seed)
    likely, taken, costly = rng.uniform(0.05, 0.6), rng.uniform(0.3, 1), rng.uniform(0, 0.5)
    far = rng.choice((size, 6))
    return Case(
        [[j for j in range(max(0, i - far), i) if rng.random() < likely] for i in range(size)],
        [rng.random() < taken for _ in range(size)],
        [rng.random() < costly for _ in range(size)],
        rng.choice((1, 2, 3, 99)),
    )


def cases(most: int) -> st.SearchStrategy[Case]:
    return st.builds(drawn, st.integers(0, 2**32), st.integers(0, most))


def connected(nodes: Iterable[int], reads: Reads) -> list[tuple[int, ...]]:
    """Connected pieces of the graph that has only these nodes, by searching in both directions."""
    left = set(nodes)
    beside: dict[int, set[int]] = {i: set() for i in left}
    for i in left:
        for j in left.intersection(reads[i]):
            beside[i].add(j)
            beside[j].add(i)
    pieces = []
    while left:
        piece, reached = set(), [left.pop()]
        while reached:
            piece.add(reached[-1])
            reached += beside[reached.pop()] - piece
        pieces.append(tuple(sorted(piece)))
        left -= piece
    return pieces


def fewest(case: Case, sides: Sequence[str], costs: str = "RI") -> int:
    """The least number of parts, or of regions alone, over all orders in which nodes can run.

    A search through all sets of nodes that may have run so far. ``sides`` has an R, an I, or both
    for a node that may run on either side.
    """
    needed = [sum(1 << j for j in reads) for reads in case.reads]
    done: set[tuple[int, str]] = set()
    reached = deque((int(side in costs), 0, side) for side in sorted("RI", key=costs.find))
    while True:
        cost, ran, side = reached.popleft()
        if ran == (1 << len(needed)) - 1:
            return cost if needed else 0
        if (ran, side) in done:
            continue
        done.add((ran, side))
        for i, before in enumerate(needed):
            if side in sides[i] and not ran >> i & 1 and not before & ~ran:
                reached.appendleft((cost, ran | 1 << i, side))
        other = "RI"[side == "R"]
        more = (cost + (other in costs), ran, other)
        reached.append(more) if other in costs else reached.appendleft(more)


def sides_of(case: Case, parts: Sequence[Part[int]]) -> list[str]:
    """Where nodes have to run, where those that islands have though oneDNN takes them may move."""
    sides = ["RI" if can else "I" for can in case.can]
    for i in (i for part in parts if part.is_region for i in part.nodes):
        sides[i] = "R"
    return sides


# -- what holds for all graphs


@settings(max_examples=300)
@given(cases(40))
def test_parts_have_every_node_once_and_read_only_from_themselves_and_earlier_ones(case):
    parts = case.split()
    nodes = [i for part in parts for i in part.nodes]
    assert sorted(nodes) == list(range(len(case.reads)))
    place = {i: at for at, i in enumerate(nodes)}
    assert all(place[j] < place[i] for i, reads in enumerate(case.reads) for j in reads)
    assert all(part.nodes and list(part.nodes) == sorted(part.nodes) for part in parts)


@settings(max_examples=300)
@given(cases(40))
def test_regions_have_only_what_can_and_a_piece_that_is_worth_it(case):
    parts = case.split()
    assert all(a.is_region != b.is_region for a, b in pairwise(parts))
    for part in parts:
        if part.is_region:
            assert all(case.can[i] for i in part.nodes)
            assert any(map(case.worth, connected(part.nodes, case.reads)))
        else:
            assert not any(case.can[i] and case.costly[i] for i in part.nodes)
            assert case.least > 1 or not any(case.can[i] for i in part.nodes)


@settings(max_examples=300)
@given(cases(9))
def test_no_split_has_fewer_parts_or_fewer_regions(case):
    parts = case.split()
    sides = sides_of(case, parts)
    assert len(parts) == fewest(case, sides)
    assert sum(part.is_region for part in parts) == fewest(case, sides, costs="R")


@settings(max_examples=200)
@given(cases(40))
def test_no_two_parts_of_a_kind_could_be_one(case):
    parts = case.split()
    for a, b in combinations(range(len(parts)), 2):
        if parts[a].is_region == parts[b].is_region:
            part_of = {i: n if n != b else a for n, part in enumerate(parts) for i in part.nodes}
            graph: dict[int, set[int]] = {}
            for i, reads in enumerate(case.reads):
                graph.setdefault(part_of[i], set()).update(part_of[j] for j in reads)
            with pytest.raises(CycleError):
                TopologicalSorter({at: reads - {at} for at, reads in graph.items()}).prepare()


@settings(max_examples=200)
@given(cases(40))
@example(drawn(229347, 30))  # a move leaves a smaller piece behind, which can move, too
def test_a_piece_is_with_its_first_reader_if_that_is_in_a_region(case):
    parts = case.split()
    at = {i: n for n, part in enumerate(parts) for i in part.nodes}
    for part in parts:
        for piece in connected(part.nodes, case.reads) if part.is_region else ():
            readers = [i for i in at if i not in piece and set(piece).intersection(case.reads[i])]
            assert not readers or not parts[min(at[i] for i in readers)].is_region


@settings(max_examples=200)
@given(cases(40), st.randoms(use_true_random=False))
def test_the_order_of_the_nodes_given_changes_no_part(case, rng):
    order = list(range(len(case.reads)))
    rng.shuffle(order)
    shuffled = case.split(order)
    assert [(set(p.nodes), p.is_region) for p in shuffled] == [
        (set(p.nodes), p.is_region) for p in case.split()
    ]
    place = {i: at for at, i in enumerate(i for p in shuffled for i in p.nodes)}
    assert all(place[j] < place[i] for i, reads in enumerate(case.reads) for j in reads)


@settings(max_examples=100)
@given(cases(40), st.randoms(use_true_random=False))
def test_hashes_of_nodes_do_not_matter(case, rng):
    class Node:
        def __init__(self, i: int) -> None:
            self.i, self.hash = i, rng.getrandbits(60)

        def __hash__(self) -> int:
            return self.hash

    nodes = [Node(i) for i in range(len(case.reads))]
    parts = split(
        nodes,
        lambda n: [nodes[j] for j in case.reads[n.i]],
        lambda n: case.can[n.i],
        lambda piece: case.worth(tuple(n.i for n in piece)),
    )
    assert [tuple(n.i for n in p.nodes) for p in parts] == [p.nodes for p in case.split()]


# -- single graphs


Graph = dict[str, str]
"""What nodes read, by name; oneDNN takes names in lower case."""


def parts_of(graph: Graph, worth: Callable[[tuple[str, ...]], bool] | None = None) -> list[str]:
    """The parts as text; regions stand in brackets."""
    parts = split(graph, lambda n: graph[n].split(), str.islower, worth)
    return [
        f"[{' '.join(part.nodes)}]" if part.is_region else " ".join(part.nodes) for part in parts
    ]


def several(nodes: tuple[str, ...]) -> bool:
    return len(nodes) > 1


def test_nodes_that_are_not_connected_share_a_region():
    assert parts_of({"a": "", "b": "", "C": "a", "D": "b"}) == ["[a b]", "C D"]


def test_a_split_starts_with_the_kind_that_gives_fewer_parts():
    assert parts_of({"a": "", "B": "a", "c": "B", "D": ""}) == ["[a]", "B D", "[c]"]
    assert parts_of({"A": "", "b": "A", "C": "b", "d": ""}) == ["A", "[b d]", "C"]


def test_one_region_is_preferred_to_one_island():
    assert parts_of({"A": "", "b": "A", "c": "", "D": "c"}) == ["A", "[b c]", "D"]


def test_ops_on_weights_run_with_the_op_that_reads_their_result():
    graph = {
        "dequantize": "",
        "transpose": "dequantize",
        "first": "",
        "Sort": "first",
        "second": "Sort transpose",
    }
    expected = ["[first]", "Sort", "[dequantize transpose second]"]
    assert parts_of(graph) == expected
    assert parts_of(graph, lambda nodes: "first" in nodes or "second" in nodes) == expected


def test_a_result_stays_with_the_op_that_makes_it():
    """What is in the middle of a piece does not move, as another value would be handed over."""
    graph = {"product": "", "relu": "product", "Sort": "product", "sum": "Sort relu"}
    assert parts_of(graph) == ["[product relu]", "Sort", "[sum]"]


def test_a_lone_op_between_islands_joins_them():
    graph = {"a": "", "b": "a", "C": "b", "d": "C", "E": "d", "f": "E", "g": "f"}
    assert parts_of(graph, several) == ["[a b]", "C d E", "[f g]"]
    assert parts_of(graph) == ["[a b]", "C", "[d]", "E", "[f g]"]


def test_a_lone_op_beside_a_region_does_not_delay_what_waits_for_it():
    """As where a front end computes a mask for attention in steps that oneDNN takes in part."""
    model = {"Embed": "", "norm": "Embed", "query": "norm", "scores": "query Expand"}
    mask = {"Compare": "", "scale": "Compare", "Expand": "scale"}
    assert parts_of(mask | model, several) == [
        "Compare scale Expand Embed",
        "[norm query scores]",
    ]


def test_a_lone_op_is_in_a_region_where_that_costs_no_part():
    asked = []

    def worth(nodes: tuple[str, ...]) -> bool:
        asked.append(nodes)
        return several(nodes)

    assert parts_of({"a": "", "b": "a", "c": "", "D": "b c"}, worth) == ["[a b c]", "D"]
    assert asked == [("a", "b"), ("c",), ("a", "b")]


def test_ops_that_were_too_small_join_the_region_that_reads_their_result():
    costly = {"A": "", "product": "A", "B": "product", "second": "B", "F": "second"}
    waiting = {"C": "", "small": "C", "D": "small", "lone": "D", "E": "lone"}
    joining = {"cast": "E", "scale": "cast", "sum": "scale second"}
    parts = parts_of(costly | waiting | joining, lambda n: "product" in n or "second" in n)
    assert parts == ["A C small D lone E", "[product]", "B", "[second cast scale sum]", "F"]


def test_nothing_is_worth_a_region():
    graph = {"a": "", "b": "a", "C": "b", "d": "C"}
    assert parts_of(graph, lambda nodes: False) == ["a b C d"]


def test_an_order_for_side_effects_is_kept():
    assert parts_of({"Write": "read", "read": "", "Again": "Write"}) == ["[read]", "Write Again"]
    assert parts_of({"Write": "", "read": "Write"}) == ["Write", "[read]"]


def test_graphs_of_one_kind_are_one_part():
    assert parts_of({"a": "", "b": "a", "c": ""}) == ["[a b c]"]
    assert parts_of({"A": "", "B": "A", "C": ""}) == ["A B C"]
    assert parts_of({}) == []


def test_functions_are_asked_once_for_each_node_and_about_connected_pieces():
    case = Case([[], [0], [], [1, 2], [3]], [True, True, True, False, True], [False] * 5)
    asked: list[Any] = []

    def reads(i: int) -> Iterable[int]:
        asked.append(("reads", i))
        return (j for j in case.reads[i])

    def can(i: int) -> bool:
        asked.append(("can", i))
        return case.can[i]

    def worth(nodes: tuple[int, ...]) -> bool:
        asked.append(nodes)
        return True

    split((i for i in range(5)), reads, can, worth)
    once = [(what, i) for what in ("reads", "can") for i in range(5)]
    assert Counter(asked) == Counter([*once, (0, 1), (2,), (4,)])


# -- wrong graphs


class Named:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


LONG = Named("long " * 1000)


@pytest.mark.parametrize(
    ("reads", "message"),
    [
        (
            {"a": ["c"], "b": ["a"], "c": ["b"], "d": ["a"]},
            "nodes form a cycle; each reads the next one's result: 'a' -> 'c' -> 'b' -> 'a'",
        ),
        ({"a": ["a"]}, "nodes form a cycle; each reads the next one's result: 'a' -> 'a'"),
        (
            {i: [(i + 1) % 1000] for i in range(1000)},
            "nodes form a cycle; each reads the next one's result: "
            "0 -> 1 -> 2 -> ... -> 998 -> 999 -> 0",
        ),
        (
            {"a": [], "b": ["a", "x"]},
            "reads('b') must return only nodes of the graph, got 'x', which nodes does not have",
        ),
        (
            {LONG: [3]},
            "reads(long long long long long lon...ong long long long long long ) must return only "
            "nodes of the graph, got 3, which nodes does not have",
        ),
    ],
)
def test_wrong_graphs_are_refused_by_name(reads, message):
    with pytest.raises(InvalidGraphError) as error:
        split(reads, reads.__getitem__, lambda node: True)
    assert str(error.value) == message


@pytest.mark.parametrize("nodes", ["aa", "aba", "abcb"])
def test_a_node_that_is_given_twice_is_refused(nodes):
    with pytest.raises(InvalidGraphError, match=r"must all be different, got '[ab]' twice"):
        split(nodes, lambda node: (), lambda node: True)


def test_nodes_that_are_not_hashable_are_refused():
    with pytest.raises(TypeError, match="unhashable"):
        split([[]], lambda node: (), lambda node: True)  # type: ignore[type-var]


def test_errors_of_the_functions_given_reach_the_caller():
    def fails(_: object) -> bool:
        raise ZeroDivisionError

    for functions in [(fails, bool, None), (lambda i: (), fails, None), (lambda i: (), id, fails)]:
        with pytest.raises(ZeroDivisionError):
            split([1], *functions)


# -- large graphs


def lines_run(function: Callable[[], object]) -> int:
    """How many lines of Python a call runs; each step of a loop runs at least one."""
    count = 0

    def in_frame(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return in_frame

    before = sys.gettrace()
    sys.settrace(in_frame)
    try:
        function()
    finally:
        sys.settrace(before)
    return count


def chain(size: int) -> Reads:
    return [[i - 1] if i else [] for i in range(size)]


def grid(size: int) -> Reads:
    wide = int(size**0.5)
    return [[j for j in (i - 1 if i % wide else -1, i - wide) if j >= 0] for i in range(size)]


def diamonds(size: int, wide: int) -> Reads:
    """Hubs: each is read by many nodes, which the next hub reads, as well as the last hub."""
    reads: list[list[int]] = [[]]
    while len(reads) < size:
        hub = len(reads) - 1
        reads += [[hub]] * min(wide, size - len(reads))
        reads.append(list(range(hub, len(reads))))
    return reads[:size]


def fan(size: int) -> Reads:
    """A node that reads many nodes and is read by each node of a chain."""
    hub = size // 2
    rest = [[i - 1, hub] if i > hub + 1 else [hub] for i in range(hub + 1, size)]
    return [*([] for _ in range(hub)), list(range(hub)), *rest]


def close(size: int) -> Reads:
    rng = random.Random(0)
    near = ((range(max(0, i - 200), i), min(i, 3)) for i in range(size))
    return [sorted(rng.sample(before, count)) for before, count in near]


GRAPHS: dict[str, Callable[[int], Reads]] = {
    "chain": chain,
    "grid": grid,
    "diamonds": lambda size: diamonds(size, 100),
    "wide": lambda size: diamonds(size, size - 2),
    "fan": fan,
    "close": close,
}
COLOURS: dict[str, Callable[[random.Random, int], bool]] = {
    "all": lambda rng, i: True,
    "alternating": lambda rng, i: i % 2 == 0,
    "most": lambda rng, i: rng.random() < 0.7,
}


def case_of(graph: str, colours: str, size: int, least: int = 2) -> Case:
    reads, rng = GRAPHS[graph](size), random.Random(1)
    return Case(reads, [COLOURS[colours](rng, i) for i in range(size)], [False] * size, least)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("colours", COLOURS)
def test_thousands_of_nodes_take_a_fixed_number_of_steps_for_each_node_and_edge(graph, colours):
    case = case_of(graph, colours, 3_000)  # one step for each pair of nodes would exceed the bound
    size = len(case.reads) + sum(map(len, case.reads))
    assert lines_run(lambda: case.split(range(3_000)[::-1])) <= 200 * size


def test_deep_graphs_need_no_recursion():
    case = case_of("chain", "alternating", 50_000, least=1)
    assert len(case.split(range(50_000)[::-1])) == 50_000


def falling(rows: int) -> Case:
    """A graph in which letting go of one pair of nodes makes the next pair too small.

    The second node of a pair has the level of its costly chain; the first one keeps up with it only
    as long as the pair before is in a region.
    """
    reads: list[list[int]] = []
    kinds = ""

    def add(kind: str, *needed: int | None) -> int:
        nonlocal kinds
        reads.append([i for i in needed if i is not None])
        kinds += kind
        return len(reads) - 1

    costly = first = second = None
    for row in range(rows):
        host = add("h", costly)
        between = add("h", first, second)
        costly = add("C", host)
        first = add("c", between)
        second = add("c", host, first) if row else None
        add("h", first)
    return Case(reads, [k in "cC" for k in kinds], [k == "C" for k in kinds])


def test_what_is_too_small_is_looked_for_a_fixed_number_of_times():
    case = falling(2_000)
    asked = Counter[tuple[int, ...]]()

    def worth(nodes: tuple[int, ...]) -> bool:
        asked[nodes] += 1
        return case.worth(nodes)

    nodes = range(len(case.reads))
    parts = split(nodes, case.reads.__getitem__, case.can.__getitem__, worth)
    assert max(asked.values()) == MOST_PASSES
    at = {i: n for n, part in enumerate(parts) for i in part.nodes}
    assert all(at[j] <= at[i] for i in nodes for j in case.reads[i])
    assert all(parts[at[i]].is_region for i in nodes if case.costly[i])
