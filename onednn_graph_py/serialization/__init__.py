"""Graphs as JSON: the files that oneDNN dumps and its test driver benchdnn reads.

`parse` reads a file into a `GraphDocument`, which has exactly the contents of the file; `to_json`
writes one. `to_builder` and `from_builder` convert between documents and `GraphBuilder`; `to_graph`
makes a graph of the mirror with the file's own ids.

>>> from onednn_graph_py import GraphBuilder, serialization
>>> b = GraphBuilder()
>>> b.output(b.input((2, 4), "f32").relu())
>>> document = serialization.from_builder(b)
>>> document.graph[0].kind, document.graph[0].outputs[0].shape
('ReLU', (2, 4))
>>> serialization.parse(serialization.to_json(document)) == document
True
"""

from .build import load, to_builder, to_graph
from .document import AttributeRecord, GraphDocument, OpRecord, TensorRecord
from .parse import parse
from .write import from_builder, save, to_json

__all__ = [
    "AttributeRecord",
    "GraphDocument",
    "OpRecord",
    "TensorRecord",
    "from_builder",
    "load",
    "parse",
    "save",
    "to_builder",
    "to_graph",
    "to_json",
]
