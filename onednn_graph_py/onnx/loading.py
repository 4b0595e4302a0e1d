"""Read ONNX models, which are not trusted: limits are here, in `message_counts` and `evaluation`.

A model that breaks a rule raises `GraphFormatError`, which names the file and the node or tensor.
"""

import logging
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import google.protobuf.message
import numpy as np
import onnx
import onnx.defs
import onnx_ir as ir

from ..base.errors import GraphFormatError
from ..base.text.files import Unreadable, read_limited
from ..base.text.names import printable
from ..model.building.constant_arrays import aligned_copy
from .message_counts import check_counts
from .packing import MappedTensor

_MOST = 10  # lines of one kind, for each model
_LIBRARIES = ("onnx_ir",)

_told: Counter[tuple[str, int]] = Counter()


def _passes(record: logging.LogRecord) -> bool:
    """Escape what terminals obey, and hold back what has been said often."""
    record.msg, record.args = printable(record.getMessage()), ()
    record.exc_info = record.exc_text = None  # a traceback, whose last line has names
    _told[record.pathname, record.lineno] += 1
    return _told[record.pathname, record.lineno] <= _MOST


def filter_logs() -> None:
    """Let these libraries' loggers say only what is harmless, and each thing ten times again."""
    _told.clear()
    for name, logger in logging.root.manager.loggerDict.items():
        if name.partition(".")[0] in _LIBRARIES and isinstance(logger, logging.Logger):
            logger.addFilter(_passes)  # which is added only once


MOST_BYTES = 1 << 31  # size of a model's file; protobuf has the same limit

MOST_NODES = 200_000  # nodes of a model after all functions are inlined

MOST_DEPTH = 24  # how deep functions and subgraphs may be nested

_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)

LARGE = 4096  # bytes from which on a weight gets memory of its own, where oneDNN can read it

Source: TypeAlias = str | os.PathLike[str] | bytes | onnx.ModelProto | ir.Model


def loaded(source: Source) -> ir.Model:
    """Return a checked model; one that is given as an object stays as it is.

    External data is mapped, not read.
    """
    name = described(source)
    filter_logs()
    try:
        model = _read(source)
        _check_references(model.graph, 0, False)
        for function in model.functions.values():
            _check_references(function.graph, 0, True)
        _sort(model)
        _check_functions(model)
        count = _check_graph(model.graph, frozenset())
        if count > MOST_NODES:
            raise GraphFormatError(f"there are {count} nodes; there may be {MOST_NODES}")
        _check_opsets(model)
        _check_arity(model, model.graph, model.opset_imports)
        for function in model.functions.values():
            _check_arity(model, function.graph, function.opset_imports)
        for value in model.graph.inputs:
            if value.type is None or value.type.dtype == ir.DataType.UNDEFINED:
                raise GraphFormatError(f"input {value.name!r} has no type")
            if value.shape is not None:  # some converters write -1 for what is open
                dims = [None if isinstance(d, int) and d < 0 else d for d in value.shape]
                value.shape = ir.Shape(dims)
        _settle_all(model, _folder(source))
    except GraphFormatError as e:
        raise GraphFormatError(f"{name}: {e}") from None
    except (OSError, MemoryError):
        raise
    except google.protobuf.message.DecodeError as e:
        raise GraphFormatError(f"{name}: it is not an ONNX model, or only a part: {e}") from None
    except RecursionError:
        raise GraphFormatError(f"{name}: it is nested too deep") from None
    return model


def described(source: Source) -> str:
    """Return how messages name a model."""
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    if isinstance(source, bytes):
        return f"model of {len(source)} bytes"
    if isinstance(source, (onnx.ModelProto, ir.Model)):
        return f"model {source.graph.name!r}"
    raise TypeError(
        "expected a path, bytes, an onnx.ModelProto or an onnx_ir.Model, got "
        f"{type(source).__name__}"
    )


def _read(source: Source) -> ir.Model:
    if isinstance(source, ir.Model):
        return source.clone()
    if isinstance(source, (str, os.PathLike)):
        try:
            content = read_limited(source, MOST_BYTES)
        except Unreadable as e:
            raise GraphFormatError(str(e)) from None
        if content.startswith(b"version https://git-lfs"):
            raise GraphFormatError("it is a pointer of Git LFS; `git lfs pull` fetches the model")
        check_counts(content)
        proto = onnx.ModelProto.FromString(content)
    elif isinstance(source, bytes):
        check_counts(source)
        proto = onnx.ModelProto.FromString(source)
    else:
        proto = source
    if not proto.HasField("graph"):
        raise GraphFormatError("it has no graph; is it an ONNX model?")
    for graph in proto_graphs(proto.graph):
        if graph.sparse_initializer:
            raise GraphFormatError(
                f"tensor {graph.sparse_initializer[0].values.name!r} is sparse; such weights are "
                "not supported"
            )
    try:
        model: ir.Model = ir.from_proto(_without_maps(proto))
    except Exception as e:  # it raises whatever it meets first
        raise GraphFormatError(f"it is not a valid model: {_innermost(e)}") from e
    return model


