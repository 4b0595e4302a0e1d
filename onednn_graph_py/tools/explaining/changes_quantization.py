"""Changes that add a Quantize and a Dequantize at an op's inputs or output."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ...model.building.value import Node, Value
from ...model.rewriting.rebuild import Copy
from ...ops.lookup import with_attribute, with_trait
from .changes import Around, Change, called

__all__ = ["missing_quantization"]

# The scale of tensors whose elements are unknown before a call.
_SCALE = 0.05


def _through(copy: Copy, value: Value, dtype: str, attrs: dict[str, Any]) -> Value:
    """Quantize the value and dequantize it again."""
    made: Value = copy.add("Quantize", [value], attrs, outputs=[(value.shape, dtype)])
    back: Value = copy.add("Dequantize", [made], attrs, outputs=[(value.shape, "f32")])
    return back


def _scale(value: Value) -> float:
    """Return the s8 scale for a constant's largest element; a fixed one for other values."""
    if value.data is None or value.data.size == 0:
        return _SCALE
    return float(np.abs(value.data.astype(np.float64)).max() / 127) or 1.0


def _parameters(scale: float) -> dict[str, Any]:
    return {"qtype": "per_tensor", "scales": (scale,), "zps": (0,)}


def _inputs_quantized(
    which: tuple[int, ...], copy: Copy, node: Node, inputs: tuple[Value, ...]
) -> tuple[Value, ...]:
    given = list(inputs)
    for i in which:
        given[i] = _through(copy, given[i], "s8", _parameters(_scale(given[i])))
    return copy.same(node, given)


def _inputs_like(
    which: tuple[int, ...],
    dtype: str,
    attrs: dict[str, Any],
    copy: Copy,
    node: Node,
    inputs: tuple[Value, ...],
) -> tuple[Value, ...]:
    given = [_through(copy, v, dtype, attrs) if i in which else v for i, v in enumerate(inputs)]
    return copy.same(node, given)


def _output_quantized(
    dtype: str, attrs: dict[str, Any], copy: Copy, node: Node, inputs: tuple[Value, ...]
) -> tuple[Value, ...]:
    made = copy.same(node, inputs)
    return (_through(copy, made[0], dtype, attrs), *made[1:])


def _dequantized(value: Value) -> Node | None:
    """Return the op that dequantized the value, or None."""
    maker = value.producer
    return maker if maker is not None and maker.kind in with_trait("dequantizes") else None


def missing_quantization(around: Around) -> Iterator[Change]:
    """Yield candidates that add a Quantize and a Dequantize in places of the int8 patterns."""
    for node in around.concerned:
        if node.kind in with_attribute("zps") | {"TypeCast"} or not node.inputs:
            continue
        sources = [_dequantized(v) for v in node.inputs]
        if node.kind in with_trait("product") - with_trait("gradient"):
            yield from _operands(around, node, sources)
        else:
            yield from _others(around, node, sources)
        yield from _result(around, node, sources)


def _operands(around: Around, node: Node, sources: list[Node | None]) -> Iterator[Change]:
    missing = tuple(i for i in (0, 1) if sources[i] is None and node.inputs[i].dtype == "f32")
    if len(missing) == 1:
        name = "weights" if missing == (1,) else "input"
        yield Change(
            f"put Quantize to s8 and Dequantize before the {name} of {called(node)}",
            around.written(node, partial(_inputs_quantized, missing)),
            exact=False,
        )


def _others(around: Around, node: Node, sources: list[Node | None]) -> Iterator[Change]:
    """Yield a candidate that quantizes the other inputs like the one that is quantized."""
    like = next((n for n in sources if n is not None and n.kind == "Dequantize"), None)
    missing = tuple(i for i, n in enumerate(sources) if n is None and node.inputs[i].dtype == "f32")
    if like is not None and missing and node.kind in with_trait("epilogue", "binary") | {"Concat"}:
        dtype = like.inputs[0].dtype
        names = ", ".join(map(str, missing))
        yield Change(
            f"put Quantize to {dtype} and Dequantize before input {names} of {called(node)}",
            around.written(node, partial(_inputs_like, missing, dtype, dict(like.attrs))),
            exact=False,
        )


def _result(around: Around, node: Node, sources: list[Node | None]) -> Iterator[Change]:
    """Yield a candidate that quantizes the result, as pooling, Concat and others need for int8."""
    source = sources[0]
    if source is None or source.kind != "Dequantize" or node.outputs[0].dtype != "f32":
        return
    if any(r.kind == "Quantize" for r in around.readers.get(node.outputs[0].id, ())):
        return
    dtype = source.inputs[0].dtype
    yield Change(
        f"put Quantize to {dtype} and Dequantize after {called(node)}",
        around.written(node, partial(_output_quantized, dtype, dict(source.attrs))),
        exact=node.kind == "MaxPool",
    )
