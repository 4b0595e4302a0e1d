"""The ops of one partition and how they are connected."""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from ..ops.terms import MAX_NDIMS, Shape
from .calls import Op, Tensor


class Features(NamedTuple):
    """Facts about a partition that are cheap to find, and show that most defects can't apply."""

    kinds: frozenset[str]  # the kinds of its ops
    fused: bool  # True if there are several ops
    strided: bool  # True if a tensor is strided and not row-major
    narrow: bool  # True if a tensor has 16 bits, or the floating-point mode is not strict
    rank: int  # the largest rank of any tensor; 12 if one is unknown


class Group:
    """The ops of one partition with the known facts about their tensors.

    - `ops`: the ops, without cycles
    - `shapes`: the shapes by a tensor's id, as far as they can be inferred
    - `given`: the logical tensors that compile was given, by id
    - `fpmath`: the graph's floating-point mode, by its name in `fpmath_mode`
    - `apply_to_int`: whether that mode covers integers
    - `leaving`: the ids of tensors that the group makes and reads, and that are read outside of it
      too
    - attribute `memo`: what predicates found out about the whole group, by version
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
        self.memo: dict[Any, Any] = {}
        self._shapes = shapes
        self._given = given
        self._producers = {t.id: op for op in ops for t in op.outputs}

    @cached_property
    def features(self) -> Features:
        """The facts by which rows are told apart before their predicates are asked."""
        tensors = [t for op in self.ops for t in (*op.inputs, *op.outputs)]
        tensors += self._given.values()
        return Features(
            frozenset(op.kind for op in self.ops),
            len(self.ops) > 1,
            not all(t.is_row_major for t in tensors),
            self.fpmath != "strict" or any(t.dtype in ("bf16", "f16") for t in tensors),
            max((MAX_NDIMS if s is None else len(s) for s in self._shapes.values()), default=0),
        )

    def compiled_for(self, given: Mapping[int, Tensor]) -> "Group":
        """Return the group with what compile is given, as its tensors lie or oneDNN chooses."""
        made = Group(self.ops, self._shapes, given, self.fpmath, self.apply_to_int, self.leaving)
        made.features = self.features
        return made

    def producer(self, tensor: Tensor) -> Op | None:
        """Return the op of the partition that makes a tensor, or None."""
        return self._producers.get(tensor.id)

    def shape(self, tensor: Tensor) -> Shape:
        """Return a tensor's shape, as far as it is known."""
        return self._shapes[tensor.id]

    def tensor(self, said: Tensor) -> Tensor:
        """Return the tensor that compile was given, else the one that the op declares."""
        return self._given.get(said.id, said)

    def read(self, op: Op) -> list[Tensor]:
        """Return the inputs of an op that no op of the partition makes."""
        return [t for t in op.inputs if t.id not in self._producers]

    def has(self, *kinds: str) -> bool:
        """Whether the group has an op of one of the kinds."""
        return any(op.kind in kinds for op in self.ops)

    def count(self, kind: str) -> int:
        """Return the number of ops of a kind."""
        return sum(op.kind == kind for op in self.ops)

    def follows(self, op: Op, kinds: Collection[str]) -> bool:
        """Whether `op` depends on an op of one of the kinds within the partition."""
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
