"""Quantized weights: kept in 8 bits where oneDNN multiplies integers, else dequantized once.

oneDNN can also read weights of 8 and 4 bits beside activations in floating point, but decompresses
them for each call: blocks of a model take 2 to 9 times as long as in f32 on CPUs without AMX, and
single products as long (3.13.1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ..blocks.compressed import Compressed, Matrix, by_column
from .edits import EIGHT_BITS, VERSION, Edits, integer, is_op
from .evaluation import MOST_KNOWN

Array = npt.NDArray[Any]


def prepare(edits: Edits, node: ir.Node) -> None:
    """Dequantize weights, but for those that oneDNN multiplies as integers."""
    if is_op(node, "MatMulNBits", domain="com.microsoft"):
        _of_few_bits(edits, node)
    elif is_op(node, "QuantizeLinear"):
        _quantize(edits, node)
    elif is_op(node, "DequantizeLinear"):
        _transpose(edits, node)
        _dequantize(edits, node)


# -- DequantizeLinear


def _dequantize(edits: Edits, node: ir.Node) -> None:
    given = edits.scaled(node, 0)
    if given is None:
        return
    x, scale, point = given
    axis, block = integer(node, "axis", 1), integer(node, "block_size", 0)
    eight = x.dtype in EIGHT_BITS and scale.ndim <= 1 and not block
    uses = node.outputs[0].uses()
    if (
        eight
        and uses
        and all(_in_integers(edits, u.node, u.idx, scale, axis, x.ndim) for u in uses)
    ):
        signed = _signed(edits, node, x, point)
        if signed is not None:
            inputs = [signed, edits.of(node, 1)]
            attributes = {"axis": axis % x.ndim} if scale.size > 1 else {}
            made = edits.before(node, "DequantizeLinear", inputs, attributes, VERSION)
            edits.replace(node, made)
            return
    if x.size * 4 > MOST_KNOWN or not _fits(x, scale, point, axis, block):
        return
    multiply = all(u.idx == 1 and is_op(u.node, "MatMul") for u in uses)
    if x.ndim == 2 and uses and multiply and all(edits.rounds(u.node, scale) for u in uses):
        if block or (scale.size > 1 and axis % 2 == 0):
            floats = dequantized(x, scale, point, axis, block)
            matrix = by_column(len(floats), floats.__getitem__)
        else:
            matrix = columns(x, scale, point)
        for use in uses:
            edits.product(use.node, use.node.inputs[0], matrix)
        return
    made_of = _numbers(scale, node)
    name = node.outputs[0].name or node.name or "weight"
    edits.replace(
        node, edits.constant(dequantized(x, scale, point, axis, block).astype(made_of), name)
    )


def columns(x: Array, scale: Array, point: Array | None = None) -> Matrix:
    """Return (x - point) * scale in 8 bits, with one scale for all or one for each column."""
    row = 1, x.shape[1]
    factors, points = (
        np.broadcast_to(np.asarray(given, np.float32).reshape(-1), row)
        for given in (scale, 0 if point is None else point)
    )
    groups = np.zeros(len(x), np.int64)
    return Compressed(x, factors, points, groups).by_column()


def _transpose(edits: Edits, node: ir.Node) -> None:
    """Transpose weights before they are dequantized, if they are behind."""
    x, result = edits.weight(edits.of(node, 0)), node.outputs[0]
    uses = result.uses()
    if x is None or len(uses) != 1 or result.is_graph_output() or "block_size" in node.attributes:
        return
    reader = uses[0].node
    order = reader.attributes.get("perm")
    if not is_op(reader, "Transpose"):
        return
    axes = [*range(x.ndim)][::-1] if order is None else [*order.as_ints()]
    if sorted(axes) != [*range(x.ndim)] or x.dtype not in EIGHT_BITS:
        return
    turned = edits.constant(np.ascontiguousarray(x.transpose(axes)), f"{node.name}.transposed")
    edits.instead(reader.outputs[0], result)
    edits.graph.remove(reader, safe=True)
    result.shape = ir.Shape(turned.const_value.shape)
    node.replace_input_with(0, turned)
    scale = edits.weight(edits.of(node, 1))
    if scale is not None and scale.ndim == 1:
        axis = integer(node, "axis", 1) % x.ndim
        node.attributes.add(ir.AttrInt64("axis", axes.index(axis)))


def _numbers(scale: Array, node: ir.Node) -> np.dtype[Any]:
    """Return the data type of the result."""
    wanted = integer(node, "output_dtype", 0)
    return ir.DataType(wanted).numpy() if wanted else scale.dtype


def _fits(x: Array, scale: Array, point: Array | None, axis: int, block: int) -> bool:
    """Return whether scales and zero points belong to the weights."""
    if point is not None and point.size != 1 and point.shape != scale.shape:
        return False
    if scale.size == 1 and not block:
        return True
    if not -x.ndim <= axis < x.ndim:
        return False
    if not block:
        return scale.shape == (x.shape[axis],)
    expected = list(x.shape)
    expected[axis] = -(-x.shape[axis] // block)
    return block > 0 and [*scale.shape] == expected


def dequantized(
    x: Array, scale: Array, point: Array | None = None, axis: int = 1, block: int = 0
) -> npt.NDArray[np.float32]:
    """Return (x - point) * scale, with scales for a tensor, along an axis, or for blocks of it."""
    exact = x.dtype.kind == "i" and x.dtype.itemsize >= 4
    shifted: Array = x.astype(np.int64 if exact else np.float32)
    if point is not None and point.astype(np.float32).any():
        shifted = shifted - _spread(point.astype(shifted.dtype), x, axis, block)
    factor = _spread(scale.astype(np.float64 if exact else np.float32), x, axis, block)
    return np.asarray(shifted * factor, np.float32)


def _spread(of: Array, x: Array, axis: int, block: int = 0) -> Array:
    """Return scales or zero points of an array so that they broadcast with it."""
    if of.size == 1:
        return of.reshape(())
    if not block:
        return of.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
    return np.repeat(of, block, axis).take(range(x.shape[axis]), axis)


def _in_integers(
    edits: Edits, reader: ir.Node, place: int, scale: Array, axis: int, rank: int
) -> bool:
    """Return whether oneDNN multiplies these weights as integers."""
    if place != 1 or not is_op(reader, "Conv", "ConvTranspose", "MatMul", "Gemm"):
        return False
    data = reader.inputs[0].producer() if reader.inputs[0] is not None else None
    if not is_op(data, "DequantizeLinear"):
        return False
    parameters = edits.parameters(data)
    if parameters is None or parameters.dtype not in EIGHT_BITS:
        return False
    if scale.size == 1:
        return True
    if reader.op_type == "ConvTranspose":
        return axis % rank == 1 and integer(reader, "group", 1) == 1
    rows_first = reader.op_type == "Gemm" and integer(reader, "transB", 0)
    channels = 0 if reader.op_type == "Conv" or rows_first else rank - 1
    return axis % rank == channels


def _signed(edits: Edits, node: ir.Node, x: Array, point: Array | None) -> ir.Value | None:
    """Return weights as s8 whose zero points are 0; None if there are none."""
    points = np.zeros(1, np.int64) if point is None else point.astype(np.int64).reshape(-1)
    given = node.inputs[0]
    assert given is not None
    if x.dtype == np.uint8:
        x = (x.astype(np.int16) - 128).astype(np.int8)
        given = edits.constant(x, f"{given.name}.signed")
        points = points - 128
    return None if points.any() else given


# -- QuantizeLinear


def _quantize(edits: Edits, node: ir.Node) -> None:
    """Quantize weights that a file has in floating point."""
    x, scale = edits.weight(edits.of(node, 0)), edits.weight(edits.of(node, 1))
    point = edits.weight(edits.of(node, 2))
    if x is None or scale is None or point is None or scale.ndim > 1:
        return
    axis = integer(node, "axis", 1)
    if point.dtype not in EIGHT_BITS or not _fits(x, scale, point, axis, 0):
        return

    def spread(of: Array) -> Array:
        return _spread(of.astype(np.float32), x, axis)

    info = np.iinfo(point.dtype)
    whole = np.rint(x.astype(np.float32) / spread(scale))
    made = np.clip(whole + spread(point), info.min, info.max)
    name = node.outputs[0].name or node.name or "weight"
    edits.replace(node, edits.constant(made.astype(point.dtype), name))


# -- MatMulNBits


def _of_few_bits(edits: Edits, node: ir.Node) -> None:
    """Make a MatMul of a MatMulNBits."""
    given = edits.scaled(node, 1)
    if given is None:
        return
    packed, scale, point = given
    rows, columns = integer(node, "K", 0), integer(node, "N", 0)
    bits, block = integer(node, "bits", 4), integer(node, "block_size", 0)
    if bits not in (2, 4, 8) or min(rows, columns, block) < 1 or rows * columns * 4 > MOST_KNOWN:
        return
    blocks = -(-rows // block)
    if scale.size != columns * blocks or packed.dtype != np.uint8:
        return
    if packed.size * 8 != columns * blocks * block * bits:
        return
    groups = np.arange(rows) // block
    if edits.of(node, 4) is not None:
        order = edits.weight(edits.of(node, 4))
        if order is None or len(order) < rows or order.min() < 0 or order.max() >= blocks:
            return
        groups = order[:rows].astype(np.int64)
    shift: Array = np.full((columns, blocks), 1 << (bits - 1), np.float32)
    if point is not None and point.dtype == np.uint8:
        shift = unpacked(point.reshape(columns, -1), bits)[:, :blocks].astype(np.float32)
    elif point is not None:
        shift = point.reshape(columns, blocks).astype(np.float32)
    numbers = unpacked(packed.reshape(columns, -1), bits)[:, :rows].T
    factors = scale.reshape(columns, blocks).T.astype(np.float32)
    compressed = Compressed(numbers, factors, shift.T, groups)
    x = node.inputs[0]
    if edits.rounds(node, scale):
        edits.product(node, x, compressed.by_column(), edits.of(node, 5))
    else:
        floats = np.ascontiguousarray(compressed.floats().astype(scale.dtype))
        edits.product(node, x, floats, edits.of(node, 5))


def unpacked(packed: Array, bits: int) -> npt.NDArray[np.uint8]:
    """Return numbers of a few bits that share bytes along the last dim, the lowest bits first."""
    if bits == 8:
        return packed
    parts = [(packed >> s) & ((1 << bits) - 1) for s in range(0, 8, bits)]
    return np.stack(parts, -1).reshape(*packed.shape[:-1], -1)
