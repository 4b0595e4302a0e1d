"""A plan in the making: `PlanDraft`."""

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, fields
from typing import Any

import numpy.typing as npt

from ... import _core
from ...machine import Conditions, current
from ...machine.cpu import threads_can_be_set
from ...safety.group import Group
from ..building.builder import GraphBuilder, graph_of, leaving_of
from ..building.foreign import ForeignNode
from ..building.infer import infer_rest
from ..building.value import Node, Value
from ..rewriting import complete
from ..verdicts import Judge, Subject, subject_of
from .group import group_of, layout_of
from .options import CompileOptions
from .plan import PlannedStep
from .shared import Form, Nodes, Shared
from .views import Origin
from .work import is_brief


@dataclass(eq=False)
class Progress:
    """The steps planned so far, with their tensors and reasons: all that a try may discard."""

    steps: list[PlannedStep] = field(default_factory=list)
    # For each tensor that is a view, where it lies.
    views: dict[int, Origin] = field(default_factory=dict)
    # The tensors between steps with their layouts, by id.
    known: dict[int, _core.logical_tensor] = field(default_factory=dict)
    # Constants that replace values that ops make of constants, by the values' ids.
    folded: dict[int, Value] = field(default_factory=dict)
    # The numbers that `FoldedConstants` gives to constants, by the values' ids.
    sources: dict[int, int] = field(default_factory=dict)
    # The nodes of each group that runs in parts, and the reason.
    splits: list[tuple[Nodes, str]] = field(default_factory=list)
    # The nodes of each group that could not be verified, and the reason.
    unverified: list[tuple[Nodes, str]] = field(default_factory=list)
    # The ops that NumPy computes at each call for want of a kernel, and the reason.
    in_numpy: list[tuple[Nodes, str]] = field(default_factory=list)
    # Ops that are computed in strict f32 although the graph's floating-point mode allows less.
    strict: set[int] = field(default_factory=set)
    # The number of ops without a kernel that are written in another way, or computed in NumPy.
    without_kernel: int = 0


