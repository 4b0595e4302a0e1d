"""Fused partitions that are slower than separate ops, mostly as oneDNN has a reference kernel only.

oneDNN fuses ops into a primitive as post-ops. The primitive's fast kernels take an operand of a
binary post-op only if it varies along certain dims; oneDNN fuses the others too, and takes the
reference kernel: one call for each element. The rules here are those of oneDNN's kernels; the
kernels that it logs confirm them.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ..machine import Conditions
from ..ops.lookup import with_trait
from .attention import attention_by_heads
from .calls import Op
from .defect import FORM, SLOW, Answer, Needs, Where, defect
from .facts import BINARY, attention, has_zero_point, integers_of, slide_of, stored
from .group import Group
from .post_ops import ELEMENTWISE, Wide, primitive_of

_REDUCTIONS = with_trait("reduces")


def _takes(base: Op, wide: Wide, conditions: Conditions, by_matrix: bool) -> bool:
    """Whether a fast kernel of a primitive takes an operand that varies along these dims."""
    one, full = not any(wide), all(wide)
    second = len(wide) > 1 and wide[1] and sum(wide) == 1
    last = wide[-1:] == (True,) and sum(wide) == 1
    new = conditions.version >= (3, 8)
    if base.kind in ELEMENTWISE:
        return False
    if base.kind in BINARY:
        return one or full or second or (last and new)
    if base.kind == "SoftMax":
        return one or full or (second and len(wide) == 2)
    if base.kind == "LayerNorm":
        return one or last
    if base.kind == "GroupNorm":
        return one and base.attr("data_format") == "NXC"
    if base.kind in _REDUCTIONS:
        return one or full or second
    text = "".join("x" if w else "1" for w in wide)
    if by_matrix and text in _UNKNOWN_TO_MATMUL_OF_ROWS:
        return False
    if base.kind == "MatMul" and len(wide) in (2, 4):
        return text not in (_UNKNOWN_TO_MATMUL if new else _UNKNOWN_TO_MATMUL_OF_3_7)
    return True


_UNKNOWN_TO_MATMUL = ("x1", "11x1", "1x1x", "x1x1", "xx11", "xx1x", "xxx1")
_UNKNOWN_TO_MATMUL_OF_ROWS = ("1x1", "x11", "11xx", "1x11", "1xx1", "1xxx", "x111", "x11x", "x1xx")
"""Of products by a matrix, in which oneDNN makes rows of all dims but the last."""
_UNKNOWN_TO_MATMUL_OF_3_7 = (*_UNKNOWN_TO_MATMUL, "11xx")


_FEW = 128
"""The number of elements up to which a reference kernel takes no longer than another partition."""

_LIMITED = ELEMENTWISE | BINARY | _REDUCTIONS | {"SoftMax", "LayerNorm", "GroupNorm", "MatMul"}
"""The kinds of ops whose fast kernels take some operands only."""


@defect(
    "oneDNN runs this in its reference kernel, 5 to 5,000 times slower than separate ops, from "
    "200 elements on (AVX2, 2 cores)",
    Needs(_LIMITED, fused=True),
    effect=SLOW,
)
def reference_kernel(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find a primitive with a post-op that its fast kernels don't take."""
    primitive = primitive_of(group, op, conditions)
    if primitive is None or math.prod(primitive.shape) <= _FEW:
        return False
    ncx = op.kind == "GroupNorm" and op.attr("data_format") == "NCX"
    by_matrix = op.kind == "MatMul" and len(group.shape(op.inputs[1]) or ()) == 2
    takes = (_takes(op, o.wide, conditions, by_matrix) for o in primitive.operands)
    if all(takes) and not (ncx and primitive.unary):
        return False
    # Attention was seen in the reference kernel only with several batches of several heads.
    scores = [group.shape(o.outputs[0]) or () for o in group.ops if o.kind == "MatMul"]
    if attention(group) and not any(len(s) == 4 and min(s[:2]) > 1 for s in scores):
        return False
    return not attention_by_heads(group, conditions)


_LARGE = 1 << 20  # the number of weights from which it takes longer to read them unpacked


