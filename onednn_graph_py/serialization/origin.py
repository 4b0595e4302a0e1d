"""The facts of a file that a loaded builder keeps."""

from __future__ import annotations

from dataclasses import dataclass

from .document import GraphDocument

__all__ = ["Origin"]


@dataclass(frozen=True)
class Origin:
    """The document that a builder was made from, and what became of its parts.

    It has what a builder has no place for: ids, properties, layouts, spellings, End.

    Parameters
    ----------
    document : GraphDocument
    tensors : dict of int to int
        Tensor ids of the document by the ids of values.
    ops : dict of int to int
        Indices into the document's ``graph`` by the ids of nodes.
    """

    document: GraphDocument
    tensors: dict[int, int]
    ops: dict[int, int]
