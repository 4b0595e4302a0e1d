"""The search for changes that help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ...model.building.value import Node, Value
from . import (
    changes_attributes,
    changes_dtype,
    changes_kinds,
    changes_operands,
    changes_order,
    changes_quantization,
)
from .changes import Around, Change, Family, called
from .probe import Probe, Tried, near_defect

Status = Literal["unsupported", "alone", "in parts"]

_MOST = 5  # the largest number of reported changes for one op

_ALL = 5000  # the largest number of tried changes for one graph

FAMILIES: dict[str, Family] = {
    "outputs in the middle": changes_order.fewer_outputs,
    "second readers": changes_order.own_producers,
    "the order of operands": changes_order.swapped_operands,
    "other ways to write an op": changes_kinds.other_kinds,
    "the order of ops": changes_order.earlier,
    "attributes": changes_attributes.attributes,
    "scales and zero points": changes_attributes.scales_and_zero_points,
    "the form of operands": changes_operands.operand_forms,
    "strides": changes_operands.plain_strides,
    "TypeCasts left out": changes_dtype.casts_left_out,
    "quantization": changes_quantization.missing_quantization,
    "integer types": changes_dtype.integer_types,
    "the types of parameters": changes_dtype.parameter_types,
    "8-bit floats": changes_dtype.eighth_floats,
    "fpmath_mode": changes_dtype.math_modes,
    "data types of the op": changes_dtype.op_types,
    "data types of all connected ops": changes_dtype.region_types,
    "leaving out an op beside it": changes_order.left_out,
}
"""The families of changes to try, by the names that messages use."""


def tried_in_vain(around: Around, probe: Probe) -> str:
    """Describe the changes that were tried in vain."""
    if not probe.asked:
        return "no known change could help"
    names = [name for name, family in FAMILIES.items() if next(family(around), None)]
    count = "one change was" if probe.asked == 1 else f"{probe.asked} changes were"
    return f"{count} tried ({', '.join(names)}), and none helps"


def _candidates(around: Around) -> Iterator[Change]:
    for family in FAMILIES.values():
        yield from family(around)


@dataclass
class Search:
    """The results of earlier searches, which equal layers share.

    `left` is the number of changes that may still be tried. `known` has the numbers of the
    candidates that helped, and of tried ones, by the key that ops in equal neighbourhoods share.
    """

    left: int = _ALL
    known: dict[Any, tuple[tuple[int, ...], int]] = field(default_factory=dict)


def _looks(around: Around, status: Status) -> Any:
    """Return a key that is equal for ops that the same changes are likely to help."""

    def spec(value: Value) -> Any:
        readers = len(around.readers.get(value.id, ()))
        leaf = value.producer is None
        return value.shape, value.dtype, leaf, readers, around.is_output(value)

    def text(node: Node) -> Any:
        return node.kind, repr(node.attrs), *map(spec, (*node.inputs, *node.outputs))

    return status, *map(text, around.concerned)


def helpful(around: Around, status: Status, probe: Probe, search: Search) -> list[Change]:
    """Find the changes that help; those that compute the same come first."""
    if around.node.kind == "Wildcard":
        return []
    candidates = list(_candidates(around))
    looks = _looks(around, status)
    before = search.known.get(looks)
    found: dict[int, Change] = {}
    if before is not None:
        numbers, asked = before
        again = {i: candidates[i] for i in numbers if i < len(candidates)}
        found = _tried_out(around, status, probe, search, again, everything=False)
        if len(found) == len(numbers):
            probe.asked = asked
            return list(found.values())
    every = dict(enumerate(candidates))
    found = _tried_out(around, status, probe, search, every, everything=True)
    search.known[looks] = tuple(found), probe.asked
    return list(found.values())


def _tried_out(
    around: Around,
    status: Status,
    probe: Probe,
    search: Search,
    candidates: Mapping[int, Change],
    *,
    everything: bool,
) -> dict[int, Change]:
    """Try candidates, and return those that help, by number."""
    promising: list[tuple[int, Change, Tried]] = []
    for i, candidate in candidates.items():
        if search.left <= 0:
            break
        search.left -= 1
        tried = probe.ask(candidate.edit)
        if tried is not None and _helps(around, status, probe.before, tried):
            promising.append((i, candidate, tried))
    found: dict[int, Change] = {}
    for i, candidate, tried in sorted(promising, key=lambda p: not p[1].exact):
        confirmed = probe.confirmed(candidate.edit, tried, everything=everything)
        result = "" if confirmed is None else _result(around, status, confirmed)
        if result:
            found[i] = replace(candidate, result=result)
        if len(found) == _MOST:
            break
    return found


def _helps(around: Around, status: Status, before: Tried, after: Tried) -> bool:
    """Whether a change helps the op, and leaves no more groups unsupported than before."""
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
