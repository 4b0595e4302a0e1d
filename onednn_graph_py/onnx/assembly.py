"""Write the nodes of a survey into a `GraphBuilder`, by the table of lowerings."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy.typing as npt
import onnx_ir as ir

from ..base.errors import OneDNNError
from ..model.building.builder import GraphBuilder
from ..model.building.constant_arrays import converted, placed
from ..model.building.foreign import HostNode
from ..model.building.value import Value
from ..model.running.memory_limit import MemoryLimit
from .host_steps import MOVED
from .islands import Island, IslandShapes, Mover
from .lowering.table import LOWERINGS, Call, NotLowered, made_by
from .survey import NotGeneral, Section, Survey
from .tensors import Tensor


class Weights:
    """The arrays of weights as oneDNN reads them, which all programs of a model share.

    So they do the limit of their memory.
    """

    def __init__(self, limit: MemoryLimit | None = None) -> None:
        self.limit = limit
        self._placed: dict[tuple[ir.Value, str], npt.NDArray[Any]] = {}

    def array(self, value: ir.Value, array: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
        """Return the numbers of a weight, of a data type and aligned."""
        if dtype in ("s4", "u4"):
            return array  # the builder packs them
        found = self._placed.get((value, dtype))
        if found is None:
            name = value.name or ""
            found = placed(converted(array, dtype, name), dtype, name, None)
            found.flags.writeable = False
            self._placed[value, dtype] = found
        return found


class Assembly:
    """A builder that is being filled with the nodes of a survey."""

    def __init__(
        self,
        section: Section,
        survey: Survey,
        weights: Weights,
        b: GraphBuilder,
        may_refuse: bool = False,
    ) -> None:
        self.section = section
        self.survey = survey
        self.b = b
        self.may_refuse = may_refuse
        self.values: dict[ir.Value, Value] = {}
        self.inputs: list[ir.Value] = []
        self.island_shapes: list[
            tuple[IslandShapes, tuple[ir.Value, ...], tuple[ir.Value, ...]]
        ] = []
        self._weights = weights
        self._constants: dict[tuple[ir.Value, str], Value] = {}

    def value(self, value: ir.Value, dtype: str | None = None) -> Value:
        """Return a value of the model as one of the builder.

        Weights become constants. What differs between sets of dims becomes an input.
        """
        value = self.survey.origin(value)
        found = self.values.get(value)
        if found is not None:
            return found
        tensor = self.survey.tensors[value]
        fixed = tensor.fixed
        if fixed is None:
            found = self.values[value] = self.b.input(tensor.dims, tensor.dtype, name=value.name)
            self.inputs.append(value)
            return found
        dtype = dtype or tensor.dtype
        constant = self._constants.get((value, dtype))
        if constant is None:
            if value in self.section.known:
                fixed = self._weights.array(value, fixed, dtype)
            constant = self.b.constant(fixed, dtype, name=value.name, copy=None)
            self._constants[value, dtype] = constant
        return constant

    def lower(self, node: ir.Node) -> bool:
        """Add a node, and return whether it is host steps only.

        If it raises NotLowered, with the reason, the builder is as it was.
        """
        c = self.b.contents
        before = len(c.inputs), len(c.constants), len(c.nodes), len(self._constants)
        try:
            made = self._lowered(node)
        except Exception as e:
            del c.inputs[before[0] :], c.nodes[before[2] :]
            for number in list(c.constants)[before[1] :]:
                del c.constants[number]
            for value in self.inputs[before[0] :]:
                del self.values[value], self.inputs[-1]
            for key in list(self._constants)[before[3] :]:
                del self._constants[key]
            if isinstance(e, NotLowered):
                raise
            if isinstance(e, OneDNNError):
                raise NotLowered(f"oneDNN refuses it: {e}") from e
            # Files are not trusted: attributes may be missing or have any type.
            raise NotLowered(f"its lowering fails: {type(e).__name__}: {e}") from e
        self._place(node, before[2])
        for output, value in zip(node.outputs, made, strict=False):
            if value is not None:
                self.values[output] = value
        added = c.nodes[before[2] :]
        return bool(added) and all(isinstance(n, HostNode) for n in added)

    def _place(self, node: ir.Node, since: int) -> None:
        """Let messages about the builder's new ops name the node."""
        place = f"{node.op_type} {node.name or node.outputs[0].name!r}"
        for made in self.b.contents.nodes[since:]:
            object.__setattr__(made, "where", place)

    def _lowered(self, node: ir.Node) -> Sequence[Value | None]:
        function = LOWERINGS.get((node.domain, node.op_type))
        if function is None:
            raise NotLowered("oneDNN has no op for it")
        tensors = self.survey.tensors
        operands = [None if v is None else self._operand(v) for v in node.inputs]
        results = [tensors[v] for v in node.outputs]
        if any(r.is_empty for v, r in zip(node.outputs, results, strict=True) if v.name):
            raise NotLowered("the result has no elements")

        def constant(i: int, dtype: str) -> Value:
            given = node.inputs[i]
            assert given is not None
            return self.value(given, dtype)

        fact = self.section.fact(node)
        call = Call(self.b, node, fact.version, operands, results, constant, self.may_refuse)
        try:
            made = made_by(function(call), len(results))
        except NotLowered:
            if node.op_type not in MOVED or not self._is_moved(node):
                raise
            return self._moved(node, call)
        for i, (value, result) in enumerate(zip(made, results, strict=True)):
            if call.is_read(i):
                _require_same(i, value, result)
        return made

    def _is_moved(self, node: ir.Node) -> bool:
        """Return whether a node moves elements by numbers that are known and differ."""
        data, *numbers = [None if v is None else self.survey.tensors[v] for v in node.inputs]
        known = [t for t in numbers if t is not None and t.arrays is not None]
        is_known = len(known) == len(numbers) and any(t.fixed is None for t in known)
        mode = node.attributes.get_string("mode", "constant")
        return is_known and mode == "constant" and data is not None and not data.is_empty

    def _moved(self, node: ir.Node, call: Call) -> Sequence[Value]:
        """Add a host step that moves elements; it reads inputs that its dims follow from, too."""
        attributes = {k: call.attribute(k, v) for k, v in MOVED[node.op_type][1].items()}
        read = [v for v in node.inputs if v is not None]
        mover = Mover(node.op_type, len(read), attributes)
        dims = self._open_dims(read)
        for value in self.section.inputs if self._open_dims(node.outputs) - dims else ():
            more = self._open_dims([value]) - dims
            read += [value] if more else []
            dims |= more
        self.island(mover, read, node.outputs)
        return [self.values[v] for v in node.outputs]

    def _open_dims(self, values: Iterable[ir.Value]) -> set[tuple[int, ...]]:
        """Return the dims that differ, each with its size in all sets."""
        shapes = [self.survey.tensors[v].shapes for v in values]
        return {d for sets in shapes for d in zip(*sets, strict=True) if len({*d}) > 1}

    def _operand(self, value: ir.Value) -> Tensor:
        made = self.survey.tensors[value]
        if made.arrays is None and not made.is_empty:
            return replace(made, value=self.value(value))
        return replace(made, value=self.values.get(value))

    def island(
        self, island: Island | Mover, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]
    ) -> None:
        """Add a host step that runs nodes outside of oneDNN."""
        tensors = [self.survey.tensors[v] for v in outputs]
        shapes = IslandShapes([(t.dims, t.dtype) for t in tensors])
        for index in range(len(tensors[0].shapes)):
            enter(shapes, self.survey, index, inputs, outputs)
        self.island_shapes.append((shapes, tuple(inputs), tuple(outputs)))
        island.promised = shapes
        before = len(self.b.contents.nodes)
        values = [self.value(v) for v in inputs]
        made = self.b.call(island, *values, outputs=shapes, name=island.label)
        if island.nodes:
            self._place(island.nodes[0], before)
        made = made if isinstance(made, tuple) else (made,)
        self.values.update(zip(outputs, made, strict=True))


