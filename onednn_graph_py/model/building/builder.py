"""Graphs written in Python: `GraphBuilder`."""

from __future__ import annotations

import contextlib
import copy
import itertools
import numbers
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import _core
from ...base.arguments import need_callable, need_choice, need_instance, need_integers
from ...base.dtypes import data_type_of, dtype_name
from ...base.errors import (
    InvalidArgumentsError,
    InvalidDataTypeError,
    InvalidShapeError,
    OneDNNError,
    reworded,
)
from ...ops.check import check
from ...ops.inference import make_call
from ...ops.lookup import row
from ...ops.tensor_spec import TensorSpec
from ...ops.terms import label_of, shape_text
from .constant_arrays import converted, pickled, placed, restored
from .foreign import CallNode, ForeignNode, Outputs, UpdateNode, ViewNode
from .op_methods import BuilderMethods
from .sizes import Size
from .value import Node, Value, ValueLike, caller, is_whole, new_id

Readers = Mapping[int, set[int | None]]
"""The ids of the nodes that read a value, by the value's id; None stands for the caller."""


@dataclass
class Contents:
    """The contents of a builder, which the package itself may change."""

    inputs: list[Value] = field(default_factory=list)
    constants: dict[int, Value] = field(default_factory=dict)  # by id
    nodes: list[Node] = field(default_factory=list)
    outputs: dict[str, Value] = field(default_factory=dict)
    # what the sizes of the inputs fulfil, of which each `Extent` is one
    conditions: list[Size] = field(default_factory=list)


