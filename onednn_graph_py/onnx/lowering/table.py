"""The table of lowerings: for each op of ONNX a function that adds it to a `GraphBuilder`."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt
import onnx_ir as ir

from ...base.errors import OneDNNError
from ...frontends.lowering import FLOATS, Entered, NotLowered, Place, Table
from ...machine.cpu import lacks
from ...model.building.builder import GraphBuilder
from ...model.building.value import Value
from ..tensors import Shape, Tensor

__all__ = ["FLOATS", "LOWERINGS", "Call", "Function", "NotLowered", "lowers", "made_by"]


class Call(Place):
    """A node while it is lowered: what its function may ask and use.

    `results` are as ONNX infers them, empty if it does not know the op; `may_refuse` is whether
    what it makes may refuse arrays that onnxruntime takes.
    """

    def __init__(
        self,
        b: GraphBuilder,
        node: ir.Node,
        version: int,
        operands: Sequence[Tensor | None],
        results: Sequence[Tensor],
        constant: Callable[[int, str], Value],
        may_refuse: bool = False,
    ) -> None:
        super().__init__(b)
        self.may_refuse = may_refuse
        self.node = node
        self.version = version
        self._operands = list(operands)
        while self._operands and self._operands[-1] is None:
            self._operands.pop()
        self._results = results
        self._constant = constant

    def __len__(self) -> int:
        """Return the number of inputs; trailing empty ones are left out."""
        return len(self._operands)

    def has(self, i: int) -> bool:
        """Return whether an input is there."""
        return i < len(self._operands) and self._operands[i] is not None

    def _operand(self, i: int) -> Tensor:
        found = self._operands[i] if i < len(self._operands) else None
        if found is None:
            raise NotLowered(f"input {i} is missing")
        return found

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute as an int, float, str, tuple of them or NumPy array."""
        found = self.node.attributes.get(name)
        if found is None:
            return default
        if found.is_ref():
            raise NotLowered(f"attribute {name} refers to that of a function")
        if found.type == ir.AttributeType.TENSOR:
            return found.as_tensor().numpy()
        if found.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
            raise NotLowered(f"attribute {name} is a subgraph")
        return tuple(found.value) if isinstance(found.value, (list, tuple)) else found.value

    def known(self, i: int) -> npt.NDArray[Any] | None:
        """Return the numbers of an input that are the same for all calls of the program."""
        return self._operand(i).fixed if self.has(i) else None

    def need(self, i: int, what: str) -> npt.NDArray[Any]:
        """Return the numbers of an input, which must be the same for all calls of the program."""
        found = self.known(i)
        if found is None:
            raise NotLowered(f"{what} must be a constant")
        return found

    def value(self, i: int, dtype: str | None = None) -> Value:
        """Return an input as a value, of a data type; one that is known becomes a constant."""
        tensor = self._operand(i)
        if tensor.is_empty:
            raise NotLowered("a tensor has no elements")
        if tensor.value is not None:
            return tensor.value if dtype is None else self.cast(tensor.value, dtype)
        if why := lacks(dtype or tensor.dtype):
            raise NotLowered(why)
        try:
            return self._constant(i, dtype or tensor.dtype)
        except OneDNNError as e:
            raise NotLowered(str(e)) from None

    def floats(self, *inputs: int) -> list[Value]:
        """Return inputs as values, of floating-point types that the CPU has."""
        values = [self.value(i) for i in inputs]
        self.need_float(*values)
        return values

    def dims(self, i: int) -> Shape:
        """Return the dims of an input, -1 for those that can differ between calls."""
        return self._operand(i).dims

    def dtype(self, i: int) -> str:
        """Return the package's name of an input's data type."""
        return self._operand(i).dtype

    @property
    def result_dtypes(self) -> tuple[str, ...]:
        """The data types of the outputs, as ONNX infers them."""
        return tuple(r.dtype for r in self._results)

    @property
    def result_dims(self) -> tuple[Shape, ...]:
        """The dims of the outputs, as ONNX infers them; -1 for those that can differ."""
        return tuple(r.dims for r in self._results)

    def is_read(self, output: int) -> bool:
        """Return whether something reads an output."""
        outputs = self.node.outputs
        if output >= len(outputs) or not outputs[output].name:
            return False
        return bool(outputs[output].uses()) or outputs[output].is_graph_output()

    def axes(self, i: int) -> tuple[int, ...] | None:
        """Return axes that an attribute or, in newer opsets, an input has; none are negative.

        They count the dims of input 0. None if neither is given.
        """
        given = self.attribute("axes")
        if given is None and self.has(i):
            given = tuple(int(a) for a in self.need(i, "axes").reshape(-1))
        if given is None:
            return None
        rank = len(self.dims(0))
        axes = (given,) if isinstance(given, int) else given
        if any(not -rank <= a < rank for a in axes):
            raise NotLowered("axes are out of range")
        return tuple(a % rank for a in axes)

    def target(self, i: int) -> list[int]:
        """Return the shape that input `i` holds, which Reshape gives to input 0.

        A dim is 0 where it is the source's dim at the same place, and -1 for one that is unknown.
        """
        tensor = self._operand(i)
        if tensor.arrays is None:
            raise NotLowered("the new shape must be a constant or follow from shapes")
        zero_is_kept = not self.attribute("allowzero", 0)
        sources = self._operand(0).shapes
        shapes = [
            _resolved(source, [int(d) for d in array.reshape(-1)], zero_is_kept)
            for source, array in zip(sources, tensor.arrays, strict=True)
        ]
        if any(0 in s for s in (*shapes, *sources)):
            raise NotLowered("the tensor has no elements")
        made = []
        for place, sizes in enumerate(zip(*shapes, strict=True)):
            if all(d == sizes[0] for d in sizes):
                made.append(sizes[0])
            elif all(place < len(s) and s[place] == d for s, d in zip(sources, sizes, strict=True)):
                made.append(0)
            else:
                made.append(-1)
        if made.count(-1) > 1:
            raise NotLowered("more than one dim of the new shape is unknown")
        return made


def _resolved(source: Shape, target: list[int], zero_is_kept: bool) -> Shape:
    """Return the dims of Reshape's result."""
    made = []
    for i, d in enumerate(target):
        if d == 0 and zero_is_kept:
            if i >= len(source):
                raise NotLowered("the new shape takes a dim that the tensor lacks")
            d = source[i]
        made.append(d)
    count = math.prod(source)
    rest = math.prod(d for d in made if d != -1)
    if made.count(-1) == 1 and rest and count % rest == 0:
        made[made.index(-1)] = count // rest
    if any(d < 0 for d in made) or math.prod(made) != count:
        raise NotLowered("the new shape does not fit the tensor")
    return tuple(made)


Function = Callable[[Call], "Value | Sequence[Value | None]"]


def made_by(returned: Value | Sequence[Value | None], count: int) -> list[Value | None]:
    """Return what a lowering made, a value for each of a node's outputs or None."""
    made = [returned] if isinstance(returned, Value) else list(returned)
    return (made + [None] * count)[:count]


LOWERINGS: Table[tuple[str, str], Function] = Table()
"""The function of each op, by domain and type; it returns a value for each output that is read."""


def lowers(*types: str, domain: str = "") -> Callable[[Entered], Entered]:
    """Enter a function into the table for these ops."""
    return LOWERINGS.enters(*((domain, op_type) for op_type in types))
