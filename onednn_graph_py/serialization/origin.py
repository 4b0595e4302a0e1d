"""Facts of a JSON file that a builder loaded from it keeps."""

from __future__ import annotations

from dataclasses import dataclass

from .document import GraphDocument


@dataclass(frozen=True)
class Origin:
    """The document that a builder was made from, with the builder's ids of its parts.

    The document keeps data that a builder lacks: ids, properties, layouts, spellings, End ops.
    """

    document: GraphDocument
    tensors: dict[int, int]  # the document's tensor ids, by the ids of the builder's values
    ops: dict[int, int]  # indices into the document's `graph`, by the ids of the builder's nodes
