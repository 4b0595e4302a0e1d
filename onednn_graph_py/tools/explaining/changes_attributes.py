"""Changes of an op's attributes."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ...base.linked import linked_version
from ...model.building.value import Node, Value
from ...model.rewriting.rebuild import Copy
from ...ops.lookup import row, with_attribute
from ...ops.row import Attribute
from .changes import Around, Change, called

# Attributes that are not tried: another value needs other tensors, or changes only numbers.
_LEFT = ("keep_stats", "use_affine", "qtype", "accumulation_mode")
# If both operands have the same shape, oneDNN broadcasts nothing.
_HARMLESS = ("auto_broadcast",)


def _written(
    attrs: Mapping[str, Any], copy: Copy, node: Node, inputs: tuple[Value, ...]
) -> tuple[Value, ...]:
    return copy.same(node, inputs, {**node.attrs, **attrs})


def _text(value: Any) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _set(around: Around, node: Node, attrs: dict[str, Any], *, exact: bool) -> Change:
    what = " and ".join(f"{name} of {called(node)} to {_text(v)}" for name, v in attrs.items())
    return Change(f"set {what}", around.written(node, partial(_written, attrs)), exact=exact)


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
    written = [(node, partial(_written, values)) for node, values in attrs]
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
