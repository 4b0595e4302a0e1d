"""Changes of an op's attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ...base.linked import linked_version
from ...model.building.value import Node, Value, is_whole
from ...model.rewriting.rebuild import Copy
from ...ops.inference import make_call
from ...ops.lookup import row, with_attribute
from ...ops.row import Attribute
from ...ops.tensor_spec import TensorSpec
from ...reference.windows import windows
from .changes import Around, Candidate, called

__all__ = ["attributes", "explicit_pads", "scales_and_zero_points", "shapes_as_attributes"]

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


def _set(around: Around, node: Node, attrs: dict[str, Any], *, exact: bool) -> Candidate:
    what = " and ".join(f"{name} of {called(node)} to {_text(v)}" for name, v in attrs.items())
    return Candidate(f"set {what}", around.written(node, partial(_written, attrs)), exact=exact)


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


def attributes(around: Around) -> Iterator[Candidate]:
    """Yield candidates that give one attribute another value that the op's row allows."""
    for node in around.concerned:
        schema = row(node.kind).at(linked_version())
        for attribute in schema.attributes:
            if attribute.name in _LEFT:
                continue
            for value, exact in _others(node, attribute):
                yield _set(around, node, {attribute.name: value}, exact=exact)


def scales_and_zero_points(around: Around) -> Iterator[Candidate]:
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


def _set_all(
    around: Around, attrs: Sequence[tuple[Node, Mapping[str, Any]]], text: str
) -> Candidate:
    written = [(node, partial(_written, values)) for node, values in attrs]
    names = ", ".join(called(node) for node, _ in attrs)
    return Candidate(text.format(names), around.written(*written[0], *written[1:]), exact=False)


def _without_shape(
    name: str, copy: Copy, node: Node, inputs: tuple[Value, ...]
) -> tuple[Value, ...]:
    attrs = {**node.attrs, name: node.outputs[0].shape}
    made = copy.instead(node.kind, inputs[:-1], attrs, name=node.name or None)
    return made if isinstance(made, tuple) else (made,)


def shapes_as_attributes(around: Around) -> Iterator[Candidate]:
    """Yield candidates that pass a shape as an attribute instead of an input."""
    for node in around.concerned:
        schema = row(node.kind)
        port = schema.port("inputs", len(node.inputs) - 1) if node.inputs else None
        shape = node.outputs[0].shape if node.outputs else None
        known = shape is not None and is_whole(shape)
        if port is not None and known and schema.attribute(port.name) is not None:
            yield Candidate(
                f"give {called(node)} the attribute {port.name} {list(shape or ())} instead of "
                "the input",
                around.written(node, partial(_without_shape, port.name)),
            )


def _per_tensor(around: Around, node: Node) -> Iterator[Candidate]:
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


def explicit_pads(around: Around) -> Iterator[Candidate]:
    """Yield candidates that replace auto_pad by the paddings that it implies."""
    for node in around.concerned:
        automatic = str(node.attr("auto_pad"))
        if automatic == "None" or "pads_begin" not in node.attrs:
            continue
        pads = _pads(node, automatic)
        if pads is not None:
            begin, end = pads
            attrs = {"auto_pad": "None", "pads_begin": begin, "pads_end": end}
            yield _set(around, node, attrs, exact=True)


def _pads(node: Node, automatic: str) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return a window op's paddings before and behind; None if a shape is unknown."""
    strides = node.attrs["strides"]
    if automatic == "VALID":
        return (0,) * len(strides), (0,) * len(strides)
    data, made = _forward_tensors(node)
    if data is None or made is None or not is_whole((*data, *made)):
        return None
    kernel = _kernel(node)
    if kernel is None:
        return None
    specs = [[TensorSpec(v.shape, v.dtype) for v in vs] for vs in (node.inputs, node.outputs)]
    call = make_call(row(node.kind), specs[0], node.attrs, specs[1])
    transposed = node.kind.startswith("ConvTranspose")
    found = windows(call, data, kernel, made, transposed=transposed)
    # The padding behind the data reaches to the end of the last window.
    end = tuple(
        max(0, (n - 1) * s + (k - 1) * d + 1 - b - size)
        for n, s, k, d, b, size in zip(
            made, found.strides, kernel, found.dilations, found.begin, data, strict=True
        )
    )
    return tuple(found.begin), end


def _spatial(node: Node, shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[1:-1] if node.attr("data_format") == "NXC" else shape[2:]


def _forward_tensors(node: Node) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """Return the spatial sizes of the tensor under the windows, and of the one they make."""
    tensors = (*node.inputs, *node.outputs)
    places = {
        "Convolution": (0, -1),
        "MaxPool": (0, -1),
        "AvgPool": (0, -1),
        "ConvTranspose": (-1, 0),
        "ConvTransposeBackwardWeights": (1, 0),
        "ConvolutionBackwardWeights": (0, 1),
    }.get(node.kind)
    if places is None:
        return None, None
    data, made = (tensors[i].shape for i in places)
    if data is None or made is None:
        return None, None
    return _spatial(node, data), _spatial(node, made)


def _kernel(node: Node) -> tuple[int, ...] | None:
    if "kernel" in node.attrs:
        return tuple(node.attrs["kernel"])
    shape = node.attrs.get("weights_shape")
    if shape is None and len(node.inputs) > 1:
        shape = (node.outputs[0] if node.kind.endswith("Weights") else node.inputs[1]).shape
    if shape is None:
        return None
    spatial_first = str(node.attr("weights_format"))[0] == "X"
    return tuple(shape[:-2]) if spatial_first else tuple(shape[2:])
