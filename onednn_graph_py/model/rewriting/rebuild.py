"""Copy a builder's graph with changes, op by op; copies share its constants."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ...base.errors import InvalidArgumentsError
from ..building.builder import GraphBuilder
from ..building.value import Node, Value

_FLOATS = ("f32", "bf16", "f16")


def values_of(builder: GraphBuilder) -> list[Value]:
    """Return all values in the order of an `Edit`'s numbers: inputs, constants, results."""
    return [*builder.inputs, *builder.constants, *(v for n in builder.nodes for v in n.outputs)]


def numbers_of(builder: GraphBuilder) -> dict[int, int]:
    """Return the number of each value, by its id."""
    return {v.id: i for i, v in enumerate(values_of(builder))}


Writer = Callable[["Copy", Node, tuple[Value, ...]], tuple[Value, ...]]
"""A function that replaces an op: takes the copy, the op and its new inputs; returns results."""

LeafWriter = Callable[["Copy", Value], Value]
"""A function that replaces an input or a constant: takes the copy and the value."""


@dataclass(frozen=True)
class Edit:
    """The changes of a copy; it refers to ops and values by number, so it fits any equal graph."""

    # writers of ops, by position among the builder's ops
    nodes: Mapping[int, Writer] = field(default_factory=dict)
    # writers of inputs and constants, by their numbers
    leaves: Mapping[int, LeafWriter] = field(default_factory=dict)
    # new data types, by number of the value
    dtypes: Mapping[int, str] = field(default_factory=dict)
    # mapping of (int, int) to str, data types that an op's inputs must have, by position of the op
    # and number of the port; inputs of other types are cast
    ports: Mapping[tuple[int, int], str] = field(default_factory=dict)
    hidden: frozenset[int] = frozenset()  # numbers of values that are no longer outputs
    # the kinds of ops at some positions, to check that an edit is for a graph
    kinds: Mapping[int, str] = field(default_factory=dict)


