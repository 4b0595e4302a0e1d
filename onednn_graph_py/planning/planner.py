"""Turn a built graph into a plan: partitions in order, compiled, with their memory laid out."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from .. import _core
from ..building.builder import GraphBuilder, graph_of, leaving_of
from ..building.constant_arrays import aligned_copy, lies_apart
from ..building.foreign import ForeignNode, HostNode, UpdateNode, ViewNode
from ..building.infer import infer_shapes
from ..building.value import Node, Value, new_id
from ..errors import (
    InvalidGraphError,
    KnownDefectError,
    OneDNNError,
    UnimplementedError,
    reworded,
)
from ..machine import current
from ..machine.constant_cache import turn_on
from ..ops.lookup import with_trait
from ..safety.group import Group
from ..safety.nodes import group_of
from ..safety.partitioning import partitioned_apart
from ..safety.slow_fusions import slow_fusion
from ..safety.wrong_results import wrong_result
from ..verdicts import Judge, Outcome, Subject, subject_of
from . import pace
from .alternatives import ALTERNATIVES, REORDERED, complete
from .arena import lay_out
from .engines import engine_of
from .fallback import reference_function
from .forms import layout_of, renamed, values_of
from .grouping import ordered, without_circles
from .host_steps import host_step, joined
from .options import CompileOptions
from .partition_ids import partition_of
from .plan import Plan, PlannedStep, Slot
from .recipes import RECIPES
from .shared import Grouping, Nodes, Shared
from .trial import Trial
from .views import Origin, has_gaps, is_dense, repeats, view_of

__all__ = ["Planner", "make_plan"]

_QUANTIZATION = with_trait("quantizes") | with_trait("dequantizes")

# What it costs to have no kernel.
_IN_NUMPY = (
    "runs in NumPy at each call, on one thread and tens to hundreds of times slower "
    "(compile(fallback='error') raises instead)"
)

_T = TypeVar("_T")


@dataclass
class _Progress:
    """The steps planned so far, with their tensors and reasons; the planner copies it for a try."""

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
    # The number of ops without a kernel that are written in another way, or computed in NumPy.
    without_kernel: int = 0

    def copy(self) -> _Progress:
        return _Progress(
            list(self.steps),
            dict(self.views),
            dict(self.known),
            dict(self.folded),
            dict(self.sources),
            list(self.splits),
            list(self.unverified),
            list(self.in_numpy),
            self.without_kernel,
        )


class _Compiled(NamedTuple):
    """A compiled partition, for its group and for equal ones."""

    compiled: _core.compiled_partition
    reads: tuple[int, ...]
    """The partition's inputs, by their places in `values_of` a group."""
    makes: tuple[int, ...]
    outputs: list[_core.logical_tensor]
    in_place: list[tuple[int, int]]
    """The places of inputs and of the outputs that may take their memory."""
    scratchpad_bytes: int
    verified: str
    unverified: str


class Unfit(Exception):
    """Raised for a partition that must not run, by its verdict.

    Parameters
    ----------
    why : str
    slow : bool
        Whether the partition is right, but slower than its separate ops.
    """

    def __init__(self, why: str, *, slow: bool = False) -> None:
        super().__init__(why)
        self.slow = slow


