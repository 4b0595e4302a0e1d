"""Fused partitions of which oneDNN computes wrong results without saying so, by version.

What reads or writes out of bounds is refused by the mirror itself (``bindings/known_defects.cpp``);
here is what only gives wrong numbers. Each case is pinned by a test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import _core
from .ops.check import linked_version
from .ops.schema import Version
from .value import row_major

if TYPE_CHECKING:
    from .value import Node

__all__ = ["DEFECTS", "Defect", "partitioned_apart", "wrong_result"]

NEVER: Version = (99, 0)
_POOLS = ("AvgPool", "MaxPool")
_BINARY = ("Add", "Divide", "Maximum", "Minimum", "Multiply", "Subtract")


@dataclass(frozen=True)
class Defect:
    """A wrong result.

    Parameters
    ----------
    what : str
        Names the case in the warning.
    since, until : Version
        The first oneDNN that has it, and the first that does not.
    met : callable
        Takes the nodes of a partition, in order.
    unless_apply_to_int : bool
        It is right where the floating-point mode covers integers.
    alone : bool
        It is wrong also in a partition of its own.
    """

    what: str
    since: Version
    until: Version
    met: Callable[[Sequence[Node]], bool]
    unless_apply_to_int: bool = False
    alone: bool = False


def _pool_and_whole_operand(nodes: Sequence[Node]) -> bool:
    if not any(n.kind in _POOLS for n in nodes):
        return False
    made = {v.id for n in nodes for v in n.outputs}
    for node in nodes:
        if node.kind not in _BINARY:
            continue
        for value in node.inputs:
            wide = sum(d != 1 for d in value.shape or ()) > 1
            if value.id not in made and wide:
                return True
    return False


def _pool_of_channels_last(nodes: Sequence[Node]) -> bool:
    """A fused operand that is not 1 along the channels is read at the wrong places."""
    pooled = {
        v.id
        for n in nodes
        if n.kind in _POOLS and n.attrs.get("data_format", "NXC") == "NXC"
        for v in n.outputs
    }
    made = {v.id for n in nodes for v in n.outputs}
    return bool(pooled) and any(
        value.id not in made and value.shape != () and (value.shape or (2,))[-1] != 1
        for node in nodes
        if node.kind in _BINARY
        for value in node.inputs
    )


def _int8_pool_and_relu(nodes: Sequence[Node]) -> bool:
    """What is pooled is rounded before it is scaled; with a binary op too it does not compile."""
    kinds = {n.kind for n in nodes}
    if not kinds & set(_POOLS) or "Dequantize" not in kinds or kinds & set(_BINARY):
        return False
    return bool(kinds & {"ReLU", "LeakyReLU"})


def _residual_of_other_sign(nodes: Sequence[Node]) -> bool:
    """A dequantized residual is added before a Quantize to the other of u8 and s8."""
    if nodes[-1].kind != "Quantize":
        return False
    target = nodes[-1].outputs[0].dtype
    kinds = {n.kind for n in nodes}
    if not kinds & {"MatMul", "Convolution", "ConvTranspose", "Reorder"}:
        return False
    made = {v.id: n for n in nodes for v in n.outputs}
    for add in (n for n in nodes if n.kind == "Add"):
        for value in add.inputs:
            source = made.get(value.id)
            if source is None or source.kind not in ("Dequantize", "DynamicDequantize"):
                continue
            residual = source.inputs[0].dtype
            if residual == target:
                continue
            if residual == "s8" and target == "u8" and "Convolution" in kinds:
                continue  # the one pair of types that is right
            return True
    return False


def _quantize_per_channel(*producers: str) -> Callable[[Sequence[Node]], bool]:
    def met(nodes: Sequence[Node]) -> bool:
        return (
            nodes[-1].kind == "Quantize"
            and nodes[-1].attrs.get("qtype") == "per_channel"
            and any(n.kind in producers for n in nodes)
        )

    return met


def _depthwise_groups_of_s8(nodes: Sequence[Node]) -> bool:
    made = {v.id: n for n in nodes for v in n.outputs}
    for node in nodes:
        groups = node.attrs.get("groups", 1)
        if node.kind != "Convolution" or groups == 1:
            continue
        source = made.get(node.inputs[0].id)
        if source is None or source.inputs[0].dtype != "s8":
            continue
        shape, weights = node.inputs[0].shape, node.inputs[1].shape
        last = node.attrs.get("data_format", "NXC") == "NXC"
        oix = node.attrs.get("weights_format", "XIO") == "OIX"
        if shape is None or weights is None:
            return True
        channels, made_channels = shape[-1 if last else 1], weights[0 if oix else -1]
        if channels // groups == 1 and made_channels // groups > 16:
            return True
    return False


def _layer_norm_and_sum(nodes: Sequence[Node]) -> bool:
    """A tensor of the same shape is added, maybe behind a TypeCast; others are right."""
    made = {v.id: n for n in nodes for v in n.outputs}
    for node in (n for n in nodes if n.kind == "TypeCast" and n.inputs[0].id in made):
        made[node.outputs[0].id] = made[node.inputs[0].id]
    for add in (n for n in nodes if n.kind == "Add"):
        kinds = {made[v.id].kind for v in add.inputs if v.id in made}
        if "LayerNorm" in kinds and add.inputs[0].shape == add.inputs[1].shape:
            return True
    return False


def _attention_mask_of_other_rank(nodes: Sequence[Node]) -> bool:
    if "SoftMax" not in {n.kind for n in nodes}:
        return False
    made = {v.id: n for n in nodes for v in n.outputs}
    if sum(n.kind == "MatMul" for n in nodes) < 2:
        return False
    for node in (n for n in nodes if n.kind in _BINARY):
        scores = len(node.outputs[0].shape or ())
        for value in node.inputs:
            source = made.get(value.id)
            if source is not None and source.kind == "StaticReshape":
                value = source.inputs[0]
                if len(value.shape or ()) == 2 and scores == 5:
                    return True
            elif source is None and len(value.shape or ()) == 3 and scores == 4:
                return True
    return False


def _attention_on_strided_inputs(nodes: Sequence[Node]) -> bool:
    """The batch is as large as the sequence; with more heads than threads it is right again."""
    if not any(n.kind == "SoftMax" for n in nodes):
        return False
    for node in (n for n in nodes if n.kind == "MatMul"):
        for value in node.inputs:
            dims = value.shape or ()
            if value.strides is not None and len(dims) > 2 and dims[0] == dims[-2] > 1:
                return True
    return False


def _int8_attention_of_mixed_types(nodes: Sequence[Node]) -> bool:
    """Right are s8 keys and values, if the result is of the query's type, and what fits it between.

    With few heads other types are right too.
    """
    products = [n for n in nodes if n.kind == "MatMul"]
    if len(products) != 2 or not any(n.kind == "SoftMax" for n in nodes):
        return False
    made = {v.id: n for n in nodes for v in n.outputs}
    types = []
    for product in products:
        for value in product.inputs:
            source = made.get(value.id)
            if source is None or source.kind != "Dequantize":
                return False
            types.append(source.inputs[0].dtype)
    query, key, probabilities, values = types
    result = nodes[-1].outputs[0].dtype
    fits = query == "u8" or probabilities == "s8"
    return (key, values) != ("s8", "s8") or result != query or not fits


def _product_over_nothing(nodes: Sequence[Node]) -> bool:
    for node in (n for n in nodes if n.kind == "MatMul"):
        shape = node.inputs[0].shape or (1,)
        across = len(shape) > 1 and node.attrs.get("transpose_a", False)
        if shape[-2 if across else -1] == 0 and all(node.outputs[0].shape or (0,)):
            return True
    return False


def _weights_gradient_with_automatic_padding(nodes: Sequence[Node]) -> bool:
    """Where the stride does not divide the source."""
    for node in nodes:
        automatic = str(node.attrs.get("auto_pad", "None")).startswith("SAME")
        if node.kind != "ConvTransposeBackwardWeights" or not automatic:
            continue
        shape, strides = node.inputs[0].shape, node.attrs["strides"]
        last = node.attrs.get("data_format", "NXC") == "NXC"
        spatial = (shape[1:-1] if last else shape[2:]) if shape is not None else strides
        if shape is None or any(d < 0 or d % s for d, s in zip(spatial, strides, strict=True)):
            return True
    return False


def _s8_transposed_convolution_on_sycl(nodes: Sequence[Node]) -> bool:
    """About 1 call in 10,000 is wrong, while other processes keep the CPU busy."""
    if _core.version()["cpu_runtime"] != "SYCL":
        return False
    made = {v.id: n for n in nodes for v in n.outputs}
    for node in (n for n in nodes if n.kind == "ConvTranspose"):
        source, weights = (made.get(v.id) for v in node.inputs[:2])
        if source is None or source.inputs[0].dtype != "s8":
            continue
        # With a zero point of the weights it does not compile.
        if weights is None or not any(weights.attrs.get("zps", ())):
            return True
    return False


def _strided_scales_of_groups(nodes: Sequence[Node]) -> bool:
    return any(
        n.kind == "DynamicDequantize"
        and n.attrs.get("qtype") == "per_group"
        and any(v.strides not in (None, row_major(v.shape or ())) for v in n.inputs[1:])
        for n in nodes
    )


def _four_bit_weights(nodes: Sequence[Node]) -> bool:
    return any(n.kind == "DynamicDequantize" and n.inputs[0].dtype in ("s4", "u4") for n in nodes)


DEFECTS = (
    Defect(
        "oneDNN 3.7 reads an attention mask of another rank wrongly",
        (3, 7),
        (3, 13),
        _attention_mask_of_other_rank,
    ),
    Defect(
        "oneDNN 3.7 computes with fused 4-bit weights wrongly unless apply_to_int is set",
        (3, 7),
        (3, 13),
        _four_bit_weights,
        unless_apply_to_int=True,
    ),
    Defect(
        "oneDNN 3.7 computes attention on strided inputs wrongly where batch equals sequence",
        (3, 7),
        (3, 8),
        _attention_on_strided_inputs,
    ),
    Defect(
        "oneDNN 3.7 computes attention in other integers than s8 wrongly",
        (3, 7),
        (3, 13),
        _int8_attention_of_mixed_types,
    ),
    Defect(
        "oneDNN 3.7 adds another tensor to a layer normalization wrongly",
        (3, 7),
        (3, 13),
        _layer_norm_and_sum,
    ),
    Defect(
        "oneDNN computes pooling with a fused operand of more than one wide dim wrongly",
        (3, 7),
        NEVER,
        _pool_and_whole_operand,
    ),
    Defect(
        "oneDNN computes pooling of channels-last tensors with an operand per channel wrongly",
        (3, 7),
        NEVER,
        _pool_of_channels_last,
    ),
    Defect(
        "oneDNN rounds what int8 pooling makes before it applies ReLU and scales",
        (3, 7),
        NEVER,
        _int8_pool_and_relu,
    ),
    Defect(
        "oneDNN adds a quantized residual wrongly where u8 and s8 mix",
        (3, 7),
        NEVER,
        _residual_of_other_sign,
    ),
    Defect(
        "oneDNN 3.7 applies scales per channel wrongly when it quantizes a convolution's result",
        (3, 7),
        (3, 8),
        _quantize_per_channel("Convolution", "ConvTranspose", "MatMul"),
    ),
    Defect(
        "oneDNN applies scales per channel wrongly when it quantizes a product's result",
        (3, 8),
        NEVER,
        _quantize_per_channel("MatMul", "Convolution", "ConvTranspose"),
    ),
    Defect(
        "oneDNN computes s8 convolutions of one channel a group wrongly from the second group on",
        (3, 7),
        NEVER,
        _depthwise_groups_of_s8,
    ),
    Defect(
        "oneDNN 3.7 leaves a product over no elements unwritten",
        (3, 7),
        (3, 13),
        _product_over_nothing,
        alone=True,
    ),
    Defect(
        "oneDNN pads the gradient of transposed convolution weights wrongly with auto_pad SAME_*; "
        "give pads_begin and pads_end",
        (3, 7),
        NEVER,
        _weights_gradient_with_automatic_padding,
        alone=True,
    ),
    Defect(
        "oneDNN on SYCL sometimes computes transposed convolutions of s8 wrongly",
        (3, 8),
        NEVER,
        _s8_transposed_convolution_on_sycl,
    ),
    Defect(
        "oneDNN ignores the strides of scales and zero points of groups; make them row-major",
        (3, 7),
        NEVER,
        _strided_scales_of_groups,
        alone=True,
    ),
)
"""All known cases."""


def wrong_result(nodes: Sequence[Node], *, apply_to_int: bool = False) -> str | None:
    """What the linked oneDNN computes wrongly in a partition of these ops, or None."""
    linked = linked_version()
    for defect in DEFECTS:
        if (apply_to_int and defect.unless_apply_to_int) or (len(nodes) == 1 and not defect.alone):
            continue
        if defect.since <= linked < defect.until and defect.met(nodes):
            return defect.what
    return None


def partitioned_apart(nodes: Sequence[Node]) -> list[Node]:
    """Ops that must be in a graph of their own, because the mirror refuses to partition them.

    A Dequantize before a Convolution whose weights no op makes may crash oneDNN's search for
    fusions (``check_partitioning`` in ``bindings/known_defects.cpp``).
    """
    made = {v.id: n for n in nodes for v in n.outputs}
    apart = []
    for node in nodes:
        if node.kind != "Convolution" or node.inputs[1].id in made:
            continue
        maker = made.get(node.inputs[0].id)
        if maker is not None and maker.kind == "Dequantize" and maker not in apart:
            apart.append(maker)
    return apart