class Copy:
    """A copy of a builder's graph, while writers add its ops.

    - attribute `builder`: the copy
    - attribute `stands`: by id of an op of the copy, the position of the op that it stands for
    """

    def __init__(self, source: GraphBuilder, edit: Edit) -> None:
        self.source = source
        self.edit = edit
        self.builder = GraphBuilder(
            source.engine_kind, source.fpmath_mode, apply_to_int=source.apply_to_int
        )
        self.stands: dict[int, int] = {}
        self.values: dict[int, Value] = {}
        self._numbers = numbers_of(source)
        self._positions = {n.id: i for i, n in enumerate(source.nodes)}
        self._at = -1

    # -- for writers

    def add(
        self, kind: str, inputs: Sequence[Any], attrs: Mapping[str, Any] | None = None, **more: Any
    ) -> Any:
        """Add an op in place of the current one; return its results as `GraphBuilder.op` does."""
        made = self.builder.add_op(kind, inputs, dict(attrs or {}), **more)
        contents = self.builder.contents
        # The op gets the line of the op that it replaces.
        node = replace(contents.nodes[-1], where=self.source.nodes[self._at].where)
        for value in node.outputs:
            value.producer = node
        contents.nodes[-1] = node
        return made

    def instead(
        self, kind: str, inputs: Sequence[Any], attrs: Mapping[str, Any] | None = None, **more: Any
    ) -> Any:
        """Add an op as `add` does, and record that it stands for the current one."""
        made = self.add(kind, inputs, attrs, **more)
        self.stands[self.builder.contents.nodes[-1].id] = self._at
        return made

    def same(
        self,
        node: Node,
        inputs: Sequence[Value],
        attrs: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
    ) -> tuple[Value, ...]:
        """Add the same op with these inputs, and with other attributes if given.

        It has the edit's data types; inputs of other types are cast.
        """
        given = self._cast(node, inputs)
        dtypes = [self.edit.dtypes.get(self._numbers[v.id], v.dtype) for v in node.outputs]
        if node.kind == "TypeCast":
            if given[0].dtype == dtypes[0]:
                return (given[0],)
            if "f32" not in (given[0].dtype, dtypes[0]):
                given = [self.cast(given[0], "f32")]
        unchanged = attrs is None and all(
            a.shape == b.shape for a, b in zip(node.inputs, given, strict=True)
        )
        shapes = [v.shape if unchanged else None for v in node.outputs]
        made = self.add(
            node.kind,
            given,
            node.attrs if attrs is None else attrs,
            outputs=list(zip(shapes, dtypes, strict=True)),
            name=(node.name if name is None else name) or None,
        )
        self.stands[self.builder.contents.nodes[-1].id] = self._positions[node.id]
        return made if isinstance(made, tuple) else () if made is None else (made,)

    def cast(self, value: Value, dtype: str) -> Value:
        """Return the value in another data type, cast through f32 if need be."""
        if value.dtype == dtype:
            return value
        if "f32" not in (value.dtype, dtype):
            value = self.cast(value, "f32")
        made: Value = self.add("TypeCast", [value], {}, outputs=[(value.shape, dtype)])
        return made

    def constant(self, array: Any, dtype: str = "f32") -> Value:
        """Add a new constant."""
        return self.builder.constant(array, dtype)

    # -- for `rebuild`

    def _cast(self, node: Node, inputs: Sequence[Value]) -> list[Value]:
        made = []
        for i, (old, value) in enumerate(zip(node.inputs, inputs, strict=True)):
            wanted = self.edit.ports.get((self._at, i), old.dtype)
            both = wanted in _FLOATS and value.dtype in _FLOATS and node.kind != "TypeCast"
            made.append(self.cast(value, wanted) if both else value)
        return made

    def leaf(
        self,
        value: Value,
        shape: Sequence[int] | None = None,
        *,
        strides: Sequence[int] | Literal["same"] | None = "same",
    ) -> Value:
        """Add the same input or constant, or one of another shape, in the edit's data type."""
        number = self._numbers[value.id]
        dtype = self.edit.dtypes.get(number, value.dtype)
        contents = self.builder.contents
        if value.data is None:
            taken = {v.name for v in contents.inputs}
            name = value.name if value.name and value.name not in taken else None
            sizes = value.shape if shape is None else tuple(shape)
            steps = value.strides if strides == "same" else strides
            return self.builder.input(sizes, dtype, name=name, strides=steps)
        if dtype == value.dtype and shape is None:
            made = Value(self.builder, value.shape, dtype, value.name)
            made.data = value.data  # private and read-only, so it may be shared
            contents.constants[made.id] = made
            return made
        data = value.data if shape is None else value.data.reshape(tuple(shape))
        return self.builder.constant(data, dtype, name=value.name)

    def write(self, position: int, node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
        """Write one op, with the edit's writer if it has one."""
        self._at = position
        writer = self.edit.nodes.get(position)
        return self.same(node, inputs) if writer is None else writer(self, node, inputs)


def rebuild(
    builder: GraphBuilder,
    edit: Edit | None = None,
    *,
    only: Container[int] | None = None,
    shapes: Mapping[int, tuple[int, ...]] | None = None,
) -> Copy:
    """Copy a graph with the changes of an edit.

    - `builder`: the graph; it is not changed
    - `only`: positions of the ops to copy; results of other ops become inputs, and values that
      other ops read become outputs
    - `shapes`: shapes that inputs have in the copy, by id
    - raises `OneDNNError`: the changed graph is invalid
    """
    edit = edit or Edit()
    nodes = builder.nodes
    for position, kind in edit.kinds.items():
        if position >= len(nodes) or nodes[position].kind != kind:
            raise InvalidArgumentsError(
                f"apply: the change is for another graph: op {position} must be a {kind}, got "
                f"{nodes[position].kind if position < len(nodes) else 'no such op'}"
            )
    copy = Copy(builder, edit)
    numbers = numbers_of(builder)
    kept = [i for i in range(len(nodes)) if only is None or i in only]
    read = {v.id for i in kept for v in nodes[i].inputs}
    made = {v.id for i in kept for v in nodes[i].outputs}
    known = shapes or {}
    for value in values_of(builder):
        # A part has only those inputs, constants and results of other ops that it reads.
        if value.id in made or (only is not None and value.id not in read):
            continue
        write = edit.leaves.get(numbers[value.id])
        if write is not None and (value.data is not None or value.producer is None):
            copy.values[value.id] = write(copy, value)
        else:
            copy.values[value.id] = copy.leaf(value, known.get(value.id))
    for i in kept:
        inputs = tuple(copy.values[v.id] for v in nodes[i].inputs)
        results = copy.write(i, nodes[i], inputs)
        copy.values.update({v.id: r for v, r in zip(nodes[i].outputs, results, strict=True)})
    _mark_outputs(copy, kept, only is not None)
    _drop_unread(copy, read)
    return copy


def _drop_unread(copy: Copy, read: Container[int]) -> None:
    """Remove the inputs and constants that the changed graph no longer reads."""
    contents = copy.builder.contents
    still = {v.id for n in contents.nodes for v in n.inputs}
    still |= {v.id for v in contents.outputs.values()}
    unread = {v.id for i, v in copy.values.items() if i in read} - still
    contents.inputs = [v for v in contents.inputs if v.id not in unread]
    contents.constants = {i: v for i, v in contents.constants.items() if i not in unread}


def _mark_outputs(copy: Copy, kept: Sequence[int], part: bool) -> None:
    builder, numbers = copy.source, copy._numbers
    hidden = {v.id for v in values_of(builder) if numbers[v.id] in copy.edit.hidden}
    outputs = {n: v for n, v in builder.outputs.items() if v.id not in hidden}
    if part:
        inside = set(kept)
        made = {v.id: v for i in kept for v in builder.nodes[i].outputs}
        outside = {v.id for v in outputs.values()}
        others = (n for i, n in enumerate(builder.nodes) if i not in inside)
        outside |= {v.id for n in others for v in n.inputs}
        outputs = {f"v{numbers[i]}": v for i, v in made.items() if i in outside}
    copy.builder.output(**{name: copy.values[v.id] for name, v in outputs.items()})
