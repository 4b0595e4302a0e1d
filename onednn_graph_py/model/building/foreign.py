"""Nodes for which oneDNN has no op: views of a tensor, and Python functions over arrays."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.dtypes import HOST_DTYPES, array_dtype
from ...base.errors import (
    InvalidArgumentsError,
    InvalidDataTypeError,
    InvalidGraphError,
    InvalidShapeError,
)
from ...ops.tensor_spec import TensorSpec
from ...ops.terms import shape_text
from .indexing import indexed
from .value import Node, Value, row_major

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

Declared = Sequence[tuple[Sequence[int], Any]]
Outputs = Declared | Callable[..., Declared]
"""The shape and data type of each output, or a function that gives them for the inputs' shapes."""


class ForeignNode(Node):
    """A node for which oneDNN has no op."""

    @abstractmethod
    def compute(self, arrays: Sequence[Array]) -> list[Array]:
        """Return its outputs, given its inputs."""


def require_ops(nodes: Sequence[Node], leaves: Sequence[Value], what: str) -> None:
    """Raise unless a graph has only oneDNN's ops and data types, as files of graphs need."""
    for node in nodes:
        if isinstance(node, ForeignNode):
            told = "host step" if isinstance(node, HostNode) else "view"
            raise InvalidGraphError(
                f"{told} {node.label} made at {node.where}: {what} can't hold it, as oneDNN has no "
                "such op"
            )
    for value in leaves:
        if value.dtype in HOST_DTYPES:
            raise InvalidGraphError(
                f"{value!r}: {what} can't hold it, as oneDNN has no {value.dtype}"
            )


# -- views


def viewed(
    kind: str, attrs: Any, dims: Sequence[int], strides: Sequence[int]
) -> tuple[int, Shape, Shape]:
    """Return the offset, the dims and the strides of a view of a tensor.

    - `kind`, `attrs`: ``Slice`` by ``index``, ``Squeeze`` ``axes``, ``Transpose`` to an ``order``,
      ``Split`` an ``axis`` into ``sizes`` or ``Expand`` to a ``shape``
    - raises `InvalidShapeError`: there is no such view of these dims
    """
    if kind == "Slice":
        return indexed(attrs["index"], dims, strides)
    if kind == "Transpose":
        order = attrs["order"]
        return 0, tuple(dims[i] for i in order), tuple(strides[i] for i in order)
    if kind == "Squeeze":
        axes = attrs["axes"]
        for axis in axes:
            if dims[axis] not in (1, -1):
                raise InvalidShapeError(
                    f"a dim that is squeezed must be 1, got {dims[axis]} in dim {axis} of "
                    f"{shape_text(tuple(dims))}"
                )
        kept = [i for i in range(len(dims)) if i not in axes]
        return 0, tuple(dims[i] for i in kept), tuple(strides[i] for i in kept)
    if kind == "Split":
        axis, sizes = attrs["axis"], attrs["sizes"]
        steps = [strides[axis] * s for s in row_major(sizes)]
        return (
            0,
            (*dims[:axis], *sizes, *dims[axis + 1 :]),
            (*strides[:axis], *steps, *strides[axis + 1 :]),
        )
    wanted = attrs["shape"]
    new = len(wanted) - len(dims)
    made, steps = [], []
    for i, size in enumerate(wanted):
        have, stride = (dims[i - new], strides[i - new]) if i >= new else (1, 0)
        size = have if size == -1 else size
        if new < 0 or (have not in (size, 1, -1)):
            raise InvalidShapeError(
                f"can't expand {shape_text(tuple(dims))} to {shape_text(tuple(wanted))}; a dim "
                "must be equal, or 1, or new in front"
            )
        made.append(size)
        steps.append(stride if have == size else 0)
    return 0, tuple(made), tuple(steps)


