"""Changes that write an op in another way: the rules of `rewriting`, and others that may help."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ...model.building.value import Node, Value, is_whole
from ...model.rewriting import RECIPES
from ...model.rewriting.rebuild import Copy
from ...model.rewriting.rule import Ops, Rule
from .changes import Around, Change, called


def _times_one(ops: Ops, node: Node) -> bool:
    made = ops.like(node.outputs[0])
    ops.same(outputs=(made,))
    ops.op("Multiply", made, ops.scalar(1, made))
    return True


def _as_negated_sum(ops: Ops, node: Node) -> bool:
    first, second = node.inputs
    ops.op("Add", ops.op("Multiply", second, ops.scalar(-1, second)), first)
    return True


def _as_square(ops: Ops, node: Node) -> bool:
    ops.op("Square", ops.op("Subtract", *node.inputs))
    return True


def _as_addition(ops: Ops, node: Node) -> bool:
    data, bias = node.inputs
    rank = len(ops.shapes[data.id])
    last = node.attr("data_format") == "NXC"
    shape = (1,) * (rank - 1) + (-1,) if last else (1, -1) + (1,) * (rank - 2)
    if bias.data is None:
        ops.op("Add", data, ops.op("StaticReshape", bias, shape=shape, special_zero=False))
    else:
        wide = ops.value(tuple(bias.data.size if d < 0 else d for d in shape), bias.dtype)
        wide.data = np.asarray(bias.data).reshape(shape)
        ops.op("Add", data, wide)
    return True


def _without_transposes(ops: Ops, node: Node) -> bool:
    """Write a product that transposes its operands by its attributes."""
    inputs = list(node.inputs)
    flags: dict[str, Any] = {}
    for i, flag in enumerate(("transpose_a", "transpose_b")):
        maker, rank = inputs[i].producer, len(ops.shapes[inputs[i].id])
        if maker is not None and maker.kind == "StaticTranspose" and rank > 1:
            order = [axis % rank for axis in maker.attrs["order"]]
            if order == [*range(rank - 2), rank - 1, rank - 2]:
                inputs[i], flags[flag] = maker.inputs[0], not node.attr(flag)
    ops.same(inputs, **flags)
    return bool(flags)


_RULES = (
    *RECIPES,
    Rule("with its result times 1", {"Reciprocal"}, _times_one),
    Rule("as a sum of the first operand and -1 times the second", {"Subtract"}, _as_negated_sum),
    Rule("as a square", {"SquaredDifference"}, _as_square),
    Rule("as an Add", {"BiasAdd"}, _as_addition),
    Rule("by its attributes without StaticTranspose", {"MatMul"}, _without_transposes),
)


def _nodes(rule: Rule, node: Node) -> list[Node]:
    """Return the ops that a rule writes; none if it does not fit."""
    values = (*node.inputs, *node.outputs)
    shapes = {v.id: v.shape for v in values if v.shape is not None and is_whole(v.shape)}
    if node.kind not in rule.kinds or len(shapes) < len({v.id for v in values}):
        return []
    return rule.written(node.outputs[0].builder, node, shapes) or []


def _written(rule: Rule, copy: Copy, node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    values = {**copy.values, **{v.id: new for v, new in zip(node.inputs, inputs, strict=True)}}
    names = {v.id for v in node.outputs}
    for one in _nodes(rule, node):
        given = [
            values[v.id] if v.id in values else copy.constant(v.data, v.dtype) for v in one.inputs
        ]
        outputs = [(None, v.dtype) for v in one.outputs]
        name = node.name if names & {v.id for v in one.outputs} else ""
        made = copy.instead(one.kind, given, one.attrs, outputs=outputs, name=name or None)
        results = made if isinstance(made, tuple) else (made,)
        values.update({v.id: new for v, new in zip(one.outputs, results, strict=True)})
    return tuple(values[v.id] for v in node.outputs)


def other_kinds(around: Around) -> Iterator[Change]:
    """Yield candidates that write an op in another way that computes the same."""
    for node in around.concerned:
        for rule in _RULES:
            kinds = " + ".join(n.kind for n in _nodes(rule, node))
            if kinds:
                yield Change(
                    f"write {called(node)} {rule.how} ({kinds})",
                    around.written(node, partial(_written, rule)),
                )
