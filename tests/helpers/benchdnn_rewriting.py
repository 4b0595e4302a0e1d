"""Graphs that benchdnn's options rewrite, ``--in-shapes=0:8x3*ba --dt=bf16``, for oneDNN's lists.

As there, all shapes but those of inputs are inferred, and all tensors lie without gaps, with the
order of dims that the file gives them.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from onednn_graph_py._core import UNKNOWN_DIM
from onednn_graph_py.base.errors import (
    InvalidArgumentsError,
    InvalidGraphOpError,
    InvalidShapeError,
    OneDNNError,
    reworded,
)
from onednn_graph_py.ops.check import check
from onednn_graph_py.ops.lookup import row, with_attribute, with_trait
from onednn_graph_py.serialization.document import (
    AttributeRecord,
    GraphDocument,
    OpRecord,
    TensorRecord,
)
from onednn_graph_py.serialization.links import in_order, strides_of, tag_of
from onednn_graph_py.tools.explaining.changes_dtype import RETYPED

_FLOATS = ("f32", "bf16", "f16")
_BINARY = with_trait("epilogue", "binary") | {"BiasAdd"}
# Ops with shapes in attributes that a change of the batch does not adapt.
_FIXED = with_attribute("dst_shape") | with_attribute("weights_shape")

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Rewriting:
    """A way to rewrite a graph; ids are those of the file."""

    shapes: Mapping[int, Shape] = field(default_factory=dict)
    # layouts of the inputs: the order of dims, or strides
    tags: Mapping[int, str | Shape] = field(default_factory=dict)
    # as text, since only the graph determines their types
    attrs: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    dtypes: str | Mapping[int, str] | None = None
    kinds: Mapping[int, str] = field(default_factory=dict)
    properties: Mapping[int, str] = field(default_factory=dict)
    mb: int | None = None
    fpmath_mode: str | None = None
    apply_to_int: bool | None = None
    engine_kind: str = "cpu"  # it replaces the file's
    expected_partitions: int | None = None
    words: tuple[str, ...] = ()  # the options as they were given

    def __str__(self) -> str:
        return " ".join(self.words)

    def apply(self, document: GraphDocument) -> GraphDocument:
        """Return the graph, rewritten; an error of an op begins with its place."""
        made = _with_kinds(document, self.kinds)
        made = replace(made, graph=tuple(_with_attrs(op, self.attrs) for op in made.graph))
        set_attrs = {(id, name) for id, given in self.attrs.items() for name in given}
        made = _Layouts(made, self).document(set_attrs)
        made = _with_dtypes(made, self.dtypes)
        types = self.properties
        made = made.with_tensors(
            lambda t: replace(t, property_type=types[t.id]) if t.id in types else t
        )
        fields = {
            "engine_kind": self.engine_kind,
            "fpmath_mode": self.fpmath_mode,
            "fpmath_mode_apply_to_int": self.apply_to_int,
        }
        given: dict[str, Any] = {name: v for name, v in fields.items() if v is not None}
        return replace(made, **given)


# -- ops


def _with_kinds(document: GraphDocument, kinds: Mapping[int, str]) -> GraphDocument:
    """Change kinds of ops; ``undef`` removes an op, whose readers read the input before it."""
    made = {t.id for o in document.graph for t in o.outputs}
    stands: dict[int, TensorRecord] = {}
    graph = []
    for op in document.graph:
        if kinds.get(op.id) == "undef":
            (passed,) = op.inputs if len(op.inputs) == 1 else [t for t in op.inputs if t.id in made]
            stands[op.outputs[0].id] = passed
        else:
            graph.append(replace(op, kind=kinds.get(op.id, op.kind)))

    def standing(tensor: TensorRecord) -> TensorRecord:
        while tensor.id in stands:
            tensor = stands[tensor.id]
        return tensor

    if not stands:
        return replace(document, graph=tuple(graph))
    connected = (replace(op, inputs=tuple(map(standing, op.inputs))) for op in graph)
    return replace(document, graph=tuple(connected), output_ports=None, input_ports=None)


def _with_attrs(op: OpRecord, attrs: Mapping[int, Mapping[str, str]]) -> OpRecord:
    records = dict(op.attrs)
    for name, text in attrs.get(op.id, {}).items():
        known = row(op.kind).attribute(name)
        assert known is not None, f"{op.kind} has no attribute {name!r}"
        records[name] = AttributeRecord(known.type, _value(name, text, known.type))
    return replace(op, attrs=records)


def _value(name: str, text: str, type: str) -> Any:
    """Parse an attribute's value, such as ``3``, ``2x2`` or ``SAME_UPPER``."""
    if type == "string":
        return text
    if type == "bool":
        return {"0": False, "false": False, "1": True, "true": True}[text.lower()]
    number = int if type.startswith("s64") else float
    try:
        made = tuple(map(number, text.split("x") if type.endswith("[]") else [text]))
    except ValueError:
        wanted = "integers" if number is int else "numbers"
        raise InvalidArgumentsError(
            f"attribute {name}: expected {wanted} such as 2x2, got {text!r}"
        ) from None
    return made if type.endswith("[]") else made[0]