def enter(
    shapes: IslandShapes,
    found: Survey,
    index: int,
    inputs: Sequence[ir.Value],
    outputs: Sequence[ir.Value],
) -> None:
    """Take the shapes of one of the sets of dims of a survey.

    It raises NotGeneral if the same operands gave others before.
    """
    key = tuple(found.tensors[v].shapes[index] for v in inputs)
    made = [(found.tensors[v].shapes[index], found.tensors[v].dtype) for v in outputs]
    if shapes.table.setdefault(key, made) != made:
        raise NotGeneral("the dims of an island's results do not follow from its operands'")


def _require_same(i: int, value: Any, result: Tensor) -> None:
    """Compare what a lowering made with what ONNX infers."""
    if not isinstance(value, Value):
        raise NotLowered(f"result {i} is read, and its lowering makes none")
    if value.dtype != result.dtype:
        raise NotLowered(f"its lowering gives {value.dtype} where ONNX has {result.dtype}")
    made, dims = value.shape, result.dims
    if made is None or len(made) != len(dims):
        raise NotLowered(f"its lowering gives the dims {made} where ONNX has {list(dims)}")
    if any(a != b and a != -1 for a, b in zip(made, dims, strict=True)):
        raise NotLowered(f"its lowering gives the dims {list(made)} where ONNX has {list(dims)}")
