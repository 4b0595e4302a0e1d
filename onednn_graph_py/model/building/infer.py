"""Infer the shapes of a graph's tensors from those of its inputs."""

from collections.abc import Hashable, Mapping, Sequence

from ...base.arguments import need_integers
from ...base.errors import InvalidArgumentsError, InvalidShapeError, OneDNNError, reworded
from ...base.text.names import did_you_mean
from ...ops.tensor_spec import TensorSpec
from ...ops.terms import shape_text
from .builder import GraphBuilder
from .value import Node, is_whole


def known_shapes(
    builder: GraphBuilder, input_shapes: Mapping[str, Sequence[int]] | None
) -> dict[int, tuple[int, ...]]:
    """Return the inputs' shapes by id, some given by name; raise if a dim stays unknown.

    - raises `InvalidArgumentsError`: there is no input of a name
    - raises `InvalidShapeError`: a dim is unknown, or a shape is not as declared
    """
    known: dict[int, tuple[int, ...]] = {}
    given, names = input_shapes or {}, [v.name for v in builder.inputs]
    for name in given:
        if name not in names:
            hint = did_you_mean(name, names) or f"; there are: {', '.join(names)}"
            raise InvalidArgumentsError(f"there is no input {name!r}{hint}")
    for value in builder.inputs:
        declared = value.shape or ()
        if value.name not in given and not is_whole(declared):
            raise InvalidShapeError(
                f"input {value.name!r}: its shape must be given, as dims are unknown: "
                f"{shape_text(declared)}"
            )
        shape = need_integers(f"input {value.name!r}: its shape", given.get(value.name, declared))
        require_fit(f"input {value.name!r}", declared, shape)
        known[value.id] = shape
    return known


def require_fit(what: str, declared: Sequence[int], shape: Sequence[int]) -> None:
    """Raise InvalidShapeError if a shape does not fit the declared one."""
    difference = ""
    if len(declared) != len(shape):
        difference = f"expected {len(declared)} dims, got {len(shape)}"
    for i, (expected, given) in enumerate(zip(declared, shape, strict=False)):
        if not difference and (given < 0 or expected not in (-1, given)):
            wanted = expected if expected >= 0 else "a dim that is not negative"
            difference = f"expected {wanted} in dim {i}, got {given}"
    if difference:
        raise InvalidShapeError(
            f"{what} must have the shape {shape_text(tuple(declared))}, got "
            f"{shape_text(tuple(shape))}: {difference}"
        )


def infer_shapes(
    builder: GraphBuilder, input_shapes: Mapping[int, tuple[int, ...]]
) -> dict[int, tuple[int, ...]]:
    """Infer all values' shapes by id from those of the inputs; raise if one can't be inferred."""
    shapes: dict[int, tuple[int, ...]] = dict(input_shapes)
    for value in builder.constants:
        shapes[value.id] = value.shape or ()
    _infer(builder.nodes, shapes)
    return shapes


def infer_rest(nodes: Sequence[Node], shapes: dict[int, tuple[int, ...]]) -> None:
    """Infer the shapes of constants and results that are missing, and add them."""
    missing = [n for n in nodes if any(v.id not in shapes for v in n.outputs)]
    for value in (v for n in nodes for v in n.inputs if v.data is not None):
        shapes.setdefault(value.id, value.shape or ())
    _infer(missing, shapes)


def _infer(nodes: Sequence[Node], shapes: dict[int, tuple[int, ...]]) -> None:
    # Most ops of a deep model equal an earlier one.
    inferred: dict[Hashable, list[tuple[int, ...]]] = {}
    for node in nodes:
        key = node.contract, tuple([shapes[v.id] for v in node.inputs])
        made = inferred.get(key)
        if made is None:
            try:
                specs = node.infer([TensorSpec(shapes[v.id], v.dtype) for v in node.inputs])
            except OneDNNError as e:
                raise reworded(e, f"{e} (made at {node.where})") from None
            made = inferred[key] = []
            for spec in specs:
                if spec.shape is None or not is_whole(spec.shape):
                    raise InvalidShapeError(
                        f"{node.label} made at {node.where}: the shape of its output can't be "
                        f"inferred from the inputs, only {spec}"
                    )
                made.append(spec.shape)
        shapes.update(zip([v.id for v in node.outputs], made, strict=True))
