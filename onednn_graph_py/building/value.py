"""The tensors and ops of a graph that is being built: `Value` and `Node`."""

from __future__ import annotations

import itertools
import math
import numbers
import os
import sys
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import InvalidShapeError
from ..ops.lookup import row
from ..ops.tensor_spec import TensorSpec
from ..ops.terms import label_of
from .op_methods import BuilderMethods, ValueMethods

__all__ = ["FIRST_ID", "Node", "Value", "ValueLike", "caller", "is_whole", "new_id", "row_major"]

# oneDNN shares compiled partitions and cached constants between graphs with equal ids. So the ids
# of all builders in the process differ, also from those of callers who count from 0.
FIRST_ID = 1 << 32

_CONSTANT = _core.logical_tensor.property_type.constant
_VARIABLE = _core.logical_tensor.property_type.variable
_STRIDED = _core.logical_tensor.layout_type.strided

_unique_ids = itertools.count(FIRST_ID)

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def new_id() -> int:
    """Return an id that no other op or tensor of this process has."""
    return next(_unique_ids)


def caller() -> str:
    """Return the caller's line outside this package, such as ``model.py:12``.

    In a notebook this is ``In[3]:12``, with the cell's number, as in IPython's tracebacks.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    file = frame.f_code.co_filename
    shell = frame.f_globals.get("get_ipython")
    return f"{file if shell is None else _cell_of(shell, file)}:{frame.f_lineno}"


def _cell_of(get_ipython: Any, file: str) -> str:
    """Return the cell that IPython compiled under this file name, else the name itself."""
    try:
        kind_and_label = get_ipython().compile.format_code_name(file)
    except (AttributeError, TypeError):  # another shell than IPython's, or an old one
        return file
    return file if kind_and_label is None else str(kind_and_label[1])


def is_whole(shape: Sequence[int]) -> bool:
    """Return whether all dims are known."""
    return all(d >= 0 for d in shape)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a contiguous array."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def _plain(value: Any) -> Any:
    """Write the parts of an attribute as Python's own types, which `repr` writes exactly."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class Node:
    """One op of a graph.

    Parameters
    ----------
    id : int
        The op's id, unique in this process.
    kind, name : str
    inputs, outputs : tuple of Value
    attrs : mapping of str to value
        The attributes, in the library's spelling.
    where : str
        The origin of the op: the caller's line, ``model.py:12``, or a place in the file of a graph,
        ``g.json: graph[3] 'conv'``.
    """

    id: int
    kind: str
    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    attrs: Mapping[str, Any]
    where: str

    @property
    def label(self) -> str:
        """The op's name in messages."""
        return label_of(self.kind, self.name)

    @cached_property
    def signature(self) -> str:
        """The kind with all attributes: equal for ops that compute the same of equal inputs."""
        return repr((self.kind, sorted((name, _plain(v)) for name, v in self.attrs.items())))

    def attr(self, name: str) -> Any:
        """Return an attribute's value, or its default, or None without a default."""
        return row(self.kind).value_of(name, self.attrs)