class Planner:
    """Collects the steps of one plan.

    Parameters
    ----------
    builder : GraphBuilder
    engine : engine, optional
        Without an engine, the planner can group ops but not compile them.
    shapes : dict of int to tuple of int
        The shapes of all values, by id; the planner adds those of values that it makes.
    options : CompileOptions
    threads : int
        The number that a call will use; 0 for the runtime's own number.
    shared : Shared, optional
        The facts and partitions that the model's plans have in common.
    judge : Judge, optional
        Judges each partition before it is compiled.
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
        self.shapes = shapes
        self._shared = shared if shared is not None else Shared(builder, options)
        shapes.update({made: shapes[of] for made, of in self._shared.equals.items()})
        self.options = options
        self._threads = threads
        self._conditions = current(threads or None)
        self._judge = judge
        self._constants = self._shared.folded
        self._made = _Progress()
        self.nodes = [complete(node, shapes) for node in self._shared.nodes]
        self._readers = self._shared.readers
        self._made.known.update(self._shared.known)
        for value in builder.inputs:
            self._made.known.setdefault(value.id, value.described(shapes[value.id]))
        with self._constants.lock:
            self._made.sources.update(
                {v.id: self._constants.constant(v.id) for v in builder.constants}
            )
        self._outputs = {v.id for v in builder.outputs.values()}
        self._free_layout: set[int] = set()
        if options.layout == "auto":
            made = {v.id for n in self.nodes if not isinstance(n, ForeignNode) for v in n.outputs}
            self._free_layout = made - self._outputs - self._shared.row_major
            if builder.engine_kind.name != "cpu":  # there layouts may be opaque
                foreign = [n for n in self.nodes if isinstance(n, ForeignNode)]
                self._free_layout -= {v.id for n in foreign for v in n.inputs}
        # Ops that are computed in strict f32 although the graph's floating-point mode allows less.
        self._strict: set[int] = set()
        # The answers about groups, which hold for equal groups too.
        self._answers: dict[Hashable, Any] = {}
        # The groups that run as one partition, for no special reason.
        self._plain: set[Hashable] = set()
        self._latest: tuple[Nodes | None, Hashable] = (None, None)

    @property
    def engine(self) -> _core.engine:
        """The engine to compile for."""
        assert self._engine is not None
        return self._engine

    @property
    def steps(self) -> list[PlannedStep]:
        """The steps planned so far."""
        return self._made.steps

    @property
    def views(self) -> dict[int, Origin]:
        """For each tensor that is a view, where it lies."""
        return self._made.views

    @property
    def known(self) -> dict[int, _core.logical_tensor]:
        """The tensors between steps with their layouts, by id."""
        return self._made.known

    @property
    def folded(self) -> dict[int, Value]:
        """Constants that replace values that ops make of constants, by the values' ids."""
        return self._made.folded

    def plain(self, value: Value) -> _core.logical_tensor:
        """Describe a value as the graph declares it: row-major, unless it has strides."""
        return value.described(self.shapes[value.id])

    @contextmanager
    def _trying(self) -> Iterator[_Progress]:
        """Discard the steps planned inside the ``with`` block, unless the caller keeps them."""
        before = self._made
        self._made = before.copy()
        try:
            yield self._made
        finally:
            self._made = before

    # -- groups

    def _is_strict(self, nodes: Sequence[Node]) -> bool:
        return any(n.id in self._strict for n in nodes)

    def graph(self, nodes: Sequence[Node]) -> _core.graph:
        """Make the mirror's graph of some nodes, with the plan's shapes."""
        strict = self._is_strict(nodes)
        return graph_of(self.builder, self.shapes, nodes, self._readers, strict=strict)

    def groups(self, nodes: Sequence[Node]) -> Grouping:
        """Group nodes by oneDNN's partitions, in the order in which they run.

        The partition is None if oneDNN can't run the group.
        """
        computing = [n for n in nodes if n.kind != "End"]
        if not computing:
            return []
        if all(map(self._shared.has, computing)):
            return self._shared.groups(computing, self._is_strict(computing), self._grouped)
        return ordered(self._grouped(computing))

    def _grouped(self, computing: Sequence[Node]) -> Grouping:
        """Group nodes by oneDNN's partitions of a graph with the plan's shapes."""
        foreign = [n for n in computing if isinstance(n, ForeignNode)]
        if foreign:
            rest = [n for n in computing if not isinstance(n, ForeignNode)]
            alone: Grouping = [((n,), None) for n in foreign]
            return without_circles(computing, [*alone, *self._parted(rest)], self._parted)
        apart = partitioned_apart(computing) if len(computing) > 1 else []
        if apart:
            rest = [n for n in computing if n not in apart]
            return [g for part in (rest, *([n] for n in apart)) for g in self._parted(part)]
        try:
            partitions = self._partitions(computing)
        except OneDNNError:
            if len(computing) == 1:
                if self.options.fallback == "error":
                    raise
                return [((computing[0],), None)]
            # oneDNN 3.13's search for fusions fails on parts of attention's gradients, with
            # "range_check", and graphs refuse products over a dim of 0.
            counts = range(1, len(computing))
            last = bisect_left(counts, True, key=lambda n: self._fails(computing[:n]))
            parts = (computing[:last], computing[last : last + 1], computing[last + 1 :])
            return [g for part in parts for g in self._parted(part)]
        made: Grouping = []
        for partition in partitions:
            ids = set(partition.get_ops())
            members = tuple(n for n in computing if n.id in ids)  # in the order in which they run
            if members:
                made.append((members, partition if partition.is_supported() else None))
        return made

    def _parted(self, computing: Sequence[Node]) -> Grouping:
        return self._grouped(computing) if computing else []

    def _partitions(self, nodes: Sequence[Node]) -> list[_core.partition]:
        """Return oneDNN's partitions of a graph of these nodes alone."""
        return self.graph(nodes).get_partitions(self.options.policy)

    def _fails(self, nodes: Sequence[Node]) -> bool:
        """Return whether oneDNN refuses to partition these nodes."""
        try:
            self._partitions(nodes)
        except OneDNNError:
            return True
        return False

    def defect(self, nodes: Nodes) -> str | None:
        """Return the defect of oneDNN in running these ops together; None if there is none."""
        if self.options.known_defects == "run":
            return None
        return self._once("defect", nodes, lambda: self._found_defect(nodes))

    def _found_defect(self, nodes: Nodes) -> str | None:
        found = wrong_result(self._group(nodes), self._conditions)
        return None if found is None else found.message

    def _once(self, what: str, nodes: Nodes, ask: Callable[[], _T]) -> _T:
        """Return the answer to a question about a group, which is asked once for equal groups."""
        key = (what, self._key(nodes))
        if key not in self._answers:
            self._answers[key] = ask()
        answer: _T = self._answers[key]
        return answer

    def _key(self, nodes: Nodes) -> Hashable:
        """Describe a group by all that decides how it runs."""
        if self._latest[0] is not nodes:
            self._latest = (nodes, self._described(nodes))
        return self._latest[1]

    def _described(self, nodes: Nodes) -> Hashable:
        form, values = self._shared.form(nodes, self._is_strict(nodes))
        known, sources = self.known, self._made.sources
        tensors = tuple(
            (
                self.shapes[v.id],
                v.id in sources,
                v.id in self._free_layout,
                v.id in self._outputs,
                None if v.data is not None or v.id not in known else layout_of(known[v.id]),
            )
            for v in values
        )
        return form, tensors

    def _group(self, nodes: Nodes) -> Group:
        """Make a group of nodes for `safety`."""
        strict = self._is_strict(nodes)
        return group_of(
            nodes,
            self.shapes,
            layouts=self.known,
            fpmath="strict" if strict else self.builder.fpmath_mode.name,
            apply_to_int=self.builder.apply_to_int and not strict,
            leaving=leaving_of(nodes, self._readers),
        )

    def plan(self) -> None:
        """Plan all nodes; warn about groups that run in parts, or are not verified."""
        for nodes, partition in self.groups(self.nodes):
            self.add(nodes, partition)
        if self.options.warn:
            _warn(self._made.splits, "runs in parts", "does not run as it is")
            _warn(self._made.unverified, "is not verified", "is not verified")
            _warn(self._made.in_numpy, _IN_NUMPY, _IN_NUMPY)

    def add(self, nodes: Nodes, partition: Any, why: str = "") -> None:
        """Add the steps that run a group, split if needed."""
        nodes, partition = self._with_folded(nodes, partition)
        if isinstance(nodes[0], ForeignNode):
            self._add_foreign(nodes[0])
            return
        if partition is None:
            for node in nodes:
                error = _unsupported(node, self.builder.engine_kind.name)
                if node.kind == "Wildcard":
                    raise error
                self._add_without_kernel(node, error)
            return
        key = self._key(nodes)
        if key in self._plain:
            self.add_compiled(nodes, partition, why)
            return
        defect = self.defect(nodes)
        if defect is not None:
            self._add_otherwise(nodes, defect)
            return
        slow = self._known_slow(nodes) or self._shared.paces.get(self._size(nodes))
        if slow is not None and self._split_for_speed(nodes, slow):
            return
        try:
            self.add_compiled(nodes, partition, why)
        except Unfit as e:
            if not e.slow:
                self._add_otherwise(nodes, str(e))
                return
            if self._split_for_speed(nodes, str(e)):
                return
            self.add_compiled(nodes, partition, why, slow=True)
            return
        except KnownDefectError as e:
            self._add_otherwise(nodes, str(e))
            return
        except OneDNNError as e:
            if len(nodes) > 1:
                self.split(nodes, f"in one partition it does not compile: {e}")
            else:
                where = f"{nodes[0].label} made at {nodes[0].where}"
                self._add_without_kernel(nodes[0], reworded(e, f"{where}: {e}"))
            return
        slow = self._slower_than_apart(nodes)
        if slow is None:
            self._plain.add(key)
        else:
            fused = self._made.steps.pop()
            if not self._split_for_speed(nodes, slow):
                self._append(fused)

    def _add_otherwise(self, nodes: Nodes, defect: str) -> None:
        """Add other steps for a group that oneDNN would compute wrongly."""
        if len(nodes) > 1:
            self.split(nodes, defect)
            return
        (node,) = nodes
        how = self._add_alternative(node, defect)
        if how is None:
            how = "in NumPy"
            self.add_reference(node, defect)
        self._made.splits.append((nodes, f"{defect}; it is computed {how}"))

    def _add_without_kernel(self, node: Node, error: OneDNNError) -> None:
        """Add an op that oneDNN can't run alone: written in another way, or computed in NumPy."""
        if self.options.fallback == "error" and not _reduces_nothing(node, self.shapes):
            raise error from None
        self._made.without_kernel += 1
        why = f"oneDNN has no kernel for this {node.kind}"
        if self._add_alternative(node, why) is not None:
            return
        self.add_reference(node, why)
        if self.steps[-1].implementation == "reference":
            self._made.in_numpy.append(((node,), why))

    def _add_alternative(self, node: Node, why: str, depth: int = 3) -> str | None:
        """Add an op written in another way, if one is right; return the name of that way.

        The ops of one way may be written in other ways in turn: an op is written anew up to
        `depth` times, as few as possible.
        """
        for within in range(depth):
            for how, rewrite in (*ALTERNATIVES, *RECIPES):
                nodes = rewrite(self.builder, node, self.shapes)
                if nodes is not None and self._add_all([(n,) for n in nodes], why, depth=within):
                    return how
        if self.builder.fpmath_mode.name != "strict" and node.id not in self._strict:
            self._strict.add(node.id)
            if self._add_all([(node,)], why):
                return "without a smaller floating-point type"
            self._strict.discard(node.id)
        return None

    def _add_all(
        self, parts: Sequence[Nodes], why: str, *, slow: bool = False, depth: int = 0
    ) -> bool:
        """Add parts if each is one good partition; return whether it did.

        Slow partitions are good only if allowed. Parts of one op may be written in other ways, if
        `depth` is positive.
        """
        with self._trying() as tried:
            for part in parts:
                part = self._read_folded(part)
                self._know_constants(part)
                if self._add_part(part, why, slow=slow):
                    continue
                if depth == 0 or len(part) > 1 or not self._add_alternative(part[0], why, depth):
                    return False
            tried = self._made
        self._made = tried
        return True

    def _add_part(self, part: Nodes, why: str, *, slow: bool) -> bool:
        """Add the step of a part if it is one good partition; return whether it did."""
        try:
            groups = self.groups(part)
        except OneDNNError:  # reshapes of booleans, if no op may run in NumPy
            groups = []
        nodes, partition = groups[0] if len(groups) == 1 else ((), None)
        if partition is None:
            return self._add_reshape(part)
        if self.defect(nodes) or not (slow or self._known_slow(nodes) is None):
            return False
        try:
            try:
                self.add_compiled(nodes, partition, why)
            except Unfit as e:
                if not (slow and e.slow):
                    return False
                self.add_compiled(nodes, partition, why, slow=True)
        except OneDNNError:
            return False
        return slow or self._slower_than_apart(nodes) is None

    def _add_reshape(self, part: Nodes) -> bool:
        """Add an op that only gives a tensor other dims, if it is one; return whether it did."""
        node, *others = part
        if others or not node.inputs or not node.outputs:
            return False
        known, made = self.known[node.inputs[0].id], self.shapes[node.outputs[0].id]
        if view_of(node, known, made) is None:
            return False
        self.add_reference(node)
        return True

    def split(self, nodes: Nodes, why: str, *, warn: bool = True) -> None:
        """Add steps that run a group in parts, because it would be wrong or slow as one."""
        # What lies as a view does is our choice, so nobody has to know that it costs a fusion.
        if warn and not any(v.id in self.views for n in nodes for v in n.inputs):
            self._made.splits.append((nodes, why))
        why = f"oneDNN would fuse {' + '.join(n.kind for n in nodes)}: {why}"
        apart = ordered([g for n in nodes for g in self.groups([n])])
        has_kernels = all(partition is not None for _, partition in apart)
        for slow in (False,) if has_kernels else (False, True):
            for parts in self._ways_to_split(nodes):
                if self._add_all(parts, why, slow=slow, depth=2 if warn else 0):
                    return
        for part, partition in apart:
            self.add(part, partition, why)

    def _split_for_speed(self, nodes: Nodes, why: str) -> bool:
        """Add steps that run a group in parts, and return True, if oneDNN has kernels for all."""
        with self._trying() as tried:
            before = tried.without_kernel
            try:
                self.split(nodes, why, warn=False)
            except OneDNNError:
                return False
            if self._made.without_kernel > before:
                return False
            tried = self._made
        self._made = tried
        return True

    def _ways_to_split(self, nodes: Nodes) -> Iterator[list[Nodes]]:
        """Yield ways to split a group, each a list of parts in the order in which they run.

        First come the cuts in two, then ways with more parts, those with the fewest first.
        """
        for cut in range(1, len(nodes)):
            yield [nodes[:cut], nodes[cut:]]
        # Some ops run unfused, and oneDNN partitions the rest again: the ops that convert integers
        # to floats, or any single op.
        peels = [[n] for n in nodes]
        converting = [n for n in nodes if n.kind in with_trait("dequantizes")]
        if len(converting) > 1:
            peels.insert(0, converting)
        found = []
        for peeled in peels:
            rest = [n for n in nodes if n not in peeled]
            try:
                groups = [g for part in (*([n] for n in peeled), rest) for g in self.groups(part)]
                parts = [members for members, _ in ordered(groups)]
            except InvalidGraphError:  # the parts read each other's results
                continue
            if len(parts) < len(nodes):
                found.append(parts)
        yield from sorted(found, key=len)

    # -- speed

    def _known_slow(self, nodes: Nodes) -> str | None:
        """Return how slow a group is in one partition, if that is known; else None."""
        if self.options.slow_fusions == "run" or len(nodes) == 1:
            return None
        if self.builder.engine_kind.name != "cpu":  # the known ones are for CPUs
            return None
        return self._once("slow", nodes, lambda: self._found_slow(nodes))

    def _found_slow(self, nodes: Nodes) -> str | None:
        found = slow_fusion(self._group(nodes), self._conditions)
        return None if found is None else found.what

    def _slower_than_apart(self, nodes: Nodes) -> str | None:
        """Return how much slower the last step is than its separate ops; None if it is not."""
        if self.options.slow_fusions == "run" or len(nodes) == 1:
            return None
        return self._once("pace", nodes, lambda: self._pace(nodes))

    def _pace(self, nodes: Nodes) -> str | None:
        fused = self._made.steps[-1]
        if fused.folded or self._judge is not None:  # the judge measures it
            return None
        if self.builder.engine_kind.name != "cpu":
            return None
        if not pace.may_be_slow(nodes, self.shapes, fused.inputs):
            return None
        if not self._shared.has_unknown_dims:
            return self._measured_pace(nodes, fused)
        key, paces = self._size(nodes), self._shared.paces
        if key not in paces:
            paces[key] = self._measured_pace(nodes, fused)
        return paces[key]

    def _size(self, nodes: Nodes) -> Hashable:
        """Return what groups have in common that are measured once: a power of two."""
        form, values = self._shared.form(nodes, self._is_strict(nodes))
        return form, max(math.prod(self.shapes[v.id]) for v in values).bit_length()

    def _measured_pace(self, nodes: Nodes, fused: PlannedStep) -> str | None:
        subject = self._subject(nodes, fused.inputs, fused.outputs)
        found = pace.known(subject)
        if found is None:
            with self._trying() as tried:
                tried.steps.clear()
                parts = [(n,) for n in nodes]
                if not self._add_all(parts, ""):
                    return None
                constants = self._constant_arrays()
                found = pace.measured(self.engine, fused, self._made.steps, constants)
            if found is None:
                return None
            pace.keep(subject, found)
        return found.slow

    def slow(self) -> str | None:
        """Return how slow the last step is, if it should run in parts therefore; else None."""
        nodes = self.steps[-1].nodes
        why = self._known_slow(nodes) or self._slower_than_apart(nodes)
        with self._trying() as tried:
            tried.steps.pop()
            return why if why is not None and self._split_for_speed(nodes, why) else None

    # -- verdicts

    def _subject(
        self,
        nodes: Nodes,
        inputs: Sequence[_core.logical_tensor],
        outputs: Sequence[_core.logical_tensor],
    ) -> Subject:
        """Describe a partition, without the ids of this process."""
        group = self._group(nodes)
        return subject_of(
            nodes,
            self.shapes,
            inputs,
            outputs,
            fpmath_mode=group.fpmath,
            apply_to_int=group.apply_to_int,
            threads=self._threads,
            engine_kind=self.builder.engine_kind.name,
        )

    def _verify(
        self,
        nodes: Nodes,
        inputs: Sequence[_core.logical_tensor],
        outputs: Sequence[_core.logical_tensor],
        *,
        slow: bool,
    ) -> tuple[str, str]:
        """Have a partition judged before it is compiled here.

        Returns
        -------
        str
            The verdict.
        str
            Why it is not verified; empty if it is.

        Raises
        ------
        Unfit
            The partition must not run like this.
        """
        if self._judge is None:
            return "", ""
        verdict = self._judge.verdict(self._subject(nodes, inputs, outputs))
        if verdict.outcome in (Outcome.WRONG, Outcome.CRASHED, Outcome.HUNG):
            if self.options.known_defects == "avoid":
                raise Unfit(f"a test of this partition on this machine: {verdict}")
        elif (
            verdict.outcome == Outcome.SLOW
            and self.options.slow_fusions == "avoid"
            and len(nodes) > 1
            and not slow
        ):
            raise Unfit(f"it is slower fused than as separate ops: {verdict.detail}", slow=True)
        return str(verdict), verdict.detail if verdict.outcome == Outcome.UNVERIFIED else ""

    # -- constants

    def _constant_arrays(self) -> dict[int, npt.NDArray[Any]]:
        """Return the arrays of constants and of folded results, by id."""
        values = (*self.builder.constants, *self.folded.values())
        return {v.id: v.data for v in values if v.data is not None}

    def _read_folded(self, nodes: Nodes) -> Nodes:
        """Replace folded inputs of nodes by the constants that stand for them."""
        folded = self.folded
        if all(folded.get(v.id, v) is v for n in nodes for v in n.inputs):
            return nodes
        return tuple(replace(n, inputs=tuple(folded.get(v.id, v) for v in n.inputs)) for n in nodes)

    def _know_constants(self, nodes: Nodes) -> None:
        """Take the constants that another way to write an op reads."""
        for value in (v for n in nodes for v in n.inputs):
            if value.data is not None and value.id not in self.known:
                # Not the elements: weights of 4 bits become many.
                key = value.dtype, value.shape, sha256(value.data.tobytes()).digest()
                with self._constants.lock:
                    number = self._constants.constant(key)
                    (array,) = self._constants.get([number]) or (aligned_copy(value.data),)
                    self._constants.put([number], [array])
                value.data = array
                self._keep_folded(value, array, number)

    def _with_folded(self, nodes: Nodes, partition: Any) -> tuple[Nodes, Any]:
        """Replace folded inputs of a group, if oneDNN still makes one partition of it."""
        reading = self._read_folded(nodes)
        if reading is nodes or partition is None:
            return reading, partition
        groups = self.groups(reading)
        return groups[0] if len(groups) == 1 else (nodes, partition)

    def _may_fold(self, made: Iterable[int]) -> bool:
        """Return whether results may be computed when compiling: none is the graph's."""
        if not self.options.fold_constants or self.builder.engine_kind.name != "cpu":
            return False
        return self._outputs.isdisjoint(made)

    def _fold(self, step: PlannedStep) -> None:
        """Compute a step now if it reads only constants and makes no output of the graph."""
        if not step.inputs or any(lt.get_id() not in self._made.sources for lt in step.inputs):
            return
        if not self._may_fold(lt.get_id() for lt in step.outputs):
            return
        values = {v.id: v for n in step.nodes for v in n.outputs}
        sources = dict(self._made.sources)
        ports = [lt.get_id() for lt in step.outputs]
        with self._constants.lock:
            for node in step.nodes:
                for i, value in enumerate(node.outputs):
                    read = [sources[v.id] for v in node.inputs]
                    sources[value.id] = self._constants.result(node, i, self.shapes[value.id], read)
            arrays = self._constants.get([sources[i] for i in ports])
            if arrays is None:
                trial = Trial(self.engine, [step], self._constant_arrays())
                trial.run()
                arrays = [
                    aligned_copy(np.ascontiguousarray(trial.array(lt))) for lt in step.outputs
                ]
                self._constants.put([sources[i] for i in ports], arrays)
        for port, array in zip(ports, arrays, strict=True):
            self._keep_folded(values[port], array, sources[port])
        step.folded = True
        step.compiled = step.function = None

    def _keep_folded(self, value: Value, array: npt.NDArray[Any], source: int) -> None:
        """Put a constant in the place of a value that was computed from constants."""
        constant = Value(self.builder, self.shapes[value.id], value.dtype, value.name)
        constant.id, constant.data = value.id, array
        self._made.sources[value.id] = source
        self.folded[value.id] = constant
        self.known[value.id] = self.plain(constant)

    # -- steps

    def add_reference(self, node: Node, why: str = "") -> None:
        """Add a step that computes an op in NumPy, or a view if no element moves."""
        (node,) = self._read_folded((node,))
        inputs = [self.known[v.id] for v in node.inputs]
        view = view_of(node, inputs[0], self.shapes[node.outputs[0].id]) if inputs else None
        if view is not None:
            self._add_view(node, *view, why=why)
            return
        outputs = [self.plain(v) for v in node.outputs]
        function = reference_function(node, self.shapes)
        step = PlannedStep((node,), None, function, inputs, outputs, why=why)
        self._append(step)

    def _add_foreign(self, node: ForeignNode) -> None:
        """Add the step of a node that is none of oneDNN's."""
        if isinstance(node, HostNode):
            outputs = [self.plain(v) for v in node.outputs]
            inputs = [self.known[v.id] for v in node.inputs]
            if isinstance(node, UpdateNode):
                self.views[outputs[0].get_id()] = self._origin(inputs[0].get_id(), 0)
            step = host_step(node, self.shapes, inputs, outputs)
            self.known.update((lt.get_id(), lt) for lt in outputs)
            last = next((i for i in range(len(self.steps) - 1, -1, -1) if self.steps[i].runs), -1)
            if last >= 0 and self.steps[last].implementation == "host":
                step = joined(self.steps.pop(last), step)
            self.steps.append(step)
            return
        assert isinstance(node, ViewNode)
        if self._fold_view(node):
            return
        (source,), (value,) = node.inputs, node.outputs
        view = view_of(node, self.known[source.id], self.shapes[value.id])
        assert view is not None
        slow = value.id in self._shared.without_gaps and not is_dense(view[0])
        if slow or (value.id in self._shared.read_by_ops and repeats(view[0])):
            self._add_copy(node, *view)
        else:
            self._add_view(node, *view)

    def _origin(self, id: int, offset: int) -> Origin:
        """Return where a view of a tensor lies, which may be a view too."""
        of = self.views.get(id, Origin(id, 0))
        return Origin(of.id, of.offset + offset)

    def _add_view(self, node: Node, view: _core.logical_tensor, offset: int, why: str = "") -> None:
        self.views[view.get_id()] = self._origin(node.inputs[0].id, offset)
        self.known[view.get_id()] = view
        self.steps.append(PlannedStep((node,), None, None, [], [], why=why))

    def _add_copy(self, node: ViewNode, view: _core.logical_tensor, offset: int) -> None:
        """Copy a view, because an op that reads it is faster on a copy."""
        (value,) = node.outputs
        source = Value(self.builder, self.shapes[value.id], value.dtype, value.name)
        self.shapes[source.id] = self.shapes[value.id]
        self.views[source.id] = self._origin(node.inputs[0].id, offset)
        self.known[source.id] = renamed(view, source.id)
        copy = Node(new_id(), "Reorder", node.name, (source,), (value,), {}, node.where)
        # oneDNN does not take tensors whose elements lie in the same memory.
        taken = value.dtype in REORDERED and not repeats(view)
        groups = self.groups([copy]) if taken else []
        nodes, partition = groups[0] if groups else ((copy,), None)
        if partition is not None and self.defect(nodes) is None:
            self.add_compiled(nodes, partition)
        else:
            self.add_reference(copy)
        self.steps[-1] = replace(self.steps[-1], nodes=(node,))

    def _fold_view(self, node: ViewNode) -> bool:
        """Copy a view of a constant into a constant; return whether it did."""
        (source,), (value,) = node.inputs, node.outputs
        if source.data is None or not self._may_fold([value.id]):
            return False
        with self._constants.lock:
            read = self._made.sources[source.id]
            number = self._constants.result(node, 0, self.shapes[value.id], [read])
            arrays = self._constants.get([number])
            if arrays is None:
                arrays = [aligned_copy(np.ascontiguousarray(node.compute([source.data])[0]))]
                self._constants.put([number], arrays)
        self._keep_folded(value, arrays[0], number)
        self.steps.append(PlannedStep((node,), None, None, [], [], folded=True))
        return True

    def _append(self, step: PlannedStep) -> None:
        self.steps.append(step)
        for lt in step.outputs:
            self.known[lt.get_id()] = lt
        self._fold(step)

    def add_compiled(
        self, nodes: Nodes, partition: _core.partition, why: str = "", *, slow: bool = False
    ) -> None:
        """Compile a partition and add its step; if there is a judge, it verifies it first."""
        made = self._once(
            "compiled, slow" if slow else "compiled",
            nodes,
            lambda: self._compiled(nodes, partition, slow=slow),
        )
        if made.unverified:
            self._made.unverified.append((nodes, made.unverified))
        values = self._shared.form(nodes, self._is_strict(nodes))[1]
        outputs = zip(made.outputs, made.makes, strict=True)
        step = PlannedStep(
            nodes,
            made.compiled,
            None,
            [self.known[values[i].id] for i in made.reads],
            [renamed(lt, values[i].id) for lt, i in outputs],
            in_place={values[o].id: values[i].id for i, o in made.in_place},
            scratchpad_bytes=made.scratchpad_bytes,
            why=why,
            verified=made.verified,
        )
        self._append(step)

    def _compiled(self, nodes: Nodes, partition: _core.partition, *, slow: bool) -> _Compiled:
        """Compile a partition."""
        wanted = {lt.get_id() for lt in partition.get_input_ports()}
        constants = [v for v in (*self.builder.constants, *self.folded.values()) if v.id in wanted]
        scattered = any(v.data is not None and lies_apart(v.data) for v in constants)
        if not scattered and (constants or any(n.kind in _QUANTIZATION for n in nodes)):
            partition = self._spaced(nodes, partition)
        values = {v.id: v for v in values_of(nodes)}
        order = [v for v in values if v in wanted]
        inputs = [self.known[i] for i in order]
        ports = [lt.get_id() for lt in partition.get_output_ports()]
        plain = [self.plain(values[i]) for i in ports]
        # The result of a partition that reads only constants becomes a constant, which is plain.
        folds = self.options.fold_constants and all(i in self._made.sources for i in order)
        free = [
            _core.logical_tensor(i, values[i].dtype, self.shapes[i], "any")
            if i in self._free_layout and self.shapes[i] and not folds
            else lt
            for i, lt in zip(ports, plain, strict=True)
        ]
        verified, unverified = self._verify(nodes, inputs, free, slow=slow)
        try:
            compiled = partition.compile(inputs, free, self.engine)
            outputs = [compiled.query_logical_tensor(i) for i in ports]
            # 3.13 forgets to choose a layout for a SoftMax that also returns its statistics. Where
            # an input has gaps Reorder and StaticReshape choose gaps too, and fill only a part.
            chosen = not any(
                o.get_layout_type() == _core.logical_tensor.any or has_gaps(o) for o in outputs
            )
        except OneDNNError:
            if free == plain:
                raise
            chosen = False
        if not chosen:
            compiled = partition.compile(inputs, plain, self.engine)
            outputs = [compiled.query_logical_tensor(i) for i in ports]
        scratchpad_bytes = 0
        if self._conditions.version >= (3, 13):
            scratchpad_bytes = compiled.get_scratchpad_logical_tensor().get_mem_size()
        place = {id_: i for i, id_ in enumerate(values)}
        return _Compiled(
            compiled,
            tuple(place[i] for i in order),
            tuple(place[i] for i in ports),
            outputs,
            [(place[read], place[made]) for read, made in compiled.get_inplace_ports()],
            scratchpad_bytes,
            verified,
            unverified,
        )

    def _spaced(self, nodes: Nodes, partition: _core.partition) -> _core.partition:
        """Return the partition with an id that suits constants of quantization."""
        if self._shared.has_partition(partition):
            return self._shared.spaced(nodes, self._is_strict(nodes), partition)
        return partition_of(self.graph(nodes), partition.get_ops())


