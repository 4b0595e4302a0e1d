"""Shapes of a partition's tensors, which oneDNN assumes to fit together."""

from collections.abc import Mapping, Sequence

from ..base.errors import InvalidGraphOpError
from ..ops.shapes.elementwise import merged
from ..ops.terms import Shape
from .calls import Op, Tensor, call_of
from .limits import check_ranks


def _outputs_of(op: Op, shapes: Mapping[int, Shape]) -> list[Shape]:
    """Return the shapes of an op's outputs, as far as they follow from known ones."""
    if op.schema is None:
        return [shapes[t.id] for t in op.outputs]
    check_ranks(op, shapes)
    call = call_of(op, op.schema, shapes)
    inferred = op.schema.infer(call)
    made = []
    for i, declared in enumerate(call.outputs):
        shape = inferred[i] if i < len(inferred) else None
        declared.need_shape(shape, "as follows from its inputs and attributes")
        made.append(merged(declared.shape, shape))
    return made


def shapes_of(ops: Sequence[Op], given: Mapping[int, Tensor]) -> dict[int, Shape]:
    """Infer the shapes of a partition's tensors by id, and check that they fit together.

    - returns: each tensor's shape, as far as it is known
    - raises `InvalidGraphOpError`: an op depends on its own output
    - raises `InvalidShapeError`: shapes don't fit together, or kernels have no arrays for their
      ranks
    """
    shapes: dict[int, Shape] = {}
    said = [(t.id, t.shape) for op in ops for t in (*op.inputs, *op.outputs)]
    for id, shape in (*said, *((id, t.shape) for id, t in given.items())):
        known = shapes.get(id)
        shapes[id] = known if shape is None else merged(shape, known)
    waiting_for = {t.id for op in ops for t in op.outputs}
    left = ops
    while left:  # once, if each op follows those that it reads from
        later = []
        for op in left:
            if any(t.id in waiting_for for t in op.inputs):
                later.append(op)
                continue
            for t, shape in zip(op.outputs, _outputs_of(op, shapes), strict=True):
                shapes[t.id] = shape
                waiting_for.discard(t.id)
        if len(later) == len(left):
            raise InvalidGraphOpError(f"{later[0].label} depends on its own output")
        left = later
    return shapes
