"""The tensors and ops of a graph that is being built: `Value` and `Node`."""

from __future__ import annotations

import contextlib
import itertools
import math
import operator
import os
import sys
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import _core
from ...base.dtypes import HOST_DTYPES, DataType, array_dtype
from ...base.errors import InvalidArgumentsError, InvalidIndexError, InvalidShapeError, reworded
from ...ops.check import check
from ...ops.lookup import row
from ...ops.tensor_spec import TensorSpec
from ...ops.terms import label_of
from .attached_methods import ArrayMethods
from .indexing import is_reversed, items_of
from .op_methods import BuilderMethods, ValueMethods

# oneDNN shares compiled partitions and cached constants between graphs with equal ids. So the ids
# of all builders in the process differ, also from those of callers who count from 0.
FIRST_ID = 1 << 32

_CONSTANT = _core.logical_tensor.property_type.constant
_VARIABLE = _core.logical_tensor.property_type.variable
_STRIDED = _core.logical_tensor.layout_type.strided
_PACKED = ("s4", "u4")

_unique_ids = itertools.count(FIRST_ID)

# NumPy calls back what its operators and functions are given; contextlib enters our contexts.
_FOLDERS = tuple(
    str(Path(file).resolve().parent) + os.sep for file in (_core.__file__, np.__file__)
)
_INSIDE = (*_FOLDERS, contextlib.__file__)


def new_id() -> int:
    """Return an id that no other op or tensor of this process has."""
    return next(_unique_ids)


def caller() -> str:
    """Return the caller's line outside this package, such as ``model.py:12``.

    In a notebook this is ``In[3]:12``, with the cell's number, as in IPython's tracebacks.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
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


class UnknownDim(int):
    """-1, an unknown dim, of which the functions of callers can compute no number."""


def _arithmetic(name: str) -> Any:
    def computed(dim: UnknownDim, *operands: Any) -> Any:
        if sys._getframe(1).f_code.co_filename.startswith(_INSIDE):
            return getattr(int, name)(dim, *operands)
        raise InvalidShapeError(f"at {caller()}: a dim is unknown")

    return computed


_BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift", "rshift"]
for _name in (*_BINARY, *(f"r{name}" for name in _BINARY), "neg", "abs", "float"):
    setattr(UnknownDim, f"__{_name}__", _arithmetic(f"__{_name}__"))


def is_whole(shape: Sequence[int]) -> bool:
    """Return whether all dims are known."""
    return all(d >= 0 for d in shape)


def bytes_of(dtype: str, shape: Sequence[int]) -> int | None:
    """Return the bytes of a tensor's elements, packed if 4-bit; None if a dim is unknown.

    >>> bytes_of("f32", (2, 3)), bytes_of("s4", (3,)), bytes_of("f32", (-1, 3))
    (24, 2, None)
    """
    if not is_whole(shape):
        return None
    count = math.prod(shape)
    if dtype in _PACKED:
        return (count + 1) // 2
    return count * int(array_dtype(dtype).itemsize)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a contiguous array."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def beyond_ones(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Return strides in which a dim of 1 lies beyond the dims after it.

    Such a stride means nothing, but by it oneDNN may take a slow kernel, or MatMul reads other
    elements of the second operand (3.7 on AVX-512; from 3.8 on also on AVX2). Before a matrix it is
    that of the dim before, by which oneDNN joins batches (attention in five dims, up to 3.7).
    """
    made: list[int] = []
    beyond = 1
    for i in reversed(range(len(shape))):
        outer = next((strides[k] for k in reversed(range(i)) if shape[k] != 1), 0)
        joined = max(beyond, outer if i < len(shape) - 2 else 0)
        made.append(joined if shape[i] == 1 else strides[i])
        beyond = max(beyond, shape[i] * made[-1])
    return tuple(made[::-1])


