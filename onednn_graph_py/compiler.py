"""From a built graph to a plan: partitions in order, compiled, with their memory laid out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from . import _core
from .builder import GraphBuilder, graph_of
from .constants import Registration
from .devices import require
from .errors import (
    InvalidArgumentsError,
    InvalidGraphError,
    InvalidShapeError,
    OneDNNError,
    UnimplementedError,
)
from .fallback import reference_function, view_of
from .machine import current
from .ops.check import check
from .partition_ids import partition_of
from .safety.nodes import group_of
from .safety.partitioning import partitioned_apart
from .safety.wrong_results import wrong_result
from .value import Node, Value, is_whole, new_id

__all__ = ["Plan", "PlannedStep", "make_plan"]

Layout = Literal["auto", "plain"]
Fallback = Literal["reference"] | None
Policy = Literal["fusion", "debug"]
KnownDefects = Literal["avoid", "run"]

ALIGNMENT = 64

_QUANTIZATION = ("Quantize", "Dequantize", "DynamicQuantize", "DynamicDequantize")

Slot = tuple[str, int]
"""Where a tensor is: in which input, output or constant, or ``("arena", byte)``."""


@dataclass
class PlannedStep:
    """What runs in one go.

    Parameters
    ----------
    nodes : tuple of Node
    compiled : compiled_partition, optional
    function : callable, optional
        Computes in NumPy what oneDNN has no kernel for: takes inputs and outputs to fill.
    inputs, outputs : list of logical_tensor
        As compiled, in the order of the call.
    """

    nodes: tuple[Node, ...]
    compiled: _core.compiled_partition | None
    function: Callable[..., None] | None
    inputs: list[_core.logical_tensor]
    outputs: list[_core.logical_tensor]
    scratchpad_bytes: int = 0
    scratchpad: int | None = None

    @property
    def implementation(self) -> str:
        """Who computes it: ``oneDNN``, ``reference``, or ``view`` for what is not run at all.

        A view is a reshape or transpose that oneDNN has no kernel for, whose readers read its
        input's memory.
        """
        if self.compiled is not None:
            return "oneDNN"
        return "view" if self.function is None else "reference"

    @property
    def label(self) -> str:
        """Names the step in messages."""
        return " + ".join(node.name or node.kind for node in self.nodes)


@dataclass
class Plan:
    """A graph for one set of shapes, ready to run."""

    engine: _core.engine
    inputs: list[tuple[Value, _core.logical_tensor]]
    outputs: list[tuple[str, _core.logical_tensor]]
    constants: list[npt.NDArray[Any]]
    steps: list[PlannedStep]
    slots: dict[int, Slot]
    arena_bytes: int = 0
    threads: int = 0
    copied_out: dict[int, int] = field(default_factory=dict)

    def arguments(self, tensors: Sequence[_core.logical_tensor]) -> list[tuple[Any, ...]]:
        """As the executor takes them."""
        return [(*self.slots[lt.get_id()], lt) for lt in tensors]


# -- shapes


def infer_shapes(
    builder: GraphBuilder, given: Mapping[int, tuple[int, ...]]
) -> dict[int, tuple[int, ...]]:
    """All values' shapes by id, from those of the inputs.

    Raises
    ------
    InvalidShapeError
        They don't fit together, or one does not follow.
    """
    shapes: dict[int, tuple[int, ...]] = dict(given)
    for value in builder.constants:
        shapes[value.id] = value.shape or ()
    for node in builder.nodes:
        try:
            made = check(
                node.kind,
                [(shapes[v.id], v.dtype) for v in node.inputs],
                node.attrs,
                [(v.shape, v.dtype) for v in node.outputs],
                name=node.name,
            )
        except OneDNNError as e:
            raise type(e)(f"{e} (made at {node.where})") from None
        for value, spec in zip(node.outputs, made, strict=True):
            if spec.shape is None or not is_whole(spec.shape):
                raise InvalidShapeError(
                    f"{node.label} made at {node.where}: the shape of its output does not follow "
                    f"from the inputs, only {spec}"
                )
            shapes[value.id] = spec.shape
    return shapes


# -- what runs together


def _needed(builder: GraphBuilder) -> list[Node]:
    """The ops that outputs depend on, in the order in which they were made."""
    wanted = {value.id for value in builder.outputs.values()}
    nodes = []
    for node in reversed(builder.nodes):
        if any(value.id in wanted for value in node.outputs):
            nodes.append(node)
            wanted.update(value.id for value in node.inputs)
    return nodes[::-1]


def _one_dequantize_each(
    builder: GraphBuilder, nodes: Sequence[Node], shapes: dict[int, tuple[int, ...]]
) -> list[Node]:
    """Give every op that reads a dequantized tensor a Dequantize of its own.

    oneDNN computes in integers only where nobody else reads what the Dequantize made.
    """
    readers: dict[int, int] = {v.id: 1 for v in builder.outputs.values()}
    for node in nodes:
        for i in {v.id for v in node.inputs}:
            readers[i] = readers.get(i, 0) + 1
    shared = {
        n.outputs[0].id: n for n in nodes if n.kind == "Dequantize" and readers[n.outputs[0].id] > 1
    }
    if not shared:
        return list(nodes)
    kept = {v.id for v in builder.outputs.values()}
    made: list[Node] = []
    for node in nodes:
        inputs = {v.id: v for v in node.inputs}
        for i in inputs.keys() & shared.keys():
            if i not in kept:
                kept.add(i)  # the first reader has the original
                continue
            original = shared[i]
            value = Value(builder, inputs[i].shape, inputs[i].dtype, inputs[i].name)
            shapes[value.id] = shapes[i]
            made.append(replace(original, id=new_id(), outputs=(value,)))
            inputs[i] = value
        made.append(replace(node, inputs=tuple(inputs[v.id] for v in node.inputs)))
    return made


def _ordered(groups: list[tuple[tuple[Node, ...], Any]]) -> list[tuple[tuple[Node, ...], Any]]:
    """Groups such that each comes after those whose tensors it reads; oneDNN promises no order."""
    made_by = {v.id: i for i, (nodes, _) in enumerate(groups) for n in nodes for v in n.outputs}
    ordered: list[int] = []
    state = [0] * len(groups)  # 1: being visited, 2: done
    for root in range(len(groups)):
        stack = [root]
        while stack:
            i = stack[-1]
            if state[i] == 0:
                state[i] = 1
                before = {made_by[v.id] for n in groups[i][0] for v in n.inputs if v.id in made_by}
                waiting = [j for j in sorted(before - {i}) if state[j] == 0]
                if any(state[j] == 1 for j in before - {i}):
                    raise InvalidGraphError("the partitions depend on each other in a circle")
                stack.extend(waiting)
            else:
                stack.pop()
                if state[i] == 1:
                    state[i] = 2
                    ordered.append(i)
    return [groups[i] for i in ordered]


def _unsupported(node: Node, engine_kind: str) -> UnimplementedError:
    where = f"{node.label} made at {node.where}"
    if node.kind == "Wildcard":
        return UnimplementedError(f"{where}: a Wildcard stands for an op that oneDNN does not know")
    return UnimplementedError(
        f"{where}: oneDNN has no {engine_kind} kernel for it: alone it is no supported partition; "
        "compile(fallback='reference') computes it in NumPy"
    )


def _wrong_alone(node: Node, defect: str) -> UnimplementedError:
    return UnimplementedError(
        f"{node.label} made at {node.where}: {defect}; compile(fallback='reference') computes it "
        "in NumPy"
    )


class _Planner:
    """Collects steps; one use for one plan."""

    def __init__(
        self,
        builder: GraphBuilder,
        engine: _core.engine,
        shapes: dict[int, tuple[int, ...]],
        layout: Layout,
        fallback: Fallback,
        policy: Policy,
        known_defects: KnownDefects = "avoid",
    ) -> None:
        self.policy = policy
        self.known_defects = known_defects
        self.builder = builder
        self.engine = engine
        self.shapes = shapes
        self.fallback = fallback
        self.steps: list[PlannedStep] = []
        # Tensors that lie in the memory of another one, by id.
        self.views: dict[int, int] = {}
        # As they are between steps, by id.
        self.known: dict[int, _core.logical_tensor] = {}
        self.nodes = _one_dequantize_each(builder, _needed(builder), shapes)
        for value in (*builder.inputs, *builder.constants):
            self.known[value.id] = value._described(shapes[value.id])
        self.free_layout: set[int] = set()
        if layout == "auto":
            self.free_layout = {v.id for n in self.nodes for v in n.outputs}
            self.free_layout -= {v.id for v in builder.outputs.values()}

    def plain(self, value: Value) -> _core.logical_tensor:
        """In row-major order."""
        return value._described(self.shapes[value.id])

    # -- groups

    def groups(self, nodes: Sequence[Node]) -> list[tuple[tuple[Node, ...], Any]]:
        """Nodes with their partition, which is None where oneDNN can't run them."""
        computing = [n for n in nodes if n.kind != "End"]
        if not computing:
            return []
        apart = partitioned_apart(computing) if len(computing) > 1 else []
        if apart:
            rest = [n for n in computing if n not in apart]
            return [g for part in (rest, *([n] for n in apart)) for g in self.groups(part)]
        by_id = {node.id: node for node in computing}
        made = []
        for partition in graph_of(self.builder, self.shapes, computing, self.nodes).get_partitions(
            self.policy
        ):
            members = tuple(by_id[i] for i in partition.get_ops() if i in by_id)
            if members:
                made.append((members, partition if partition.is_supported() else None))
        return made

    def defect(self, nodes: tuple[Node, ...]) -> str | None:
        """What oneDNN would compute wrongly, running these ops together."""
        if self.known_defects == "run":
            return None
        group = group_of(
            nodes,
            self.shapes,
            layouts=self.known,
            fpmath=self.builder.fpmath_mode.name,
            apply_to_int=self.builder.apply_to_int,
        )
        found = wrong_result(group, current())
        return None if found is None else found.what

    def add(self, nodes: tuple[Node, ...], partition: Any) -> None:
        """Add what runs a group, split where that is needed."""
        if partition is None:
            for node in nodes:
                if self.fallback is None or node.kind == "Wildcard":
                    raise _unsupported(node, self.builder.engine_kind.name)
                self.add_reference(node)
            return
        defect = self.defect(nodes)
        if defect is not None and len(nodes) > 1:
            self.split(nodes, defect)
            return
        if defect is not None:
            if self.fallback is None:
                raise _wrong_alone(nodes[0], defect)
            self.add_reference(nodes[0])
            return
        try:
            self.add_compiled(nodes, partition)
        except OneDNNError as e:
            if len(nodes) > 1:
                self.split(nodes, str(e))
            elif self.fallback is not None:
                self.add_reference(nodes[0])
            else:
                where = f"{nodes[0].label} made at {nodes[0].where}"
                raise type(e)(f"{where}: {e}") from None

    def split(self, nodes: tuple[Node, ...], why: str) -> None:
        """Run a group in parts, because in one it would be wrong."""
        warnings.warn(
            f"{' + '.join(n.kind for n in nodes)} made at {nodes[0].where} runs in parts: {why}",
            RuntimeWarning,
            stacklevel=2,
        )
        for cut in range(1, len(nodes)):
            if self.runs_in_two(nodes[:cut], nodes[cut:]):
                return
        for part, partition in _ordered([g for n in nodes for g in self.groups([n])]):
            self.add(part, partition)

    def runs_in_two(self, *halves: tuple[Node, ...]) -> bool:
        """Add both halves if each is one good partition."""
        before = len(self.steps)
        for half in halves:
            made = self.groups(half)
            good = len(made) == 1 and made[0][1] is not None and self.defect(half) is None
            try:
                if good:
                    self.add_compiled(*made[0])
            except OneDNNError:
                good = False
            if not good:
                del self.steps[before:]
                return False
        return True

    # -- steps

    def add_reference(self, node: Node) -> None:
        """Compute an op in NumPy."""
        inputs = [self.known[v.id] for v in node.inputs]
        view = view_of(node, inputs[0], self.shapes[node.outputs[0].id]) if inputs else None
        if view is not None:
            self.views[view.get_id()] = self.views.get(inputs[0].get_id(), inputs[0].get_id())
            self.known[view.get_id()] = view
            self.steps.append(PlannedStep((node,), None, None, [], []))
            return
        outputs = [self.plain(v) for v in node.outputs]
        self.steps.append(
            PlannedStep((node,), None, reference_function(node, self.shapes), inputs, outputs)
        )
        for lt in outputs:
            self.known[lt.get_id()] = lt

    def add_compiled(self, nodes: tuple[Node, ...], partition: _core.partition) -> None:
        """Compile a partition."""
        wanted = {lt.get_id() for lt in partition.get_input_ports()}
        constants = {v.id for v in self.builder.constants}
        if any(n.kind in _QUANTIZATION for n in nodes) and not wanted & constants:
            g = graph_of(self.builder, self.shapes, nodes, self.nodes)
            partition = partition_of(g, partition.get_ops())
        values = {v.id: v for n in nodes for v in (*n.inputs, *n.outputs)}
        order = [v for v in values if v in wanted]
        inputs = [self.known[i] for i in order]
        ports = [lt.get_id() for lt in partition.get_output_ports()]
        plain = [self.plain(values[i]) for i in ports]
        free = [
            _core.logical_tensor(i, values[i].dtype, self.shapes[i], "any")
            if i in self.free_layout and self.shapes[i]
            else lt
            for i, lt in zip(ports, plain, strict=True)
        ]
        try:
            compiled = partition.compile(inputs, free, self.engine)
            outputs = [compiled.query_logical_tensor(i) for i in ports]
            # 3.13 forgets to choose one for a SoftMax that also returns its statistics.
            chosen = all(o.get_layout_type() != _core.logical_tensor.any for o in outputs)
        except OneDNNError:
            if free == plain:
                raise
            chosen = False
        if not chosen:
            compiled = partition.compile(inputs, plain, self.engine)
            outputs = [compiled.query_logical_tensor(i) for i in ports]
        step = PlannedStep(nodes, compiled, None, inputs, outputs)
        if hasattr(compiled, "get_scratchpad_logical_tensor"):
            try:
                step.scratchpad_bytes = compiled.get_scratchpad_logical_tensor().get_mem_size()
            except UnimplementedError:
                step.scratchpad_bytes = 0
        self.steps.append(step)
        for lt in outputs:
            self.known[lt.get_id()] = lt