class ViewNode(ForeignNode):
    """A node whose output is a part of its input's memory, seen with other strides."""

    def view(self, dims: Sequence[int], strides: Sequence[int]) -> tuple[int, Shape, Shape]:
        """Return the offset, the dims and the strides of its output; see `viewed`."""
        return viewed(self.kind, self.attrs, dims, strides)

    def infer(self, inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        """Return the shape and data type of its output."""
        dims = inputs[0].shape or ()
        try:
            _, shape, _ = self.view(dims, row_major(dims))
        except InvalidShapeError as e:
            raise type(e)(f"{self.label}: {e}") from None
        return (TensorSpec(shape, inputs[0].dtype),)

    def compute(self, arrays: Sequence[Array]) -> list[Array]:
        """Return its output as NumPy's view of its input."""
        (array,) = arrays
        memory = np.ascontiguousarray(array)
        offset, dims, strides = self.view(array.shape, row_major(array.shape))
        steps = [s * array.itemsize for s in strides]
        if 0 in dims:
            return [np.empty(dims, array.dtype)]
        made: Array = np.ndarray(dims, array.dtype, memory, offset * array.itemsize, steps)
        made.flags.writeable = False
        return [made]


# -- functions


@dataclass(frozen=True, eq=False)
class HostNode(ForeignNode):
    """A Python function over arrays, which runs as a step of a model."""

    function: Callable[..., Any]  # takes an array for each input

    @cached_property
    def signature(self) -> str:
        """A text that no other node has: functions can't be compared."""
        return f"{self.kind} {self.id}"

    @abstractmethod
    def run(
        self, read: Sequence[Array], written: Sequence[Array], wanted: Sequence[TensorSpec]
    ) -> None:
        """Call the function, and fill its outputs.

        - `read`, `written`: its inputs, read-only, and its outputs
        - `wanted`: shapes and data types of the outputs
        - raises whatever the function raises, with a note that names the step
        """

    def _call(self, given: Sequence[Array]) -> Any:
        try:
            return self.function(*given)
        except BaseException as e:
            note = f"raised in the host step {self.label} made at {self.where}"
            vars(e)["__notes__"] = [*getattr(e, "__notes__", ()), note]  # add_note of Python 3.11
            raise


@dataclass(frozen=True, eq=False)
class UpdateNode(HostNode):
    """A function that writes to its first input, an input of the graph, which is its output."""

    def infer(self, inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        """Return the shape and data type of the first input."""
        return (TensorSpec(inputs[0].shape, self.inputs[0].dtype),)

    def compute(self, arrays: Sequence[Array]) -> list[Array]:
        """Update a copy of the first array."""
        made = arrays[0].copy()
        self.run(arrays, [made], ())
        return [made]

    def run(
        self, read: Sequence[Array], written: Sequence[Array], wanted: Sequence[TensorSpec]
    ) -> None:
        """Call the function with the array to write to in the place of the first one."""
        self._call([*written, *map(read_only, read[1:])])


@dataclass(frozen=True, eq=False)
class CallNode(HostNode):
    """A function that returns its outputs."""

    declared: Outputs

    def infer(self, inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        """Return the shapes and data types that are declared for these inputs.

        An unknown dim is the dim at the same place of the first input that has an unknown dim
        there, or else the only unknown dim of all inputs.

        - raises `InvalidShapeError`: a dim is not determined, or the function for the outputs fails
        """
        shapes = [spec.shape for spec in inputs]
        if not callable(self.declared):
            return tuple(
                TensorSpec(tuple(self._known(d, i, shapes) for i, d in enumerate(shape)), dtype)
                for shape, dtype in self.declared
            )
        try:
            dims = (tuple(map(int, s or ())) for s in shapes)  # -1 // 2 may be computed here
            made = [TensorSpec(tuple(s), dtype) for s, dtype in self.declared(*dims)]
            return tuple(s for s, _ in zip(made, self.outputs or made, strict=True))
        except (ArithmeticError, LookupError, TypeError, ValueError) as e:
            raise InvalidShapeError(
                f"host step {self.label}: outputs must give pairs of shape and data type for "
                f"inputs of {', '.join(map(shape_text, shapes))}: {e}"
            ) from e

    def _known(self, dim: int, axis: int, shapes: Sequence[Shape | None]) -> int:
        if dim >= 0:
            return dim
        unknown = [
            (i, k) for i, v in enumerate(self.inputs) for k, d in enumerate(v.shape or ()) if d < 0
        ]
        found = [at for at in unknown if at[1] == axis] or unknown
        if not found or (found is unknown and len(unknown) > 1):
            raise InvalidShapeError(
                f"host step {self.label}: dim {axis} of an output is unknown (-1), and "
                f"{'more than one dim' if unknown else 'no dim'} of its inputs is; give outputs as "
                "a function of the inputs' shapes"
            )
        i, k = found[0]
        return (shapes[i] or ())[k]

    def compute(self, arrays: Sequence[Array]) -> list[Array]:
        """Call the function, and check what it returns."""
        return self._called(arrays, self.infer([TensorSpec(a.shape) for a in arrays]))

    def run(
        self, read: Sequence[Array], written: Sequence[Array], wanted: Sequence[TensorSpec]
    ) -> None:
        """Call the function, check what it returns, and copy that."""
        for target, result in zip(written, self._called(read, wanted), strict=True):
            target[...] = result

    def _called(self, given: Sequence[Array], wanted: Sequence[TensorSpec]) -> list[Array]:
        made = self._call([read_only(a) for a in given])
        results = made if isinstance(made, (tuple, list)) else [made]
        if len(results) != len(wanted):
            raise InvalidArgumentsError(
                f"host step {self.label} made at {self.where}: its function must return "
                f"{len(wanted)} arrays, got {len(results)}"
            )
        return [
            self._checked(i, r, w) for i, (r, w) in enumerate(zip(results, wanted, strict=True))
        ]

    def _checked(self, i: int, given: Any, wanted: TensorSpec) -> Array:
        dtype = array_dtype(wanted.dtype or "")
        is_array = isinstance(given, (np.ndarray, np.generic))
        if is_array and given.dtype == dtype and given.shape == wanted.shape:
            return np.asarray(given)
        what = f"host step {self.label} made at {self.where}: output {i} of its function"
        if not is_array:
            raise TypeError(f"{what} must be a NumPy array, got {type(given).__name__}")
        if given.dtype != dtype:
            raise InvalidDataTypeError(
                f"{what} must be {wanted.dtype} (NumPy's {dtype}), got {given.dtype}"
            )
        raise InvalidShapeError(
            f"{what} must have the shape {shape_text(wanted.shape)}, got {shape_text(given.shape)}"
        )


def read_only(array: Array) -> Array:
    """Return an array that can't be written to: itself, or a view."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view
