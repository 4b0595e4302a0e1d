"""Reshape, Transpose, Reshape that are one Transpose: torch writes the keys of attention so.

With unknown dims, oneDNN can't reshape in a way that leaves two of them open; it can transpose.
"""

import math
from dataclasses import replace

import onnx_ir as ir

from .survey import Survey

Chain = tuple[ir.Node, ir.Value, tuple[int, ...]]
"""The last node, what the first one reads, and the order of its dims in the result."""


def chains(found: Survey) -> list[Chain]:
    """Return the chains of a survey, which transpose in all of its sets of dims."""
    return [chain for node in found.calls if (chain := _chain(node, found)) is not None]


def _chain(last: ir.Node, found: Survey) -> Chain | None:
    middle = _before(last, "Reshape")
    first = None if middle is None else _before(middle, "Transpose")
    source = None if first is None or first.op_type != "Reshape" else first.inputs[0]
    if middle is None or first is None or source is None or first.domain:
        return None
    order = middle.attributes.get("perm")
    axes = None if order is None else tuple(order.as_ints())
    if axes is None or not axes or axes[0] != 0:
        return None
    values = source, first.outputs[0], last.outputs[0]
    if any(v not in found.tensors for v in values):
        return None
    for given, merged, made in zip(*(found.tensors[v].shapes for v in values), strict=True):
        ahead = len(given) - (len(axes) - 1)
        if ahead < 1 or merged != (math.prod(given[:ahead]), *given[ahead:]):
            return None
        perm = (*range(ahead), *(a - 1 + ahead for a in axes[1:]))
        if made != tuple(given[p] for p in perm):
            return None
    return last, source, perm


def _before(node: ir.Node, op_type: str) -> ir.Node | None:
    """Return what makes the first operand of a node of some type."""
    given = node.inputs[0] if node.inputs else None
    if node.op_type != op_type or node.domain or given is None:
        return None
    return given.producer()


def without(found: Survey, given: list[Chain]) -> tuple[Survey, dict[ir.Value, ir.Value]]:
    """Return a survey with transposes in place of chains, and what their results stand for."""
    made = replace(found, tensors=dict(found.tensors), aliases=dict(found.aliases))
    by_node: dict[ir.Node, ir.Node] = {}
    stands: dict[ir.Value, ir.Value] = {}
    for last, source, perm in given:
        node = ir.node("Transpose", [source], {"perm": perm}, name=last.name)
        result = node.outputs[0]
        result.name = f"{last.outputs[0].name}/transposed"
        made.tensors[result] = found.tensors[last.outputs[0]]
        made.aliases[last.outputs[0]] = result
        by_node[last] = node
        stands[result] = last.outputs[0]
    made.calls = [by_node.get(n, n) for n in found.calls]
    return made, stands
