"""Make graphs of documents: a `GraphBuilder` or the mirror's graph."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, overload

from .. import _core
from .._core import UNKNOWN_DIM
from ..base.dtypes import HOST_DTYPES
from ..base.errors import GraphFormatError, OneDNNError, reworded
from ..base.text.names import printable
from ..model.building.builder import GraphBuilder
from ..model.building.value import Value, is_whole, row_major
from ..ops.check import check
from ..ops.table import OPS
from ..ops.terms import AttributeType
from .document import GraphDocument, OpRecord, TensorRecord
from .links import check_agreement, check_links, in_order
from .parse import parse
from .read import JSONSource, file_of, is_model

_LONGEST_MESSAGE = 1500
_LONGEST_NAME = 80

# An attribute of the same name has the same type in all ops.
_TYPES: dict[str, AttributeType] = {a.name: a.type for op in OPS.values() for a in op.attributes}


@contextlib.contextmanager
def _at(place: object) -> Iterator[None]:
    """Put the place in the file before the message of an error."""
    try:
        yield
    except (OneDNNError, TypeError) as e:
        text = str(e)  # names from the file may be of any length
        if len(text) > _LONGEST_MESSAGE:
            text = f"{text[: _LONGEST_MESSAGE - 3]}..."
        # A TypeError means that an attribute has another type than the op needs.
        known = e if isinstance(e, OneDNNError) else GraphFormatError()
        raise reworded(known, printable(f"{place}: {text}")) from None


def _check_types(op: OpRecord) -> None:
    for name, attribute in op.attrs.items():
        expected = _TYPES.get(name, attribute.type)
        if attribute.type != expected:
            raise GraphFormatError(
                f'attrs.{name}.type: expected "{expected}", got "{attribute.type}"'
            )


@overload
def load(source: bytes | Mapping[str, Any]) -> GraphBuilder: ...


@overload
def load(source: str | os.PathLike[str]) -> Any: ...


def load(source: JSONSource) -> Any:
    """Read a graph's JSON into a builder, ready to compile, or the file of a model.

    See `parse` and `to_builder` for graphs, `CompiledGraph.save` and `OnnxModel.save` for models.

    Parameters
    ----------
    source : path, str, bytes or dict

    Returns
    -------
    GraphBuilder, CompiledGraph or OnnxModel
        A graph has inputs and outputs that are named ``t`` and the tensor's id. A model is
        compiled; its constants are the memory of the file, which must stay as it is.

    Raises
    ------
    GraphFormatError
        The JSON is not a graph; the message names the place. Or the file of a model was cut or
        changed, or a newer package wrote it.
    OneDNNError
        An op is invalid, or the linked oneDNN does not know it.
    OSError
        The file can't be opened.

    Warns
    -----
    RuntimeWarning
        Another CPU or oneDNN wrote the file of a model: this one chooses forms anew.
    """
    name = file_of(source)
    if name is not None and is_model(name):
        with _at(name):
            return import_module(f"{__package__}.model_file").load_model(name)
    document = parse(source)
    if name is None:
        return to_builder(document)
    with _at(name):
        return to_builder(document, file=name)


def to_builder(document: GraphDocument, *, file: str | None = None) -> GraphBuilder:
    """Build the graph of a document op by op, and check each op with the table of ops.

    Tensors that no op makes become inputs; so do constants, since the file does not have their
    values. Tensors that no op reads, or that ``output_ports`` or End mark, become outputs. Inputs
    and outputs are named ``t`` and the tensor's id.

    Parameters
    ----------
    document : GraphDocument
    file : str, optional
        The file that the document was read from, for messages about ops.

    Raises
    ------
    GraphFormatError
        Ids, shapes or attribute types contradict each other, or an input's rank is not known.
    UnimplementedError
        The linked oneDNN is older than an op, an attribute or a data type.
    OneDNNError
        As in `onednn_graph_py.ops.check`. All messages begin with the place in the file.
    """
    check_links(document)
    check_agreement(document)
    with _at("fpmath_mode"):
        builder = GraphBuilder(
            document.engine_kind,
            document.fpmath_mode or "strict",
            apply_to_int=bool(document.fpmath_mode_apply_to_int),
        )
    values: dict[int, Value] = {}
    places = {t.id: place for place, t in reversed(list(document.records()))}
    tensors = document.tensors()
    for id in document.inputs():
        with _at(places[id]):
            values[id] = _input(builder, tensors[id])
    for i in in_order(document):
        op = document.graph[i]
        with _at(f"graph[{i}]"):
            _check_types(op)
            if op.kind == "End":  # a builder's outputs say the same
                specs = [(values[t.id].shape, values[t.id].dtype) for t in op.inputs]
                check("End", specs, op.values, [(t.dims, t.dtype) for t in op.outputs])
                continue
            where = _where(file, i, op)
            inputs = [values[t.id] for t in op.inputs]
            outputs = [(t.dims, None if t.dtype == "undef" else t.dtype) for t in op.outputs]
            name = op.name or None
            builder.add_op(op.kind, inputs, op.values, outputs=outputs, name=name, where=where)
        values.update(zip((t.id for t in op.outputs), builder.nodes[-1].outputs, strict=True))
    builder.output(**{f"t{id}": values[id] for id in document.outputs()})
    builder.records = {v.id: tensors[id] for id, v in values.items()}
    return builder


def _input(builder: GraphBuilder, tensor: TensorRecord) -> Value:
    by_mirror = tensor.property_type == "host_scalar" or tensor.dtype in HOST_DTYPES
    if by_mirror or tensor.layout_type == "opaque":
        _described(tensor)  # raises for a layout that is opaque, or if this version lacks the type
    dims, strides = tensor.dims, tensor.strides
    if dims is None:
        raise GraphFormatError(
            f"shape: even the number of dims is unknown; oneDNN writes [{UNKNOWN_DIM}] for every "
            "shape that is not completely known"
        )
    if not is_whole(dims) or strides == row_major(dims):
        strides = None
    return builder.input(dims, tensor.dtype, name=f"t{tensor.id}", strides=strides)


def _where(file: str | None, i: int, op: OpRecord) -> str:
    """Return the op's place in the file, for messages."""
    name = op.name if len(op.name) <= _LONGEST_NAME else f"{op.name[: _LONGEST_NAME - 3]}..."
    place = f"graph[{i}] {name!r}" if name else f"graph[{i}]"
    return f"{file}: {place}" if file is not None else place