class GraphBuilder(BuilderMethods):
    """Builds a graph op by op; `compile` makes it callable.

    Every op of oneDNN Graph is a method in snake_case, with inputs by position or name and
    attributes by name, as ``help(og.ops.Convolution)`` shows. It checks shapes and data types.

    Parameters
    ----------
    engine_kind : str or engine.kind
        The kind of engine that runs the graph: ``cpu`` or ``gpu``. Only `compile` needs it.
    fpmath_mode : str or fpmath_mode
        The smaller types that oneDNN may use to compute f32 ops.
    apply_to_int : bool
        Whether oneDNN may use these types for integers too, as compressed weights need.

    Examples
    --------
    >>> b = GraphBuilder()
    >>> x = b.input((2, 4), "f32", name="x")
    >>> b.output(b.relu(x - 1.5))
    >>> model = b.compile()
    >>> model(np.float32([[0, 1, 2, 3], [3, 2, 1, 0]]))
    array([[0. , 0. , 0.5, 1.5],
           [1.5, 0.5, 0. , 0. ]], dtype=float32)
    """

    def __init__(
        self, engine_kind: Any = "cpu", fpmath_mode: Any = "strict", *, apply_to_int: bool = False
    ) -> None:
        # The mirror converts strings to these enumerators.
        self.engine_kind = _core.graph(engine_kind).get_engine_kind()
        self.fpmath_mode = _core.graph(self.engine_kind, fpmath_mode).get_fpmath_mode()[0]
        self.apply_to_int = bool(apply_to_int)
        self.contents = Contents()
        self._scopes: list[str] = []
        # By the ids of values, the records that `serialization` has read of a file.
        self.records: dict[int, Any] = {}
        # Whether NumPy's functions take arrays of f64 as f32; `trace` sets it.
        self.narrow = False

    def __repr__(self) -> str:
        c = self.contents
        return (
            f"<GraphBuilder: {len(c.inputs)} inputs, {len(c.constants)} constants, "
            f"{len(c.nodes)} ops, {len(c.outputs)} outputs>"
        )

    # -- contents

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The inputs, in the order in which a call takes them."""
        return tuple(self.contents.inputs)

    @property
    def constants(self) -> tuple[Value, ...]:
        """All constants, including those made from Python numbers."""
        return tuple(self.contents.constants.values())

    @property
    def outputs(self) -> dict[str, Value]:
        """The outputs by name, in the order in which a call returns them."""
        return dict(self.contents.outputs)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The ops, in the order in which they were made."""
        return tuple(self.contents.nodes)

    @property
    def graph(self) -> _core.graph:
        """The mirror's graph of oneDNN's ops built so far, finalized."""
        return graph_of(self, {})

    # -- tensors

    @contextlib.contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Put ``name/`` before the names of ops and tensors made inside."""
        _check_name(name)
        self._scopes.append(name)
        try:
            yield
        finally:
            self._scopes.pop()

    def _named(self, name: str | None, default: str = "") -> str:
        if name is not None:
            _check_name(name)
        return "/".join([*self._scopes, name or default]) if (name or default) else ""

    def input(
        self,
        shape: Sequence[int] | None,
        dtype: str = "f32",
        *,
        name: str | None = None,
        strides: Sequence[int] | None = None,
        updated: bool = False,
    ) -> Value:
        """Add an input.

        Parameters
        ----------
        shape : sequence of int
            The dims, -1 for one that only a call determines; a model compiles for each new size.
        dtype : str
            oneDNN's name of the data type, such as ``bf16``; or one that only host steps and views
            read, such as ``s64`` (`dtypes.HOST_DTYPES`).
        name : str, optional
            The name by which a call may pass it; ``input0`` and so on by default.
        strides : sequence of int, optional
            Strides, in elements, of the arrays that calls pass; row-major by default.
        updated : bool
            Whether calls may write to the array, which `update` does; it must be writable then.

        Raises
        ------
        InvalidArgumentsError
            There is an input of that name, or no such data type.
        InvalidShapeError
            There is not one stride for each dim, or dims are unknown.
        """
        inputs = self.contents.inputs
        made = self._named(name) or _free_name(
            self._named(None, "input"), len(inputs), {v.name for v in inputs}
        )
        if any(v.name == made for v in inputs):
            raise InvalidArgumentsError(f"input {made!r}: there is an input of this name")
        if shape is None:
            raise InvalidShapeError(f"input {made!r}: the number of dims must be known")
        dims = need_integers(f"input {made!r}: shape", shape)
        if any(d < -1 for d in dims):
            raise InvalidShapeError(
                f"input {made!r}: dims must be -1 (not known) or not negative, got {list(dims)}"
            )
        value = Value(self, dims, dtype_name(dtype), made)
        if strides is not None:
            value.strides = need_integers(f"input {made!r}: strides", strides)
            if len(value.strides) != len(dims) or not is_whole(dims):
                raise InvalidShapeError(
                    f"input {made!r}: strides must be one for each of {len(dims)} known dims, got "
                    f"{list(strides)} for {shape_text(dims)}"
                )
        try:
            value.described(dims)  # the mirror refuses dims that oneDNN can't have
        except OneDNNError as e:
            raise reworded(e, f"input {made!r}: {e}") from None
        value.updated = bool(updated)
        self.contents.inputs.append(value)
        return value

    def constant(
        self,
        array: npt.ArrayLike,
        dtype: str | None = None,
        *,
        name: str | None = None,
        copy: bool | None = True,
    ) -> Value:
        """Add a constant: a private, read-only copy, or an array of the caller.

        Parameters
        ----------
        array : array_like
            The elements, also of an object that has only DLPack; bf16, 8-bit floats and 4-bit
            integers as ml_dtypes' types.
        dtype : str, optional
            The data type to convert to, rounding to nearest even.
        name : str, optional
        copy : bool, optional
            False uses the array where it lies, as for memory-mapped files and shared memory, and
            keeps it alive: it must be read-only, row-major and aligned to 64 bytes, and need no
            conversion. None does so if it can, and copies otherwise.

        Raises
        ------
        InvalidArgumentsError
            oneDNN does not have the array's data type, and `dtype` is not given; rows differ in
            length; or `copy` is False, and the array can't be used where it lies.
        InvalidDataTypeError
            `dtype` can't hold the values.

        Notes
        -----
        A model whose constants change under it, through other views of the same memory, computes
        with the old values, the new ones or both. A file that is mapped must not get shorter: the
        system ends a process that reads past its end.
        """
        need_choice("constant: copy", copy, (True, False, None))
        made = self._named(name, f"constant{len(self.contents.constants)}")
        given: Any = array
        only_dlpack = hasattr(given, "__dlpack__") and not hasattr(given, "__array__")
        try:
            values = np.from_dlpack(given) if only_dlpack else np.asarray(given)
        except ValueError as e:  # rows of several lengths
            raise InvalidArgumentsError(f"constant {made!r}: {e}") from None
        if dtype is None:
            dtype = data_type_of(values.dtype).name
        else:
            dtype = dtype_name(dtype)
            given, values = values, converted(values, dtype, made)
            if copy is False and values is not given:
                raise InvalidArgumentsError(
                    f"constant {made!r}: copy=False needs an array of {dtype}, got {given.dtype}"
                )
        value = Value(self, values.shape, dtype, made)
        value.data = placed(values, dtype, made, copy)
        value.described(value.shape)
        self.contents.constants[value.id] = value
        return value

    def output(self, /, *values: Value, **named: Value) -> None:
        """Mark values as outputs, which a call returns.

        Parameters
        ----------
        *values : Value
            Outputs under their own names, or ``output0`` and so on.
        **named : Value
            Outputs under these names.

        Raises
        ------
        InvalidArgumentsError
            A name is taken, or a value is not of this builder.
        """
        outputs = dict(self.contents.outputs)
        for name, value in [*((None, v) for v in values), *named.items()]:
            self._own(value, "output")
            key = name or (value.name if value.producer else "")
            key = key or _free_name("output", len(outputs), outputs)
            if key in outputs:
                raise InvalidArgumentsError(f"output {key!r}: there is an output of this name")
            outputs[key] = value
        self.contents.outputs = outputs

    def _own(self, value: Any, what: str) -> Value:
        own: Value = need_instance(what, value, Value)
        if own.builder is not self:
            raise InvalidArgumentsError(f"{what}: {own!r} belongs to another GraphBuilder")
        if own.stale:
            raise InvalidArgumentsError(
                f"{what}: {own!r} shares memory with what was written in place at {own.stale}, "
                "which a model can't do; write x = x + y there instead of x += y"
            )
        return own

    def _operand(self, given: ValueLike, like: Value | None = None) -> Value:
        """Return a value; turn an array, or a number with the type of `like`, into a constant."""
        if isinstance(given, Value):
            return self._own(given, "it")
        if isinstance(given, (numbers.Real, np.bool_)):
            if like is None:
                raise TypeError("a number needs another operand that is a value; use constant")
            # oneDNN would give the result of a scalar and a tensor of one element the rank 1.
            return self.constant(np.full(() if like.shape == () else (1,), given), like.dtype)
        return self.constant(given)

    @contextlib.contextmanager
    def _operands(
        self, given: Sequence[ValueLike], convert: Callable[[int, ValueLike], Value]
    ) -> Iterator[tuple[Value, ...]]:
        """Convert an op's inputs to values; take their new constants back if the block raises."""
        made: list[Value] = []
        try:
            for i, operand in enumerate(given):
                made.append(convert(i, operand))
            yield tuple(made)
        except Exception:
            for value, operand in zip(made, given, strict=False):
                if value is not operand:  # other threads may add constants meanwhile
                    del self.contents.constants[value.id]
            raise

    # -- ops

    def op(
        self,
        kind: str,
        *inputs: ValueLike,
        outputs: Sequence[tuple[Sequence[int] | None, str | None]] | None = None,
        name: str | None = None,
        **attrs: Any,
    ) -> Any:
        """Add an op by its kind, as the methods do, with outputs that they can't describe.

        Parameters
        ----------
        kind : str
            The name of the kind, such as ``Convolution``.
        *inputs : Value, array or number
        outputs : sequence of (shape, dtype), optional
            Shapes and data types of the outputs; only needed if the inputs don't determine them,
            or for optional outputs. None for a shape or type that is inferred.
        name : str, optional
        **attrs
            Attributes, spelled as in the documents or the library.

        Returns
        -------
        Value, tuple of Value, or None
            One output, several, or none.

        Raises
        ------
        OneDNNError
            As in `onednn_graph_py.ops.check`.
        """
        return self.add_op(kind, inputs, attrs, outputs=outputs, name=name)

    def add_op(
        self,
        kind: str,
        inputs: Sequence[ValueLike],
        attrs: dict[str, Any],
        *,
        dtype: str | None = None,
        outputs: Sequence[Any] | None = None,
        name: str | None = None,
        where: str | None = None,
    ) -> Any:
        """Add an op, as `op` does.

        - `dtype`: the data type of the first output, where inputs leave it open
        - `where`: the origin of the op, for messages; by default the caller's line
        """
        like = next((i for i in inputs if isinstance(i, Value)), None)
        full = self._named(name)
        with self._operands(inputs, lambda i, v: self._input(kind, full, i, v, like)) as values:
            given = [TensorSpec(v.shape, v.dtype) for v in values]
            made = check(kind, given, attrs, outputs, name=full)
            if dtype is not None:
                wanted = [(s.shape, s.dtype) for s in made]
                wanted[0] = (wanted[0][0], dtype_name(dtype))
                made = check(kind, given, attrs, wanted, name=full)
            for i, spec in enumerate(made):
                if spec.dtype is None:
                    raise InvalidDataTypeError(
                        f"{label_of(kind, full)}: the data type of output {i} can't be inferred "
                        "from the inputs; give dtype, as b.quantize and b.add_op take it, or "
                        "outputs"
                    )
        call = make_call(row(kind), given, attrs, made, name=full)
        node = Node(new_id(), kind, full, values, (), dict(call.attrs), where or caller())
        return self._append(node, [(s.shape, s.dtype or "undef") for s in made])

    # -- what oneDNN has no ops for

    def call(
        self,
        function: Callable[..., Any],
        *values: ValueLike,
        outputs: Outputs,
        name: str | None = None,
    ) -> Any:
        """Add a Python function over arrays, which runs as a step of the model: a host step.

        Parameters
        ----------
        function : callable
            Takes a read-only NumPy array for each value. Returns an array for each output, several
            as a tuple, with exactly the declared shape and data type. The model copies them.
        *values : Value, array or number
        outputs : sequence of (shape, dtype), or callable
            Shape and data type of each output. A dim of -1 is the dim at the same place of the
            first value that has an unknown dim there, or else the only unknown dim of all values.
            A callable returns the sequence, given the values' shapes; dims are -1 where the graph
            is built and they are unknown, and nothing can be computed of these.
        name : str, optional

        Returns
        -------
        Value or tuple of Value
            One output, or several.

        Raises
        ------
        InvalidArgumentsError
            There are no outputs.
        InvalidShapeError
            The outputs' shapes don't follow from those of the values.
        InvalidDataTypeError
            There is no such data type, or it is packed (``s4``, ``u4``).
        TypeError
            The function can't be called.

        Notes
        -----
        Besides oneDNN's data types there are those of
        `dtypes.HOST_DTYPES`, such as ``s64`` and ``f64``, which only host
        steps and views read. A call of the model takes the GIL once for host steps that follow each
        other. What the function raises reaches the caller, with a note that names the step; the
        model stays usable. The function runs at each call, even if it reads only constants, and in
        several threads at once if the model is called so. A model pickles if its functions do.
        Files of graphs can't hold host steps.
        """
        need_callable("call: function", function)
        full = self._named(name)
        label = label_of("Call", full)
        with self._operands(values, lambda i, v: self._taken(label, i, v)) as taken:
            declared = outputs if callable(outputs) else _declared(label, outputs)
            node = CallNode(new_id(), "Call", full, taken, (), {}, caller(), function, declared)
            made = node.infer([TensorSpec(v.shape, v.dtype) for v in taken])
            specs = _declared(label, [(s.shape, s.dtype) for s in made])
            if not specs:
                raise InvalidArgumentsError(
                    f"{label}: outputs must not be empty: a step without outputs would never run"
                )
        return self._append(node, specs)

    def update(
        self,
        function: Callable[..., None],
        target: Value,
        *values: ValueLike,
        name: str | None = None,
    ) -> Value:
        """Add a Python function that writes to the array of an input: a host step.

        Parameters
        ----------
        function : callable
            Takes the input's array, which it may write to, and a read-only array for each value.
            What it returns is ignored.
        target : Value
            An input made with ``updated=True``, which nothing else reads.
        *values : Value, array or number
        name : str, optional

        Returns
        -------
        Value
            The input after the update, in the same memory; what reads it runs later.

        Raises
        ------
        InvalidArgumentsError
            `target` is no such input, or is updated already.
        InvalidDataTypeError
            A value is packed (``s4``, ``u4``).
        TypeError
            The function can't be called.
        """
        full = self._named(name)
        label = label_of("Update", full)
        need_callable("update: function", function)
        self._own(target, f"{label}: target")
        if not target.updated or target.id in readers_of(self):
            raise InvalidArgumentsError(
                f"{label}: target must be an input made with updated=True that no op reads, got "
                f"{target!r}"
            )
        with self._operands(values, lambda i, v: self._taken(label, i + 1, v)) as taken:
            node = UpdateNode(
                new_id(), "Update", full, (target, *taken), (), {}, caller(), function
            )
        made: Value = self._append(node, [(target.shape, target.dtype)])
        return made

    def _taken(self, label: str, i: int, given: Any) -> Value:
        if not isinstance(given, Value):
            array = np.asarray(given)
            return self.constant(array, dtype_name(array.dtype))
        value = self._own(given, f"{label}: value {i}")
        if value.dtype in ("s4", "u4"):
            raise InvalidDataTypeError(
                f"{label}: value {i}: a host step can't read packed {value.dtype}"
            )
        return value

    def add_view(self, kind: str, of: Value, attrs: Mapping[str, Any]) -> Value:
        """Add a view of a value; see `Value` for the kinds."""
        label = label_of(kind)
        self._own(of, label)
        if of.dtype in ("s4", "u4"):
            raise InvalidDataTypeError(f"{label}: there are no views of packed {of.dtype}")
        node = ViewNode(new_id(), kind, self._named(None), (of,), (), attrs, caller())
        made: Value = self._append(
            node,
            [(s.shape or (), s.dtype or "") for s in node.infer([TensorSpec(of.shape, of.dtype)])],
        )
        return made

    def _append(self, node: Node, specs: Sequence[tuple[Sequence[int] | None, str]]) -> Any:
        """Add a node with new values as its outputs; return them as a method does."""
        name = node.name
        fresh = tuple(
            Value(self, None if shape is None else tuple(shape), dtype) for shape, dtype in specs
        )
        node = replace(node, outputs=fresh)
        for i, value in enumerate(fresh):
            value.producer = node
            value.name = name if len(fresh) == 1 or not name else f"{name}:{i}"
        self.contents.nodes.append(node)
        return fresh[0] if len(fresh) == 1 else fresh or None

    def overwritten(self, target: Value, result: Value) -> Value:
        """Let a value be another one from now on, as when NumPy writes to an array in place.

        Ops that read it before keep what they read, and an input its array. What shares its memory
        can't be read any more, nor can other names of a number: NumPy may replace it.

        - raises `InvalidShapeError`: the result has another shape or data type
        """
        self._own(target, "out")
        is_number = target.shape == () and target.producer is not None
        if not is_number and (target.shape, target.dtype) != (result.shape, result.dtype):
            raise InvalidShapeError(f"at {caller()}: {result!r} can't be written to {target!r}")
        nodes = self.contents.nodes
        if not nodes or nodes[-1].outputs[0] is not result:
            result = self.op("Reorder", result)
        shared = {target.id}
        views = [ends for n in nodes for ends in _sharing(n)]
        while more := {i for ends in views if ends & shared for i in ends - shared}:
            shared |= more
        becomes = {} if is_number else {id(target): copy.copy(target), id(result): target}
        for i, node in enumerate(nodes):
            for value in (*node.inputs, *node.outputs):
                if value.id in shared and (is_number or value is not target):
                    value.stale = caller()
            ends = node.inputs, node.outputs
            read, made = (tuple(becomes.get(id(v), v) for v in values) for values in ends)
            nodes[i] = replace(node, inputs=read, outputs=made)
        if not is_number:
            target.become(result)
        for node in nodes:
            for value in node.outputs:
                value.producer = node
        c = self.contents
        c.outputs = {k: becomes.get(id(v), v) for k, v in c.outputs.items()}
        c.inputs = [becomes.get(id(v), v) for v in c.inputs]
        c.constants = {k: becomes.get(id(v), v) for k, v in c.constants.items()}
        return result if is_number else target

    # -- copies

    def snapshot(self) -> GraphBuilder:
        """Copy the builder; later changes to one of the two don't affect the other."""
        made = GraphBuilder(self.engine_kind, self.fpmath_mode, apply_to_int=self.apply_to_int)
        made.records = self.records
        made.contents = Contents(*map(copy.copy, vars(self.contents).values()))
        return made

    def __reduce__(self) -> Any:
        c = self.contents
        values = [*c.inputs, *c.constants.values(), *(v for n in c.nodes for v in n.outputs)]
        number = {v.id: i for i, v in enumerate(values)}
        settings = (self.engine_kind.name, self.fpmath_mode.name, self.apply_to_int)
        described = [
            (
                {slot: getattr(v, slot) for slot in _KEPT},
                None if v.data is None else pickled(v.data),
            )
            for v in values
        ]
        nodes = [
            (
                replace(n, inputs=(), outputs=()),
                *([number[v.id] for v in t] for t in (n.inputs, n.outputs)),
            )
            for n in c.nodes
        ]
        outputs = {name: number[v.id] for name, v in c.outputs.items()}
        counts = len(c.inputs), len(c.constants)
        return _restored, (settings, described, *counts, nodes, outputs, c.conditions)

    def _input(self, kind: str, name: str, i: int, given: Any, like: Value | None) -> Value:
        """Return an input of an op as a value, with errors that name the input."""
        try:
            if isinstance(given, str):
                raise TypeError(
                    f"a tensor, an array or a number is expected, got the text {given!r}; a data "
                    "type or an attribute needs its name, as in dtype='bf16'"
                )
            if isinstance(given, (list, tuple)) and any(isinstance(v, Value) for v in given):
                raise TypeError(f"one tensor is expected, got a {type(given).__name__} of values")
            return self._operand(given, like)
        except (OneDNNError, TypeError) as e:
            what = row(kind).operand_name("inputs", i)
            raise reworded(e, f"{label_of(kind, name)}: {what}: {e}") from None