def plain_parts(value: Any) -> Any:
    """Write the parts of an attribute as Python's own types, which `repr` writes exactly."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain_parts(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True, eq=False)
class Node:
    """One op of a graph."""

    id: int  # the op's id, unique in this process
    kind: str
    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    attrs: Mapping[str, Any]  # the attributes, in the library's spelling
    # the origin of the op: the caller's line, `model.py:12`, or a place in the file of a graph,
    # `g.json: graph[3] 'conv'`
    where: str
    # the ops of the caller's graph that it stands for, if those are several
    parts: tuple[Node, ...] = field(default=(), kw_only=True)

    @property
    def label(self) -> str:
        """The op's name in messages."""
        return label_of(self.kind, self.name)

    @cached_property
    def signature(self) -> str:
        """The kind with all attributes: equal for ops that compute the same of equal inputs."""
        return repr((self.kind, sorted((name, plain_parts(v)) for name, v in self.attrs.items())))

    @cached_property
    def contract(self) -> str:
        """The signature with all that `infer` reads of its tensors, but the inputs' shapes."""
        outputs = [(v.shape, v.dtype) for v in self.outputs]
        return f"{self.signature} {[v.dtype for v in self.inputs]} {outputs}"

    def infer(self, inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        """Return the outputs for inputs of these shapes; raise if these don't fit together."""
        outputs = [TensorSpec(v.shape, v.dtype) for v in self.outputs]
        return check(self.kind, inputs, self.attrs, outputs, name=self.name)

    def attr(self, name: str) -> Any:
        """Return an attribute's value, or its default, or None without a default."""
        return row(self.kind).value_of(name, self.attrs)


class Value(ArrayMethods, ValueMethods):
    """A tensor of a graph that is being built.

    NumPy's operators, functions and methods make ops, or host steps where oneDNN has none. Every op
    is a method too, with this value as its first input: ``x.relu()``. Values come from a
    `GraphBuilder`, or are what `trace` and `jit` call a function with.

    Attributes
    ----------
    shape : tuple of int or None
        The dims, -1 for an unknown one; None if even the rank is unknown.
    dtype : str
    name : str
    strides : tuple of int or None
        The strides, in elements, of an input that is not row-major.
    updated : bool
        Whether it is an input whose array a call may write to.
    data : numpy.ndarray or None
        The elements of a constant, read-only.
    """

    __slots__ = ("_producer", "data", "dtype", "id", "name", "shape", "stale", "strides", "updated")

    # ``==`` compares elements, as NumPy does; a value is itself and no other.
    __hash__ = object.__hash__

    def __init__(
        self, builder: BuilderMethods, shape: tuple[int, ...] | None, dtype: str, name: str = ""
    ) -> None:
        super().__init__(builder)
        if shape is not None and -1 in shape:
            shape = tuple(UnknownDim(d) if d == -1 else d for d in shape)
        self.shape = shape
        self.dtype = DataType(dtype)
        self.name = name
        self.id = new_id()
        self.strides: tuple[int, ...] | None = None
        self.updated = False
        self.data: npt.NDArray[Any] | None = None
        # The line that wrote to its memory in place, by another name.
        self.stale = ""
        self._producer: weakref.ref[Node] | None = None

    def become(self, other: Value) -> None:
        """Become another value, as what is written to in place does."""
        for slot in Value.__slots__:
            setattr(self, slot, getattr(other, slot))

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
        if self.dtype in HOST_DTYPES:
            return self._in_bytes(shape, of)
        if shape is None:
            return _core.logical_tensor(self.id, self.dtype, -1, _STRIDED, of)
        if min(shape, default=0) < 0:
            shape = [_core.UNKNOWN_DIM if d < 0 else d for d in shape]
        elif self.strides is not None:
            strides = beyond_ones(shape, self.strides)
            return _core.logical_tensor(self.id, self.dtype, shape, strides, of)
        return _core.logical_tensor(self.id, self.dtype, shape, _STRIDED, of)

    def dims_of(self, lt: _core.logical_tensor) -> tuple[int, ...]:
        """Return the shape of a logical tensor that describes the value."""
        dims = tuple(lt.get_dims())
        return dims[:-1] if self.dtype in HOST_DTYPES else dims

    def _in_bytes(self, shape: Sequence[int] | None, of: Any) -> _core.logical_tensor:
        """Describe memory of a data type that oneDNN lacks: an element's bytes are a last dim."""
        size = HOST_DTYPES[self.dtype].itemsize
        dims = [_core.UNKNOWN_DIM if d < 0 else d for d in shape or ()]
        strides = [s * size for s in self.strides or row_major(dims)] if is_whole(dims) else None
        layout = _STRIDED if strides is None else [*strides, 1]
        return _core.logical_tensor(self.id, "u8", [*dims, size], layout, of)

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

    @property
    def size(self) -> int:
        """The number of elements; -1 if a dim is unknown."""
        return math.prod(self.shape or ()) if is_whole(self.shape or ()) else UnknownDim(-1)

    @property
    def device(self) -> str:
        """The kind of device, as the Array API asks."""
        return self.builder.engine_kind.name

    def to_device(self, device: Any, /, *, stream: Any = None) -> Value:
        """Return the value itself, which stays on its device."""
        if device != self.device or stream is not None:
            raise InvalidArgumentsError(f"{self!r} is on {self.device}, and can't be on {device}")
        return self

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

    # -- views

    def __getitem__(self, index: Any) -> Value:
        """Take a part of the tensor, by NumPy's basic indices: ``x[:, 1:9:2]``, ``x[..., None]``.

        It is a view: a call copies nothing, unless what reads the part is faster on a copy. Arrays
        and values of integers among the indices make a host step, and so do negative steps.

        Raises
        ------
        InvalidIndexError
            A whole number is out of range, or there are more indices than dims.
        InvalidArgumentsError
            An index is none of these.
        """
        indices = index if isinstance(index, tuple) else (index,)
        ends = [n for i in indices if isinstance(i, slice) for n in (i.start, i.stop, i.step)]
        if UnknownDim in map(type, (*indices, *ends)):
            raise InvalidShapeError(f"{self!r} at {caller()}: an index is an unknown dim")
        if any(isinstance(i, (Value, np.ndarray, list)) or is_reversed(i) for i in indices):
            return self._taken(index)
        try:
            return self._view("Slice", {"index": items_of(index, self.ndim)})
        except InvalidArgumentsError as e:
            raise reworded(e, f"{self!r} at {caller()}: {e}") from None

    def __len__(self) -> int:
        if not self.shape or self.shape[0] < 0:
            raise TypeError(f"{self!r} at {caller()} has no length: its first dim is not known")
        return self.shape[0]

    def __iter__(self) -> Iterator[Value]:
        return (self[i] for i in range(len(self)))

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(
            f"{self!r} at {caller()} can't be written to in place; write np.where(mask, new, x) or "
            "np.concatenate of its parts and new ones"
        )

    def __getattr__(self, name: str) -> Any:
        # Only names that values lack come here.
        raise AttributeError(f"values have no {name!r}{self._instead(name)}")

    def squeeze(self, axis: int | Sequence[int] | None = None) -> Value:
        """Remove dims of size 1, as ``numpy.squeeze`` does; by default all that are known to be 1.

        Raises
        ------
        InvalidShapeError
            Such a dim has another size, or there is no such dim.
        """
        if axis is None:
            axis = [i for i, n in enumerate(self.shape or ()) if n == 1]
        axes = [axis] if isinstance(axis, int) else axis
        return self._view("Squeeze", {"axes": tuple(sorted({self.axis_of(a) for a in axes}))})

    @property
    def T(self) -> Value:
        """The value with its dims reversed."""
        return self.transpose()

    @property
    def mT(self) -> Value:
        """The value with its last two dims swapped."""
        return self.swapaxes(-1, -2)

    def transpose(self, axes: Sequence[int] | int | None = None, *others: int) -> Value:
        """Reorder the dims, as ``numpy.transpose`` does; by default they are reversed.

        `static_transpose` is oneDNN's op, which moves the elements.

        Raises
        ------
        InvalidShapeError
            `axes` are not each dim once.
        """
        given = (axes, *others) if isinstance(axes, int) else axes
        given = range(self.ndim)[::-1] if given is None else given
        order = tuple(self.axis_of(a) for a in given)
        if sorted(order) != list(range(self.ndim)):
            raise InvalidShapeError(
                f"transpose: axes must be each of {self.ndim} dims once, got {list(given)}"
            )
        return self._view("Transpose", {"order": order})

    def expand(self, shape: Sequence[int]) -> Value:
        """Repeat along dims of size 1 and new dims in front, as ``numpy.broadcast_to`` does.

        Parameters
        ----------
        shape : sequence of int
            The dims of the result; -1 for one that stays as it is.

        Raises
        ------
        InvalidShapeError
            A dim is neither 1 nor equal.
        """
        made = tuple(operator.index(n) for n in shape)
        if any(n < -1 for n in made) or -1 in made[: len(made) - self.ndim]:
            raise InvalidShapeError(f"expand: dims must be -1 or not negative, got {list(made)}")
        return self._view("Expand", {"shape": made})

    def split(self, sections: int | Sequence[int], axis: int = 0) -> tuple[Value, ...]:
        """Split along a dim, as ``numpy.split`` does.

        Parameters
        ----------
        sections : int or sequence of int
            The number of equal parts, or the indices at which later parts begin.
        axis : int

        Raises
        ------
        InvalidShapeError
            The dim is not a multiple of the number of parts, is unknown, or does not exist.
        """
        along = self.axis_of(axis)
        size = (self.shape or ())[along]
        if isinstance(sections, int):
            if sections < 1 or size < 0 or size % sections:
                raise InvalidShapeError(
                    f"split: dim {along} must be a multiple of {sections} parts, got "
                    f"{'an unknown dim' if size < 0 else size}"
                )
            sections = [size // sections * i for i in range(1, sections)]
        edges = [None, *sections, None]
        before = (slice(None),) * along
        return tuple(self[(*before, slice(a, b))] for a, b in itertools.pairwise(edges))

    def axis_of(self, axis: int) -> int:
        """Return an axis counted from the first.

        Raises
        ------
        InvalidIndexError
            There is no such axis.
        """
        if not hasattr(axis, "__index__"):
            raise TypeError(f"an axis must be an int, got {axis!r}")
        if not -self.ndim <= axis < self.ndim:
            raise InvalidIndexError(
                f"axis {axis} is out of range for {self.ndim} dims, those of {self!r}"
            )
        return axis % self.ndim

    def _view(self, kind: str, attrs: dict[str, Any]) -> Value:
        return self.builder.add_view(kind, self, attrs)

    def _refuse(self, *given: Any) -> Any:
        raise TypeError(
            f"{self!r} has no truth value: it has no elements before the graph runs; at {caller()} "
            "write np.where(condition, x, y) instead of an if, and keep x instead of float(x)"
        )

    __bool__ = __float__ = __int__ = __complex__ = _refuse

    def __index__(self) -> Any:
        raise TypeError(
            f"{self!r} at {caller()} can't be a size: it has no elements before the graph runs, "
            "and shapes must not depend on them"
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
        raise TypeError(
            f"{self!r} is not an array: it has no elements before the graph runs; at {caller()} "
            "write np.stack or np.concatenate instead of np.array or np.r_, x instead of "
            "np.asarray(x); pass the table of table[x] as an argument; x.builder.call runs "
            "functions of other libraries"
        )


ValueLike = Any
"""A `Value` of the same builder, an array (it becomes a constant), or a Python number."""
