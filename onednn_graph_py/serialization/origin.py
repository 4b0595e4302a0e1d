"""Facts of a JSON file that a builder loaded from it keeps."""

from __future__ import annotations

from dataclasses import dataclass

from .document import GraphDocument

__all__ = ["Origin"]


@dataclass(frozen=True)
class Origin:
    """The document that a builder was made from, with the builder's ids of its parts.

    The document keeps data that a builder lacks: ids, properties, layouts, spellings, End ops.

    Parameters
    ----------
    document : GraphDocument
    tensors : dict of int to int
        The document's tensor ids, by the ids of the builder's values.
    ops : dict of int to int
        Indices into the document's ``graph``, by the ids of the builder's nodes.
    """

    document: GraphDocument
    tensors: dict[int, int]
    ops: dict[int, int]