_KEPT = ("shape", "dtype", "name", "strides", "updated")
"""The attributes of a value that a pickle keeps besides its data."""


def _restored(
    settings: tuple[str, str, bool],
    described: Sequence[tuple[dict[str, Any], npt.NDArray[Any] | None]],
    inputs: int,
    constants: int,
    nodes: Sequence[tuple[Node, Sequence[int], Sequence[int]]],
    outputs: Mapping[str, int],
    conditions: Sequence[Size] = (),
) -> GraphBuilder:
    """Unpickle a builder: all is as it was, except for ids, which are new."""
    engine_kind, fpmath_mode, apply_to_int = settings
    builder = GraphBuilder(engine_kind, fpmath_mode, apply_to_int=apply_to_int)
    values = []
    for kept, data in described:
        value = Value(builder, None, kept["dtype"])
        for slot, given in kept.items():
            setattr(value, slot, given)
        value.data = None if data is None else restored(data, value.dtype)
        values.append(value)
    contents = builder.contents
    contents.inputs = values[:inputs]
    contents.constants = {v.id: v for v in values[inputs : inputs + constants]}
    for node, *places in nodes:
        read, made = (tuple(values[i] for i in given) for given in places)
        contents.nodes.append(replace(node, id=new_id(), inputs=read, outputs=made))
        for value in made:
            value.producer = contents.nodes[-1]
    contents.outputs = {name: values[i] for name, i in outputs.items()}
    contents.conditions = list(conditions)
    return builder


