"""Nodes of a prepared model as an ONNX model of their own: `model_of`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy.typing as npt
import onnx
import onnx.defs
import onnx.helper
import onnx.numpy_helper
import onnx.version_converter
import onnx_ir as ir

from ..base.errors import UnimplementedError
from .inference import TYPES
from .islands import IslandModel
from .loading import proto_graphs, subgraphs

_NEWER = "newer"  # the domain of nodes that the version converter has to leave as they are


def model_of(
    nodes: Sequence[ir.Node],
    inputs: Mapping[ir.Value, str],
    outputs: Sequence[ir.Value],
    known: Mapping[ir.Value, npt.NDArray[Any]],
    opsets: Mapping[str, int],
    ir_version: int,
) -> onnx.ModelProto:
    """Return nodes, in an order in which they can run, as a model.

    Nodes that rewrites made may be of a newer opset than the file; then all are of the newer one.
    Optimizers write ops that the file's opset lacks, such as LayerNormalization; these stay.
    The model's own types are taken for inputs' that are none of `TYPES`.
    """
    taken = []
    for value, dtype in inputs.items():
        info = onnx.ValueInfoProto(name=value.name or "")
        if dtype in TYPES:
            info.type.tensor_type.elem_type = TYPES[dtype]
        elif value.type is not None:
            info.type.CopyFrom(ir.to_proto(ir.Value(name="", type=value.type)).type)
        taken.append(info)
    every = list(_all(nodes))
    protos = [ir.to_proto(n) for n in nodes]
    own = [n for n in every if n.domain == ""]
    newer = [n for n in own if (n.version or 0) > opsets[""] or not _since(n, opsets[""])]
    newest = max([opsets[""], *(n.version or 0 for n in newer)])
    convert = not all(_same(n, n.version or opsets[""], newest) for n in own)
    versions = {**{n.domain: opsets.get(n.domain, 1) for n in every}, "": newest}
    if convert:
        versions |= {"": opsets[""], _NEWER: 1}
        for node, proto in zip(every, _protos(protos), strict=True):
            if node in newer:
                proto.domain = _NEWER
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            protos,
            "island",
            taken,
            [onnx.ValueInfoProto(name=v.name or "") for v in outputs],
            [_weight(a, v.name or "") for v, a in known.items()],
        ),
        opset_imports=[onnx.helper.make_opsetid(d, v) for d, v in versions.items()],
        ir_version=ir_version,
    )
    return _converted(model, newest) if convert else model


def island_model(model: onnx.ModelProto) -> IslandModel:
    """Return a model as islands run it."""
    return IslandModel(
        model.SerializeToString(),
        tuple(i.name for i in model.graph.input),
        tuple(o.name for o in model.graph.output),
        frozenset(n.op_type for g in proto_graphs(model.graph) for n in g.node),
    )


def _weight(array: npt.NDArray[Any], name: str) -> onnx.TensorProto:
    if array.dtype != object:
        return onnx.numpy_helper.from_array(array, name)
    texts = [s if isinstance(s, bytes) else str(s).encode() for s in array.reshape(-1)]
    return onnx.TensorProto(
        name=name, data_type=onnx.TensorProto.STRING, dims=array.shape, string_data=texts
    )


def _since(node: ir.Node, version: int) -> int:
    """Return the opset that brought what an op is in an opset; 0 if it lacks the op."""
    there = onnx.defs.has(node.op_type, version, "")
    return onnx.defs.get_schema(node.op_type, version, "").since_version if there else 0


def _same(node: ir.Node, version: int, newest: int) -> bool:
    """Return whether an op means the same in two opsets."""
    return _since(node, version) in (0, _since(node, newest))


def _converted(model: onnx.ModelProto, newest: int) -> onnx.ModelProto:
    """Return a model whose older nodes are of the opset of the newer ones."""
    try:
        made = onnx.version_converter.convert_version(model, newest)
    except Exception as e:  # it raises what it meets
        raise UnimplementedError(
            f"its nodes can't be converted from opset {model.opset_import[0].version} to "
            f"{newest}: {e}"
        ) from e
    for proto in _protos(made.graph.node):
        if proto.domain == _NEWER:
            proto.domain = ""
    return made


def _all(nodes: Iterable[ir.Node]) -> Iterator[ir.Node]:
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from _all(graph)


def _protos(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Return nodes and those of their subgraphs, in the order of `_all`."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from _protos(graph.node)