def to_graph(document: GraphDocument) -> _core.graph:
    """Make the mirror's graph of a document, with the file's own ids, finalized.

    Shapes and layouts are those of the file: nothing is inferred or checked with the table of ops.
    If a reader describes a tensor differently, its maker's description counts, as in oneDNN.

    Raises
    ------
    GraphFormatError
        Ids, shapes or attribute types contradict each other, or a layout is opaque.
    UnimplementedError
        The linked oneDNN is older than an op, an attribute or a data type.
    OneDNNError
        oneDNN rejects the graph. All messages begin with the place in the file.
    """
    check_links(document)
    check_agreement(document)
    tensors = document.tensors()
    g = _core.graph(document.engine_kind)
    if document.fpmath_mode is not None:
        g = _core.graph(document.engine_kind, document.fpmath_mode)
        g.set_fpmath_mode(g.get_fpmath_mode()[0], bool(document.fpmath_mode_apply_to_int))
    for i, op in enumerate(document.graph):
        with _at(f"graph[{i}]"):
            _check_types(op)
            node = _core.op(op.id, op.kind, op.name)
            for name, value in op.values.items():
                node.set_attr(name, value)
        for k, tensor in enumerate(op.inputs):
            with _at(f"graph[{i}].inputs[{k}]"):
                node.add_input(_described(tensors[tensor.id]))
        for k, tensor in enumerate(op.outputs):
            with _at(f"graph[{i}].outputs[{k}]"):
                node.add_output(_described(tensor))
        with _at(f"graph[{i}]"):
            g.add_op(node)
    g.finalize()
    return g


def _described(tensor: TensorRecord) -> _core.logical_tensor:
    if tensor.layout_type == "opaque":
        raise GraphFormatError(
            "layout_type: an opaque layout is valid only in the process that made it"
        )
    dims, strides = tensor.dims, tensor.strides
    kind = tensor.property_type
    if dims is None:
        return _core.logical_tensor(tensor.id, tensor.dtype, -1, tensor.layout_type, kind)
    sizes = [UNKNOWN_DIM if d < 0 else d for d in dims]
    if tensor.layout_type == "strided" and strides is not None:
        return _core.logical_tensor(tensor.id, tensor.dtype, sizes, strides, kind)
    return _core.logical_tensor(tensor.id, tensor.dtype, sizes, tensor.layout_type, kind)
