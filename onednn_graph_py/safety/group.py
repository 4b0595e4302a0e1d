"""The ops of one partition and how they hang together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ..ops.terms import Shape
from .calls import Op, Tensor

__all__ = ["Group"]


class Group:
    """The ops of one partition with what is known of their tensors.

    Parameters
    ----------
    ops : sequence of Op
        Free of cycles.
    shapes : mapping of int to Shape
        By a tensor's id, as far as they follow.
    given : mapping of int to Tensor
        What compile was given, by id.
    fpmath : str
        The graph's floating-point mode, by its name in `fpmath_mode`.
    apply_to_int : bool
        Whether that mode covers integers.
    leaving : collection of int
        Tensors by id that ops of the group read, and others too.
    """

    def __init__(
        self,
        ops: Sequence[Op],
        shapes: Mapping[int, Shape],
        given: Mapping[int, Tensor],
        fpmath: str = "strict",
        apply_to_int: bool = False,
        leaving: Collection[int] = (),
    ) -> None:
        self.ops = ops
        self.leaving = leaving
        self.fpmath = fpmath
        self.apply_to_int = apply_to_int
        self._shapes = shapes
        self._given = given
        self._producers = {t.id: op for op in ops for t in op.outputs}

    def producer(self, tensor: Tensor) -> Op | None:
        """The op of the partition that makes a tensor."""
        return self._producers.get(tensor.id)

    def shape(self, tensor: Tensor) -> Shape:
        """What is known of a tensor's shape."""
        return self._shapes[tensor.id]

    def tensor(self, said: Tensor) -> Tensor:
        """A tensor as compile was given it, or as the op says."""
        return self._given.get(said.id, said)

    def has(self, *kinds: str) -> bool:
        """Whether an op of one of the kinds is among them."""
        return any(op.kind in kinds for op in self.ops)

    def count(self, kind: str) -> int:
        """How many ops of a kind are among them."""
        return sum(op.kind == kind for op in self.ops)

    def follows(self, op: Op, kinds: Collection[str]) -> bool:
        """Whether an op of one of the kinds comes, through others of the partition, before `op`."""
        seen: set[int] = set()
        left = [op]
        while left:
            for tensor in left.pop().inputs:
                before = self.producer(tensor)
                if before is None or before.id in seen:
                    continue
                if before.kind in kinds:
                    return True
                seen.add(before.id)
                left.append(before)
        return False