def _with_dtypes(document: GraphDocument, dtypes: str | Mapping[int, str] | None) -> GraphDocument:
    if dtypes is None:
        return document
    if not isinstance(dtypes, str):
        return document.with_tensors(lambda t: replace(t, dtype=dtypes.get(t.id, t.dtype)))
    made = []
    for i, op in enumerate(document.graph):
        if op.kind in with_trait("converts"):
            raise InvalidGraphOpError(f"graph[{i}]: {op.kind} converts data types")
        inputs, outputs = RETYPED.get(op.kind, (range(len(op.inputs)), range(len(op.outputs))))
        if op.kind == "GreaterEqual":
            inputs, outputs = ((0, 1) if op.inputs[0].dtype in _FLOATS else ()), ()
        made.append(
            replace(
                op,
                inputs=_retyped(op.inputs, inputs, dtypes),
                outputs=_retyped(op.outputs, outputs, dtypes),
            )
        )
    return replace(document, graph=tuple(made))


def _retyped(
    tensors: Sequence[TensorRecord], which: Sequence[int], dtype: str
) -> tuple[TensorRecord, ...]:
    return tuple(replace(t, dtype=dtype) if k in which else t for k, t in enumerate(tensors))


# -- shapes


class _Layouts:
    """The new shapes and strides of tensors, by id; shapes are None if even the rank is unknown."""

    def __init__(self, document: GraphDocument, by: Rewriting) -> None:
        self.before = document
        self.tensors = document.tensors()
        self.shapes: dict[int, Shape | None] = {}
        self.strides: dict[int, Shape] = {}
        self.changed: set[int] = set()
        # Whether the order of an input's dims in memory differs from the file.
        self.order_changed = False
        batched = _takes_batch(document) if by.mb is not None else frozenset()
        for id in document.inputs():
            tensor, tag = self.tensors[id], by.tags.get(id)
            shape = by.shapes.get(id, tensor.dims)
            if id in batched and shape:
                shape = (by.mb or 0, *shape[1:])
            self.shapes[id] = shape
            order = tag_of(tensor.stride, len(tensor.shape))
            rank = len(shape or ())
            if tag is None:
                self.order_changed |= id in by.shapes and rank != len(tensor.shape) and shape != ()
            else:
                asked = tag if isinstance(tag, str) else tag_of(tag, rank)
                self.order_changed |= asked != order
                order = asked
            dense = strides_of(shape or (), order if len(order) == rank else "")
            self.strides[id] = tag if isinstance(tag, tuple) else dense
            if shape != tensor.dims:
                self.changed.add(id)

    def document(self, set_attrs: set[tuple[int, str]]) -> GraphDocument:
        """Infer all shapes op by op, and attributes that depend on them but were not set."""
        graph = list(self.before.graph)
        for i in in_order(self.before):
            try:
                graph[i] = op = self._fitted(graph[i], set_attrs)
                specs = check(
                    op.kind,
                    [(self.shapes[t.id], None) for t in op.inputs],
                    op.values,
                    [(None, None) for _ in op.outputs],
                    name=op.name,
                    id=op.id,
                )
            except OneDNNError as e:
                raise reworded(e, f"graph[{i}]: {e}") from None
            for tensor, spec in zip(op.outputs, specs, strict=True):
                shape = spec.shape
                if shape is None:
                    if any(t.id in self.changed for t in op.inputs):
                        raise InvalidShapeError(f"graph[{i}]: the result's shape is not known")
                    shape = tensor.dims
                self.shapes[tensor.id] = shape
                self.strides[tensor.id] = self._laid_out(op, tensor, shape)
                if shape != tensor.dims:
                    self.changed.add(tensor.id)
        return replace(self.before, graph=tuple(graph)).with_tensors(self._told)

    def _told(self, tensor: TensorRecord) -> TensorRecord:
        shape, strides = self.shapes[tensor.id], self.strides[tensor.id]
        if shape is None:
            return tensor
        if any(d < 0 for d in shape):
            strides = (UNKNOWN_DIM,) * len(shape)
        known = tuple(UNKNOWN_DIM if d < 0 else d for d in shape)
        return replace(tensor, shape=known, stride=strides)

    def _laid_out(self, op: OpRecord, tensor: TensorRecord, shape: Shape | None) -> Shape:
        """Return an output's strides: in the order of the file, or else of the op's first input."""
        if not self.order_changed:
            tag = tag_of(tensor.stride, len(tensor.shape))
        elif op.kind in with_trait("moves") or not op.inputs:
            tag = ""
        else:
            first = op.inputs[0].id
            tag = tag_of(self.strides[first], len(self.shapes[first] or ()))
        return strides_of(shape or (), tag if len(tag) == len(shape or ()) else "")

    def _fitted(self, op: OpRecord, set_attrs: set[tuple[int, str]]) -> OpRecord:
        """Return the op with as many scales as channels, or with a reshape of the new batch."""
        shape = self.shapes[op.inputs[0].id] if op.inputs else None
        attrs = dict(op.attrs)
        values: dict[str, Any] = op.values
        if shape is None:
            return op
        if op.kind in with_attribute("zps") and values.get("qtype") == "per_channel":
            axis: Any = row(op.kind).value_of("axis", values)
            count = shape[axis] if -len(shape) <= axis < len(shape) else -1
            scales, zps = values.get("scales", ()), values.get("zps", ())
            if scales and count >= 0 and (op.id, "scales") not in set_attrs:
                repeated = tuple(scales[k % len(scales)] for k in range(count))
                attrs["scales"] = replace(attrs["scales"], value=repeated)
            if zps and count >= 0 and (op.id, "zps") not in set_attrs:
                attrs["zps"] = replace(attrs["zps"], value=(*zps, *[0] * count)[:count])
        elif op.kind == "StaticReshape" and (op.id, "shape") not in set_attrs:
            before, target = self.tensors[op.inputs[0].id].dims, values.get("shape", ())
            kept = before and shape and target and before[1:] == shape[1:]
            if kept and target[0] == before[0] != shape[0]:
                attrs["shape"] = replace(attrs["shape"], value=(shape[0], *target[1:]))
        return replace(op, attrs=attrs)


