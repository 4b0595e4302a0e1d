"""Other sizes for a graph, where a dim that tensors share stays shared."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..errors import OneDNNError
from ..ops.check import TensorSpec, check
from ..serialization import AttributeRecord, GraphDocument, OpRecord, TensorRecord
from ..serialization.links import in_order
from ..serialization.tags import strides_of, tag_of

__all__ = ["resized"]

Dims = tuple[int, ...]
Attributes = Mapping[str, AttributeRecord]

# Ways to fit a graph's inputs to an op, tried at most.
_WAYS = 200


class _NoFit(Exception):
    """The sizes do not go together."""


def resized(
    document: GraphDocument, dims: Mapping[int, Dims] | None = None
) -> GraphDocument | None:
    """Change the shapes of inputs; what depends on them changes too.

    What ops make is inferred with the table of ops. Where an op then reads tensors that do not fit,
    those of them that are inputs of the graph follow: a dim that was equal to one that has changed
    becomes what that one became. So do attributes that hold sizes.

    Parameters
    ----------
    document : GraphDocument
        With all shapes known. Attributes may be other ones than its shapes were made with.
    dims : mapping of int to tuple of int, optional
        New shapes by the ids of inputs, of the same rank.

    Returns
    -------
    GraphDocument or None
        None if there is no graph of that size, as far as could be found.
    """
    try:
        return _Resizing(document, dims or {}).document()
    except _NoFit:
        return None


class _Resizing:
    def __init__(self, document: GraphDocument, dims: Mapping[int, Dims]) -> None:
        self.before = document
        self.records = document.tensors()
        self.old: dict[int, Dims] = {}
        for id, tensor in self.records.items():
            if tensor.dims is None or -1 in tensor.dims:
                raise _NoFit
            self.old[id] = tensor.dims
        self.new: dict[int, Dims] = dict(dims)
        # What dims of some size have become; the last change counts.
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
        return replace(
            self.before,
            graph=tuple(
                replace(
                    op,
                    inputs=tuple(self.told(t) for t in op.inputs),
                    outputs=tuple(self.told(t) for t in op.outputs),
                )
                for op in graph
            ),
        )

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
            return replace(tensor, shape=shape)  # they may be what matters
        return replace(tensor, shape=shape, stride=strides_of(shape, tag))

    def fitted(self, op: OpRecord) -> OpRecord:
        """Settle what an op reads and makes; the op with attributes that fit."""
        settled = {t.id: self.new[t.id] for t in op.inputs if t.id in self.new}
        for id, shape in settled.items():
            self.note(self.old[id], shape)
        free = [t.id for t in op.inputs if t.id not in settled]
        for shapes in itertools.islice(self.ways(free), _WAYS):
            known = {**settled, **shapes}
            for attrs in self.attributes(op, known):
                made = self.made(replace(op, attrs=attrs), known)
                if made is not None:
                    self.new.update(known)
                    for tensor, shape in zip(op.outputs, made, strict=True):
                        self.new[tensor.id] = shape
                        self.note(self.old[tensor.id], shape)
                    return op if attrs == op.attrs else replace(op, attrs=attrs)
        raise _NoFit

    def made(self, op: OpRecord, known: Mapping[int, Dims]) -> list[Dims] | None:
        """The shapes of an op's results; None where it can't be."""
        specs: tuple[TensorSpec, ...]
        try:
            specs = check(
                op.kind,
                [(known[t.id], t.dtype) for t in op.inputs],
                op.values,
                [(None, t.dtype) for t in op.outputs],
            )
        except OneDNNError:
            # What was no valid op before need not become one: it may be what is looked for.
            if self.was_valid(op):
                return None
            specs = tuple(TensorSpec() for _ in op.outputs)
        shapes = []
        for tensor, spec in zip(op.outputs, specs, strict=True):
            shape = spec.shape
            if shape is None or -1 in shape:
                shape = self.mapped(self.old[tensor.id])
            shapes.append(shape)
        return shapes

    def was_valid(self, op: OpRecord) -> bool:
        try:
            check(op.kind, [(self.old[t.id], t.dtype) for t in op.inputs], op.values)
        except OneDNNError:
            pass
        else:
            return True
        before = next(o for o in self.before.graph if o.id == op.id)
        outputs = [(self.old[t.id], t.dtype) for t in op.outputs]
        try:
            check(op.kind, [(self.old[t.id], t.dtype) for t in op.inputs], before.values, outputs)
        except OneDNNError:
            return False
        return True

    def mapped(self, shape: Dims) -> Dims:
        return tuple(self.became.get(d, d) for d in shape)

    def ways(self, free: list[int]) -> Iterator[dict[int, Dims]]:
        """Shapes for inputs of the graph: all dims that changed elsewhere, then fewer of them."""
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
        """Attributes that may fit: as they are first, where that is possible."""
        if op.kind == "StaticReshape" and "shape" in op.attrs:
            yield from self.reshapes(op, known)
        elif op.kind in ("Quantize", "Dequantize") and op.values.get("qtype") == "per_channel":
            yield _per_channel(op, known[op.inputs[0].id])
        else:
            yield op.attrs
            groups: Any = op.values.get("groups", 1)
            if groups in self.became:
                yield _with(op, "groups", self.became[groups])

    def reshapes(self, op: OpRecord, known: Mapping[int, Dims]) -> Iterator[Attributes]:
        before: Any = op.values["shape"]
        wanted = math.prod(known[op.inputs[0].id])
        for shape in (self.mapped(before), before):
            yield _with(op, "shape", shape)
            # One dim takes up what is too much or missing.
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
    """As many scales and zero points as there are channels."""
    attrs = dict(op.attrs)
    axis: Any = op.values.get("axis", 1)
    if not -len(shape) <= axis < len(shape):
        return attrs
    for name in ("scales", "zps"):
        values: Any = op.values.get(name, ())
        if values and len(values) != shape[axis]:
            fitting = tuple(values[i % len(values)] for i in range(shape[axis]))
            attrs[name] = replace(attrs[name], value=fitting)
    return attrs