def _without_maps(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model that does not say which results are maps: onnx_ir knows none."""
    for value in proto.graph.input:
        if _is_map(value):
            raise GraphFormatError(f"input {value.name!r} is a map, which is not supported")
    edges = [e for g in proto_graphs(proto.graph) for e in (g.output, g.value_info)]
    if not any(map(_is_map, (v for e in edges for v in e))):
        return proto
    made = onnx.ModelProto()
    made.CopyFrom(proto)  # what is given stays as it is
    for graph in proto_graphs(made.graph):
        for value in filter(_is_map, (*graph.output, *graph.value_info)):
            value.ClearField("type")
    return made


def _is_map(value: onnx.ValueInfoProto) -> bool:
    kinds = value.type, value.type.sequence_type.elem_type
    return any(t.HasField("map_type") for t in kinds)


def _folder(source: Source) -> str | None:
    """Return where a model's external data lies; None for a model that knows it itself."""
    if isinstance(source, ir.Model):
        return None
    return str(Path(source).absolute().parent) if isinstance(source, (str, os.PathLike)) else ""


def _innermost(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def proto_graphs(graph: onnx.GraphProto, depth: int = 0) -> Iterator[onnx.GraphProto]:
    """Yield a graph, and those that its nodes have as attributes, at any depth."""
    if depth > MOST_DEPTH:
        raise GraphFormatError(f"subgraphs are nested deeper than {MOST_DEPTH}")
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                yield from proto_graphs(inner, depth + 1)


def subgraphs(node: ir.Node) -> list[ir.Graph]:
    """Return the graphs that a node has as attributes."""
    given = [a for a in node.attributes.values() if a.type in _GRAPHS and not a.is_ref()]
    single = ir.AttributeType.GRAPH
    return [g for a in given for g in ([a.as_graph()] if a.type == single else a.as_graphs())]


def _check_references(graph: ir.Graph, depth: int, in_function: bool) -> None:
    """Raise if a graph is nested too deep, or a function's node takes one from its attributes.

    No op of ONNX's own needs it, and onnx_ir's walks over nodes fail where they meet it.
    """
    if depth > MOST_DEPTH:
        raise GraphFormatError(f"subgraphs are nested deeper than {MOST_DEPTH}")
    for node in graph:
        for attribute in node.attributes.values():
            if attribute.is_ref() and not in_function:
                raise GraphFormatError(
                    f"attribute {attribute.name!r} of node {node.name!r} refers to one of a "
                    "function, and is in none"
                )
            if attribute.is_ref() and attribute.type in _GRAPHS:
                raise GraphFormatError(
                    f"attribute {attribute.name!r} of node {node.name!r} refers to a graph, which "
                    "is not supported"
                )
        for inner in subgraphs(node):
            _check_references(inner, depth + 1, in_function)


def _placed(tensor: ir.ExternalTensor, folder: str) -> ir.ExternalTensor:
    """Return external data with its file's path; its name must not lead out of the folder.

    Links in the folder are its owner's, such as those of a hub's cache, and may.
    """
    location: str = os.fspath(tensor.location)
    _require_text(location)
    if not folder:
        raise GraphFormatError(
            f"tensor {tensor.name!r} is in the file {location}; load the model by its path"
        )
    if "\0" in location:
        raise GraphFormatError(f"tensor {tensor.name!r}: the path {location!r} has a NUL")
    inside = os.path.normpath(location)
    if os.path.isabs(inside) or Path(inside).parts[:1] == ("..",):
        raise GraphFormatError(
            f"tensor {tensor.name!r} is in the file {location}, outside of the model's folder"
        )
    path = Path(os.path.realpath(os.path.join(folder, inside)))
    if not os.path.isfile(path):  # which a name that is too long is not; Path's own raises
        raise GraphFormatError(f"tensor {tensor.name!r}: there is no file {location}")
    offset, size = tensor.offset or 0, path.stat().st_size
    if offset < 0 or offset + tensor.nbytes > size or tensor.length not in (None, tensor.nbytes):
        raise GraphFormatError(
            f"tensor {tensor.name!r} of {tensor.nbytes:,} bytes at offset {offset:,} does not fit "
            f"the file {location} of {size:,} bytes"
        )
    # Without a folder onnx_ir refuses no links.
    return MappedTensor(
        path, offset, tensor.length, tensor.dtype, shape=tensor.shape, name=tensor.name or ""
    )


def _sort(model: ir.Model) -> None:
    """Put nodes into an order in which they can run, subgraphs' too."""
    for graph in (model.graph, *(f.graph for f in model.functions.values())):
        try:
            graph.sort()
        except ValueError:
            raise GraphFormatError(f"nodes of graph {graph.name!r} form a cycle") from None


def _check_functions(model: ir.Model) -> None:
    """Raise if functions call each other in a circle, too deep, or are too much when inlined."""
    size: dict[Any, int] = {}
    depth: dict[Any, int] = {}
    open_: set[Any] = set()

    def visit(key: Any, level: int) -> None:
        if key in open_:
            raise GraphFormatError(f"function {key[1]!r} calls itself")
        if level + depth.get(key, 0) > MOST_DEPTH:
            raise GraphFormatError(f"functions are nested deeper than {MOST_DEPTH}")
        if key in size:
            return
        open_.add(key)
        nodes = [node.op_identifier() for node in model.functions[key].all_nodes()]
        called = [one for one in nodes if one in model.functions]
        for one in called:
            visit(one, level + 1)
        open_.discard(key)
        size[key] = len(nodes) + sum(size[one] for one in called)
        depth[key] = max((1 + depth[one] for one in called), default=0)

    everything = 0
    for node in model.graph.all_nodes():
        called = node.op_identifier()
        if called in model.functions:
            visit(called, 1)
            everything += size[called]
            if everything > MOST_NODES:
                raise GraphFormatError(
                    f"node {node.name!r}: with all functions inlined there are more than "
                    f"{MOST_NODES} nodes"
                )
    for function in model.functions.values():
        _check_graph(function.graph, frozenset())


def _require_text(*names: Any) -> None:
    for name in names:
        if isinstance(name, bytes):  # what is not UTF-8
            raise GraphFormatError(f"the name {name!r} is not text")


def _check_graph(graph: ir.Graph, outside: frozenset[ir.Value]) -> int:
    """Check that all that sorted nodes read is there, and return how many nodes there are."""
    _require_text(graph.name, *(v.name for v in (*graph.inputs, *graph.initializers.values())))
    for name, number in Counter(v.name for v in graph.inputs).items():
        if number > 1:
            raise GraphFormatError(f"{number} inputs of graph {graph.name!r} are named {name!r}")
    known = {*outside, *graph.inputs, *graph.initializers.values()}
    count = 0
    for node in graph:
        count += 1
        names = (v.name for v in node.outputs)
        _require_text(node.name, node.op_type, node.domain, *node.attributes, *names)
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.UNDEFINED:
                raise GraphFormatError(f"attribute {attribute.name!r} of {node.name!r} has no type")
        for value in node.inputs:
            if value is not None and value not in known:
                raise GraphFormatError(
                    f"node {node.name!r} ({node.op_type}) reads {value.name!r}, which nothing makes"
                )
        for inner in subgraphs(node):
            count += _check_graph(inner, frozenset(known))
        known.update(node.outputs)
    for value in graph.outputs:
        if value not in known:
            raise GraphFormatError(f"output {value.name!r} is not made by any node")
    return count


def _check_opsets(model: ir.Model) -> None:
    """Raise if ONNX's own ops are of a version that the installed onnx does not know."""
    _require_text(*model.opset_imports, *(part for key in model.functions for part in key))
    version = model.opset_imports.setdefault("", onnx.defs.onnx_opset_version())
    newest = onnx.defs.onnx_opset_version()
    if not 1 <= version <= newest:
        raise GraphFormatError(
            f"its opset is {version}; onnx {onnx.__version__} knows those up to {newest}"
        )
    for opsets in (model.opset_imports, *(f.opset_imports for f in model.functions.values())):
        for domain, number in opsets.items():
            if number.bit_length() > 31:
                raise GraphFormatError(f"the opset of the domain {domain!r} is {number}")


def _check_arity(model: ir.Model, graph: ir.Graph, opsets: Mapping[str, int]) -> None:
    """Raise if one of ONNX's own ops has more or fewer inputs or outputs than it can have."""
    version = opsets.get("", model.opset_imports[""])
    for node in graph.all_nodes():
        if node.domain != "" or node.op_identifier() in model.functions:
            continue
        try:
            schema = onnx.defs.get_schema(node.op_type, version, "")
        except (onnx.defs.SchemaError, TypeError):  # it is told of where it would run
            continue
        for what, there, least, most in (
            ("inputs", len(node.inputs), schema.min_input, schema.max_input),
            ("outputs", len(node.outputs), schema.min_output, schema.max_output),
        ):
            if not least <= there <= most:
                raise GraphFormatError(
                    f"node {node.name!r} ({node.op_type}) has {there} {what}; it can have "
                    f"{least if least == most else f'{least} to {most}'}"
                )


@dataclass
class _Room:
    """The bytes that external data of attributes may still take; it is copied, not mapped."""

    left: int


def _settle_all(model: ir.Model, folder: str | None) -> None:
    """Check all tensors of a model, and put them where oneDNN can read them.

    Tensors that stay as the file has them would keep all of its bytes in memory.
    """
    room = _Room(MOST_BYTES)
    for function in model.functions.values():
        for name, default in function.attributes.items():
            if default.type in (*_GRAPHS, ir.AttributeType.TENSORS):
                raise GraphFormatError(
                    f"attribute {name!r} of function {function.name!r} has a default of type "
                    f"{default.type.name}, which is not supported"
                )
            if default.type == ir.AttributeType.TENSOR and default.value is not None:
                what = f"attribute {name!r} of function {function.name!r}"
                settled = _settled(what, default.value, folder, room)
                function.attributes[name] = ir.AttrTensor(name, settled)
    for graph in (model.graph, *(f.graph for f in model.functions.values())):
        _settle(graph, folder, room)


def _settle(graph: ir.Graph, folder: str | None, room: _Room) -> None:
    for value in graph.initializers.values():
        if value.const_value is None:
            raise GraphFormatError(f"tensor {value.name!r} has no data")
        what = f"tensor {value.name!r}"
        value.const_value = _settled(what, value.const_value, folder)
    for node in graph:
        for name, attribute in node.attributes.items():
            if attribute.is_ref():
                continue
            what = f"attribute {name!r} of node {node.name!r}"
            if attribute.type == ir.AttributeType.TENSORS:
                raise GraphFormatError(f"{what} is a list of tensors, which is not supported")
            if attribute.type == ir.AttributeType.TENSOR:
                # Not `as_tensor`, which asks for the size of what is not checked yet.
                settled = _settled(what, attribute.value, folder, room)
                node.attributes[name] = ir.AttrTensor(name, settled)
        for inner in subgraphs(node):
            _settle(inner, folder, room)


def _settled(what: str, tensor: Any, folder: str | None, room: _Room | None = None) -> Any:
    """Return a tensor that was checked; one of a file is mapped, or read if there is `room`."""
    dims = list(tensor.shape.numpy())
    if min(dims, default=0) < 0:
        raise GraphFormatError(f"{what} has the shape {dims}")
    if isinstance(tensor, ir.ExternalTensor):
        if tensor.dtype in (ir.DataType.STRING, ir.DataType.UNDEFINED):
            raise GraphFormatError(f"{what} in a file has the data type {tensor.dtype.name}")
        if folder is not None:
            tensor = _placed(tensor, folder)
        if room is None:
            return tensor
        room.left -= tensor.nbytes
        if room.left < 0:
            raise GraphFormatError(
                f"{what}: tensors of attributes take more than {MOST_BYTES:,} bytes of files"
            )
    else:
        _check_size(what, tensor)
    try:
        if tensor.dtype == ir.DataType.STRING:
            # Not its array, in which each string takes as many bytes as the longest.
            texts = np.array([*tensor.string_data(), None], object)[:-1].reshape(dims)
            return ir.StringTensor(texts, shape=tensor.shape, name=tensor.name)
        array = tensor.numpy()
        own = aligned_copy(array) if array.nbytes >= LARGE else np.array(array)
        return ir.Tensor(own, dtype=tensor.dtype, shape=tensor.shape, name=tensor.name)
    except Exception as e:  # NumPy and onnx_ir raise several
        raise GraphFormatError(f"{what}: {_innermost(e)}") from None


def _check_size(what: str, tensor: Any) -> None:
    """Raise if a tensor's dims are absurd; the least that a number can take is 2 bits."""
    stored = getattr(tensor, "raw", None)
    if isinstance(stored, onnx.TensorProto) and tensor.size > 4 * stored.ByteSize():
        raise GraphFormatError(
            f"{what} of shape {list(tensor.shape.numpy())} has only {stored.ByteSize():,} bytes"
        )
