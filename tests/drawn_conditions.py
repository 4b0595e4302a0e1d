"""Conditions under which oneDNN is known to go wrong, as predicates over a graph that was drawn.

Written down for the tests of the random families alone, and wide: that a family draws graphs that
meet one says that it would find the defect on a CPU and a version that have it.
"""

import math
from collections.abc import Callable, Iterator

import onednn_graph_py as og
from onednn_graph_py.building.value import Node, Value
from onednn_graph_py.selftest.draft import BINARY

Builder = og.GraphBuilder
SIXTEEN = ("bf16", "f16")


def of_kind(b: Builder, *kinds: str) -> Iterator[Node]:
    return (n for n in b.nodes if n.kind in kinds)


def made_by(value: Value) -> Node | None:
    """The op that makes a value, TypeCasts passed by."""
    node = value.producer
    while node is not None and node.kind == "TypeCast":
        node = node.inputs[0].producer
    return node


def is_int8(node: Node) -> bool:
    source = made_by(node.inputs[0])
    return source is not None and source.kind == "Dequantize"


def is_amx_type(node: Node, b: Builder) -> bool:
    dtype = node.inputs[0].dtype
    fast = dtype == "f32" and b.fpmath_mode.name in ("bf16", "any")
    return dtype == "bf16" or fast or is_int8(node)


def aligned(value: Value, out: tuple[int, ...]) -> tuple[int, ...]:
    return (1,) * (len(out) - len(value.shape)) + tuple(value.shape)


def behind(node: Node, b: Builder) -> list[tuple[Node, Value]]:
    """Binary ops that follow an op, one after the other, with the operand that nothing makes."""
    reached, found = {node.outputs[0].id}, []
    for other in b.nodes:
        if other is node or not any(v.id in reached for v in other.inputs):
            continue
        reached.update(v.id for v in other.outputs)
        if other.kind in BINARY:
            found += [(other, v) for v in other.inputs if v.producer is None]
    return found


def operand_shapes(node: Node, b: Builder) -> list[tuple[int, ...]]:
    out = node.outputs[0].shape
    return [
        aligned(v, n.outputs[0].shape)
        for n, v in behind(node, b)
        if len(n.outputs[0].shape) == len(out)
    ]


# -- products


def rows_and_columns(n: Node) -> tuple[int, int, int]:
    x, out = n.inputs[0].shape, n.outputs[0].shape
    return out[-2], x[-2 if n.attrs.get("transpose_a") else -1], out[-1]


def a1(b: Builder) -> bool:
    for m in of_kind(b, "MatMul"):
        out = m.outputs[0].shape
        fits = len(out) == 4 and min(out) > 1 and is_amx_type(m, b)
        if fits and (1, 1, *out[2:]) in operand_shapes(m, b):
            return True
    return False


def a2(b: Builder) -> bool:
    for m in of_kind(b, "MatMul"):
        out = m.outputs[0].shape
        fits = len(out) == 4 and min(out[2:]) > 1 and is_amx_type(m, b)
        if fits and (1, *out[1:3], 1) in operand_shapes(m, b):
            return True
    return False


def a1_attention(b: Builder) -> bool:
    return a1(b) and any(of_kind(b, "SoftMax"))


def f1(b: Builder) -> bool:
    for m in of_kind(b, "MatMul"):
        out = m.outputs[0].shape
        if len(out) == 4 and min(out) > 1 and (1, 1, *out[2:]) in operand_shapes(m, b):
            return True
    return False


def g(b: Builder) -> bool:
    for m in of_kind(b, "MatMul"):
        out = m.outputs[0].shape
        if len(m.inputs[1].shape) != 2 or len(out) not in (3, 4):
            continue
        for o in operand_shapes(m, b):
            varies = [a > 1 for a, d in zip(o[:-1], out[:-1], strict=True) if d > 1]
            if any(varies) and not all(varies) and (len(out) == 4 or o[-1] == 1):
                return True
    return False


def is_shared(m: Node) -> bool:
    return math.prod(m.inputs[1].shape[:-2]) == 1 and math.prod(m.outputs[0].shape[:-2]) > 1


def j(dtype: str) -> Callable[[Builder], bool]:
    def met(b: Builder) -> bool:
        for m in of_kind(b, "MatMul"):
            rows, inner, _ = rows_and_columns(m)
            if not m.attrs.get("transpose_a") or rows != 1 or not is_shared(m):
                continue
            four = len(m.outputs[0].shape) == 4
            if dtype == "int8" and is_int8(m) and inner % 4:
                return True
            plain = four and not is_int8(m) and m.inputs[0].dtype == dtype
            if plain and (inner > 1 if dtype == "f16" else inner % 2 and inner > 1):
                return True
        return False

    return met