# -- memory


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclass
class _Block:
    """Memory that is in use from one step to another."""

    size: int
    first: int
    last: int
    offset: int = 0


def _place(blocks: Sequence[_Block]) -> int:
    """Give each block an offset, the large ones first; return the bytes that all need."""
    placed: list[_Block] = []
    total = 0
    for block in sorted(blocks, key=lambda b: (-b.size, b.first)):
        offset = 0
        for other in sorted(placed, key=lambda b: b.offset):
            if other.last < block.first or block.last < other.first:
                continue
            if offset + block.size <= other.offset:
                break
            offset = max(offset, other.offset + other.size)
        block.offset = offset
        total = max(total, offset + block.size)
        placed.append(block)
    return total


def _lay_out(steps: Sequence[PlannedStep], slots: dict[int, Slot], views: Mapping[int, int]) -> int:
    """Put intermediate tensors and scratchpads into one arena by their lifetimes."""
    last_use: dict[int, int] = {}
    for i, step in enumerate(steps):
        for lt in step.inputs:
            last_use[views.get(lt.get_id(), lt.get_id())] = i
    blocks: dict[int, _Block] = {}
    scratchpads: list[tuple[PlannedStep, _Block]] = []
    for i, step in enumerate(steps):
        in_place: dict[int, int] = {}
        if step.compiled is not None:
            in_place = {out: source for source, out in step.compiled.get_inplace_ports()}
        taken: set[int] = set()
        for lt in step.outputs:
            made = lt.get_id()
            if made in slots:
                continue
            until = last_use.get(made, i)
            source = in_place.get(made)
            block = blocks.get(source) if source is not None else None
            size = _aligned(lt.get_mem_size())
            # The input's memory becomes the output's when nobody reads the input afterwards.
            reuse = block is not None and block.last == i and block.size >= size
            if reuse and block is not None and id(block) not in taken:
                taken.add(id(block))
                block.last = until
                blocks[made] = block
            else:
                blocks[made] = _Block(size, i, until)
        if step.scratchpad_bytes:
            scratchpads.append((step, _Block(_aligned(step.scratchpad_bytes), i, i)))
    unique = list({id(b): b for b in blocks.values()}.values())
    total = _place(unique + [b for _, b in scratchpads])
    for made, block in blocks.items():
        slots[made] = ("arena", block.offset)
    for step, block in scratchpads:
        step.scratchpad = block.offset
    slots.update({view: slots[of] for view, of in views.items()})
    return total