def _reduces_nothing(node: Node, shapes: Mapping[int, tuple[int, ...]]) -> bool:
    """Return whether a reduction is over dims of 1 only, which needs no kernel."""
    if node.kind not in with_trait("reduces"):
        return False
    axes = node.attr("axes") or ()
    return bool(axes) and all(shapes[node.inputs[0].id][axis] == 1 for axis in axes)


def _unsupported(node: Node, engine_kind: str) -> UnimplementedError:
    where = f"{node.label} made at {node.where}"
    if node.kind == "Wildcard":
        return UnimplementedError(f"{where}: a Wildcard stands for an op that oneDNN does not know")
    return UnimplementedError(
        f"{where}: oneDNN has no {engine_kind} kernel for this op alone; without "
        "fallback='error' it is computed in another way"
    )


def _warn(told: Sequence[tuple[Nodes, str]], what: str, what_of_one: str) -> None:
    """Warn about groups of ops, once for each reason."""
    by_reason: dict[str, list[Nodes]] = {}
    for nodes, why in told:
        by_reason.setdefault(why, []).append(nodes)
    for why, groups in by_reason.items():
        first = groups[0]
        more = f" (and {len(groups) - 1} more)" if len(groups) > 1 else ""
        warnings.warn(
            f"{' + '.join(n.kind for n in first)} made at {first[0].where}{more} "
            f"{what if len(first) > 1 else what_of_one}: {why}",
            RuntimeWarning,
            stacklevel=2,
        )