class PlanDraft(Progress):
    """A graph with known shapes, and the plan that is made of it.

    - `engine`: without an engine ops can be grouped, but not compiled
    - `shapes`: the shapes of all values, by id; those of values that planning makes are added
    - `threads`: the number that a call will use; 0 for the runtime's own number
    - `shared`: the facts and partitions that the model's plans have in common
    - `judge`: judges each partition before it is compiled
    """

    def __init__(
        self,
        builder: GraphBuilder,
        engine: _core.engine | None,
        shapes: dict[int, tuple[int, ...]],
        options: CompileOptions,
        threads: int = 0,
        shared: Shared | None = None,
        judge: Judge | None = None,
    ) -> None:
        self.builder = builder
        self._engine = engine
        self.on_cpu = builder.engine_kind.name == "cpu"
        self._sets_threads = self.on_cpu and threads_can_be_set()
        self.shapes = shapes
        self.shared = shared if shared is not None else Shared(builder, options)
        infer_rest(self.shared.nodes, shapes)
        self.options = options
        self.threads = threads
        self.conditions = current(threads or None)
        self.judge = judge
        self.constants = self.shared.folded
        self.nodes = [complete(node, shapes) for node in self.shared.nodes]
        self.outputs = {v.id for v in builder.outputs.values()}
        self.free_layout = self._free_layout() if options.layout == "auto" else set()
        # What judges answered about groups, which holds for equal groups too (see `fates`).
        self.candidates: dict[Hashable, Any] = {}
        # The groups that can be written in several forms (see `forms`).
        self.choices: dict[Hashable, Any] = {}
        self.choice_of: dict[tuple[int, ...], Any] = {}
        super().__init__(known=dict(self.shared.known))
        for value in builder.inputs:
            self.known.setdefault(value.id, value.described(shapes[value.id]))
        with self.constants.lock:
            self.sources.update({v.id: self.constants.constant(v.id) for v in builder.constants})

    def _free_layout(self) -> set[int]:
        """Return the ids of the values whose layout oneDNN chooses."""
        ops = [n for n in self.nodes if not isinstance(n, ForeignNode)]
        free = {v.id for n in ops for v in n.outputs} - self.outputs - self.shared.row_major
        if not self.on_cpu:  # there layouts may be opaque
            free -= {v.id for n in self.nodes if isinstance(n, ForeignNode) for v in n.inputs}
        return free

    @property
    def engine(self) -> _core.engine:
        """The engine to compile for."""
        assert self._engine is not None
        return self._engine

    @contextmanager
    def attempt(self) -> Iterator[Callable[[], None]]:
        """Discard what the ``with`` block plans, unless it calls the function that it gets."""
        before, kept = {f.name: getattr(self, f.name) for f in fields(Progress)}, []
        vars(self).update({name: copy(value) for name, value in before.items()})
        try:
            yield lambda: kept.append(True)
        finally:
            if not kept:
                vars(self).update(before)

    def plain(self, value: Value) -> _core.logical_tensor:
        """Describe a value as the graph declares it: row-major, unless it has strides."""
        return value.described(self.shapes[value.id])

    def constant_arrays(self) -> dict[int, npt.NDArray[Any]]:
        """Return the arrays of constants and of folded results, by id."""
        values = (*self.builder.constants, *self.folded.values())
        return {v.id: v.data for v in values if v.data is not None}

    # -- descriptions of a group

    def is_strict(self, nodes: Sequence[Node]) -> bool:
        """Whether smaller floating-point types are forbidden to some of the nodes."""
        return bool(self.strict) and any(n.id in self.strict for n in nodes)

    def threads_of(self, nodes: Sequence[Node]) -> int:
        """Return the number of threads that a group runs on; 0 for the runtime's own number."""
        return 1 if self._sets_threads and is_brief(nodes, self.shapes) else self.threads

    def conditions_of(self, nodes: Sequence[Node]) -> Conditions:
        """Return the conditions in which a group runs."""
        threads = self.threads_of(nodes)
        return current(threads) if threads else self.conditions

    def graph(self, nodes: Sequence[Node]) -> _core.graph:
        """Make the mirror's graph of some nodes, with the plan's shapes."""
        readers = self.shared.readers
        return graph_of(self.builder, self.shapes, nodes, readers, strict=self.is_strict(nodes))

    def form(self, nodes: Nodes) -> Form:
        """Return the form of a group, with its own values."""
        return self.shared.form(nodes, self.is_strict(nodes))

    def key(self, nodes: Nodes, *, free: bool = False) -> Hashable:
        """Describe a group by all that decides how it runs; if `free`, with layouts of its own."""
        form = self.form(nodes)
        wanted = [
            (free or i in self.free_layout, not free and i in self.outputs) for i in form.made
        ]
        return (
            form.number,
            tuple([(self.shapes[i], i in self.sources) for i in form.ids]),
            tuple(wanted),
            tuple([layout_of(self.known[i]) if i in self.known else None for i in form.read]),
        )

    def size_key(self, nodes: Nodes) -> Hashable:
        """Describe a group by its form, and by its size to a power of two."""
        form = self.form(nodes)
        return form.number, max(math.prod(self.shapes[i]) for i in form.ids).bit_length()

    def group(self, nodes: Nodes) -> Group:
        """Describe a group for `safety`."""
        strict = self.is_strict(nodes)
        return group_of(
            nodes,
            self.shapes,
            layouts=self.known,
            fpmath="strict" if strict else self.builder.fpmath_mode.name,
            apply_to_int=self.builder.apply_to_int and not strict,
            leaving=leaving_of(nodes, self.shared.readers),
        )

    def subject(
        self,
        nodes: Nodes,
        inputs: Sequence[_core.logical_tensor],
        outputs: Sequence[_core.logical_tensor],
    ) -> Subject:
        """Describe a group with its layouts for other processes, without the ids of this one."""
        group = self.group(nodes)
        return subject_of(
            nodes,
            self.shapes,
            inputs,
            outputs,
            fpmath_mode=group.fpmath,
            apply_to_int=group.apply_to_int,
            threads=self.threads_of(nodes),
            engine_kind=self.builder.engine_kind.name,
        )