def k(b: Builder) -> bool:
    for m in of_kind(b, "MatMul"):
        out = m.outputs[0].shape
        fits = len(out) == 3 and m.attrs.get("transpose_a") and out[2] == 1 and min(out[:2]) > 1
        if fits and {(1, out[1], 1), (out[0], 1, 1)} & set(operand_shapes(m, b)):
            return True
    return False


def l_(b: Builder) -> bool:
    for m in of_kind(b, "MatMul"):
        x = m.inputs[0].shape
        fits = len(x) == 4 and x[0] > 1 and x[1] == 1 and x[3] > 1
        if fits and m.attrs.get("transpose_a") and len(m.inputs[1].shape) == 2:
            return True
    return False


def m(b: Builder) -> bool:
    for p in of_kind(b, "MatMul"):
        rows, inner, columns = rows_and_columns(p)
        weights = made_by(p.inputs[1])
        if not is_int8(p) or weights is None or p.attrs.get("transpose_b"):
            continue
        loose = weights.kind == "Dequantize" and weights.inputs[0].data is None
        if rows > 16 and columns > 32 and inner > 64 and inner % 64 and loose:
            return True
    return False


def m_attention(b: Builder) -> bool:
    for p in of_kind(b, "MatMul"):
        first = made_by(p.inputs[0])
        scores = first is not None and first.kind == "Dequantize" and first.inputs[0].producer
        if scores and rows_and_columns(p)[1] > 64 and rows_and_columns(p)[1] % 64:
            return any(of_kind(b, "SoftMax"))
    return False


# -- windows


class Windows:
    """A convolution's windows along its spatial dims."""

    def __init__(self, n: Node) -> None:
        last = n.attrs.get("data_format", "NXC") == "NXC"
        first = str(n.attrs.get("weights_format", "XIO")).startswith("X")
        w = n.inputs[1].shape
        self.source, self.made = (
            v.shape[1:-1] if last else v.shape[2:] for v in (n.inputs[0], n.outputs[0])
        )
        self.kernel = w[:-2] if first else w[2:]
        self.inner = w[-2] if first else w[1]
        self.outer = w[-1] if first else w[0]
        self.channels = n.inputs[0].shape[-1 if last else 1]
        self.groups = n.attrs.get("groups", 1)
        self.strides, self.dilations = n.attrs["strides"], n.attrs["dilations"]
        self.begin, self.end = n.attrs["pads_begin"], n.attrs["pads_end"]

    def extent(self, i: int) -> int:
        return self.dilations[i] * (self.kernel[i] - 1) + 1

    def sees_nothing(self, i: int) -> bool:
        """Whether some window sees no element along a dim."""
        taps = range(0, self.extent(i), self.dilations[i])
        starts = (o * self.strides[i] - self.begin[i] for o in range(self.made[i]))
        return any(all(not 0 <= s + t < self.source[i] for t in taps) for s in starts)


def convolutions(b: Builder) -> Iterator[tuple[Node, Windows]]:
    return ((n, Windows(n)) for n in of_kind(b, "Convolution"))


def b_(b: Builder) -> bool:
    for n, w in convolutions(b):
        last = (w.made[-1] - 1) * w.strides[-1] - w.begin[-1]
        if n.inputs[0].dtype in SIXTEEN and last >= w.source[-1]:
            return True
    return False


def c(b: Builder) -> bool:
    for n, w in convolutions(b):
        one_wide = w.made[-1] == 1 and w.strides[-1] > 1 and w.extent(-1) > 1
        if one_wide and len(w.made) > 1 and w.made[-2] > 1 and is_amx_type(n, b):
            return True
    return False


def c_backward(b: Builder) -> bool:
    for n in of_kind(b, "ConvTransposeBackwardData"):
        w = Windows(n)
        if (
            w.made[-1] == 1
            and w.strides[-1] > 1
            and w.extent(-1) > 1
            and n.inputs[0].dtype == "bf16"
        ):
            return True
    return False


def h(b: Builder) -> bool:
    return any(
        len(w.made) == 3 and is_amx_type(n, b) and w.sees_nothing(0) and w.begin[0] < w.extent(0)
        for n, w in convolutions(b)
    )