def _takes_batch(document: GraphDocument) -> frozenset[int]:
    """Return the ids of the inputs whose dim 0 can be set to any size, the same for all."""
    readers: dict[int, list[OpRecord]] = {}
    for op in document.graph:
        for id in {t.id for t in op.inputs}:
            readers.setdefault(id, []).append(op)

    def passes(id: int) -> bool:
        stack, seen = [id], set()
        while stack:
            at = stack.pop()
            if at in seen:
                continue
            seen.add(at)
            for op in readers.get(at, ()):
                if not _is_batch(op, at):
                    return False
                stack += [t.id for t in op.outputs[:1]]
        return True

    return frozenset(filter(passes, document.inputs()))


def _is_batch(op: OpRecord, id: int) -> bool:
    """Return whether an op takes the first dim of this input as the batch."""
    ids = [t.id for t in op.inputs]
    shapes = [t.shape for t in op.inputs]
    if op.kind in _FIXED or not shapes[ids.index(id)]:
        return False
    if op.kind.endswith("Backward"):
        if id in ids[:2]:
            return True
        own, first = shapes[ids.index(id)], shapes[0]
        return op.kind == "LayerNormBackward" and id in ids[2:4] and own[:1] == first[:1]
    if op.kind in _BINARY:
        if len(shapes[0]) == len(shapes[1]) and shapes[1][0] != 1:
            return True
        return id == (ids[0] if len(shapes[0]) >= len(shapes[1]) else ids[1])
    if op.kind == "PReLU" and id == ids[1]:
        return len(shapes[0]) == len(shapes[1])
    return op.kind == "Concat" or id == ids[0]


