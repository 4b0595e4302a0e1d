"""Infer the shapes of a graph's tensors from those of its inputs."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import InvalidShapeError, OneDNNError, reworded
from ..ops.check import check
from .builder import GraphBuilder
from .value import is_whole

__all__ = ["infer_shapes"]


def infer_shapes(
    builder: GraphBuilder, given: Mapping[int, tuple[int, ...]]
) -> dict[int, tuple[int, ...]]:
    """Infer all values' shapes by id from those of the inputs.

    Raises
    ------
    InvalidShapeError
        Shapes don't fit together, or one can't be inferred.
    """
    shapes: dict[int, tuple[int, ...]] = dict(given)
    for value in builder.constants:
        shapes[value.id] = value.shape or ()
    for node in builder.nodes:
        try:
            made = check(
                node.kind,
                [(shapes[v.id], v.dtype) for v in node.inputs],
                node.attrs,
                [(v.shape, v.dtype) for v in node.outputs],
                name=node.name,
            )
        except OneDNNError as e:
            raise reworded(e, f"{e} (made at {node.where})") from None
        for value, spec in zip(node.outputs, made, strict=True):
            if spec.shape is None or not is_whole(spec.shape):
                raise InvalidShapeError(
                    f"{node.label} made at {node.where}: the shape of its output can't be "
                    f"inferred from the inputs, only {spec}"
                )
            shapes[value.id] = spec.shape
    return shapes