@defect(
    "oneDNN packs the constant weights of a product that runs alone, but not of several in one"
    " partition, which is 1.2 to 2.1 times slower (AVX2, 1 and 2 cores), and 1.1 to 6 times "
    "with AVX-512 (2 cores)",
    Needs({"MatMul"}, fused=True),
    Where((3, 8), has=("avx2",), lacks=("amx",)),
    effect=SLOW,
)
def unpacked_weights(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find two products or more, which oneDNN runs without packed weights.

    With AMX no difference was seen, and 3.7 packs no weights of f32 products on AVX2.
    """
    dtypes = ("f32", "bf16") if conditions.has("avx512") else ("f32",)
    weights = [group.tensor(o.inputs[1]) for o in group.ops if o.kind == "MatMul"]
    large = [w for w in weights if w.data is not None and w.data.size >= _LARGE]
    return sum(w.dtype in dtypes for w in large) > 1


_ROWS, _TERMS, _COLUMNS = 128, 256, 64
"""The sizes of a product from which a function takes longer fused, and never less long."""


@defect(
    "oneDNN computes this function in the product's kernel, which makes both up to 1.5 times "
    "slower than in kernels of their own (AVX2, 1 and 2 cores)",
    Needs({"GELU", "Log", "Sigmoid", "SoftPlus", "Tanh"}, fused=True, beside={"MatMul"}),
    Where((3, 8), has=("avx2",), lacks=("avx512",)),
    effect=SLOW,
)
def function_in_product(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find functions of each result: `brg_matmul:avx2`, which 3.7 did not have, computes them."""
    factors = [{t.id for t in o.inputs} for o in group.ops if o.kind == "Multiply"]
    if op.kind == "Sigmoid" and {op.inputs[0].id, op.outputs[0].id} not in factors:
        return False  # it is no Swish
    products = [o for o in group.ops if o.kind == "MatMul"]
    return any(_is_long(group, p) for p in products) and group.follows(op, ("MatMul",))


def _is_long(group: Group, product: Op) -> bool:
    # An operand that the partition makes may be of integers.
    if any(group.producer(t) is not None or t.dtype != "f32" for t in product.inputs[:2]):
        return False
    left, result = group.shape(product.inputs[0]), group.shape(product.outputs[0])
    if left is None or result is None or len(left) < 2 or len(result) < 2:
        return False
    weights = group.shape(product.inputs[1])
    # oneDNN makes one product of a batch with the same weights.
    rows = math.prod(result[:-1]) if weights is not None and len(weights) == 2 else result[-2]
    terms = left[-2] if product.attr("transpose_a") else left[-1]
    return rows >= _ROWS and terms >= _TERMS and result[-1] >= _COLUMNS


_MOST_ROWS, _ROWS_OF_AN_IMAGE = 256, 64
_MOST_ROWS_PACKED = 16  # with 3.8 and later, which pack the weights of products, too
_WORTH = 1 << 17
"""The number of weights above which a form is clearly faster: up to it, by a tenth at most."""


@defect(
    "oneDNN computes this product of some rows up to 2 times slower than a convolution (AVX2, 1 "
    "and 2 cores)",
    Needs({"MatMul"}),
    Where(has=("avx2",), lacks=("avx512",)),
    effect=FORM,
    remedy="as a convolution",
)
def product_of_some_rows(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find products of some rows by a constant matrix, in f32.

    Before 3.8 oneDNN does not pack its weights. For one row, and for more than 256, the product is
    as fast as it is; many short images make convolutions slow, as 64 of 2 rows (0.6 of its speed).
    """
    left, weights = (group.tensor(t) for t in op.inputs[:2])
    x = group.shape(op.inputs[0])
    if op.attr("transpose_a") or x is None or len(x) not in (2, 3):
        return False
    images, rows = (1, *x[:-1])[-2:]
    most = _MOST_ROWS if conditions.version < (3, 8) else _MOST_ROWS_PACKED
    if not 2 <= images * rows <= most or (images > 1 and rows < _ROWS_OF_AN_IMAGE):
        return False
    matrix = weights.data
    if matrix is None or matrix.ndim != 2 or matrix.size <= _WORTH:
        return False
    made_here = group.producer(op.inputs[0]) is not None  # by a Dequantize, for example
    return left.dtype == weights.dtype == "f32" and not made_here


_MOST_ROWS_OF_INTEGERS, _WORTH_OF_INTEGERS = 64, 1 << 13


@defect(
    "oneDNN computes this product of rows of integers up to 5 times slower than a convolution "
    "(AVX2, 1 core)",
    Needs({"MatMul"}, fused=True, beside={"Dequantize"}),
    Where(has=("avx2",), lacks=("avx512",)),
    effect=FORM,
    remedy="as a convolution",
)
def product_of_integers(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find products of u8 by a constant matrix of s8; sums are exact in both.

    2 rows take a fifth of the time, 16 six tenths, 64 five sixths.
    """
    integers, x = integers_of(group, op), group.shape(op.inputs[0])
    if integers is None or op.attr("transpose_a") or x is None or len(x) not in (2, 3):
        return False
    rows, weights = integers
    if x[:-2] not in ((), (1,)) or not 0 < x[-2] <= _MOST_ROWS_OF_INTEGERS:
        return False
    source = group.producer(op.inputs[1])
    if (rows.dtype, weights.dtype) != ("u8", "s8") or source is None or has_zero_point(source):
        return False
    matrix = weights.data
    return matrix is not None and matrix.ndim == 2 and matrix.size >= _WORTH_OF_INTEGERS


_LARGE_FOR_A_ROW = 1 << 19
ROW_PARTS, ROW_CHANNELS = 4, 16
"""The parts of a row that is one window, and the number of which each has a multiple of terms."""


@defect(
    "oneDNN reads the weights of a convolution of one window up to 2 times as fast from memory as"
    " those of this product (AVX2 and AVX-512, 1 and 2 cores)",
    Needs({"MatMul"}),
    Where(has=("avx2",), lacks=("amx",)),
    effect=FORM,
    remedy="as a convolution",
)
def row_by_large_matrix(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find products of one row by a constant matrix that is larger than the caches of a core."""
    weights, x = group.tensor(op.inputs[1]), group.shape(op.inputs[0])
    if op.attr("transpose_a") or x is None or len(x) not in (2, 3) or math.prod(x[:-1]) != 1:
        return False
    if weights.data is None:
        weights = stored(group, op.inputs[1])
        # Without VNNI oneDNN packs the weights of integers at each call.
        if weights.dtype != "s8" or conditions.has("vnni"):
            return False
    matrix = weights.data
    if matrix is None or matrix.ndim != 2 or matrix.size < _LARGE_FOR_A_ROW:
        return False
    if x[-1] % (ROW_PARTS * ROW_CHANNELS):
        return False
    bf16 = weights.dtype == "bf16" and conditions.has("avx512_bf16")
    return bf16 or weights.dtype in ("f32", "s8")


_PAGE = 1024  # the f32 of 4 KiB: numbers so far apart share sets of the first cache
_MOST_PAGES, _WINDOWS, _OUTPUTS = 4, 48, 128


def channel_parts(channels: int, stride: int) -> int:
    """Return in how many parts channels are to be, for no pages between windows; 1 if none are."""
    pages, rest = divmod(channels * stride, _PAGE)
    parts = 2 * pages
    return parts if 0 < pages <= _MOST_PAGES and rest == channels % parts == 0 else 1


@defect(
    "the windows of this convolution begin whole pages from each other, and oneDNN computes it up "
    "to 1.3 times slower than a sum over parts of its channels (AVX-512, 1 core)",
    Needs({"Convolution"}),
    Where(has=("avx512",), lacks=("amx",)),
    effect=FORM,
    remedy="in parts of channels",
)
def windows_of_pages(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find long convolutions in f32 with such windows, whose places lie one after another."""
    slide = slide_of(group, op)
    if slide is None or slide.groups > 1 or op.inputs[0].dtype != "f32":
        return False
    if slide.window.kernel[-1] < 2 or slide.result.spatial[-1] < _WINDOWS:
        return False
    channels, stride = slide.source.channels, slide.window.strides[-1]
    return slide.result.channels >= _OUTPUTS and channel_parts(channels, stride) > 1


_MOST_BLOCKS = 16
_QUERIES = 64  # the number of queries that a block has at least
_LONG = 256  # the number of queries from which blocks pay for their own partitions
_LONG_FOR_FEW, _SCORES = 384, 1 << 18  # the same where several threads share fewer scores each


def query_blocks(mask: npt.NDArray[Any]) -> list[tuple[int, int, int, int]]:
    """Divide queries into blocks, and find the keys that one query of a block sees.

    - `mask`: what is added to scores: -inf for a key that a query does not see
    - returns: the first query and the one after the last, the first key and the one after the last
    """
    if mask.ndim < 2:
        return []
    queries, keys = mask.shape[-2:]
    count = min(_MOST_BLOCKS, queries // _QUERIES)
    blocks = []
    for i in range(count):
        first, end = queries * i // count, queries * (i + 1) // count
        seen = np.flatnonzero((mask[..., first:end, :] != -np.inf).reshape(-1, keys).any(axis=0))
        # A SoftMax needs a key, even if it is masked.
        blocks.append((first, end, *((seen[0], seen[-1] + 1) if seen.size else (0, 1))))
    return [tuple(map(int, block)) for block in blocks]  # type: ignore[misc]


@defect(
    "oneDNN computes all scores, of which a mask hides many: in blocks of queries, each with the "
    "keys that it sees, attention is 1.2 to 1.9 times faster (AVX2 and AVX-512, 2 cores)",
    Needs({"SoftMax"}, fused=True, beside={"Add"}),
    Where(until=(3, 8), lacks=("amx",)),
    Where((3, 8), has=("avx2",), lacks=("amx",)),
    effect=FORM,
    remedy="in blocks of queries",
)
def masked_attention(group: Group, op: Op, conditions: Conditions) -> Answer:
    """Find attention with a constant mask that hides a quarter of the scores, block by block."""
    scores = group.shape(op.inputs[0])
    if scores is None or len(scores) < 3:
        return False
    few = conditions.threads > 1 and math.prod(scores) < _SCORES * conditions.threads
    if scores[-2] < (_LONG_FOR_FEW if few else _LONG):
        return False
    wanted = tuple(scores[-2:])
    for add in group.ops:
        for tensor in add.inputs if add.kind == "Add" else ():
            mask = group.tensor(tensor).data
            if mask is not None and mask.shape[-2:] == wanted:
                # Most masks that hide much hide the last key from the first query.
                blocks = query_blocks(mask) if mask.flat[wanted[-1] - 1] == -np.inf else []
                seen = sum((end - first) * (last - key) for first, end, key, last in blocks)
                return len(blocks) > 1 and seen <= 0.75 * math.prod(wanted)
    return False
