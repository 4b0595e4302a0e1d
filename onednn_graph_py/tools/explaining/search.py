"""The search for changes that help."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from ...model.building.value import Node, Value
from . import changes_dtype, changes_operands, changes_ops
from .changes import Around, Change, Family, called
from .probe import Probe, Tried, near_defect

Status = Literal["unsupported", "alone", "in parts"]

_MOST = 5  # the largest number of reported changes for one op

FAMILIES: dict[str, Family] = {
    "outputs in the middle": changes_operands.fewer_outputs,
    "second readers": changes_operands.own_producers,
    "other ways to write an op": changes_ops.other_kinds,
    "the order of ops": changes_operands.earlier,
    "attributes": changes_ops.attributes,
    "scales and zero points": changes_ops.scales_and_zero_points,
    "the form of operands": changes_operands.operand_forms,
    "strides": changes_operands.plain_strides,
    "integer types": changes_dtype.integer_types,
    "the types of parameters": changes_dtype.parameter_types,
    "data types of the op": changes_dtype.op_types,
    "data types of all connected ops": changes_dtype.region_types,
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
    if around.node.kind == "Wildcard":
        return
    for family in FAMILIES.values():
        yield from family(around)


@dataclass
class Budget:
    """The number of changes of one graph that may still be tried."""

    left: int = 5000


def looks_of(around: Around, status: Status) -> Any:
    """Return a key that is equal for ops that the same changes are likely to help."""

    def spec(value: Value) -> Any:
        readers = len(around.readers.get(value.id, ()))
        leaf = value.producer is None
        return value.shape, value.dtype, leaf, readers, around.is_output(value)

    def text(node: Node) -> Any:
        return node.kind, repr(node.attrs), *map(spec, (*node.inputs, *node.outputs))

    return status, *map(text, around.concerned)


def helpful(around: Around, status: Status, probe: Probe, budget: Budget) -> list[Change]:
    """Find the changes that help; those that compute the same come first."""
    promising: list[tuple[Change, Tried]] = []
    for candidate in _candidates(around):
        if budget.left <= 0:
            break
        budget.left -= 1
        tried = probe.ask(candidate.edit)
        if tried is not None and _helps(around, status, probe.before, tried):
            promising.append((candidate, tried))
    changes: list[Change] = []
    for candidate, tried in sorted(promising, key=lambda p: not p[0].exact):
        confirmed = probe.confirmed(candidate.edit, tried)
        result = "" if confirmed is None else _result(around, status, confirmed)
        if result:
            changes.append(replace(candidate, result=result))
        if len(changes) == _MOST:
            break
    return changes


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