def _sharing(node: Node) -> list[set[int]]:
    """Return the ids of pairs of what a node reads and makes that share memory in NumPy."""
    is_view = isinstance(node, ViewNode) or node.kind == "StaticReshape"
    pairs = [(0, 0)] if is_view else getattr(getattr(node, "function", None), "shares", ())
    return [{node.inputs[i].id, node.outputs[k].id} for i, k in pairs]


def _declared(label: str, outputs: Any) -> list[tuple[tuple[int, ...], str]]:
    """Return the declared outputs of a host step, checked."""
    made = []
    try:
        pairs = [(shape, dtype) for shape, dtype in outputs]
    except (TypeError, ValueError):
        raise TypeError(
            f"{label}: outputs must be pairs of shape and data type, got {outputs!r}"
        ) from None
    for i, (shape, dtype) in enumerate(pairs):
        dims = need_integers(f"{label}: the shape of output {i}", shape)
        if any(d < -1 for d in dims):
            raise InvalidShapeError(
                f"{label}: dims of output {i} must be -1 (unknown) or not negative, got "
                f"{list(dims)}"
            )
        name = dtype_name(dtype)
        if name in ("s4", "u4"):
            raise InvalidDataTypeError(f"{label}: a host step can't make packed {name}")
        made.append((dims, name))
    return made


