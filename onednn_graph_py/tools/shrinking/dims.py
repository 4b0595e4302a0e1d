"""Make a graph's dims smaller, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ...serialization import GraphDocument
from .resize import resized

Dims = tuple[int, ...]


def _smaller(dim: int) -> Iterator[int]:
    """Yield sizes to try for a dim, the smallest first."""
    if dim > 1:
        tried = (1, 2, dim // 2, dim - dim // 4, dim - 1)
        yield from dict.fromkeys(d for d in tried if d < dim)


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
        for size in _smaller(shapes[first][its_axis]):
            dims = {
                id: tuple(size if (id, a) in places else d for a, d in enumerate(shapes[id]))
                for id in dict.fromkeys(id for id, _ in places)
            }
            made = resized(document, dims)
            if made is not None and attempt(made):
                document, again = made, True
                break
    return document
