"""Fused partitions that are slower than separate ops, mostly as oneDNN has a reference kernel only.

oneDNN fuses ops into a primitive as post-ops. The primitive's fast kernels take an operand of a
binary post-op only if it varies along certain dims; oneDNN fuses the others too, and takes the
reference kernel: one call for each element. The rules here are those of oneDNN's kernels; the
kernels that it logs confirm them.
"""

from __future__ import annotations

import math

from ..machine import Conditions
from ..machine.isa import has_amx, has_avx2, has_avx512
from ..ops.lookup import with_trait
from .calls import Op
from .defect import Defect, Finding, first_met
from .facts import BINARY, attention
from .group import Group
from .post_ops import ELEMENTWISE, Wide, primitives
from .wrong_products import attention_by_heads

__all__ = ["SLOW", "slow_fusion"]

_REDUCTIONS = with_trait("reduces")

_FEW = 128
"""The number of elements up to which a reference kernel takes no longer than another partition."""


def _takes(base: Op, wide: Wide, conditions: Conditions) -> bool:
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
    if base.kind == "MatMul" and len(wide) in (2, 4):
        text = "".join("x" if w else "1" for w in wide)
        return text not in (_UNKNOWN_TO_MATMUL if new else _UNKNOWN_TO_MATMUL_OF_3_7)
    return True


_UNKNOWN_TO_MATMUL = ("x1", "11x1", "1x1x", "x1x1", "xx11", "xx1x", "xxx1")
_UNKNOWN_TO_MATMUL_OF_3_7 = (*_UNKNOWN_TO_MATMUL, "11xx")


def _in_reference_kernel(group: Group, conditions: Conditions) -> bool:
    """Whether a primitive has a post-op that its fast kernels don't take."""
    for primitive in primitives(group, conditions):
        if math.prod(primitive.shape) <= _FEW:
            continue
        base = primitive.base
        if any(not _takes(base, o.wide, conditions) for o in primitive.operands):
            return True
        if base.kind == "GroupNorm" and base.attr("data_format") == "NCX" and primitive.unary:
            return True
    return False


def _by_itself(group: Group, conditions: Conditions) -> bool:
    if attention_by_heads(group, conditions):
        return False
    # Attention was seen in the reference kernel only with several batches of several heads.
    if attention(group) and not any(_batches_of_heads(group, op) for op in group.ops):
        return False
    return _in_reference_kernel(group, conditions)


def _batches_of_heads(group: Group, op: Op) -> bool:
    shape = group.shape(op.outputs[0]) if op.kind == "MatMul" else None
    return shape is not None and len(shape) == 4 and min(shape[:2]) > 1


def _of_new_kernels_for_avx2(conditions: Conditions) -> bool:
    """Whether f32 products run in the kernels of `brg_matmul:avx2`, which 3.7 did not have."""
    isa = conditions.isa
    return conditions.version >= (3, 8) and has_avx2(isa) and not has_avx512(isa)


_LARGE = 1 << 20
"""The number of weights from which it takes longer to read them unpacked."""


def _reads_weights_unpacked(group: Group, conditions: Conditions) -> bool:
    """Whether a partition has two products or more, which oneDNN runs without packed weights.

    With AMX no difference was seen, and 3.7 packs no weights of f32 products on AVX2.
    """
    wide = has_avx512(conditions.isa) and not has_amx(conditions.isa)
    wide = wide and conditions.version >= (3, 8)
    if not (wide or _of_new_kernels_for_avx2(conditions)):
        return False
    dtypes = ("f32", "bf16") if wide else ("f32",)
    weights = [group.tensor(op.inputs[1]) for op in group.ops if op.kind == "MatMul"]
    large = [
        w for w in weights if w.data is not None and w.data.size >= _LARGE and w.dtype in dtypes
    ]
    return len(large) > 1


_FUNCTIONS = ("GELU", "Log", "SoftPlus", "Tanh")
_ROWS, _TERMS, _COLUMNS = 128, 256, 64
"""The sizes of a product from which a function takes longer fused, and never less long."""


def _is_swish(group: Group, op: Op) -> bool:
    (x,), (y,) = op.inputs, op.outputs
    return any(
        other.kind == "Multiply" and {t.id for t in other.inputs} == {x.id, y.id}
        for other in group.ops
    )


def _computes_function_in_product(group: Group, conditions: Conditions) -> bool:
    """Whether a product computes a function of each result, which its own kernel does faster."""
    if not _of_new_kernels_for_avx2(conditions):
        return False
    return any(op.kind == "MatMul" and _is_long(group, op) for op in group.ops) and any(
        (op.kind in _FUNCTIONS or (op.kind == "Sigmoid" and _is_swish(group, op)))
        and group.follows(op, ("MatMul",))
        for op in group.ops
    )


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


SLOW = (
    Defect(
        "reference_kernel",
        "oneDNN runs this in its reference kernel, 5 to 5,000 times slower than separate ops, from "
        "200 elements on (AVX2, 2 cores)",
        _by_itself,
    ),
    Defect(
        "unpacked_weights",
        "oneDNN packs the constant weights of a product that runs alone, but not of several in one"
        " partition, which is 1.2 to 2.1 times slower (AVX2, 1 and 2 cores), and 1.1 to 6 times "
        "with AVX-512 (2 cores)",
        _reads_weights_unpacked,
    ),
    Defect(
        "function_in_product",
        "oneDNN computes this function in the product's kernel, which makes both up to 1.5 times "
        "slower than in kernels of their own (AVX2, 1 and 2 cores)",
        _computes_function_in_product,
    ),
)
"""All known slow fusions."""


def slow_fusion(group: Group, conditions: Conditions) -> Finding | None:
    """Look for a known defect by which a partition is slower than its separate ops.

    Parameters
    ----------
    group : Group
        The partition, with all dims known.
    conditions : Conditions
        The conditions in which it is to run.

    Returns
    -------
    Finding or None
        The finding, with `alone` always false; None if there is no such defect.
    """
    return first_met(SLOW, group, conditions)
