"""Pooling of quantized tensors, alone or with the sum of another tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from onednn_graph_py.model.building.builder import GraphBuilder
from onednn_graph_py.model.building.value import Value

from ._quantization import SRC_SCALE, dequantized, finished, post_ops
from .pattern import Case, Deviation, Pattern

__all__ = ["PATTERNS"]

_SHAPE = (2, 10, 10, 16)

Pool = Literal["AvgPool", "MaxPool"]


def _pooled(x: Value, op: Pool, data_format: str) -> Value:
    attrs: dict[str, Any] = {"exclude_pad": True} if op == "AvgPool" else {"dilations": (1, 1)}
    attrs["data_format"] = data_format
    made: Value = x.builder.op(
        op, x, kernel=(3, 3), strides=(2, 2), pads_begin=(1, 1), pads_end=(0, 0), **attrs
    )
    return made


def quantized_pool(
    op: Pool = "MaxPool",
    src: str = "u8",
    dst: str = "u8",
    *,
    data_format: str = "NXC",
    epilogue: Sequence[str] = (),
    src_zero_point: int = 0,
    dst_zero_point: int = 0,
    dst_scale: float = SRC_SCALE,
    dst_per_channel: bool = False,
) -> GraphBuilder:
    """Build Dequantize, pooling, post-ops and Quantize.

    Parameters
    ----------
    op : str
        ``AvgPool`` or ``MaxPool``.
    src, dst : str
        ``u8`` or ``s8``.
    data_format : str
        ``NXC`` or ``NCX``.
    epilogue : sequence of str
        Unary and Binary ops, as in `epilogue`; the documents have none.
    src_zero_point, dst_zero_point : int
    dst_scale : float
    dst_per_channel : bool
        The destination has a scale for each channel.
    """
    b = GraphBuilder()
    axis = 3 if data_format == "NXC" else 1
    shape = _SHAPE if axis == 3 else (_SHAPE[0], _SHAPE[3], *_SHAPE[1:3])
    x = dequantized(b.input(shape, src, name="src"), zero_point=src_zero_point)
    y = post_ops(_pooled(x, op, data_format), epilogue, axis=axis)
    b.output(
        finished(
            y,
            dst,
            scale=dst_scale,
            zero_point=dst_zero_point,
            per_channel=dst_per_channel,
            axis=axis,
        )
    )
    return b


def quantized_pool_add(
    op: Pool = "MaxPool",
    src: str = "u8",
    dst: str = "u8",
    residual: str = "u8",
    *,
    data_format: str = "NXC",
    epilogue: Sequence[str] = (),
    src_zero_point: int = 0,
    residual_zero_point: int = 0,
    dst_zero_point: int = 0,
) -> GraphBuilder:
    """Build Dequantize, pooling, Add of another dequantized tensor, post-ops and Quantize.

    Parameters
    ----------
    op : str
        ``AvgPool`` or ``MaxPool``.
    src, dst, residual : str
        ``u8`` or ``s8``.
    data_format : str
        ``NXC`` or ``NCX``.
    epilogue : sequence of str
        Unary and Binary ops, as in `epilogue`; the documents have none.
    src_zero_point, residual_zero_point, dst_zero_point : int
    """
    b = GraphBuilder()
    axis = 3 if data_format == "NXC" else 1
    shape = _SHAPE if axis == 3 else (_SHAPE[0], _SHAPE[3], *_SHAPE[1:3])
    x = dequantized(b.input(shape, src, name="src"), zero_point=src_zero_point)
    y = post_ops(
        _pooled(x, op, data_format),
        epilogue,
        residual=residual,
        residual_zero_point=residual_zero_point,
        axis=axis,
    )
    b.output(finished(y, dst, zero_point=dst_zero_point))
    return b


_PAGE = "graph/fusion_patterns/pool_fusion_patterns"
_TYPES = ("u8", "s8")
_POOLS: tuple[Pool, ...] = ("AvgPool", "MaxPool")

_OTHER_TYPE = Deviation(None, "pooling does not compile from u8 to s8, nor from s8 to u8")
_SPLIT = "pooling in int8 takes neither Square nor two ops behind it"


def _case(
    op: Pool, name: str, src: str, dst: str, given: Mapping[str, Any], *deviations: Deviation,
    partitions: int = 1,
) -> Case:  # fmt: skip
    arguments = {"op": op, "src": src, "dst": dst, **given}
    name = f"{op}, {name}" if name else op
    return Case(name, f"{src} -> {dst}", arguments, partitions, deviations=deviations)


def _pool_cases(op: Pool) -> Iterator[Case]:
    for src in _TYPES:
        for dst in _TYPES:
            yield _case(op, "", src, dst, {}, *([_OTHER_TYPE] if src != dst else []))
    for t in _TYPES:
        yield _case(op, "NCX", t, t, {"data_format": "NCX"})
        yield _case(op, "another scale", t, t, {"dst_scale": 0.05})
        yield _case(op, "zero points", t, t, {"src_zero_point": 3, "dst_zero_point": 5})
        yield _case(
            op,
            "destination per channel",
            t,
            t,
            {"dst_per_channel": True},
            Deviation(3, "pooling in int8 takes only scales per tensor"),
        )
    yield _case(op, "no Quantize, which is not the pattern", "u8", "f32", {}, partitions=2)
    for data_format in ("NXC", "NCX"):
        for post_op in ("Multiply", "Multiply:scalar", "ReLU"):
            given = {"data_format": data_format, "epilogue": (post_op,)}
            yield _case(op, f"{post_op}, {data_format}", "u8", "u8", given)
    refused: tuple[tuple[str, ...], ...] = (("Square",), ("Multiply:scalar", "ReLU"))
    for ops in refused:
        yield _case(op, " + ".join(ops), "u8", "u8", {"epilogue": ops}, Deviation(None, _SPLIT))


# oneDNN 3.7.2 and 3.13.2 fuse it; safety/pooling.py describes the defect.
_REFUSED = Deviation(
    None, "the mirror refuses the op behind it, because oneDNN reads its operand out of bounds"
)


def _add_cases(op: Pool) -> Iterator[Case]:
    for src in _TYPES:
        for residual in _TYPES:
            for dst in _TYPES:
                yield _case(op, f"residual {residual}", src, dst, {"residual": residual}, _REFUSED)
    for t in _TYPES:
        for name in ("src_zero_point", "residual_zero_point", "dst_zero_point"):
            given = {"residual": t, name: 3}
            yield _case(op, name.replace("_", " "), t, t, given, _REFUSED)
    yield _case(op, "NCX", "u8", "u8", {"data_format": "NCX"}, _REFUSED)
    yield _case(op, "ReLU", "u8", "u8", {"epilogue": ("ReLU",)}, _REFUSED)


PATTERNS = (
    Pattern(
        "Q-04",
        "Dequantize + [AvgPool | MaxPool] + Quantize",
        "quantized",
        "A Dequantize makes the source, and a Quantize follows the pooling. oneDNN also fuses "
        "Unary and Binary ops between them, which the documents do not mention.",
        _PAGE,
        quantized_pool,
        tuple(case for op in _POOLS for case in _pool_cases(op)),
    ),
    Pattern(
        "Q-05",
        "Dequantize, Dequantize + [AvgPool | MaxPool] + Add + Quantize",
        "quantized",
        "Dequantize ops make the source and the added tensor; an Add follows the pooling, then a "
        "Quantize.",
        _PAGE,
        quantized_pool_add,
        tuple(case for op in _POOLS for case in _add_cases(op)),
    ),
)
