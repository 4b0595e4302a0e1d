"""ConvTransposeBackwardWeights as a single op, with all its attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onednn_graph_py.model.building.builder import GraphBuilder

from ._cases import in_floats
from .conv_transpose import (
    AUTO_PADS,
    CHANNELS,
    DOCUMENTED_SHAPES,
    FORMATS,
    attributes_of,
    layout,
    weights_shape,
)
from .pattern import Case, Deviation, Pattern, named

__all__ = ["PATTERNS"]

_PAGE = "graph/operations/ConvTransposeBackwardWeights"


def conv_transpose_weights_gradient(
    dtype: str = "f32",
    *,
    spatial: tuple[int, ...] = (9, 8),
    channels: tuple[int, int] = CHANNELS,
    shape_from: str = "attribute",
    documented_weights: bool = False,
    **attributes: Any,
) -> GraphBuilder:
    """Build a ConvTransposeBackwardWeights.

    Parameters
    ----------
    shape_from : str
        The source of the result's shape: ``attribute`` or ``input`` weights_shape, ``both``, or
        the ``output`` itself.
    documented_weights : bool
        Give a grouped result the shape of the documents, not the one that oneDNN needs.
    dtype, spatial, channels, **attributes
        As in `conv_transpose_op`.
    """
    b = GraphBuilder()
    attrs = attributes_of(len(spatial), **attributes)
    shape = weights_shape(
        channels,
        (3,) * len(spatial),
        attrs["groups"],
        attrs["weights_format"],
        documented=documented_weights,
    )
    forward = _padded(attrs, spatial)
    src = b.input(layout((2, channels[0]), spatial, attrs["data_format"]), dtype, name="src")
    diff = b.input(layout((2, channels[1]), forward, attrs["data_format"]), dtype, name="diff_dst")
    inputs = [src, diff]
    if shape_from in ("attribute", "both"):
        attrs["weights_shape"] = shape
    if shape_from in ("input", "both"):
        inputs.append(b.constant(shape, "s32"))
    made = b.op("ConvTransposeBackwardWeights", *inputs, outputs=[(shape, dtype)], **attrs)
    b.output(made)
    return b


def _padded(attrs: Mapping[str, Any], spatial: Sequence[int]) -> list[int]:
    """Return the spatial dims of the forward op's result, with windows of 3."""
    made = []
    auto = str(attrs.get("auto_pad", "none")).lower()
    for i, size in enumerate(spatial):
        stride, window = attrs["strides"][i], 2 * attrs["dilations"][i] + 1
        pads = attrs["pads_begin"][i] + attrs["pads_end"][i]
        if auto.startswith("same"):
            made.append(size * stride)
        else:
            made.append((size - 1) * stride + window - (0 if auto == "valid" else pads))
    return made


_PADDED_OTHERWISE = (Deviation(None, "with auto_pad oneDNN pads it otherwise than ConvTranspose"),)
_SHAPE_AS_INPUT = (Deviation(None, "a partition with the shape as an input is not supported"),)

PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        "CTBW-form",
        "ConvTransposeBackwardWeights: the result's shape",
        "operation",
        "weights_shape is given as the attribute or as input 2 (s32); if both are, the input "
        "counts.",
        _PAGE,
        named("conv_transpose_weights_gradient_shape", conv_transpose_weights_gradient),
        (
            *in_floats("attribute", shape_from="attribute"),
            *in_floats("output's own shape", shape_from="output"),
            *(
                case
                for name in ("input", "both")
                for case in in_floats(
                    name,
                    deviations=_SHAPE_AS_INPUT,
                    shape_from=name,
                )
            ),
        ),
    ),
    Pattern(
        "CTBW-groups",
        "ConvTransposeBackwardWeights: groups",
        "operation",
        "groups divides the number of input and of output channels.",
        _PAGE,
        named("conv_transpose_weights_gradient_groups", conv_transpose_weights_gradient),
        (
            *in_floats("2, IOX", groups=2, weights_format="IOX"),
            *in_floats("2, XOI", groups=2, weights_format="XOI"),
            *in_floats("a channel each", groups=16, channels=(16, 16), weights_format="IOX"),
            *DOCUMENTED_SHAPES,
        ),
    ),
    Pattern(
        "CTBW-fmt",
        "ConvTransposeBackwardWeights: 1, 2 and 3 spatial dims",
        "operation",
        "Data as NCX or NXC (the default), weights as IOX or XOI (the default).",
        _PAGE,
        named("conv_transpose_weights_gradient_format", conv_transpose_weights_gradient),
        FORMATS,
    ),
    Pattern(
        "CTBW-attrs",
        "ConvTransposeBackwardWeights: attributes",
        "operation",
        "As ConvTranspose has them: strides, paddings, dilations, auto_pad, output_padding.",
        _PAGE,
        named("conv_transpose_weights_gradient_attributes", conv_transpose_weights_gradient),
        (
            *in_floats("stride 1, no padding", strides=1, pads=(0, 0)),
            *in_floats("stride 3", strides=3),
            *in_floats("uneven padding", pads=(0, 1)),
            *in_floats("dilated", dilations=2),
            *(
                case
                for name in AUTO_PADS
                for case in in_floats(name, auto_pad=name, spatial=(8, 8))
            ),
            *in_floats(
                "same_upper, 9 by stride 2",
                deviations=_PADDED_OTHERWISE,
                auto_pad="same_upper",
                spatial=(9, 8),
            ),
            Case(
                "output_padding",
                "f32",
                {"output_padding": (0, 0)},
                deviations=(Deviation(None, "the op has no attribute output_padding"),),
            ),
        ),
    ),
    Pattern(
        "CTBW-dt",
        "ConvTransposeBackwardWeights: data types",
        "operation",
        "src, diff_dst and diff_weights are all f32, all bf16 or all f16.",
        _PAGE,
        named("conv_transpose_weights_gradient_types", conv_transpose_weights_gradient),
        in_floats("with padding"),
    ),
)
"""The family's rows."""
