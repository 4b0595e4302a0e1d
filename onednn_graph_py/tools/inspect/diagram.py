"""Diagrams of graphs, partitions and models: `diagram` and `Diagram`."""

from __future__ import annotations

import os
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

from ... import _core
from ...base.arguments import need_whole
from ...base.errors import InvalidArgumentsError
from ...base.text.files import write_whole
from ...model.building.builder import GraphBuilder
from ...model.running.model import CompiledGraph
from .assemble import Graph, assemble, graph_of_builder, graph_of_mirror, graph_of_model
from .drawing import Drawing
from .labels import by_scope, readable, title_lines
from .languages import missing, to_dot, to_mermaid, to_svg

_FORMS = (".svg", ".dot", ".mmd")


class Diagram:
    """A picture of a graph, which notebooks show.

    They show SVG if Graphviz and its Python package are installed, else Mermaid, which JupyterLab
    draws from 4.1 on. `diagram`, `GraphBuilder.diagram` and `CompiledGraph.diagram` make it.

    Attributes
    ----------
    drawing : Drawing
        The nodes, groups, terminals and edges.
    """

    def __init__(self, drawing: Drawing) -> None:
        self.drawing = drawing

    def __repr__(self) -> str:
        return f"<Diagram of {title_lines(self.drawing)[0]}>"

    def mermaid(self) -> str:
        """Return the diagram as a Mermaid flowchart."""
        return to_mermaid(self.drawing)

    def dot(self) -> str:
        """Return the diagram in Graphviz's language."""
        return to_dot(self.drawing)

    def svg(self) -> str:
        """Return the diagram as an SVG element.

        Raises
        ------
        UnimplementedError
            Graphviz or its Python package is not installed; the message says how to get them.
        """
        return to_svg(self.drawing)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the diagram to a file.

        Parameters
        ----------
        path : path
            It ends in ``.svg``, ``.dot``, or ``.mmd`` for Mermaid, which GitHub draws.

        Raises
        ------
        InvalidArgumentsError
            The path has another ending.
        UnimplementedError
            The same as for `svg`.
        """
        form = Path(path).suffix.lower()
        if form not in _FORMS:
            raise InvalidArgumentsError(
                f"diagram: path must end in one of {', '.join(_FORMS)}, got {os.fspath(path)!r}"
            )
        makers = (self.svg, self.dot, self.mermaid)
        write_whole(path, dict(zip(_FORMS, makers, strict=True))[form]())

    def _repr_mimebundle_(
        self, include: Container[str] | None = None, exclude: Container[str] | None = None
    ) -> dict[str, str]:
        # Notebooks choose among the forms themselves.
        if missing():
            return {"text/plain": repr(self), "text/vnd.mermaid": self.mermaid()}
        return {"text/plain": repr(self), "image/svg+xml": self.svg()}


def diagram(
    what: GraphBuilder | CompiledGraph | _core.graph,
    path: str | os.PathLike[str] | None = None,
    *,
    shapes: Sequence[Sequence[int]] = (),
    max_nodes: int | None = 60,
    scopes: int = 0,
) -> Diagram:
    """Draw ops, the partitions that they are in, and the tensors between them.

    Partitions are coloured boxes around their ops; a box is grey and dashed if NumPy computes it,
    if it need not run (a view), or if oneDNN has no kernel for it. Arrows show data type, shape
    and, if it is not row-major, layout. Ops show the number of constants that they read.

    Parameters
    ----------
    what : GraphBuilder, CompiledGraph or graph
        A model is drawn with its steps and their compiled layouts, everything else with the
        partitions that oneDNN makes.
    path : path, optional
        A file to write the diagram to, as `Diagram.save` does.
    shapes : sequence of shapes, optional
        Shapes of the inputs of a model with unknown dims; by default those of its last call.
    max_nodes : int, optional
        If there are more ops, those of each partition are drawn as one node, and if there are still
        more, those of partitions that run one after the other. None to draw every op.
    scopes : int
        Draw the ops of each `GraphBuilder.scope` as one node: 1 for the outermost scopes, 2 for
        those inside them; 0 for none. Ops without a name are in no scope.

    Raises
    ------
    TypeError
        `what` is of another type.
    InvalidArgumentsError
        `max_nodes` is below 1 or `scopes` below 0; the path has no known ending; `shapes` do not
        fit the model's inputs.
    UnimplementedError
        The path ends in ``.svg``, but Graphviz or its Python package is not installed.

    Examples
    --------
    >>> import numpy as np, onednn_graph_py as og
    >>> b = og.GraphBuilder()
    >>> x = b.input((2, 4), name="x")
    >>> b.output((x @ np.ones((4, 3), np.float32)).relu())
    >>> og.diagram(b)
    <Diagram of graph: 2 ops in 1 partition>
    """
    if max_nodes is not None:
        max_nodes = need_whole("diagram: max_nodes", max_nodes)
    scopes = need_whole("diagram: scopes", scopes, 0)
    drawing = assemble(_graph_of(what, shapes))
    if scopes:
        drawing = by_scope(drawing, scopes)
    if max_nodes is not None:
        drawing = readable(drawing, max_nodes)
    made = Diagram(drawing)
    if path is not None:
        made.save(path)
    return made


def _graph_of(what: Any, shapes: Sequence[Sequence[int]]) -> Graph:
    if isinstance(what, CompiledGraph):
        return graph_of_model(what, shapes)
    if shapes:
        raise InvalidArgumentsError(
            f"diagram: shapes are for a CompiledGraph, got a {type(what).__name__}"
        )
    if isinstance(what, GraphBuilder):
        return graph_of_builder(what)
    if isinstance(what, _core.graph):
        return graph_of_mirror(what)
    raise TypeError(
        f"diagram: expected a GraphBuilder, CompiledGraph or graph, got {type(what).__name__}"
    )


def repr_mimebundle(
    graph: GraphBuilder | CompiledGraph,
    include: Container[str] | None = None,
    exclude: Container[str] | None = None,
) -> dict[str, str]:
    """Return the diagram of a graph or a model, and its repr as text, for a notebook."""
    return {**diagram(graph)._repr_mimebundle_(include, exclude), "text/plain": repr(graph)}
