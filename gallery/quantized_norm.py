"""Softmax and normalization whose result is quantized."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from onednn_graph_py.model.building.builder import GraphBuilder
from onednn_graph_py.model.building.value import Value

from ._cases import LONG_EPILOGUES, kernels_of
from ._epilogue import chain, drawn
from ._quantization import converted, dequantized, finished, post_ops
from .pattern import Case, Deviation, Pattern

__all__ = ["PATTERNS"]

_SHAPE = (2, 8, 8, 32)
_CHANNELS = _SHAPE[-1]

Op = Literal["SoftMax", "LayerNorm", "GroupNorm"]


def _gamma_beta(b: GraphBuilder) -> tuple[Value, Value]:
    gamma = b.constant(1 + drawn(1, (_CHANNELS,), 0.1), name="gamma")
    return gamma, b.constant(drawn(2, (_CHANNELS,), 0.1), name="beta")


def _normalized(b: GraphBuilder, x: Value, op: Op) -> Value:
    made: Value
    if op == "SoftMax":
        made = b.softmax(x, axis=-1)
    elif op == "LayerNorm":
        made = b.layer_norm(x, *_gamma_beta(b), keep_stats=False)
    else:
        made = b.group_norm(x, *_gamma_beta(b), groups=4, keep_stats=False)
    return made


def quantized_norm(
    op: Op = "SoftMax",
    src: str = "f32",
    dst: str = "u8",
    *,
    epilogue: Sequence[str] = (),
    zero_point: int = 0,
    per_channel: bool = False,
) -> GraphBuilder:
    """Build softmax or normalization, with post-ops and Quantize.

    Parameters
    ----------
    op : str
        ``SoftMax``, ``LayerNorm`` or ``GroupNorm``.
    src, dst : str
        Data types; a float destination has no Quantize.
    epilogue : sequence of str
        Unary and Binary ops, as in `epilogue`.
    zero_point : int
        The destination's zero point.
    per_channel : bool
        The destination has a scale for each channel.
    """
    b = GraphBuilder()
    y = _normalized(b, b.input(_SHAPE, src, name="src"), op)
    if op == "LayerNorm":  # LayerNorm's pattern has its TypeCast first
        y = converted(y, dst if dst not in ("u8", "s8") else "f32")
    y = post_ops(y, epilogue)
    scale = 1 / 300 if op == "SoftMax" else 0.03
    b.output(finished(y, dst, scale=scale, zero_point=zero_point, per_channel=per_channel))
    return b


def quantized_batch_norm(
    dtype: str = "s8", *, relu: bool = True, dst_scale: float = 0.03, zero_point: int = 0
) -> GraphBuilder:
    """Build Dequantize, BatchNormInference, ReLU and Quantize.

    Parameters
    ----------
    dtype : str
        ``s8``, or ``u8``, for which oneDNN has no pattern.
    relu : bool
    dst_scale : float
    zero_point : int
        The zero point of source and destination.
    """
    b = GraphBuilder()
    x = dequantized(b.input(_SHAPE, dtype, name="src"), zero_point=zero_point)
    mean = b.constant(drawn(3, (_CHANNELS,), 0.1), name="mean")
    variance = b.constant(1 + 0.2 * abs(drawn(4, (_CHANNELS,))), name="variance")
    y = b.batch_norm_inference(x, *_gamma_beta(b), mean, variance, epsilon=1e-5)
    if relu:
        y = y.relu()
    b.output(finished(y, dtype, scale=dst_scale, zero_point=zero_point))
    return b


_OPS: tuple[Op, ...] = ("SoftMax", "LayerNorm", "GroupNorm")
_UNARY = ("Abs", "ReLU", "Square", "Tanh", "Sigmoid")

# Epilogues, and the numbers of partitions without a Quantize: for SoftMax and LayerNorm in 3.7.2
# and 3.13.2, then for GroupNorm, whose pattern allows post-ops before and after a TypeCast.
_EPILOGUES: tuple[tuple[str, tuple[str, ...], tuple[int, int], tuple[int, int]], ...] = (
    ("ReLU", ("ReLU",), (1, 1), (1, 1)),
    ("Multiply", ("Multiply",), (1, 1), (1, 1)),
    ("Multiply + Add", ("Multiply", "Add"), (2, 2), (1, 1)),
    ("3 Unary", _UNARY[:3], (1, 1), (1, 1)),
    ("4 Unary", _UNARY[:4], (1, 1), (1, 1)),
    ("5 Unary", _UNARY, (2, 1), (1, 1)),
    ("3 post-ops", chain(3), (2, 2), (1, 1)),
    ("4 post-ops", chain(4), (2, 2), (1, 1)),
    ("8 post-ops", chain(8), (4, 2), (1, 1)),
    ("9 post-ops", chain(9), (4, 2), (2, 1)),
    ("19 post-ops", chain(19), (7, 2), (5, 1)),
    ("20 post-ops", chain(20), (8, 2), (5, 1)),
)


def _split(op: Op, length: int, parts: tuple[int, int], *, quantized: bool) -> list[Deviation]:
    binary = "a Binary op is fused with the ops after it, not with those before it"
    most = (
        "it fuses at most 8 ops behind a GroupNorm"
        if op == "GroupNorm"
        else "it fuses at most 4 ops behind a SoftMax or LayerNorm"
    )
    why = most if op == "GroupNorm" or (length == 5 and parts[1] == 1) else binary
    made = []
    if parts[0] != 1:
        made.append(Deviation(parts[0] + quantized, why, until=LONG_EPILOGUES))
    if parts[1] != 1:
        made.append(Deviation(parts[1] + quantized, why, since=LONG_EPILOGUES))
    return made


def _case(op: Op, name: str, src: str, dst: str, *deviations: Deviation, **given: Any) -> Case:
    arguments = {"op": op, "src": src, "dst": dst, **given}
    name = f"{op}, {name}" if name else op
    kernels = kernels_of(src, dst)
    return Case(name, f"{src} -> {dst}", arguments, 1, kernels, deviations=deviations)


def _type_cases(op: Op) -> Iterator[Case]:
    for src in ("f32", "bf16", "f16"):
        for dst in ("u8", "s8", "f32", "bf16", "f16"):
            deviations = []
            casts = 0 if src == dst else (src != "f32") + (dst in ("bf16", "f16"))
            if op == "SoftMax" and src != "f32" and casts:
                # Each TypeCast is its own partition; Quantize is fused only with one from bf16.
                apart = casts + (src == "f16" and dst in ("u8", "s8"))
                why = f"it fuses nothing with a SoftMax in {src}"
                deviations.append(Deviation(1 + apart, why, since=LONG_EPILOGUES))
            if casts == 2:
                why = "it fuses one TypeCast behind a normalization, and from bf16 to f16 takes two"
                deviations.append(Deviation(2, why))
            yield _case(op, "", src, dst, *deviations)


def _residual(op: Op, *, quantized: bool) -> list[Deviation]:
    why = "a tensor of the whole shape is added only before a Quantize"
    if op == "SoftMax" or quantized:
        return []
    return [Deviation(None, why, since=LONG_EPILOGUES if op == "LayerNorm" else (3, 0))]


def _form_cases(op: Op) -> Iterator[Case]:
    for dst in ("u8", "f32"):
        quantized = dst == "u8"
        for name, ops, alike, of_groups in _EPILOGUES:
            parts = of_groups if op == "GroupNorm" else alike
            split = _split(op, len(ops), parts, quantized=quantized)
            yield _case(op, name, "f32", dst, *split, epilogue=ops)
        residual = _residual(op, quantized=quantized)
        yield _case(op, "residual in f32", "f32", dst, *residual, epilogue=("Add:residual",))
    for dst in ("u8", "s8"):
        yield _case(op, "zero point", "f32", dst, zero_point=5)
        why = "with scales per channel oneDNN writes out of bounds, so the mirror refuses it"
        refused = Deviation(None, why, until=LONG_EPILOGUES)
        yield _case(op, "per channel", "f32", dst, refused, per_channel=True)


def _batch_norm_cases() -> Iterator[Case]:
    for relu in (True, False):
        name = "ReLU" if relu else "no ReLU"
        yield Case(name, "s8", {"relu": relu})
    yield Case("another scale", "s8", {"dst_scale": 0.05})
    yield Case("zero point, which is not the pattern", "s8", {"zero_point": 3}, partitions=3)
    yield Case("which is not the pattern", "u8", {"dtype": "u8"}, partitions=3)


PATTERNS = (
    Pattern(
        "Q-08",
        "[SoftMax | LayerNorm | GroupNorm] + [Unary | Binary]{0-3} + Quantize?",
        "quantized",
        "At most three Unary and Binary ops follow (later documents say four, then twenty), then "
        "an optional Quantize, after a TypeCast if the type is bf16 or f16. With a Multiply this "
        "is SmoothQuant. A TypeCast to another float type may end the pattern instead; LayerNorm's "
        "comes before the Unary and Binary ops.",
        "graph/fusion_patterns/norm_fusion_patterns",
        quantized_norm,
        tuple(case for op in _OPS for group in (_type_cases, _form_cases) for case in group(op)),
    ),
    Pattern(
        "Q-09",
        "Dequantize + BatchNormInference + ReLU? + Quantize",
        "quantized",
        "Source and destination are s8 with one scale for the tensor and no zero point. The "
        "pattern is in oneDNN's sources, not in its documents.",
        "graph/operations/BatchNormInference",
        quantized_batch_norm,
        tuple(_batch_norm_cases()),
    ),
)