# -- all of it


_engines: dict[str, _core.engine] = {}


def engine_of(kind: _core.engine.kind) -> _core.engine:
    """The one engine of a kind that all models share.

    Raises
    ------
    NoDeviceError
        There is no device of that kind.
    """
    if kind.name not in _engines:
        require(kind)
        _engines[kind.name] = _core.engine(kind, 0)
    return _engines[kind.name]


def _copy_step(value: Value, lt: _core.logical_tensor) -> tuple[PlannedStep, _core.logical_tensor]:
    """Fills an output that is also another output, an input or a constant."""
    copy = _core.logical_tensor(new_id(), value.dtype, lt.get_dims(), "strided")

    def compute(inputs: Sequence[npt.NDArray[Any]], outputs: Sequence[npt.NDArray[Any]]) -> None:
        outputs[0][...] = inputs[0]

    node = Node(new_id(), "Reorder", "copy", (value,), (), {}, "")
    return PlannedStep((node,), None, compute, [lt], [copy]), copy


def make_plan(
    builder: GraphBuilder,
    shapes: Mapping[int, tuple[int, ...]],
    *,
    layout: Layout = "auto",
    fallback: Fallback = None,
    policy: Policy = "fusion",
    known_defects: KnownDefects = "avoid",
    threads: int = 0,
    registration: Registration | None = None,
    engine: _core.engine | None = None,
) -> Plan:
    """Partition, compile and lay out a graph for one set of input shapes.

    Parameters
    ----------
    builder : GraphBuilder
    shapes : mapping of int to tuple of int
        Of the inputs, by id.
    layout, fallback, policy, known_defects, threads
        As `CompiledGraph` explains.
    registration : Registration, optional
        The model's share of the cache of constants.
    engine : engine, optional
        The one that all models of the builder's kind share, if left out.

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
    if layout not in ("auto", "plain"):
        raise InvalidArgumentsError(f"layout must be 'auto' or 'plain', got {layout!r}")
    if fallback not in (None, "reference"):
        raise InvalidArgumentsError(f"fallback must be None or 'reference', got {fallback!r}")
    if policy not in ("fusion", "debug"):
        raise InvalidArgumentsError(f"policy must be 'fusion' or 'debug', got {policy!r}")
    if known_defects not in ("avoid", "run"):
        raise InvalidArgumentsError(
            f"known_defects must be 'avoid' or 'run', got {known_defects!r}"
        )
    every = infer_shapes(builder, shapes)
    engine = engine or engine_of(builder.engine_kind)
    planner = _Planner(builder, engine, every, layout, fallback, policy, known_defects)
    if registration is not None:
        registration.enter(builder.engine_kind)
    with _core._compiling_with(threads):
        for nodes, partition in _ordered(planner.groups(planner.nodes)):
            planner.add(nodes, partition)

    slots: dict[int, Slot] = {v.id: ("input", i) for i, v in enumerate(builder.inputs)}
    used = {lt.get_id() for step in planner.steps for lt in step.inputs}
    used |= set(planner.views.values())
    used |= {v.id for v in builder.outputs.values()}
    constants = [v for v in builder.constants if v.id in used]
    slots.update({v.id: ("constant", i) for i, v in enumerate(constants)})
    outputs = []
    for i, (name, value) in enumerate(builder.outputs.items()):
        lt = planner.known[value.id]
        if value.id in slots or value.id in planner.views:
            step, lt = _copy_step(value, lt)
            planner.steps.append(step)
        slots[lt.get_id()] = ("output", i)
        outputs.append((name, lt))
    return Plan(
        engine,
        [(v, planner.known[v.id]) for v in builder.inputs],
        outputs,
        [np.asarray(v.data) for v in constants],
        planner.steps,
        slots,
        _lay_out(planner.steps, slots, planner.views),
        threads,
    )
