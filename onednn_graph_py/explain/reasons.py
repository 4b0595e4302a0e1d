"""Why an op of a graph is unsupported, stays alone or runs in parts, and what would help."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .. import _core
from ..builder import GraphBuilder
from ..errors import OneDNNError
from ..examples._hardware import lacks
from ..ops.check import row
from ..value import Node
from . import (
    changes_attributes,
    changes_dtype,
    changes_integers,
    changes_kinds,
    changes_layout,
    changes_operands,
    changes_order,
    changes_quantization,
    changes_readers,
)
from .changes import Around, Candidate, Change, Family, called
from .neighbours import neighbours, readers_of
from .probe import (
    Group,
    Probe,
    Tried,
    can_compile,
    grouped,
    near_defect,
    refused_alone,
    specialised,
)
from .rebuild import for_engine_kind, numbers_of

__all__ = ["Change", "Reason", "Status", "reasons"]

Status = Literal["unsupported", "alone", "in parts"]

_MOST = 5
"""Changes that are told for one op, at most."""

FAMILIES: dict[str, Family] = {
    "outputs in the middle": changes_readers.fewer_outputs,
    "second readers": changes_readers.own_producers,
    "the order of operands": changes_readers.swapped_operands,
    "other ops that compute the same": changes_kinds.other_kinds,
    "the order of ops": changes_order.earlier,
    "attributes": changes_attributes.attributes,
    "scales and zero points": changes_attributes.scales_and_zero_points,
    "shapes as attributes": changes_attributes.shapes_as_attributes,
    "explicit paddings": changes_attributes.explicit_pads,
    "the form of operands": changes_operands.operand_forms,
    "strides": changes_layout.plain_strides,
    "data_format": changes_layout.data_formats,
    "weights_format": changes_layout.weights_formats,
    "the types of parameters": changes_dtype.parameter_types,
    "TypeCasts left out": changes_dtype.casts_left_out,
    "quantization": changes_quantization.missing_quantization,
    "integer types": changes_integers.integer_types,
    "8-bit floats": changes_integers.eighth_floats,
    "fpmath_mode": changes_integers.math_modes,
    "data types of the op": changes_dtype.op_types,
    "data types of all that is connected": changes_dtype.region_types,
    "leaving out what is beside it": changes_order.left_out,
}
"""What is tried, by what messages call it."""


@dataclass(frozen=True)
class Reason:
    """Why an op does not run fused with what it could be fused with.

    Parameters
    ----------
    op : str
        Its name; empty if it has none.
    kind : str
    where : str
        The line that made it.
    status : str
        ``unsupported``: oneDNN has no kernel; ``alone``: in a partition of its own, though the
        documents have patterns with a neighbour; ``in parts``: fused by oneDNN, but run apart,
        because fused it would be wrong or does not compile.
    why : str
        What the library, or this package's tables, know about it.
    changes : tuple of Change
        Each by itself makes it supported, or fuse; what computes the same first.
    """

    op: str
    kind: str
    where: str
    status: Status
    why: str
    changes: tuple[Change, ...]

    def __str__(self) -> str:
        name = f"{self.kind} {self.op!r}" if self.op else self.kind
        lines = [f"{name} ({self.where}): {self.status}: {self.why}"]
        for change in self.changes:
            other = "" if change.exact else " (other results)"
            lines.append(f"  {change.description}: {change.result}{other}")
        return "\n".join(lines)


def reasons(builder: GraphBuilder, *, shapes: Sequence[Sequence[int]] = ()) -> tuple[Reason, ...]:
    """Say of each op that is unsupported, alone or in parts why, and which change would help.

    Every change is tried: the changed graph is built, the library partitions it, and the partition
    is compiled. Nothing is executed.

    Parameters
    ----------
    builder : GraphBuilder
        It stays as it is.
    shapes : sequence of sequence of int
        Of the inputs, where they are not known; without them nothing is compiled.

    Returns
    -------
    tuple of Reason
        In the order of the ops.

    Raises
    ------
    OneDNNError
        `shapes` do not fit the graph, or the library does not take it.
    """
    graph = specialised(builder, shapes)
    groups = grouped(graph, compiled=can_compile(graph))
    readers = readers_of(graph)
    numbers = numbers_of(graph)
    positions = {n.id: i for i, n in enumerate(graph.nodes)}
    unsupported = frozenset(n.id for g in groups if not g.supported for n in g.nodes)
    alone: dict[int, dict[int, str]] = {}
    made = []
    for node in graph.nodes:
        group = next((g for g in groups if any(n.id == node.id for n in g.nodes)), None)
        if group is None or node.kind == "End":
            continue
        near = neighbours(node, readers)
        if id(group) not in alone:
            alone[id(group)] = refused_alone(graph, group)
        status = _status(node, group, near, alone[id(group)])
        if status is None:
            continue
        around = Around(graph, node, near, readers, numbers, positions, group.nodes, unsupported)
        made.append(_reason(around, status, group, groups))
    return tuple(made)


def _status(
    node: Node, group: Group, near: Collection[int], alone: Mapping[int, str]
) -> Status | None:
    if not group.supported or (group.trouble and len(group.nodes) == 1) or node.id in alone:
        return "unsupported"
    if group.trouble:
        if alone:
            return None  # what can't run alone is what is to be told
        # Told once, for what the group is about: its first op that is no conversion.
        return "in parts" if node.id == _subject(group).id else None
    return "alone" if len(group.nodes) == 1 and near else None


def _subject(group: Group) -> Node:
    conversions = ("Quantize", "Dequantize", "DynamicDequantize", "DynamicQuantize", "TypeCast")
    return next((n for n in group.nodes if n.kind not in conversions), group.nodes[0])


def _reason(around: Around, status: Status, group: Group, groups: Sequence[Group]) -> Reason:
    probe = Probe(around.builder, around.position, groups)
    found = _helpful(around, status, probe)
    node = around.node
    why = _why(around, status, group)
    if not found:
        why += f"; {_tried(around, probe)}"
    return Reason(node.name, node.kind, node.where, status, why, tuple(found))


def _tried(around: Around, probe: Probe) -> str:
    """What was tried in vain."""
    if not probe.asked:
        return "no change that is known could help"
    names = [name for name, family in FAMILIES.items() if next(family(around), None)]
    count = "one change was" if probe.asked == 1 else f"{probe.asked} changes were"
    return f"{count} tried ({', '.join(names)}), and none helps"


# -- changes


def _candidates(around: Around) -> Iterator[Candidate]:
    for family in FAMILIES.values():
        yield from family(around)


def _helpful(around: Around, status: Status, probe: Probe) -> list[Change]:
    """The changes that help, what computes the same first."""
    if around.node.kind == "Wildcard":
        return []
    found: list[Change] = []
    promising: list[tuple[Candidate, Tried]] = []
    for candidate in _candidates(around):
        tried = probe.ask(candidate.edit)
        if tried is not None and _helps(around, status, probe.before, tried):
            promising.append((candidate, tried))
    for candidate, tried in sorted(promising, key=lambda pair: not pair[0].exact):
        confirmed = probe.confirmed(candidate.edit, tried)
        if confirmed is not None:
            result = _result(around, status, confirmed)
            found.append(Change(candidate.description, result, candidate.exact, candidate.edit))
        if len(found) == _MOST:
            break
    return found


def _helps(around: Around, status: Status, before: Tried, after: Tried) -> bool:
    """Whether an op is better off, and none worse."""
    groups = after.with_op(around.position)
    if not groups or not all(g.runs for g in groups) or after.unsupported > before.unsupported:
        return False
    if status == "unsupported":
        return True
    partners = after.partners(around.position)
    if status == "in parts":
        if any(near_defect(after.copy.builder, g) for g in groups):
            return False
        wanted = {around.positions[n.id] for n in around.group} - {around.position}
        return bool(partners & wanted)
    return bool(partners - before.partners(around.position)) and len(after.groups) <= len(
        before.groups
    )


def _result(around: Around, status: Status, after: Tried) -> str:
    nodes = around.builder.nodes
    counts = Counter(called(nodes[i]) for i in sorted(after.partners(around.position)))
    partners = [name if n == 1 else f"{n} {name}" for name, n in counts.items()]
    fuses = f"fuses with {', '.join(partners)}" if partners else ""
    if status == "unsupported":
        return f"supported, {fuses}" if fuses else "supported"
    return fuses


# -- why


def _why(around: Around, status: Status, group: Group) -> str:
    if status == "in parts":
        rest = " + ".join(n.kind for n in group.nodes)
        return f"oneDNN fuses {rest}, but it runs in parts: {_plain(group.trouble)}"
    if status == "unsupported":
        return _why_unsupported(around, group)
    told = []
    for other, titles in around.patterns.values():
        more = f" and {len(titles) - 1} more" if len(titles) > 1 else ""
        told.append(f"{called(other)} (pattern {titles[0]}{more})")
        if other.id in around.unsupported:
            told[-1] += ", which is unsupported itself"
    why = f"the documents let it fuse with {', '.join(dict.fromkeys(told))}, here oneDNN does not"
    return "; ".join([why, *_lacking(around), *_also_read(around)])


def _lacking(around: Around) -> Iterator[str]:
    """Data types around an op that this CPU does not compute in."""
    if around.builder.engine_kind.name == "cpu":
        nodes = (*around.concerned, *around.quantizing)
        dtypes = dict.fromkeys(v.dtype for n in nodes for v in (*n.inputs, *n.outputs))
        yield from (why for d in dtypes if (why := lacks(d)) is not None)


def _also_read(around: Around) -> Iterator[str]:
    """What else reads the values between an op and its neighbours."""
    near = {n.id for n in around.neighbours}
    between = {v.id: v for v in around.node.outputs}
    between.update({v.id: v for v in around.node.inputs if v.producer and v.producer.id in near})
    for value in between.values():
        maker, every = value.producer, around.readers.get(value.id, [])
        names = [repr(n) for n, v in around.builder.outputs.items() if v.id == value.id]
        if maker is None or len(every) + len(names) < 2 or not every:
            continue
        told = [f"read by {', '.join(called(n) for n in every)}"]
        told += [f"returned as {', '.join(names)}"] if names else []
        yield f"what {called(maker)} makes is {' and '.join(told)}"


def _plain(message: str) -> str:
    """Without ids, which are other ones in the next process."""
    return re.sub(r"\b(op|partition) \d+", r"\1", message)


def _why_unsupported(around: Around, group: Group) -> str:
    node = around.node
    kind = around.builder.engine_kind.name
    if node.kind == "Wildcard":
        return "a Wildcard stands for an op that oneDNN does not know"
    if group.trouble:
        return _plain(group.trouble)
    dtypes = tuple(dict.fromkeys(v.dtype for v in (*node.inputs, *node.outputs)))
    for dtype in dtypes:
        missing = lacks(dtype) if kind == "cpu" else None
        if missing is not None:
            return missing
    told = f"oneDNN {_linked()} has no {kind} kernel for {node.kind} in {', '.join(dtypes)} here"
    notes = [n for n in row(node.kind).notes if "CPU" in n]
    if notes and kind == "cpu":
        told += f": {' '.join(notes).rstrip('.')}"
    if kind == "cpu" and _on_gpu(around):
        told += "; it is supported on a GPU"
    return told


def _linked() -> str:
    v = _core.version()
    return f"{v['major']}.{v['minor']}.{v['patch']}"


def _on_gpu(around: Around) -> bool:
    """Whether a GPU's partitions have a kernel for it, if the library knows about GPUs."""
    if str(_core.version()["gpu_runtime"]).lower() == "none":
        return False
    try:
        groups = grouped(for_engine_kind(around.builder, "gpu"))
    except OneDNNError:
        return False
    return any(g.supported and any(n.id == around.node.id for n in g.nodes) for g in groups)
