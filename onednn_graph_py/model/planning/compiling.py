"""Compile a group of ops: `compile_group`, for it and for equal ones."""

from contextvars import copy_context
from typing import NamedTuple

from ... import _core
from ...base.errors import OneDNNError
from ...ops.lookup import with_trait
from ...safety import PLANNED
from ...safety.group import Group
from ..building.constant_arrays import lies_apart
from ..building.value import Value, row_major
from .group import Facts, facts_of, values_of
from .partition_ids import partition_of
from .plan import as_passed
from .plan_draft import PlanDraft
from .shared import Nodes
from .views import has_gaps

_QUANTIZATION = with_trait("quantizes") | with_trait("dequantizes")
_ELEMENTWISE = with_trait("elementwise")


class Compiled(NamedTuple):
    """A compiled partition, for its group and for equal ones."""

    compiled: _core.compiled_partition
    reads: tuple[int, ...]  # the partition's inputs, by their places in the values of a group
    makes: tuple[int, ...]
    outputs: list[Facts]
    ports: tuple[list[_core.logical_tensor], list[_core.logical_tensor]]
    """The inputs and outputs by the names that the partition knows."""
    in_place: list[tuple[int, int]]
    """The places of inputs and of the outputs that may take their memory."""
    scratchpad_bytes: int

    @property
    def is_plain(self) -> bool:
        """Whether all results are row-major."""
        return all(layout == row_major(dims) for _, dims, layout, _ in self.outputs)


class Ports(NamedTuple):
    """The tensors for which a partition is compiled."""

    values: dict[int, Value]  # the group's values by id, in an order that equal groups share
    reads: list[int]  # the ids of the inputs
    makes: list[int]
    inputs: list[_core.logical_tensor]
    outputs: list[_core.logical_tensor]  # the outputs, with layout `any` where oneDNN may choose


def ports_of(draft: PlanDraft, nodes: Nodes, partition: _core.partition) -> Ports:
    """Return the tensors for which a partition is compiled."""
    wanted = {lt.get_id() for lt in partition.get_input_ports()}
    values = {v.id: v for v in values_of(nodes)}
    reads = [i for i in values if i in wanted]
    makes = [lt.get_id() for lt in partition.get_output_ports()]
    # The result of a partition that reads only constants becomes a constant, which is plain.
    folds = draft.options.fold_constants and all(i in draft.sources for i in reads)
    outputs = [
        _core.logical_tensor(i, values[i].dtype, draft.shapes[i], "any")
        if i in draft.free_layout and draft.shapes[i] and not folds
        else draft.plain(values[i])
        for i in makes
    ]
    return Ports(values, reads, makes, [draft.known[i] for i in reads], outputs)


def compile_group(
    draft: PlanDraft, nodes: Nodes, partition: _core.partition, group: Group | None
) -> Compiled:
    """Compile the partition of a group; raise if oneDNN can't compile it, or must not."""
    ports = ports_of(draft, nodes, partition)
    reads = [draft.folded.get(i, ports.values[i]) for i in ports.reads]
    lie_apart = [lies_apart(v.data) for v in reads if v.data is not None]
    quantizes = any(n.kind in _QUANTIZATION for n in nodes)
    several = quantizes and draft.shared.has_unknown_dims
    broadcast = _broadcast(draft, nodes) if several else ()
    if broadcast or ((lie_apart or quantizes) and not any(lie_apart)):
        shared = draft.shared.spaced(nodes, draft.is_strict(nodes), partition, broadcast)
        partition = shared or partition_of(draft.graph(nodes), partition.get_ops())
    plain = [draft.plain(ports.values[i]) for i in ports.makes]
    threads = draft.threads_of(nodes)

    def compiled_for(outputs: list[_core.logical_tensor]) -> _core.compiled_partition:
        context = copy_context()
        context.run(PLANNED.set, group)
        with _core._compiling_with(threads):
            return context.run(partition.compile, ports.inputs, outputs, draft.engine)

    try:
        compiled = compiled_for(ports.outputs)
        outputs = [compiled.query_logical_tensor(i) for i in ports.makes]
        # 3.13 forgets to choose a layout for a SoftMax that also returns its statistics. Where
        # an input has gaps Reorder and StaticReshape choose gaps too, and fill only a part.
        chosen = not any(
            o.get_layout_type() == _core.logical_tensor.any or has_gaps(o) for o in outputs
        )
    except OneDNNError:
        if ports.outputs == plain:
            raise
        chosen = False
    if not chosen:
        compiled = compiled_for(plain)
        outputs = [compiled.query_logical_tensor(i) for i in ports.makes]
    scratchpad_bytes = 0
    if draft.conditions.version >= (3, 13):
        scratchpad_bytes = compiled.get_scratchpad_logical_tensor().get_mem_size()
    pairs = zip(compiled.get_inputs(), reads, strict=True)
    passed = [lt if v.data is None else as_passed(lt, v.data) for lt, v in pairs]
    place = {id_: i for i, id_ in enumerate(ports.values)}
    return Compiled(
        compiled,
        tuple(place[i] for i in ports.reads),
        tuple(place[i] for i in ports.makes),
        [facts_of(lt) for lt in outputs],
        (passed, compiled.get_outputs()),
        [(place[read], place[written]) for read, written in compiled.get_inplace_ports()],
        scratchpad_bytes,
    )


def _broadcast(draft: PlanDraft, nodes: Nodes) -> tuple[tuple[bool, ...], ...]:
    """Tell sizes apart for which oneDNN may fuse the operands of elementwise ops, or not.

    A Quantize behind an op that is fused scales the kernel's result by its scales, and otherwise
    works by itself, with their reciprocals: other constants of the same form.
    """
    shapes = [
        draft.shapes[v.id]
        for n in nodes
        if n.kind in _ELEMENTWISE and len({draft.shapes[v.id] for v in n.inputs}) > 1
        for v in n.inputs
    ]
    return tuple(tuple(dim == 1 for dim in shape) for shape in shapes)