def n_(b: Builder) -> bool:
    for n, _ in convolutions(b):
        if n.attrs["data_format"] != "NCX":
            continue
        out = n.outputs[0].shape
        full = False
        for shape in operand_shapes(n, b):
            if full and shape[-1] > 1 and math.prod(shape[:-1]) == 1:
                return True
            full = full or shape == out
    return False


def o(b: Builder) -> bool:
    return any(
        n.inputs[0].dtype == "f16"
        and w.groups == w.channels == w.outer > 1
        and max(w.dilations) > 1
        and behind(n, b)
        for n, w in convolutions(b)
    )


def p(b: Builder) -> bool:
    for n in of_kind(b, "ConvTranspose"):
        w = Windows(n)
        gaps = any(w.strides[i] > w.extent(i) for i in range(len(w.kernel)))
        if gaps and n.inputs[0].dtype == "bf16" and (len(n.inputs) > 2 or behind(n, b)):
            return True
    return False


def v(b: Builder) -> bool:
    for n, w in convolutions(b):
        source = made_by(n.inputs[0])
        if source is None or source.kind != "Dequantize" or not any(source.attrs["zps"]):
            continue
        if (
            w.groups > 1
            and 1 < w.inner < 4
            and w.outer // w.groups > 16
            and any((*w.begin, *w.end))
        ):
            return True
    return False


def x(b: Builder) -> bool:
    return any(
        len(w.made) == 1
        and n.inputs[0].dtype in SIXTEEN
        and w.strides[0] > 1
        and w.begin[0] > 0
        and w.made[0] > 2
        for n, w in convolutions(b)
    )


# -- others


def d(b: Builder) -> bool:
    return any("src_shape" not in n.attrs for n in of_kind(b, "AvgPoolBackward"))


def r(b: Builder) -> bool:
    for node in of_kind(b, *BINARY):
        out = node.outputs[0].shape
        if len(out) < 3 or min(out[:2]) < 2 or max(out[2:]) > 1:
            continue
        before = any(v.producer is not None and v.producer.kind in BINARY for v in node.inputs)
        given = [aligned(v, out) for v in node.inputs if v.producer is None]
        if before and (1, out[1], *(1,) * (len(out) - 2)) in given:
            return True
    return False


def s(b: Builder) -> bool:
    for node in of_kind(b, "AvgPool", "MaxPool"):
        out = node.outputs[0].shape
        fits = node.attrs["data_format"] == "NXC" and out[0] == out[-1] == 1 and out[-2] > 1
        if fits and any(o[-2] == out[-2] for o in operand_shapes(node, b)):
            return True
    return False


def t(b: Builder) -> bool:
    return any(
        n.inputs[0].dtype == "f16"
        and n.attrs.get("data_format", "NXC") == "NXC"
        and any(k > s for k, s in zip(n.attrs["kernel"], n.attrs["strides"], strict=True))
        for n in of_kind(b, "MaxPoolBackward")
    )


def w(b: Builder) -> bool:
    return any(of_kind(b, "SoftMax")) and any(
        value.strides is not None and value.strides[-1] != 1 and value.ndim == 5
        for node in of_kind(b, "MatMul")
        for value in node.inputs
    )


def without_vnni(b: Builder) -> bool:
    """u8 times s8, or s8 times s8: in pairs they do not fit 16 bits."""
    return any(is_int8(n) for n in of_kind(b, "MatMul", "Convolution"))


def s8_transposed(b: Builder) -> bool:
    for node in of_kind(b, "ConvTranspose"):
        source = made_by(node.inputs[0])
        if source is not None and source.kind == "Dequantize" and source.inputs[0].dtype == "s8":
            return True
    return False


def slow_chain(b: Builder) -> bool:
    """A large tensor with operands along only some dims behind a normalization or another op."""
    for node in of_kind(b, *BINARY):
        out = node.outputs[0].shape
        thin = any(v.producer is None and aligned(v, out) != out for v in node.inputs)
        if math.prod(out) >= 16384 and thin and any(v.producer is not None for v in node.inputs):
            return True
    return False


# -- found by these families


def ignored_dilations(b: Builder) -> bool:
    """ConvTransposeBackwardData: oneDNN's graph leaves its dilations out."""
    return any(
        size > 1 and dilation > 1
        for n in of_kind(b, "ConvTransposeBackwardData")
        for size, dilation in zip(Windows(n).kernel, n.attrs["dilations"], strict=True)
    )


