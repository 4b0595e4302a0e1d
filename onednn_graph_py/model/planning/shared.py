"""Keep what the plans of one model have in common: `Shared`."""

import itertools
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ... import _core
from ...base.errors import OneDNNError
from ...base.processes.forked import renew_in_forks
from ...safety.saturation import magnitude_of
from ..building.builder import GraphBuilder, graph_of, leaving_of, readers_of
from ..building.constant_arrays import lies_apart
from ..building.foreign import ForeignNode
from ..building.value import Node, Value, is_whole
from ..rewriting import PASSES, rewritten
from .folding import FoldedConstants
from .group import form_of, values_of
from .grouping import needed, ordered
from .options import CompileOptions
from .pace import Paces
from .partition_ids import partition_of
from .transposed import read_without_gaps, row_major_results

Nodes = tuple[Node, ...]

Grouping = list[tuple[Nodes, _core.partition | None]]
"""Groups of ops with their partitions; None if oneDNN can't run the ops."""


_FEW = 1 << 16  # the elements that are looked at for scales, zero points and infinities

_Part = tuple[tuple[int, ...], _core.partition | None]
"""A group, by the ids of its ops, and the partition that all plans compile.

Without a partition each plan makes its own, of a graph with the plan's shapes.
"""


class Way(NamedTuple):
    """A way to split a group."""

    parts: list[list[int]]  # the places of each part's ops in the group
    slow: bool  # whether slow parts were allowed


class Form(NamedTuple):
    """All that groups have in common that differ only in shapes, ids and names."""

    number: Hashable
    ids: tuple[int, ...]  # those of the values, in an order that equal groups share
    made: tuple[int, ...]  # those of its results
    read: tuple[int, ...]  # those of the values that are no constants
    lent: tuple[int, ...]  # those of constants by which groups differ in nothing oneDNN hashes
    is_whole: bool  # whether the graph has no unknown dim of them