class Value(ValueMethods):
    """A tensor of a graph that is being built.

    ``+ - * / @ ** abs() -x >=`` make ops, with NumPy's broadcasting; the other operand may be a
    Python number or an array. Every op is a method too, with this value as its first input:
    ``x.relu()``. Values come from a `GraphBuilder`.

    Attributes
    ----------
    shape : tuple of int or None
        The dims, -1 for an unknown one; None if even the rank is unknown.
    dtype : str
    name : str
    strides : tuple of int or None
        The strides, in elements, of an input that is not row-major.
    data : numpy.ndarray or None
        The elements of a constant, read-only.
    """

    __slots__ = ("_producer", "data", "dtype", "id", "name", "shape", "strides")

    # Makes NumPy leave ``array + value`` to this class.
    __array_ufunc__ = None

    def __init__(
        self, builder: BuilderMethods, shape: tuple[int, ...] | None, dtype: str, name: str = ""
    ) -> None:
        super().__init__(builder)
        self.shape = shape
        self.dtype = dtype
        self.name = name
        self.id = new_id()
        self.strides: tuple[int, ...] | None = None
        self.data: npt.NDArray[Any] | None = None
        self._producer: weakref.ref[Node] | None = None

    def __repr__(self) -> str:
        what = "constant " if self.data is not None else ""
        name = f"{self.name!r} " if self.name else ""
        return f"<Value {name}{what}{TensorSpec(self.shape, self.dtype)}>"

    @property
    def producer(self) -> Node | None:
        """The op that makes the value; None for inputs and constants."""
        return None if self._producer is None else self._producer()

    @producer.setter
    def producer(self, node: Node) -> None:
        self._producer = weakref.ref(node)  # the node holds the value

    @property
    def logical_tensor(self) -> _core.logical_tensor:
        """The mirror's logical tensor, with the layout of the built graph, not the compiled one."""
        return self.described(self.shape)

    def described(self, shape: Sequence[int] | None) -> _core.logical_tensor:
        """Return its logical tensor with another shape; None where the rank is unknown."""
        of = _CONSTANT if self.data is not None else _VARIABLE
        if shape is None:
            return _core.logical_tensor(self.id, self.dtype, -1, _STRIDED, of)
        if min(shape, default=0) < 0:
            shape = [_core.UNKNOWN_DIM if d < 0 else d for d in shape]
        elif self.strides is not None:
            return _core.logical_tensor(self.id, self.dtype, shape, self.strides, of)
        return _core.logical_tensor(self.id, self.dtype, shape, _STRIDED, of)

    @property
    def ndim(self) -> int:
        """The number of dims.

        Raises
        ------
        InvalidShapeError
            The rank is not known yet.
        """
        if self.shape is None:
            raise InvalidShapeError(f"{self!r}: the number of dims is not known")
        return len(self.shape)

    def add_op(
        self,
        kind: str,
        inputs: Sequence[Any],
        attrs: dict[str, Any],
        *,
        dtype: str | None,
        name: str | None,
    ) -> Any:
        """Add an op whose first input is this value; see `GraphBuilder.add_op`."""
        return self.builder.add_op(kind, [self, *inputs], attrs, dtype=dtype, name=name)

    # -- operators

    def _binary(self, kind: str, other: Any, *, swapped: bool = False) -> Value:
        if not isinstance(other, (Value, numbers.Real, np.ndarray, np.generic)):
            return NotImplemented  # type: ignore[no-any-return]
        pair = (other, self) if swapped else (self, other)
        made: Value = self.builder.add_op(kind, pair, {})
        return made

    def __add__(self, other: Any) -> Value:
        return self._binary("Add", other)

    def __radd__(self, other: Any) -> Value:
        return self._binary("Add", other)

    def __sub__(self, other: Any) -> Value:
        return self._binary("Subtract", other)

    def __rsub__(self, other: Any) -> Value:
        return self._binary("Subtract", other, swapped=True)

    def __mul__(self, other: Any) -> Value:
        return self._binary("Multiply", other)

    def __rmul__(self, other: Any) -> Value:
        return self._binary("Multiply", other)

    def __truediv__(self, other: Any) -> Value:
        return self._binary("Divide", other)

    def __rtruediv__(self, other: Any) -> Value:
        return self._binary("Divide", other, swapped=True)

    def __matmul__(self, other: Any) -> Value:
        return self._binary("MatMul", other)

    def __rmatmul__(self, other: Any) -> Value:
        return self._binary("MatMul", other, swapped=True)

    def __ge__(self, other: Any) -> Value:
        return self._binary("GreaterEqual", other)

    def __le__(self, other: Any) -> Value:
        return self._binary("GreaterEqual", other, swapped=True)

    def __neg__(self) -> Value:
        return self._binary("Multiply", -1.0)

    def __abs__(self) -> Value:
        made: Value = self.builder.add_op("Abs", [self], {})
        return made

    def __pow__(self, exponent: Any) -> Value:
        if not isinstance(exponent, numbers.Real):
            return NotImplemented
        if exponent in (2, 0.5):
            kind, attrs = ("Square" if exponent == 2 else "Sqrt"), {}
        else:
            kind, attrs = "Pow", {"beta": float(exponent)}
        made: Value = self.builder.add_op(kind, [self], attrs)
        return made

    def __bool__(self) -> bool:
        raise TypeError(f"{self!r} has no truth value: it has no elements before the graph runs")

    def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
        raise TypeError(f"{self!r} is not an array: it has no elements before the graph runs")


ValueLike = Any
"""A `Value` of the same builder, an array (it becomes a constant), or a Python number."""