def _check_name(name: object) -> None:
    """Raise unless oneDNN and files support a name."""
    try:
        need_instance("a name", name, str).encode()
    except UnicodeEncodeError:
        raise InvalidArgumentsError(
            f"the name {name!r} has half of a surrogate pair in it, which UTF-8 can't hold"
        ) from None


def _free_name(stem: str, first: int, taken: Container[str]) -> str:
    """Return ``stem`` with the first number that makes a free name."""
    return next(n for i in itertools.count(first) if (n := f"{stem}{i}") not in taken)


def readers_of(builder: GraphBuilder, nodes: Sequence[Node] | None = None) -> Readers:
    """Return the readers of each value; among the builder's own nodes by default."""
    readers: dict[int, set[int | None]] = {v.id: {None} for v in builder.outputs.values()}
    for node in builder.nodes if nodes is None else nodes:
        for value in node.inputs:
            readers.setdefault(value.id, set()).add(node.id)
    return readers


def leaving_of(nodes: Sequence[Node], readers: Readers) -> set[int]:
    """Return the ids of values that these nodes make and read, and that are read elsewhere too."""
    inside = {node.id for node in nodes}
    read = {v.id for n in nodes for v in n.inputs}
    made = (v.id for n in nodes for v in n.outputs)
    return {i for i in made if i in read and readers.get(i, set()) - inside}