# -- options


def _pairs(text: str) -> dict[int, str]:
    """Parse pairs such as ``0:a+3:b``; of an id benchdnn reads the digits that it begins with."""
    made = {}
    for pair in filter(None, text.split("+")):
        id, _, value = pair.partition(":")
        digits = re.match(r"\d+", id, re.ASCII)
        assert digits is not None, pair
        made[int(digits[0])] = value
    return made


def _numbers(text: str) -> Shape:
    return tuple(map(int, text.split("x")))


def _shapes(text: str) -> dict[str, Any]:
    shapes: dict[int, Shape] = {}
    tags: dict[int, str | Shape] = {}
    for id, value in _pairs(text).items():
        dims, star, layout = value.partition("*")
        if not star and value.isalpha():
            dims, layout = "", value
        if dims:
            shapes[id] = () if dims == "-" else _numbers(dims)
        if layout:
            tags[id] = layout if layout.isalpha() else _numbers(layout)
    return {"shapes": shapes, "tags": tags}


def _attrs(text: str) -> dict[str, Any]:
    made = {}
    for id, values in _pairs(text).items():
        made[id] = dict(pair.split(":", 1) for pair in values.split("*"))
    return {"attrs": made}


def _dtypes(text: str) -> dict[str, Any]:
    return {"dtypes": _pairs(text) if ":" in text else None if text == "undef" else text}


def _fpmath(text: str) -> dict[str, Any]:
    mode, _, integers = text.partition(":")
    return {"fpmath_mode": mode, "apply_to_int": integers == "true"}


# In benchdnn's own order, which goes through many before the next one changes.
_OPTIONS: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "--in-shapes": _shapes,
    "--op-attrs": _attrs,
    "--op-kind": lambda text: {"kinds": _pairs(text)},
    "--tensor-property": lambda text: {"properties": _pairs(text)},
    "--dt": _dtypes,
    "--mb": lambda text: {"mb": int(text) or None},
    "--attr-fpmath": _fpmath,
    "--engine": lambda text: {"engine_kind": text},
    "--expected-n-partitions": lambda text: {"expected_partitions": int(text) or None},
}


def parse_rewritings(words: Iterable[str]) -> list[Rewriting]:
    """Return all combinations of the options' values; an option may list several, with commas.

    The last one counts if an option is repeated. An empty value leaves the file unchanged.
    """
    given = dict(word.split("=", 1) for word in words)
    assert not given.keys() - _OPTIONS.keys(), words
    choices = [
        [(f"{o}={text}", read(text)) if text else ("", {}) for text in given[o].split(",")]
        for o, read in _OPTIONS.items()
        if o in given
    ]
    made = []
    for combination in itertools.product(*choices):
        fields = {name: value for _, part in combination for name, value in part.items()}
        words = tuple(word for word, _ in combination if word)
        made.append(Rewriting(**fields, words=words))
    return made
