"""Infer the shapes of a graph's tensors from those of its inputs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from ...base.errors import InvalidShapeError, OneDNNError, reworded
from ...ops.tensor_spec import TensorSpec
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
    # Most ops of a deep model equal an earlier one.
    inferred: dict[Hashable, tuple[TensorSpec, ...]] = {}
    for node in builder.nodes:
        inputs = tuple(TensorSpec(shapes[v.id], v.dtype) for v in node.inputs)
        key = (node.signature, inputs, tuple((v.shape, v.dtype) for v in node.outputs))
        made = inferred.get(key)
        if made is None:
            try:
                made = node.infer(inputs)
            except OneDNNError as e:
                raise reworded(e, f"{e} (made at {node.where})") from None
            inferred[key] = made
        for value, spec in zip(node.outputs, made, strict=True):
            if spec.shape is None or not is_whole(spec.shape):
                raise InvalidShapeError(
                    f"{node.label} made at {node.where}: the shape of its output can't be "
                    f"inferred from the inputs, only {spec}"
                )
            shapes[value.id] = spec.shape
    return shapes
