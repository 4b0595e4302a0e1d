"""Fused partitions that oneDNN runs in its reference kernels, slower than the same ops apart.

A partition is one primitive, and what follows is fused into it as post-ops. A primitive's fast
kernels know some operands of binary post-ops only, by the dims along which they vary; oneDNN fuses
the others all the same, and takes the reference kernel: one call for each element. The rules here
are those of oneDNN's own passes (``post_binary_fusible``) and kernels, and were checked by the
kernels that it logs.
"""

from __future__ import annotations

import math

from ..machine import Conditions
from ..ops import shapes
from ..ops.table import OPS, elementwise
from .calls import Op
from .defect import Defect, Finding, first_met
from .facts import BINARY, aligned, attribute
from .group import Group
from .wrong_products import attention_by_heads

__all__ = ["SLOW", "slow_fusion"]

_ELEMENTWISE = frozenset(row.kind for row in elementwise.ROWS if row.infer is shapes.same)
_REDUCTIONS = frozenset(kind for kind in OPS if kind.startswith("Reduce"))
_QUANTIZATION = frozenset({"Dequantize", "DynamicDequantize", "StaticReshape"})

_FEW = 128
"""Up to so many elements a reference kernel takes no longer than another partition."""

_Wide = tuple[bool, ...]
"""For each dim whether an operand varies along it."""


def _wide(group: Group, op: Op, result: int) -> _Wide | None:
    """Along which dims the operand varies that a binary op adds to a result; None if unknown."""
    made = group.shape(op.outputs[0])
    others = [t for t in op.inputs if t.id != result]
    if made is None or len(op.inputs) != 2 or len(others) > 1:
        return None
    if not others:
        return (True,) * len(made)
    shape = aligned(group.shape(others[0]), len(made))
    if shape is None or len(shape) != len(made):
        return None
    return (True,) * len(made) if shape == made else tuple(d != 1 for d in shape)


def _is_fused(base: Op, op: Op, result: int, wide: _Wide) -> bool:
    """Whether oneDNN makes a binary op a post-op of the primitive whose result it takes."""
    if op.kind in ("Subtract", "Divide") and op.inputs[0].id != result:
        return False
    if base.kind == "MatMul" and op.kind == "Subtract":
        return False
    if all(wide) or not any(wide):
        return True
    if base.kind == "MatMul" and len(wide) > 3:
        return len(wide) == 4
    if sum(wide) != 1:
        return False
    data_format = attribute(base, "data_format")
    if data_format is None:
        return True
    return wide[1 if data_format == "NCX" else -1]


def _takes(base: Op, wide: _Wide, conditions: Conditions) -> bool:
    """Whether a fast kernel of a primitive takes an operand that varies along these dims."""
    one, full = not any(wide), all(wide)
    second = len(wide) > 1 and wide[1] and sum(wide) == 1
    last = wide[-1:] == (True,) and sum(wide) == 1
    new = conditions.version >= (3, 8)
    if base.kind in _ELEMENTWISE:
        return False
    if base.kind in BINARY:
        return one or full or second or (last and new)
    if base.kind == "SoftMax":
        return one or full or (second and len(wide) == 2)
    if base.kind == "LayerNorm":
        return one or last
    if base.kind == "GroupNorm":
        return one and attribute(base, "data_format") == "NXC"
    if base.kind in _REDUCTIONS:
        return one or full or second
    if base.kind == "MatMul" and len(wide) in (2, 4):
        text = "".join("x" if w else "1" for w in wide)
        return text not in (_UNKNOWN_TO_MATMUL if new else _UNKNOWN_TO_MATMUL_OF_3_7)
    return True


_UNKNOWN_TO_MATMUL = ("x1", "11x1", "1x1x", "x1x1", "xx11", "xx1x", "xxx1")
_UNKNOWN_TO_MATMUL_OF_3_7 = (*_UNKNOWN_TO_MATMUL, "11xx")


def _has_post_ops(group: Group, base: Op) -> bool:
    """Whether oneDNN fuses anything into a primitive: not into a binary one that broadcasts."""
    if base.kind not in BINARY:
        return True
    made = group.shape(base.outputs[0])
    return made is not None and all(
        (shape := group.shape(t)) == made or (shape is not None and math.prod(shape) == 1)
        for t in base.inputs
    )


def _in_reference_kernel(group: Group, conditions: Conditions) -> bool:
    """A post-op that the primitive's fast kernels don't know."""
    base: Op | None = None
    result = -1
    for op in group.ops:
        if op.kind in _QUANTIZATION:  # of an operand, or before everything
            continue
        behind = base is not None and any(t.id == result for t in op.inputs)
        made = group.shape(op.outputs[0])
        if made is None or min(made, default=1) < 0:
            return False
        if base is not None and behind and _has_post_ops(group, base):
            if op.kind == "TypeCast":
                result = op.outputs[0].id
                continue
            wide = _wide(group, op, result) if op.kind in BINARY else None
            swish = base.kind == "Sigmoid" and base.inputs[0] in op.inputs
            if wide is not None and _is_fused(base, op, result, wide) and not swish:
                if not _takes(base, wide, conditions) and math.prod(made) > _FEW:
                    return True
                result = op.outputs[0].id
                continue
            if swish or (op.kind in _ELEMENTWISE and base.kind not in _ELEMENTWISE):
                slow = base.kind == "GroupNorm" and attribute(base, "data_format") == "NCX"
                if slow and math.prod(made) > _FEW:
                    return True
                result = op.outputs[0].id
                continue
        base, result = op, op.outputs[0].id
    return False


def _by_itself(group: Group, conditions: Conditions) -> bool:
    return not attention_by_heads(group, conditions) and _in_reference_kernel(group, conditions)


SLOW = (
    Defect(
        "oneDNN runs this in its reference kernel, 5 to 5,000 times slower than apart, from 200 "
        "elements on (AVX2, 2 cores)",
        _by_itself,
    ),
)
"""All known cases."""


def slow_fusion(group: Group, conditions: Conditions) -> Finding | None:
    """Why a partition is slower than its ops apart, if it is known to be.

    Parameters
    ----------
    group : Group
        The partition, with all dims known.
    conditions : Conditions
        Where it is to run.

    Returns
    -------
    Finding or None
        `alone` is always false.
    """
    return first_met(SLOW, group, conditions)