class Shared:
    """The ops of a model, oneDNN's partitions of them, and the arrays computed from constants.

    oneDNN keeps a reordered constant under the id of the partition that reads it. So all plans of a
    model compile the same partitions, which come from the graph with its unknown dims.
    """

    def __init__(self, builder: GraphBuilder, options: CompileOptions) -> None:
        self.builder = builder
        nodes = needed(builder, builder.nodes)
        if options.policy == "fusion":
            for rules in PASSES:
                nodes = needed(builder, rewritten(rules, builder, nodes))
        self.nodes = nodes
        self.readers = readers_of(builder, self.nodes)
        self.row_major = row_major_results(self.nodes, self.readers)
        self.without_gaps = read_without_gaps(self.nodes, self.readers)
        ops = [n for n in self.nodes if not isinstance(n, ForeignNode)]
        self.read_by_ops = {v.id for n in ops for v in n.inputs}
        self.folded = FoldedConstants()
        # How slow groups of about one size are, by the group's number and that size.
        self.paces: dict[Hashable, str | None] = {}
        # The ways in which groups of such a size were split; None where each op runs by itself.
        self.ways: dict[Hashable, Way | None] = {}
        # What was measured, on this machine or another, and decided how groups run.
        self.measured: Paces = {}
        self.has_unknown_dims = any(
            v.shape is None or not is_whole(v.shape) for v in builder.inputs
        )
        # The tensors that look alike in all plans.
        self.known = {
            v.id: v.described(v.shape)
            for v in (*builder.inputs, *builder.constants)
            if v.shape is not None and is_whole(v.shape)
        }
        self._policy = options.policy
        self._by_id = {n.id: n for n in self.nodes}
        self._lock = threading.RLock()
        renew_in_forks(self)
        self._parts: dict[Hashable, list[_Part]] = {}
        self._partitions: dict[Hashable, _core.partition | None] = {}
        self._spaced: dict[Hashable, _core.partition] = {}
        self._elements: dict[int, Hashable] = {}
        self._forms: dict[Hashable, Form] = {}
        self._numbers: dict[Hashable, int] = {}
        self._marked: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._free = itertools.count()  # atomic: threads that plan at once get different numbers

    def _after_fork(self) -> None:
        self._lock = threading.RLock()
        self.folded.lock = threading.RLock()

    def form(self, nodes: Nodes, strict: bool) -> Form:
        """Return a group's form, with the group's own values."""
        known = self._forms.get((nodes, strict))
        if known is not None:
            return known
        form = form_of(nodes, leaving_of(nodes, self.readers), self.constant)
        values = values_of(nodes)
        known = Form(
            self._numbers.setdefault((form, strict), next(self._free)),
            tuple(v.id for v in values),
            tuple(v.id for n in nodes for v in n.outputs),
            tuple(v.id for v in values if v.data is None),
            self._lent(values),
            all(v.shape is not None and is_whole(v.shape) for v in values),
        )
        if all(self._by_id.get(n.id) is n for n in nodes):
            self._forms[nodes, strict] = known
        return known

    def _lent(self, values: Iterable[Value]) -> tuple[int, ...]:
        """Return the ids of constants where the caller has them, whose addresses are in no hash.

        Other constants of the group may stand for them, whose addresses are (see `as_passed`), if
        no group has these beside others: then only their places, which equal groups share.
        """
        constants = [(v.id, v.data) for v in values if v.data is not None]
        places = tuple(k for k, (_, data) in enumerate(constants) if not lies_apart(data))
        lent = tuple(constants[k][0] for k in places)
        if not lent:
            return ()
        own = [data for i, data in constants if i in self.known and i not in lent]
        mark = tuple(data.ctypes.data for data in own)
        return places if mark and self._marked.setdefault(mark, lent) == lent else lent

    def constant(self, value: Value) -> Hashable:
        """Tell a constant from variables, by all that `safety` reads of its elements."""
        if value.data is None:
            return None
        found = self._elements.get(value.id)
        if found is None and value.dtype == "s8":
            found = self._elements[value.id] = magnitude_of(value.data)
        elif found is None:
            few = value.data.ravel()[:_FEW].astype(np.float64)
            equal, finite = bool((few == few[:1]).all()), bool(np.isfinite(few).all())
            found = self._elements[value.id] = equal, finite
        return found

    def has(self, node: Node) -> bool:
        """Whether a node is the model's own, perhaps with constants in place of its inputs.

        Plans change ops to complete them for their shapes, or to write them in another way.
        """
        own = self._by_id.get(node.id)
        if own is None or own is node:
            return own is node
        return own.attrs is node.attrs and own.kind == node.kind and _ids(own) == _ids(node)

    def groups(
        self, nodes: Sequence[Node], strict: bool, partition: Callable[[Sequence[Node]], Grouping]
    ) -> Grouping:
        """Group a model's own nodes as the first plan grouped them, or else by `partition`."""
        key = _key(nodes, strict)
        with self._lock:
            parts = self._parts.get(key)
            if parts is None:
                made = ordered(partition(nodes))
                self._parts[key] = [
                    (tuple(n.id for n in group), self._common(group, found, strict))
                    for group, found in made
                ]
                by_group = zip(made, self._parts[key], strict=True)
                return [(group, common or own) for (group, own), (_, common) in by_group]
        by_id = {n.id: n for n in nodes}
        grouping: Grouping = []
        for ids, common in parts:
            group = tuple(by_id[i] for i in ids)
            grouping += ordered(partition(group)) if common is None else [(group, common)]
        return grouping

    def _common(
        self, group: Nodes, own: _core.partition | None, strict: bool
    ) -> _core.partition | None:
        """Return the partition of a group that every plan can compile; None if there is none."""
        if own is None or not self.has_unknown_dims:
            return own
        key = _key(group, strict)
        if key not in self._partitions:
            self._partitions[key] = self._of_unknown_dims(group, strict)
        return self._partitions[key]

    def _of_unknown_dims(self, group: Nodes, strict: bool) -> _core.partition | None:
        ids = {n.id for n in group}
        try:
            partitions = self.graph(group, strict).get_partitions(self._policy)
        except OneDNNError:
            return None
        found = [p for p in partitions if not ids.isdisjoint(p.get_ops())]
        if len(found) != 1 or not ids.issubset(found[0].get_ops()) or not found[0].is_supported():
            return None
        return found[0]

    def graph(self, nodes: Sequence[Node], strict: bool) -> _core.graph:
        """Make the mirror's graph of some of the model's nodes, with the unknown dims."""
        return graph_of(self.builder, {}, nodes, self.readers, strict=strict)

    def spaced(
        self, nodes: Nodes, strict: bool, partition: _core.partition, broadcast: Hashable
    ) -> _core.partition | None:
        """Return a group's partition with an id that suits constants of quantization.

        Sizes that broadcast operands in another way have an id of their own. None if not all plans
        compile the partition.
        """
        if not any(partition == p for p in self._partitions.values()):
            return None
        key = partition.get_id(), broadcast
        with self._lock:
            if key not in self._spaced:
                self._spaced[key] = partition_of(self.graph(nodes, strict), partition.get_ops())
            return self._spaced[key]


def _ids(node: Node) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(v.id for v in side) for side in (node.inputs, node.outputs))


def _key(nodes: Sequence[Node], strict: bool) -> Hashable:
    """Tell groups apart by their ops, and by the inputs that are constants now."""
    constants = frozenset(v.id for n in nodes for v in n.inputs if v.data is not None)
    return tuple(n.id for n in nodes), constants, strict
