"""Limits of oneDNN on attributes, ranks and strides, in every version.

oneDNN checks few of them itself; beyond the others it may crash or access memory out of bounds.
"""

from collections.abc import Iterator, Mapping
from typing import Literal, NoReturn

from ..base.errors import InvalidGraphOpError, InvalidShapeError
from ..ops.lookup import with_attribute, with_trait
from ..ops.terms import MAX_NDIMS, Shape, shape_text
from .calls import Op, Tensor, operand_name

_BINARY = with_trait("binary")
_QUANTIZATION = with_trait("quantizes") | with_trait("dequantizes")

_MOST = 1 << 30  # kernels index with 32-bit integers that they derive from these
_RANGES: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(("axes", "axis", "begin_norm_axis", "order"), (-MAX_NDIMS, MAX_NDIMS - 1)),
    **dict.fromkeys(("dilations", "group_shape", "groups", "kernel", "strides"), (1, _MOST)),
    **dict.fromkeys(("dst_shape", "sizes", "src_shape", "weights_shape"), (0, _MOST)),
    # Kernels are unrolled over paddings: larger ones compile for minutes.
    **dict.fromkeys(("output_padding", "pads_begin", "pads_end"), (0, 1 << 15)),
    "shape": (-1, 1 << 60),
}
"""The smallest and the largest value of an attribute, or of each of its entries."""

_FEWEST_DIMS = {
    "GroupNorm": 3,  # oneDNN 3.7 to 3.13 crashes with two
    "PReLU": 2,  # compiling it for one dim crashes
    "PReLUBackward": 2,
}
"""The smallest rank of input 0, if shape functions allow smaller ones."""

_MOST_DIMS = 5  # the most dims for which the kernels of `_UP_TO_FIVE_DIMS` have arrays

_UP_TO_FIVE_DIMS = (
    with_attribute("pads_begin")
    | with_attribute("sizes")
    | (with_attribute("epsilon") & with_attribute("data_format"))
    | {"Select"}
)


def _refuse(op: Op, why: str) -> NoReturn:
    raise InvalidGraphOpError(f"{op.label}: {why}")


def _check_range(op: Op, name: str, low: int, high: int) -> None:
    value = op.attrs[name]
    listed = value if isinstance(value, tuple) else (value,)
    if len(listed) > MAX_NDIMS:
        _refuse(op, f"attribute {name} has {len(listed)} entries, oneDNN takes at most {MAX_NDIMS}")
    if all(low <= v <= high for v in listed if isinstance(v, int)):
        return
    several = listed is value
    span = f"{list(listed)}, every entry must be" if several else f"{value}, it must be"
    _refuse(op, f"attribute {name} is {span} from {low} to {high}")


def _operands(op: Op) -> Iterator[tuple[Literal["inputs", "outputs"], int, Tensor]]:
    yield from (("inputs", i, tensor) for i, tensor in enumerate(op.inputs))
    yield from (("outputs", i, tensor) for i, tensor in enumerate(op.outputs))


def check_attributes(op: Op) -> None:
    """Check the attributes that are set against their limits.

    - raises `InvalidGraphOpError`: an attribute is beyond its limits
    """
    for name in op.attrs:
        if name in _RANGES:
            _check_range(op, name, *_RANGES[name])
    if op.kind not in _QUANTIZATION:
        return
    # oneDNN accepts other words for qtype, and then computes without an error.
    qtype = op.attr("qtype")
    attribute = op.schema.attribute("qtype") if op.schema is not None else None
    if attribute is not None and qtype not in attribute.allowed:
        _refuse(op, f"attribute qtype must be {' or '.join(attribute.allowed)}, got {qtype!r}")
    if qtype == "per_group" and "group_shape" not in op.attrs:
        _refuse(op, "qtype per_group needs the attribute group_shape")
    axis = op.attrs.get("axis")
    unknown = bool(op.inputs) and op.inputs[0].shape is None
    if qtype != "per_tensor" and unknown and isinstance(axis, int) and axis < 0:
        _refuse(
            op,
            f"attribute axis must not be negative where the rank of input 0 is unknown, got {axis}",
        )


def check_ranks(op: Op, shapes: Mapping[int, Shape]) -> None:
    """Check the ranks of an op's tensors; `shapes` has their shapes by id.

    - raises `InvalidShapeError`: the op's kernels don't support a tensor's rank
    """
    fewest = _FEWEST_DIMS.get(op.kind, 0)
    limited = op.kind in _UP_TO_FIVE_DIMS
    if not fewest and not limited:
        return
    for ports, i, t in _operands(op):
        shape = shapes[t.id]
        if shape is None:
            continue
        if limited and len(shape) > _MOST_DIMS:
            expected = f"at most {_MOST_DIMS}"
        elif ports == "inputs" and i == 0 and len(shape) < fewest:
            expected = f"at least {fewest}"
        else:
            continue
        raise InvalidShapeError(
            f"{op.label}: {operand_name(op, ports, i)} must have {expected} dims, got "
            f"{shape_text(shape)}"
        )


def _overlaps(tensor: Tensor, shape: Shape) -> bool:
    """Whether elements share memory: oneDNN divides by a stride of 0, or infers a wrong size."""
    strides = tensor.strides
    if strides is None and tensor.shape and -1 in tensor.shape and tensor.layout == "strided":
        strides = tuple(tensor.mirror.get_strides())
    if not strides or not shape or 0 in shape or min(*shape, *strides) < 0:
        return False
    reach = 0  # the offset of the last element so far
    for stride, d in sorted(zip(strides, shape, strict=True)):
        if d == 1:
            continue
        if stride <= reach:
            return True
        reach += (d - 1) * stride
    return False


def check_layouts(op: Op, given: Mapping[int, Tensor], shapes: Mapping[int, Shape]) -> None:
    """Check the layouts of tensors, by what compile was given where it was.

    - raises `InvalidShapeError`: elements share memory; or a binary op reads a constant of layout
      any, which oneDNN refuses or, since 3.13, crashes at
    """
    for ports, i, declared in _operands(op):
        tensor = given.get(declared.id, declared)
        read = ports == "inputs" and op.kind in _BINARY and declared.id in given
        constant = tensor.mirror.get_property_type().name == "constant"
        if read and constant and tensor.layout == "any":
            raise InvalidShapeError(
                f"{op.label}: {operand_name(op, ports, i)} must have a strided layout, got "
                f"{tensor.mirror!r}"
            )
        if _overlaps(tensor, shapes.get(tensor.id, tensor.shape)):
            raise InvalidShapeError(
                f"{op.label}: {operand_name(op, ports, i)} must have strides that keep its "
                f"elements apart, got {tensor.mirror!r}; pass a copy, or a smaller array that the "
                "op broadcasts"
            )