def graph_of(
    builder: GraphBuilder,
    shapes: Mapping[int, tuple[int, ...]],
    nodes: Sequence[Node] | None = None,
    readers: Readers | None = None,
    *,
    strict: bool = False,
) -> _core.graph:
    """Make the mirror's graph, finalized.

    - `shapes`: shapes of values by id, which replace those of the builder
    - `nodes`: the ops of the graph; all of the builder by default
    - `readers`: the readers of their results; the builder's own nodes by default
    - `strict`: whether to forbid smaller floating-point types, even if the builder allows them
    """
    given = builder.nodes if nodes is None else nodes
    members = [n for n in given if not isinstance(n, ForeignNode)]
    g = _core.graph(builder.engine_kind)
    mode = _core.fpmath_mode.strict if strict else builder.fpmath_mode
    g.set_fpmath_mode(mode, builder.apply_to_int and not strict)
    for node in members:
        o = _core.op(node.id, node.kind, node.name or node.kind.lower())
        o.add_inputs([v.described(shapes.get(v.id, v.shape)) for v in node.inputs])
        o.add_outputs([v.described(shapes.get(v.id, v.shape)) for v in node.outputs])
        for attribute, value in node.attrs.items():
            o.set_attr(attribute, value)
        g.add_op(o)
    # A partition does not return tensors that only its own ops read; End makes it return one, and
    # so does a Wildcard, which also takes booleans.
    leaving = leaving_of(members, readers or readers_of(builder))
    for value in (v for node in members for v in node.outputs):
        if value.id in leaving:
            end = _core.op(new_id(), "Wildcard" if value.dtype == "boolean" else "End", "end")
            end.add_input(value.described(shapes.get(value.id, value.shape)))
            g.add_op(end)
    g.finalize()
    return g