def wide_dims(shape: tuple[int, ...]) -> int:
    return sum(d > 1 for d in shape)


def int8_pool_operand(b: Builder) -> bool:
    """Behind an int8 pool an operand along one dim other than the channels."""
    for n in of_kind(b, "AvgPool", "MaxPool"):
        channel = -1 if n.attrs["data_format"] == "NXC" else 1
        for shape in operand_shapes(n, b) if is_int8(n) else ():
            if wide_dims(shape) == 1 and shape[channel] == 1:
                return True
    return False


def pool_of_one_channel(b: Builder) -> bool:
    """As S, where the dims behind the operand's are 1."""
    for n in of_kind(b, "AvgPool", "MaxPool"):
        out = n.outputs[0].shape
        one = n.attrs["data_format"] == "NXC" and out[0] == out[-1] == 1
        for shape in operand_shapes(n, b) if one and len(out) == 4 and out[2] == 1 else ():
            if shape[1] > 1:
                return True
    return False


def quantized_normalization(b: Builder) -> bool:
    """Behind a normalization that is quantized, an operand along several dims but not all."""
    if not any(of_kind(b, "Quantize")):
        return False
    for n in of_kind(b, "LayerNorm", "SoftMax", "GroupNorm"):
        out = n.outputs[0].shape
        if any(1 < wide_dims(shape) < wide_dims(out) for shape in operand_shapes(n, b)):
            return True
    return False


def heads_inside_rows(b: Builder) -> bool:
    """Weights of one batch whose heads lie inside of the rows, with any stride of the batch."""
    for n in of_kind(b, "MatMul"):
        v = n.inputs[1]
        if v.strides is None or v.ndim != 4 or v.shape[0] != 1 or min(v.shape[1:]) < 2:
            continue
        whole = max(s * d for s, d in zip(v.strides[1:], v.shape[1:], strict=True))
        if v.strides[1] < v.strides[2] and v.strides[0] < whole:
            return True
    return False


def one_plane(b: Builder) -> bool:
    """An odd number of channels, and a kernel that is deeper than the one plane of its source."""
    return any(
        len(w.made) == 3
        and w.source[0] == 1 < w.kernel[0]
        and w.kernel[-1] > 1
        and not w.groups == w.channels == w.outer
        and w.inner % 2
        and is_amx_type(n, b)
        for n, w in convolutions(b)
    )


def few_rows_transposed(b: Builder) -> bool:
    """The last of four tiles of columns is not full."""
    for n in of_kind(b, "MatMul"):
        out = n.outputs[0].shape
        plain = n.inputs[0].dtype == "bf16" and n.attrs.get("transpose_a") and len(out) == 4
        if plain and 48 < out[-1] < 64 and math.prod(out[:-1]) <= 32:
            return True
    return False


CONDITIONS: dict[str, tuple[str, Callable[[Builder], bool]]] = {
    "A1": ("products", a1),
    "A1 in attention": ("attention", a1_attention),
    "A2": ("products", a2),
    "B": ("convolutions", b_),
    "C": ("convolutions", c),
    "C backward": ("convolutions", c_backward),
    "D": ("ops", d),
    "F1": ("products", f1),
    "G": ("products", g),
    "H": ("convolutions", h),
    "J bf16": ("products", j("bf16")),
    "J f16": ("products", j("f16")),
    "J int8": ("products", j("int8")),
    "K": ("products", k),
    "L": ("products", l_),
    "M": ("products", m),
    "M in attention": ("attention", m_attention),
    "N": ("convolutions", n_),
    "O": ("convolutions", o),
    "P": ("convolutions", p),
    "R": ("chains", r),
    "S": ("pools", s),
    "T": ("ops", t),
    "V": ("convolutions", v),
    "W": ("attention", w),
    "X": ("convolutions", x),
    "int8 without VNNI": ("products", without_vnni),
    "s8 ConvTranspose": ("convolutions", s8_transposed),
    "slow chains": ("chains", slow_chain),
    "ignored dilations": ("convolutions", ignored_dilations),
    "int8 pool and operand": ("pools", int8_pool_operand),
    "S behind dims of 1": ("pools", pool_of_one_channel),
    "quantized normalization and operand": ("chains", quantized_normalization),
    "one plane": ("convolutions", one_plane),
    "few rows transposed": ("products", few_rows_transposed),
    "heads inside of rows": ("attention", heads_inside_rows),
}
"""By the defect: the family that is to draw it, and the condition."""
