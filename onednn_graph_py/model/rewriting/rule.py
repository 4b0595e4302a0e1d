"""Rules that write an op in another way: `Rule`, and `Ops`, which holds what a rule writes."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ops.check import check
from ...ops.tensor_spec import TensorSpec
from ...reference import round_to
from ..building.builder import GraphBuilder, Readers
from ..building.foreign import ViewNode
from ..building.indexing import items_of
from ..building.value import Node, Value, new_id

Dims = tuple[int, ...]


def number_of(value: Value) -> float | None:
    """Return the one element of a constant."""
    return None if value.data is None or value.data.size != 1 else float(value.data.item())


_NONE: Mapping[int, Any] = MappingProxyType({})


class Ops:
    """Ops in the place of a node or of several, which make their outputs.

    - `node`: gives the ops that are added its name, and the line where it was made
    - `shapes`: the shapes of the values, by id, to which those of new values are added
    - `makers`, `readers`: the ops of the graph that make and read each value, by its id
    """

    def __init__(
        self,
        builder: GraphBuilder,
        node: Node,
        shapes: dict[int, Dims],
        makers: Mapping[int, Node] = _NONE,
        readers: Readers = _NONE,
    ) -> None:
        self.builder = builder
        self.node = node
        self.shapes = shapes
        self.nodes: list[Node] = []
        self._makers = makers
        self._readers = readers

    # -- the ops that are there

    def maker(self, value: Value, *kinds: str) -> Node | None:
        """Return the op that makes a value, if it is of one of these kinds; of any by default."""
        node = self._makers.get(value.id)
        return node if node is not None and (not kinds or node.kind in kinds) else None

    def equal(self, one: Value, other: Value) -> bool:
        """Return whether two values are the same, or are computed in the same way."""
        if one is other:
            return True
        makers = [self.maker(value) for value in (one, other)]
        if any(node is None for node in makers):
            return False
        first, second = (node for node in makers if node is not None)
        if [v is one for v in first.outputs] != [v is other for v in second.outputs]:
            return False
        return first.signature == second.signature and all(
            map(self.equal, first.inputs, second.inputs)
        )

    def operands(self, value: Value, kind: str) -> Iterator[tuple[Value, Value]]:
        """Yield the operands of an op that makes a value, in both orders."""
        node = self.maker(value, kind)
        if node is not None:
            yield node.inputs[0], node.inputs[1]
            yield node.inputs[1], node.inputs[0]

    def is_read_once(self, value: Value) -> bool:
        """Whether one op reads a value, which is no output of the graph."""
        readers = self.readers(value)
        return len(readers) == 1 and None not in readers

    def readers(self, value: Value) -> Collection[int | None]:
        """Return the ids of the ops that read a value, and None if it is an output."""
        return self._readers.get(value.id, ())

    # -- the ops that are written

    def value(self, shape: Dims, dtype: str) -> Value:
        """Make a value that no op makes yet."""
        value = Value(self.builder, shape, dtype, self.node.name)
        self.shapes[value.id] = shape
        return value

    def like(self, value: Value, order: Sequence[int] = (), dtype: str = "") -> Value:
        """Make a value with the shape of another, its dims in another order if one is given."""
        shape = self.shapes[value.id]
        return self.value(tuple(shape[i] for i in order) or shape, dtype or value.dtype)

    def scalar(self, number: float, like: Value) -> Value:
        """Make a constant that broadcasts with any tensor of a rank."""
        ones = (1,) * len(self.shapes[like.id])
        return self.constant(round_to(np.full(ones, number), like.dtype), like.dtype)

    def constant(self, array: npt.NDArray[Any], dtype: str) -> Value:
        """Make a constant of elements as they are stored."""
        value = self.value(array.shape, dtype)
        value.data = array
        return value

    def op(self, kind: str, *inputs: Value, dtype: str = "", **attrs: Any) -> Value:
        """Add an op with one output, of the last input's data type unless one is given."""
        specs = [(self.shapes[v.id], v.dtype) for v in inputs]
        shape = check(kind, specs, attrs)[0].shape
        value = self.value(shape or (), dtype or inputs[-1].dtype)
        self.add(kind, inputs, (value,), attrs)
        return value

    def again(self, node: Node, *inputs: Value, **attrs: Any) -> Value:
        """Add an op that is there, with one output, once more for other inputs."""
        return self.op(node.kind, *inputs, dtype=node.outputs[0].dtype, **{**node.attrs, **attrs})

    def view(self, source: Value, index: Any, result: Value | None = None) -> Value:
        """Add a view by an index of NumPy, which makes a new value or `result`."""
        attrs = {"index": items_of(index, len(self.shapes[source.id]))}
        return self._viewed("Slice", source, attrs, result)

    def expanded(self, source: Value, shape: Dims) -> Value:
        """Repeat a value along dims of 1, unless it has a shape."""
        if self.shapes[source.id] == shape:
            return source
        return self._viewed("Expand", source, {"shape": shape}, None)

    def split(self, source: Value, axis: int, sizes: Dims) -> Value:
        """Give the elements along a dim several dims."""
        return self._viewed("Split", source, {"axis": axis, "sizes": sizes}, None)

    def transposed(self, source: Value, order: Dims) -> Value:
        """Give a value its dims in another order."""
        return self._viewed("Transpose", source, {"order": order}, None)

    def _viewed(self, kind: str, source: Value, attrs: Any, result: Value | None) -> Value:
        of = self.node
        node = ViewNode(new_id(), kind, of.name, (source,), (), attrs, of.where)
        if result is None:
            (spec,) = node.infer([TensorSpec(self.shapes[source.id], source.dtype)])
            result = self.value(spec.shape or (), source.dtype)
        self.nodes.append(replace(node, outputs=(result,)))
        return result

    def reshape(self, source: Value, shape: Dims) -> Value:
        """Reshape a value that has another shape."""
        if self.shapes[source.id] == shape:
            return source
        value = self.value(shape, source.dtype)
        # Not by `op`: oneDNN's reshapes take no booleans, those of plans do.
        self.add("StaticReshape", (source,), (value,), {"shape": shape, "special_zero": False})
        return value

    def cast(self, source: Value, dtype: str) -> Value:
        """Convert a value of another floating-point type."""
        return source if source.dtype == dtype else self.op("TypeCast", source, dtype=dtype)

    def add(
        self, kind: str, inputs: Sequence[Value], outputs: Sequence[Value], attrs: Mapping[str, Any]
    ) -> None:
        """Add an op that makes these values."""
        of = self.node
        node = Node(new_id(), kind, of.name, tuple(inputs), tuple(outputs), dict(attrs), of.where)
        self.nodes.append(node)

    def same(
        self,
        inputs: Sequence[Value] | None = None,
        outputs: Sequence[Value] | None = None,
        **attrs: Any,
    ) -> None:
        """Add the node itself, with these inputs, outputs and attributes where they are given."""
        node = self.node
        inputs = node.inputs if inputs is None else tuple(inputs)
        outputs = node.outputs if outputs is None else tuple(outputs)
        self.nodes.append(
            replace(node, inputs=inputs, outputs=outputs, attrs={**node.attrs, **attrs})
        )

    def end(self) -> list[Node]:
        """Return the nodes; if none makes the node's output the last one does."""
        written = {v.id for n in self.nodes for v in n.outputs}
        if not any(v.id in written for v in self.node.outputs):
            last = self.nodes[-1]
            self.nodes[-1] = replace(last, id=self.node.id, outputs=self.node.outputs)
        return self.nodes


@dataclass(frozen=True)
class Rule:
    """Another way to write ops, which computes the same up to the order of sums."""

    how: str  # the way's name in messages
    kinds: Collection[str]  # the kinds of ops that it is for
    # takes `Ops` and a node, writes other ops and returns True, or returns False if the rule does
    # not fit
    write: Callable[[Ops, Node], bool]
    since: tuple[int, int] = (0, 0)  # the version of oneDNN that brings what it writes

    def written(
        self, builder: GraphBuilder, node: Node, shapes: dict[int, Dims]
    ) -> list[Node] | None:
        """Return nodes that compute what a node does, or None if the rule does not fit."""
        if node.kind not in self.kinds:
            return None
        ops = Ops(builder, node, shapes)
        return ops.end() if self.write(ops, node) else None
