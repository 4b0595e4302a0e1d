"""Delta debugging of graphs: find the smallest one that still shows a symptom.

After Zeller and Hildebrandt (2002): leave out large parts first, then smaller ones, until nothing
more can be left out.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ...base.arguments import need_instance, need_whole
from ...base.errors import InvalidArgumentsError
from ...serialization import GraphDocument, to_json
from .resize import shrink_dims
from .simplify import (
    attributes,
    bypasses,
    data_types,
    kept,
    layouts,
    optional_inputs,
    settings,
    settled,
)
from .trial import Shows

Attempt = Callable[[GraphDocument], bool]
Variants = Callable[[GraphDocument], Iterator[GraphDocument]]


@dataclass(frozen=True)
class Progress:
    """The progress of shrinking: graphs tried, and the size of the smallest with the symptom."""

    tries: int
    ops: int
    elements: int


def elements_of(document: GraphDocument) -> int:
    """Return the number of elements of all tensors; unknown dims count as 1."""
    return sum(math.prod(max(d, 1) for d in t.dims or ()) for t in document.tensors().values())


class _Exhausted(Exception):
    """Raised if no more graphs may be tried."""


class _Tries:
    """Calls the predicate, once for each graph."""

    def __init__(
        self, predicate: Attempt, limit: int, progress: Callable[[Progress], None] | None
    ) -> None:
        self.predicate = predicate
        self.limit = limit
        self.progress = progress
        self.count = 0
        self.known: dict[str, bool] = {}
        self.best: GraphDocument | None = None

    def __call__(self, document: GraphDocument) -> bool:
        if not document.graph:
            return False
        text = to_json(document)
        if text not in self.known:
            if self.count >= self.limit:
                raise _Exhausted
            self.count += 1
            self.known[text] = bool(self.predicate(document))
            if self.known[text]:
                self.best = document
            if self.progress is not None and self.best is not None:
                best = self.best
                self.progress(Progress(self.count, len(best.graph), elements_of(best)))
        return self.known[text]


def shrink(
    document: GraphDocument,
    predicate: Attempt | str,
    *,
    seed: int = 0,
    timeout: float = 60.0,
    tries: int = 2000,
    progress: Callable[[Progress], None] | None = None,
) -> GraphDocument:
    """Find the smallest graph and shapes that still show a symptom.

    It leaves ops out (their results become inputs) or bypasses them, makes dims smaller, drops
    inputs and attributes that are not needed, and makes data types and layouts plain, until no such
    change keeps the symptom. The same arguments give the same result.

    Parameters
    ----------
    document : GraphDocument
    predicate : str or callable
        A symptom of `Shows`, which tries graphs in a helper process, as they may crash or hang; a
        `Shows`; or a function that takes a `GraphDocument` and returns a bool, called in this
        process. A function must not raise, not even for invalid graphs.
    seed : int
        Seed for generated inputs.
    timeout : float
        Time limit per try, in seconds.
    tries : int
        Largest number of tries; after them the smallest graph so far is the result.
    progress : callable, optional
        Called with a `Progress` after each try.

    Returns
    -------
    GraphDocument
        The smallest graph, with the ids of the original.

    Raises
    ------
    InvalidArgumentsError
        The symptom is unknown, the graph does not show it, or `tries` or `timeout` is not positive.

    Examples
    --------
    >>> from onednn_graph_py import GraphBuilder, serialization
    >>> b = GraphBuilder()
    >>> b.output((b.input((64, 32), "f32").relu() * 2.0).abs())
    >>> document = serialization.from_builder(b)
    >>> made = shrink(document, lambda d: any(op.kind == "Abs" for op in d.graph))
    >>> [op.kind for op in made.graph], made.graph[0].inputs[0].shape
    (['Abs'], (1, 1))
    """
    need_instance("shrink: document", document, GraphDocument)
    tries = need_whole("tries", tries)
    with contextlib.ExitStack() as stack:
        if isinstance(predicate, str):
            predicate = stack.enter_context(Shows(predicate, seed=seed, timeout=timeout))
        attempt = _Tries(predicate, tries, progress)
        if not attempt(document):
            outcome = f": {predicate.outcome(document)}" if isinstance(predicate, Shows) else ""
            wanted = predicate.symptom if isinstance(predicate, Shows) else "the symptom"
            raise InvalidArgumentsError(f"the graph does not show {wanted}{outcome}")
        with contextlib.suppress(_Exhausted):
            _shrink(document, attempt)
    assert attempt.best is not None
    return attempt.best


def _shrink(document: GraphDocument, attempt: _Tries) -> None:
    """Run all passes until a round changes nothing; `attempt` keeps the result."""
    whole = settled(document)
    if attempt(whole):
        document = whole
    before = None
    while before != document:
        before = document
        document = _without_ops(document, attempt)
        document = _varied(document, attempt, bypasses)
        document = shrink_dims(document, attempt)
        for variants in (optional_inputs, attributes, data_types, layouts, settings):
            document = _varied(document, attempt, variants)


def _without_ops(document: GraphDocument, attempt: Attempt) -> GraphDocument:
    """Leave ops out: half of them at a time, then a quarter, and so on."""
    size = max(1, len(document.graph) // 2)
    while True:
        ids: Sequence[int] = [op.id for op in document.graph]
        start, fewer = 0, False
        while start < len(ids):
            rest = [*ids[:start], *ids[start + size :]]
            smaller = kept(document, rest)
            if attempt(smaller):
                document, ids, fewer = smaller, rest, True
            else:
                start += size
        if size == 1 and not fewer:
            return document
        size = max(1, size // 2)


def _varied(document: GraphDocument, attempt: Attempt, variants: Variants) -> GraphDocument:
    """Replace the graph by a variant while one shows the symptom."""
    found = True
    while found:
        found = False
        for made in variants(document):
            if made != document and attempt(made):
                document, found = made, True
                break
    return document
