"""The primitives that oneDNN makes of a partition, by the rules of its own passes.

Each primitive has post-ops: element-wise ones, and binary ones whose operands vary along all dims,
along none or along one (``post_binary_fusible``). An op that is not fused starts a primitive of its
own.
"""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from ..machine import Conditions
from ..ops.shapes.elementwise import same
from ..ops.table import elementwise
from .calls import Op, Tensor
from .facts import BINARY, DEQUANTIZES, aligned
from .group import Group

ELEMENTWISE = frozenset(row.kind for row in elementwise.ROWS if row.infer is same)
"""The kinds of ops that compute each element from one element of one tensor."""

_OF_OPERANDS = DEQUANTIZES | {"StaticReshape"}

Wide = tuple[bool, ...]  # one bool for each dim: whether an operand varies along it


class Operand(NamedTuple):
    """The operand of a fused binary op besides the result of the op before it."""

    tensor: Tensor
    shape: tuple[int, ...]  # its shape, with as many dims as the result
    wide: Wide  # the dims along which it varies: all, if it has the result's shape


@dataclass
class Primitive:
    """An op with the post-ops that are fused behind it."""

    base: Op
    shape: tuple[int, ...]  # the shape of the op's result
    operands: list[Operand] = field(default_factory=list)  # the operands of binary post-ops
    unary: bool = False  # whether element-wise ops are fused too


def _operand(group: Group, op: Op, result: int, made: tuple[int, ...]) -> Operand | None:
    """Return a binary op's other operand; None if it is not fused."""
    others = [t for t in op.inputs if t.id != result]
    if group.shape(op.outputs[0]) != made or len(op.inputs) != 2 or len(others) > 1:
        return None
    if not others:
        return Operand(op.inputs[0], made, (True,) * len(made))
    shape = aligned(group.shape(others[0]), len(made))
    if shape is None or len(shape) != len(made):
        return None
    wide = (True,) * len(made) if shape == made else tuple(d != 1 for d in shape)
    return Operand(others[0], shape, wide)


def _takes_post_ops(group: Group, primitive: Primitive, conditions: Conditions) -> bool:
    """Whether a primitive takes post-ops: a binary op that broadcasts has taken none since 3.9."""
    base = primitive.base
    if base.kind not in BINARY or conditions.version < (3, 9):
        return True
    sizes = [group.shape(t) for t in base.inputs]
    return all(s == primitive.shape or (s is not None and math.prod(s) == 1) for s in sizes)


def _is_fused(base: Op, op: Op, result: int, wide: Wide, conditions: Conditions) -> bool:
    if conditions.version >= (3, 8):
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
    data_format = base.attr("data_format")
    return data_format is None or wide[1 if data_format == "NCX" else -1]


def primitives(group: Group, conditions: Conditions) -> list[Primitive]:
    """Return the primitives of a partition, in order; none if a dim of a result is unknown."""
    known: list[Primitive] | None = group.memo.get(conditions.version)
    if known is None:
        known = group.memo[conditions.version] = _primitives(group, conditions)
    return known


def primitive_of(group: Group, op: Op, conditions: Conditions) -> Primitive | None:
    """Return the primitive that an op starts; None if it is fused to another one."""
    return next((p for p in primitives(group, conditions) if p.base is op), None)


def _read_twice(group: Group) -> set[int]:
    """Return the ids of results that two ops read, so neither is fused to what made them.

    That is not so for Swish, whose Sigmoid and Multiply become one op before.
    """
    seen: set[int] = set()
    kept: set[int] = set()
    for op in group.ops:
        ids = {t.id for t in op.inputs}
        kept |= ids & seen
        seen |= ids if op.kind != "Sigmoid" else set()
    return kept


def _primitives(group: Group, conditions: Conditions) -> list[Primitive]:
    made: list[Primitive] = []
    result = -1
    kept = _read_twice(group)
    for op in group.ops:
        source = group.producer(op.inputs[0]) if op.kind == "TypeCast" else None
        if op.kind in _OF_OPERANDS or (source is not None and source.kind in DEQUANTIZES):
            continue
        shape = group.shape(op.outputs[0])
        if shape is None or min(shape, default=1) < 0:
            return []
        last = made[-1] if made else None
        behind = result not in kept and any(t.id == result for t in op.inputs)
        if last is not None and behind and _takes_post_ops(group, last, conditions):
            if op.kind == "TypeCast":
                result = op.outputs[0].id
                continue
            if last.base.kind == "Sigmoid" and last.base.inputs[0] in op.inputs:
                result = op.outputs[0].id  # Sigmoid and Multiply are one element-wise op, Swish
                continue
            operand = _operand(group, op, result, last.shape) if op.kind in BINARY else None
            if operand is not None and _is_fused(last.base, op, result, operand.wide, conditions):
                last.operands.append(operand)
                result = op.outputs[0].id
                continue
            if op.kind in ELEMENTWISE and last.base.kind not in ELEMENTWISE:
                last.unary = True
                result = op.outputs[0].id
                continue
        made.append(Primitive(op, shape))
        result = op.outputs[0].id
    return made
