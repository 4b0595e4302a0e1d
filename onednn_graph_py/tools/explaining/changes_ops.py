"""Changes of an op: its attributes, and other ways to write it, by the rules of `rewriting`."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...base.linked import linked_version
from ...model.building.value import Node, Value, is_whole
from ...model.rewriting import RECIPES
from ...model.rewriting.rebuild import Copy
from ...model.rewriting.rule import Ops, Rule
from ...ops.lookup import row, with_attribute
from ...ops.row import Attribute
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


# Attributes that are not tried: another value needs other tensors, or changes only numbers.
_LEFT = ("keep_stats", "use_affine", "qtype", "accumulation_mode")
# If both operands have the same shape, oneDNN broadcasts nothing.
_HARMLESS = ("auto_broadcast",)


def _with(
    attrs: Mapping[str, Any], copy: Copy, node: Node, inputs: tuple[Value, ...]
) -> tuple[Value, ...]:
    return copy.same(node, inputs, {**node.attrs, **attrs})


def _text(value: Any) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _set(around: Around, node: Node, attrs: dict[str, Any], *, exact: bool) -> Change:
    what = " and ".join(f"{name} of {called(node)} to {_text(v)}" for name, v in attrs.items())
    return Change(f"set {what}", around.written(node, partial(_with, attrs)), exact=exact)


def _others(node: Node, attribute: Attribute) -> Iterator[tuple[Any, bool]]:
    """Yield other values of an attribute, and whether the op computes the same with them."""
    name = attribute.name
    value = node.attr(name)
    if attribute.type == "bool":
        yield not value, False
    elif attribute.allowed:
        for other in attribute.allowed:
            if other != value:
                yield other, name in _HARMLESS
    elif name in ("axis", "begin_norm_axis") and isinstance(value, int):
        rank = len(node.inputs[0].shape or ()) if node.inputs else 0
        if rank and -rank <= value < rank:
            yield (value + rank if value < 0 else value - rank), True
    elif name == "groups" and value != 1:
        yield 1, False
    elif name == "dilations" and value is not None and any(d != 1 for d in value):
        yield (1,) * len(value), False


def attributes(around: Around) -> Iterator[Change]:
    """Yield candidates that give one attribute another value that the op's row allows."""
    for node in around.concerned:
        schema = row(node.kind).at(linked_version())
        for attribute in schema.attributes:
            if attribute.name in _LEFT:
                continue
            for value, exact in _others(node, attribute):
                yield _set(around, node, {attribute.name: value}, exact=exact)


def scales_and_zero_points(around: Around) -> Iterator[Change]:
    """Yield candidates with one scale, without zero points, or with all ops quantized equally."""
    nodes = around.quantizing
    for node in nodes:
        yield from _per_tensor(around, node)
    shifted = [n for n in nodes if any(n.attrs.get("zps", ()))]
    for chosen in [[n] for n in shifted] + ([shifted] if len(shifted) > 1 else []):
        attrs = [(n, {"zps": (0,) * len(n.attrs["zps"])}) for n in chosen]
        yield _set_all(around, attrs, "set zps of {} to 0")
    for like in nodes:
        keys = ("qtype", "scales", "zps", "axis")
        same = {k: like.attrs[k] for k in keys if k in like.attrs}
        others = [
            (n, same) for n in nodes if {k: n.attrs.get(k) for k in same} != same and n is not like
        ]
        if others and like.attr("qtype") == "per_tensor":
            yield _set_all(around, others, f"give {{}} the scale and zero point of {called(like)}")


def _set_all(around: Around, attrs: Sequence[tuple[Node, Mapping[str, Any]]], text: str) -> Change:
    written = [(node, partial(_with, values)) for node, values in attrs]
    names = ", ".join(called(node) for node, _ in attrs)
    return Change(text.format(names), around.written(*written[0], *written[1:]), exact=False)


def _per_tensor(around: Around, node: Node) -> Iterator[Change]:
    """Yield candidates that replace per-channel scales, equal or not, by one for the tensor."""
    scales: tuple[float, ...] = tuple(node.attrs.get("scales", ()))
    zps: tuple[int, ...] | None = node.attrs.get("zps")
    if node.kind not in with_attribute("zps") or node.attrs.get("qtype") != "per_channel":
        return
    same = len(set(scales)) == 1 and len(set(zps or (0,))) == 1
    attrs: dict[str, Any] = {"qtype": "per_tensor", "scales": (max(scales),)}
    if zps is not None:
        attrs["zps"] = zps[:1]
    yield _set(around, node, attrs, exact=same)
