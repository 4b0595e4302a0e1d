"""The table of lowerings: for each of torch's ops a function that adds it to a `GraphBuilder`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy.typing as npt
import torch
from torch import fx

from ...frontends.lowering import NotLowered as NotLowered
from ...frontends.lowering import Place, Table
from ...machine.cpu import lacks
from ...model.building.builder import GraphBuilder
from ...model.building.value import Value

DTYPES: Mapping[torch.dtype, str] = {
    torch.float32: "f32",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.int8: "s8",
    torch.uint8: "u8",
    torch.int32: "s32",
    torch.bool: "boolean",
}
"""oneDNN's names of torch's data types."""

HOST_DTYPES: Mapping[torch.dtype, str] = {
    torch.int64: "s64",
    torch.float64: "f64",
    torch.int16: "s16",
    torch.complex64: "c64",
}
"""Those of types that only host steps and views of a builder read."""

HOST_READERS = frozenset({torch.ops.aten.index_copy.default})
"""Ops whose lowerings are host steps, which read tensors of these types too."""


class Unknown:
    """An argument that a lowering can't read: any use of it raises `NotLowered`."""

    def __init__(self, why: str) -> None:
        self._why = why

    def _refuse(self, *given: Any) -> Any:
        raise NotLowered(self._why)

    __bool__ = __int__ = __float__ = __index__ = __len__ = __iter__ = __getattr__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _refuse
    __neg__ = __abs__ = __getitem__ = _refuse
    __hash__ = None  # type: ignore[assignment]


def hint(size: Any) -> int:
    """Return a size, as in the first call if it is unknown."""
    return int(size) if isinstance(size, int) else int(size.node.hint or 1)


