"""Changes that add a Quantize and a Dequantize at an op's inputs or output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...model.building.value import Node, Value
from ...model.rewriting.rebuild import Copy
from ...ops.lookup import with_attribute, with_trait
from .changes import Around, Change, called

# The scale of tensors whose elements are unknown before a call.
_SCALE = 0.05


def _through(copy: Copy, value: Value, dtype: str, attrs: dict[str, Any] | None) -> Value:
    """Quantize the value and dequantize it again, to s8 for its largest element by default."""
    attrs = attrs or {"qtype": "per_tensor", "scales": (_scale(value),), "zps": (0,)}
    made: Value = copy.add("Quantize", [value], attrs, outputs=[(value.shape, dtype)])
    back: Value = copy.add("Dequantize", [made], attrs, outputs=[(value.shape, "f32")])
    return back


def _scale(value: Value) -> float:
    if value.data is None or value.data.size == 0:
        return _SCALE
    return float(np.abs(value.data.astype(np.float64)).max() / 127) or 1.0


def _quantized(
    places: Sequence[int],
    like: Node | None,
    copy: Copy,
    node: Node,
    inputs: tuple[Value, ...],
) -> tuple[Value, ...]:
    """Quantize some inputs like another tensor; the result if no input is given."""
    dtype, attrs = ("s8", None) if like is None else (like.inputs[0].dtype, dict(like.attrs))
    given = [_through(copy, v, dtype, attrs) if i in places else v for i, v in enumerate(inputs)]
    results = copy.same(node, given)
    if not places:
        results = (_through(copy, results[0], dtype, attrs), *results[1:])
    return results


def _candidate(
    around: Around, node: Node, where: str, places: Sequence[int], like: Node | None
) -> Change:
    dtype = "s8" if like is None else like.inputs[0].dtype
    return Change(
        f"put Quantize to {dtype} and Dequantize {where} {called(node)}",
        around.written(node, partial(_quantized, places, like)),
        exact=not places and node.kind == "MaxPool",
    )


def missing_quantization(around: Around) -> Iterator[Change]:
    """Yield candidates that add a Quantize and a Dequantize in places of the int8 patterns."""
    for node in around.concerned:
        if node.kind in with_attribute("zps") | {"TypeCast"} or not node.inputs:
            continue
        makers = [v.producer for v in node.inputs]
        plain = [n is None or n.kind not in with_trait("dequantizes") for n in makers]
        wide = [i for i, v in enumerate(node.inputs) if plain[i] and v.dtype == "f32"]
        like = next((n for n in makers if n is not None and n.kind == "Dequantize"), None)
        if node.kind in with_trait("product") - with_trait("gradient"):
            operands = [i for i in wide if i < 2]
            if len(operands) == 1:
                name = "weights" if operands == [1] else "input"
                yield _candidate(around, node, f"before the {name} of", operands, None)
        elif like and wide and node.kind in with_trait("epilogue", "binary") | {"Concat"}:
            # The other inputs are quantized like the one that is quantized.
            where = f"before input {', '.join(map(str, wide))} of"
            yield _candidate(around, node, where, wide, like)
        result = node.outputs[0]
        quantized = any(r.kind == "Quantize" for r in around.readers.get(result.id, ()))
        if like is makers[0] is not None and result.dtype == "f32" and not quantized:
            # Pooling, Concat and others need a quantized result for int8.
            yield _candidate(around, node, "after", (), like)