# -- all of it


def _copy_step(value: Value, lt: _core.logical_tensor) -> tuple[PlannedStep, _core.logical_tensor]:
    """Make a step that fills an output which is also another output, an input or a constant."""
    copy = _core.logical_tensor(new_id(), lt.get_data_type(), lt.get_dims(), "strided")

    def compute(inputs: Sequence[npt.NDArray[Any]], outputs: Sequence[npt.NDArray[Any]]) -> None:
        outputs[0][...] = inputs[0]

    node = Node(new_id(), "Reorder", "copy", (value,), (), {}, "")
    return PlannedStep((node,), None, compute, [lt], [copy]), copy


def make_plan(
    builder: GraphBuilder,
    shapes: Mapping[int, tuple[int, ...]],
    options: CompileOptions,
    *,
    threads: int = 0,
    shared: Shared | None = None,
    engine: _core.engine | None = None,
) -> Plan:
    """Partition, compile and lay out a graph for one set of input shapes.

    Parameters
    ----------
    builder : GraphBuilder
    shapes : mapping of int to tuple of int
        The shapes of the inputs, by id.
    options : CompileOptions
    threads : int
        The number that a call will use; 0 for the runtime's own number.
    shared : Shared, optional
        The facts and partitions that the model's plans have in common.
    engine : engine, optional
        By default the engine that all models of the builder's kind share.

    Returns
    -------
    Plan

    Raises
    ------
    OneDNNError
        An op is not supported, does not compile, or shapes don't fit.
    """
    if not builder.outputs:
        raise InvalidGraphError("the graph has no output; call output first")
    every = infer_shapes(builder, shapes)
    engine = engine or engine_of(builder.engine_kind)
    if any(v.data is not None and v.data.nbytes for v in builder.constants):
        turn_on(builder.engine_kind)
    shared = shared if shared is not None else Shared(builder, options)
    with ExitStack() as stack:
        judge = stack.enter_context(closing(Judge())) if options.check == "verify" else None
        planner = Planner(builder, engine, every, options, threads, shared, judge)
        stack.enter_context(_core._compiling_with(threads))
        planner.plan()

    slots = {v.id: Slot("input", i) for i, v in enumerate(builder.inputs)}
    used = {lt.get_id() for step in planner.steps if step.runs for lt in step.inputs}
    used |= {origin.id for origin in planner.views.values()}
    used |= {v.id for v in builder.outputs.values()}
    kept = [v for v in (*builder.constants, *planner.folded.values()) if v.id in used]
    slots.update({v.id: Slot("constant", i) for i, v in enumerate(kept)})
    outputs = []
    for i, (name, value) in enumerate(builder.outputs.items()):
        lt = planner.known[value.id]
        if value.id in slots or value.id in planner.views:
            step, lt = _copy_step(value, lt)
            planner.steps.append(step)
        slots[lt.get_id()] = Slot("output", i)
        outputs.append((name, lt))
    return Plan(
        engine,
        [(v, planner.known[v.id]) for v in builder.inputs],
        outputs,
        [v.dtype for v in builder.outputs.values()],
        [np.asarray(v.data) for v in kept],
        planner.steps,
        slots,
        lay_out([s for s in planner.steps if s.runs], slots, planner.views),
        threads,
    )