def dims_of(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return a tensor's dims, -1 for those that only a call determines."""
    return tuple(d if isinstance(d, int) else -1 for d in map(_known, tensor.shape))


def _known(size: Any) -> Any:
    """Return an int if a size is known, else the SymInt."""
    if isinstance(size, int):
        return size
    known = size.node.maybe_as_int()
    return size if known is None else known


def number_of(given: Any) -> Any:
    """Return a number, or `Unknown` if only a call determines it."""
    if isinstance(given, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        known = given.node.maybe_as_int() if isinstance(given, torch.SymInt) else None
        return Unknown("a number changes between calls") if known is None else known
    return given


def each(given: Any, count: int) -> list[int]:
    """Return one number for each spatial dim; torch repeats a single one."""
    sizes = [given] if isinstance(given, int) else list(given)
    if not all(isinstance(n, int) for n in sizes):
        raise NotLowered("a number changes between calls")
    return sizes * count if len(sizes) == 1 else sizes


def need_batch(x: Value, spatial: int) -> None:
    """Raise `NotLowered` unless a tensor has a batch, channels and so many spatial dims."""
    if x.ndim != spatial + 2:
        raise NotLowered("there is no batch")


def dtype_of(tensor: torch.Tensor, *, host: bool = False) -> str:
    """Return oneDNN's name of a tensor's data type; with `host` also of one that it lacks."""
    name = DTYPES.get(tensor.dtype)
    if host and name is None:
        name = HOST_DTYPES.get(tensor.dtype)
    if name is None:
        raise NotLowered(f"oneDNN has no {str(tensor.dtype).removeprefix('torch.')}")
    if why := lacks(name):
        raise NotLowered(why)
    return name


def has_type(tensor: torch.Tensor) -> bool:
    """Return whether oneDNN has a tensor's data type; of others a lowering reads the numbers."""
    return tensor.dtype in DTYPES


class Lowering(Place):
    """The place of an op while it is lowered: what its function may ask and use."""

    def __init__(
        self, b: GraphBuilder, node: fx.Node, constants: Mapping[fx.Node, torch.Tensor]
    ) -> None:
        super().__init__(b)
        self.node = node
        self._constants = constants

    @property
    def result(self) -> torch.Tensor:
        """The result, or the first of them, as a tensor without data."""
        value = self.node.meta["val"]
        tensor: torch.Tensor = value[0] if isinstance(value, (tuple, list)) else value
        return tensor

    @property
    def dims(self) -> tuple[int, ...]:
        """The result's dims, -1 where unknown."""
        return dims_of(self.result)

    @property
    def dtype(self) -> str:
        """The result's data type."""
        return dtype_of(self.result)

    def argument(self, index: int) -> torch.Tensor:
        """Return a tensor that the op reads, without data."""
        tensor: torch.Tensor = self.node.args[index].meta["val"]
        return tensor

    def known(self, node: Any) -> torch.Tensor | None:
        """Return the tensor of a node that is a constant, else None."""
        return self._constants.get(node)

    def constant(self, index: int) -> npt.NDArray[Any]:
        """Return the numbers of a weight that the op reads."""
        known = self.known(self.node.args[index])
        if known is None:
            raise NotLowered(f"argument {index} must be a constant")
        numbers: npt.NDArray[Any] = known.detach().numpy()
        return numbers

    def need_first_only(self) -> None:
        """Raise `NotLowered` if other results than the first are read."""
        if any(user.args[1] != 0 for user in self.node.users):
            raise NotLowered("more than its first result is read")

    def reshaped(self, x: Value, source: Sequence[Any], target: Sequence[Any]) -> Value:
        """Give a value another shape; `source` and `target` are sizes in torch."""
        sizes = [_known(d) for d in target]
        given = [_known(d) for d in source]
        if [*map(_text, sizes)] == [*map(_text, given)]:
            return x
        shape: list[int] = []
        for i, size in enumerate(sizes):
            if isinstance(size, int):
                shape.append(size)
            elif i < len(given) and _text(given[i]) == _text(size):
                shape.append(0)  # the dim of the source
            else:
                shape.append(-1)
        if 0 in sizes or 0 in given:
            raise NotLowered("the tensor has no elements")
        if shape.count(-1) > 1:
            return self._reshaped_in_steps(x, given, sizes)
        return self.b.static_reshape(x, shape=shape, special_zero=True)

    def _reshaped_in_steps(self, x: Value, given: list[Any], sizes: list[Any]) -> Value:
        """Give each run of dims another shape by itself: as few as make the same product."""
        i = j = 0
        while i < len(given) or j < len(sizes):
            to, until = i + 1, j + 1
            while _product(given[i:to]) != _product(sizes[j:until]):
                # What the sizes were in the first call tells which side has too few.
                less = math.prod(map(hint, given[i:to])) - math.prod(map(hint, sizes[j:until]))
                to, until = to + (less < 0), until + (less > 0)
                if not less or to > len(given) or until > len(sizes):
                    raise NotLowered("more than one dim of the new shape is unknown")
            before, wanted = given[i:to], [n if isinstance(n, int) else -1 for n in sizes[j:until]]
            if [*map(_text, before)] != [*map(_text, sizes[j:until])]:
                if wanted.count(-1) > 1:
                    raise NotLowered("more than one dim of the new shape is unknown")
                # Ones behind the run, so that the dims behind it stay where they are.
                ones = len(wanted) - len(before)
                x = x[(*(slice(None),) * (j + len(before)), *(None,) * ones)]
                behind = x.ndim - j - max(len(before), len(wanted))
                shape = [*(0,) * j, *wanted, *(1,) * -ones, *(0,) * behind]
                x = self.b.static_reshape(x, shape=shape, special_zero=True)
                x = x.squeeze([*range(until, until - ones)]) if ones < 0 else x
            i, j = to, until
        return x


def _product(sizes: Iterable[Any]) -> Any:
    return math.prod(n if isinstance(n, int) else n.node.expr for n in sizes)


def _text(size: Any) -> str:
    return str(size) if isinstance(size, int) else str(size.node.expr)


LOWERINGS: Table[Any, Callable[..., Any]] = Table()
"""The function of each op: it takes a `Lowering` and the op's arguments, with tensors as values."""

lowers = LOWERINGS.enters
