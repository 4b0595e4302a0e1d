"""Make a graph's dims smaller, such that dims that tensors share stay equal."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...base.errors import OneDNNError
from ...ops.check import check
from ...ops.lookup import row, with_attribute
from ...serialization import AttributeRecord, GraphDocument, OpRecord, TensorRecord
from ...serialization.links import in_order, strides_of, tag_of

Dims = tuple[int, ...]
Attributes = Mapping[str, AttributeRecord]

# Limits of the ways to fit a graph's inputs to an op, and then of sizes for one dim.
_WAYS = 200
_SEARCHED = 500
# The largest distance of such a size from the proportional one, due to windows and padding.
_NEAR = 8


class _NoFit(Exception):
    """Raised if sizes do not fit together."""


def resized(
    document: GraphDocument,
    dims: Mapping[int, Dims] | None = None,
    original: GraphDocument | None = None,
) -> GraphDocument | None:
    """Change the shapes of inputs, and all that depends on them; None if no such graph was found.

    Results' shapes are inferred with the table of ops. If an op then reads tensors that do not fit,
    the graph's inputs among them change too: a dim that was equal to a changed dim gets the new
    size. The same holds for attributes that contain sizes.

    The document has known shapes, but its attributes may have changed since `original`; ops that
    are invalid there may stay invalid. `dims` has new shapes of the same rank, by the ids of
    inputs.
    """
    try:
        return _Resizing(document, dims or {}, original or document).document()
    except _NoFit:
        return None


class _Resizing:
    def __init__(
        self, document: GraphDocument, dims: Mapping[int, Dims], original: GraphDocument
    ) -> None:
        self.before = document
        self.original = original
        self.records = document.tensors()
        self.old: dict[int, Dims] = {}
        for id, tensor in self.records.items():
            if tensor.dims is None or -1 in tensor.dims:
                raise _NoFit
            self.old[id] = tensor.dims
        self.new: dict[int, Dims] = dict(dims)
        # The new size for each old size of dims; the last change counts.
        self.became: dict[int, int] = {}
        for id, shape in dims.items():
            self.note(self.old[id], shape)

    def note(self, old: Dims, new: Dims) -> None:
        if len(old) == len(new):
            self.became.update((o, n) for o, n in zip(old, new, strict=True) if o != n)

    def document(self) -> GraphDocument:
        graph = list(self.before.graph)
        for i in in_order(self.before):
            graph[i] = self.fitted(graph[i])
        return replace(self.before, graph=tuple(graph)).with_tensors(self.told)

    def told(self, tensor: TensorRecord) -> TensorRecord:
        shape = self.new[tensor.id]
        if shape == tensor.dims:
            return tensor
        old = tensor.dims or ()
        if len(shape) != len(old):
            return replace(tensor, shape=shape, stride=strides_of(shape))
        tag = tag_of(tensor.stride, len(shape))
        gaps = tensor.strides not in (None, strides_of(old, tag))
        if gaps and all(n <= o for n, o in zip(shape, old, strict=True)):
            return replace(tensor, shape=shape)  # they may cause the symptom
        return replace(tensor, shape=shape, stride=strides_of(shape, tag))

    def fitted(self, op: OpRecord) -> OpRecord:
        """Fix the shapes that an op reads and makes; return the op with attributes that fit."""
        settled = {t.id: self.new[t.id] for t in op.inputs if t.id in self.new}
        for id, shape in settled.items():
            self.note(self.old[id], shape)
        free = [t.id for t in op.inputs if t.id not in settled]
        for shapes in itertools.islice(self.ways(free), _WAYS):
            known = {**settled, **shapes}
            for attrs in self.attributes(op, known):
                if self.settles(op, attrs, known, {}):
                    return op if attrs == op.attrs else replace(op, attrs=attrs)
        for known, results in itertools.islice(self.searched(op, settled, free), _SEARCHED):
            if self.settles(op, op.attrs, known, results):
                return op
        raise _NoFit

    def settles(
        self,
        op: OpRecord,
        attrs: Attributes,
        known: Mapping[int, Dims],
        results: Mapping[int, Dims],
    ) -> bool:
        """Use these shapes and attributes if the op is valid with them; return whether it is."""
        made = self.made(replace(op, attrs=attrs), known, results)
        if made is None:
            return False
        self.new.update(known)
        for tensor, shape in zip(op.outputs, made, strict=True):
            self.new[tensor.id] = shape
            self.note(self.old[tensor.id], shape)
        return True

    def made(
        self, op: OpRecord, known: Mapping[int, Dims], results: Mapping[int, Dims]
    ) -> list[Dims] | None:
        """Return the shapes of an op's results; None if the op is invalid.

        Shapes that can't be inferred are those of `results`, or the old ones.
        """
        inputs = [(known[t.id], t.dtype) for t in op.inputs]
        try:
            specs = check(op.kind, inputs, op.values, [(None, t.dtype) for t in op.outputs])
            shapes = [
                spec.shape
                if spec.shape is not None and -1 not in spec.shape
                else results.get(t.id) or self.mapped(self.old[t.id])
                for t, spec in zip(op.outputs, specs, strict=True)
            ]
            outputs = [(d, t.dtype) for d, t in zip(shapes, op.outputs, strict=True)]
            check(op.kind, inputs, op.values, outputs)
        except (OneDNNError, TypeError):
            # An op that was invalid before may stay so, since this may be the symptom.
            if self.was_valid(op):
                return None
            return [self.mapped(self.old[t.id]) for t in op.outputs]
        return shapes

    def searched(
        self, op: OpRecord, settled: Mapping[int, Dims], free: list[int]
    ) -> Iterator[tuple[dict[int, Dims], dict[int, Dims]]]:
        """Yield shapes of inputs and of results, with one dim of one of them smaller.

        This is for dims that depend on others by a formula, such as a convolution's result.
        """
        mapped = {**settled, **{id: self.mapped(self.old[id]) for id in free}}
        unchanged = {**settled, **{id: self.old[id] for id in free}}
        seen = [d for shape in mapped.values() for d in shape]
        for id in (*dict.fromkeys(free), *(t.id for t in op.outputs)):
            for known in (mapped, unchanged):
                shape = known.get(id) or self.mapped(self.old[id])
                for axis, d in enumerate(shape):
                    for size in self.likely(d, seen):
                        tried = {id: (*shape[:axis], size, *shape[axis + 1 :])}
                        yield ({**known, **tried}, {}) if id in known else (dict(known), tried)

    def likely(self, dim: int, seen: list[int]) -> list[int]:
        """Return smaller sizes for a dim: proportional to other changes, and those around it."""
        sizes = [1, *seen]
        for old, new in self.became.items():
            nearest = dim * new // old if old else dim
            sizes += [nearest + sign * off for off in range(_NEAR) for sign in (1, -1)]
        return [size for size in dict.fromkeys(sizes) if 0 < size < dim]

    def was_valid(self, op: OpRecord) -> bool:
        before = next(o for o in self.original.graph if o.id == op.id)
        tensors = self.original.tensors()
        inputs, outputs = (
            [(tensors[t.id].dims, t.dtype) for t in ports]
            for ports in (before.inputs, before.outputs)
        )
        try:
            check(before.kind, inputs, before.values, outputs)
        except (OneDNNError, TypeError):
            return False
        return True

    def mapped(self, shape: Dims) -> Dims:
        return tuple(self.became.get(d, d) for d in shape)

    def ways(self, free: list[int]) -> Iterator[dict[int, Dims]]:
        """Yield shapes for the graph's inputs, with all dims that changed elsewhere or fewer."""
        places = [
            (id, axis)
            for id in dict.fromkeys(free)
            for axis, d in enumerate(self.old[id])
            if d in self.became
        ]
        for count in range(len(places), -1, -1):
            for chosen in itertools.combinations(places, count):
                yield {
                    id: tuple(
                        self.became[d] if (id, axis) in chosen else d
                        for axis, d in enumerate(self.old[id])
                    )
                    for id in free
                }

    def attributes(self, op: OpRecord, known: Mapping[int, Dims]) -> Iterator[Attributes]:
        """Yield attributes that may fit, the unchanged ones first if possible."""
        if op.kind == "StaticReshape" and "shape" in op.attrs:
            yield from self.reshapes(op, known)
        elif op.kind in with_attribute("zps") and op.values.get("qtype") == "per_channel":
            yield _per_channel(op, known[op.inputs[0].id])
        elif "group_shape" in op.attrs and len(op.inputs) > 1:
            source, scales = (known[t.id] for t in op.inputs[:2])
            if len(source) == len(scales) and all(
                s and not d % s for d, s in zip(source, scales, strict=True)
            ):
                shape = tuple(d // s for d, s in zip(source, scales, strict=True))
                yield _with(op, "group_shape", shape)
            yield op.attrs
        else:
            yield op.attrs
            groups: Any = op.values.get("groups")
            if groups in self.became:
                yield _with(op, "groups", self.became[groups])

    def reshapes(self, op: OpRecord, known: Mapping[int, Dims]) -> Iterator[Attributes]:
        before: Any = op.values["shape"]
        wanted = math.prod(known[op.inputs[0].id])
        for shape in (self.mapped(before), before):
            yield _with(op, "shape", shape)
            # One dim absorbs the difference.
            have = math.prod(shape)
            for i, d in enumerate(shape):
                if d > 0 and have and d * wanted % have == 0:
                    yield _with(op, "shape", (*shape[:i], d * wanted // have, *shape[i + 1 :]))
        places = [i for i, d in enumerate(before) if d in self.became]
        for count in range(len(places) - 1, 0, -1):
            for chosen in itertools.combinations(places, count):
                mixed = (self.became[d] if i in chosen else d for i, d in enumerate(before))
                yield _with(op, "shape", tuple(mixed))


def _with(op: OpRecord, name: str, value: Any) -> Attributes:
    return {**op.attrs, name: replace(op.attrs[name], value=value)}


def _per_channel(op: OpRecord, shape: Dims) -> Attributes:
    """Return attributes with a scale and a zero point for each channel."""
    attrs = dict(op.attrs)
    axis: Any = row(op.kind).value_of("axis", op.values)
    if not -len(shape) <= axis < len(shape):
        return attrs
    for name in ("scales", "zps"):
        values: Any = op.values.get(name, ())
        if values and len(values) != shape[axis]:
            fitting = tuple(values[i % len(values)] for i in range(shape[axis]))
            attrs[name] = replace(attrs[name], value=fitting)
    return attrs


# -- smaller dims


def _shapes(document: GraphDocument) -> dict[int, Dims]:
    """Return the known shapes of the graph's inputs, by id."""
    tensors = document.tensors()
    dims = {id: tensors[id].dims for id in document.inputs()}
    return {id: d for id, d in dims.items() if d is not None}


def shrink_dims(document: GraphDocument, attempt: Callable[[GraphDocument], bool]) -> GraphDocument:
    """Make dims smaller while `attempt` returns True.

    First it changes all dims of the same size together, then each input's dims separately. Other
    shapes and attributes follow, see `resized`.
    """
    for size in sorted({d for s in _shapes(document).values() for d in s}, reverse=True):
        shapes = _shapes(document)
        places = [(id, axis) for id, s in shapes.items() for axis, d in enumerate(s) if d == size]
        document = _shrunk(document, attempt, places)
    for id, shape in _shapes(document).items():
        for axis in range(len(shape)):
            document = _shrunk(document, attempt, [(id, axis)])
    return document


def _shrunk(
    document: GraphDocument,
    attempt: Callable[[GraphDocument], bool],
    places: Sequence[tuple[int, int]],
) -> GraphDocument:
    """Make dims of the same size, given by input and axis, as small as possible."""
    again = bool(places)
    while again:
        again = False
        shapes = _shapes(document)
        first, its_axis = places[0]
        dim = shapes[first][its_axis]
        tried = (1, 2, dim // 2, dim - dim // 4, dim - 1)
        for size in dict.fromkeys(d for d in tried if 0 < d < dim):
            dims = {
                id: tuple(size if (id, a) in places else d for a, d in enumerate(shapes[id]))
                for id in dict.fromkeys(id for id, _ in places)
            }
            made = resized(document, dims)
            if made is not None and attempt(made):
                document, again = made, True
                break
    return document
