"""Changes of integer types, 8-bit floats and the fpmath_mode."""

from __future__ import annotations

from collections.abc import Iterator

from ...model.rewriting.rebuild import Edit
from .changes import Around, Change, called

__all__ = ["eighth_floats", "integer_types", "math_modes"]

_OTHER = {"u8": "s8", "s8": "u8", "f8_e4m3": "s8", "f8_e5m2": "s8"}


def integer_types(around: Around) -> Iterator[Change]:
    """Yield candidates that make a quantized tensor s8 instead of u8 or f8, or u8 instead of s8."""
    dynamic = [n for n in around.concerned if n.kind.startswith("Dynamic")]
    for node in (*around.quantizing, *dynamic):
        value = node.outputs[0] if node.kind.endswith("Quantize") else node.inputs[0]
        other = _OTHER.get(value.dtype)
        readers = around.readers.get(value.id, [])
        if other is None or any("Dequantize" not in r.kind for r in readers):
            continue
        what = ("the result" if value is node.outputs[0] else "input 0") + f" of {called(node)}"
        edit = Edit(dtypes={around.numbers[value.id]: other})
        yield Change(f"make {what} {other}", around.checked(edit), exact=False)


def eighth_floats(around: Around) -> Iterator[Change]:
    """Yield a candidate that quantizes to s8 instead of 8-bit floats."""
    values = {
        v.id: v
        for n in around.quantizing
        for v in (*n.inputs, *n.outputs)
        if v.dtype.startswith("f8")
    }
    if len(values) > 1:
        dtypes = dict.fromkeys((around.numbers[i] for i in values), "s8")
        what = ", ".join(called(n) for n in around.quantizing)
        yield Change(
            f"quantize to s8 instead of 8-bit floats ({what})",
            around.checked(Edit(dtypes=dtypes)),
            exact=False,
        )


def math_modes(around: Around) -> Iterator[Change]:
    """Yield candidates with a mode that covers integers, which compressed weights need."""
    if not any(n.kind == "DynamicDequantize" for n in around.concerned):
        return
    builder = around.builder
    for mode in dict.fromkeys((builder.fpmath_mode.name, "any")):
        if mode == builder.fpmath_mode.name and builder.apply_to_int:
            continue
        yield Change(
            f"build the graph with fpmath_mode={mode!r} and apply_to_int=True",
            around.checked(Edit(fpmath_mode=mode, apply_to_int=True)),
            exact=False,
        )
