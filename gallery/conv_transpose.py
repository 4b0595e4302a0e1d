"""ConvTranspose as a single op, with all its attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onednn_graph_py.model.building.builder import GraphBuilder

from ._cases import in_floats
from .pattern import Case, Deviation, Pattern, named

__all__ = [
    "AUTO_PADS",
    "CHANNELS",
    "DOCUMENTED_SHAPES",
    "FORMATS",
    "PATTERNS",
    "attributes_of",
    "layout",
    "weights_shape",
]

CHANNELS = (16, 24)
_PAGE = "graph/operations/ConvTranspose"


def layout(first: Sequence[int], spatial: Sequence[int], format: str) -> tuple[int, ...]:
    """Return dims of data or weights with the spatial dims at the place that the format says."""
    if format == "NXC":
        return (first[0], *spatial, first[1])
    if format == "XOI":
        return (*spatial, first[1], first[0])
    return (*first, *spatial)


def weights_shape(
    channels: Sequence[int],
    kernel: Sequence[int],
    groups: int,
    weights_format: str,
    *,
    documented: bool = False,
) -> tuple[int, ...]:
    """Return (IC, OC / groups, spatial), or if `documented` (IC / groups, OC, spatial)."""
    inputs, outputs = channels
    first = (inputs // groups, outputs) if documented else (inputs, outputs // groups)
    return layout(first, kernel, "XOI" if weights_format in ("XOI", "XIO") else "IOX")


def attributes_of(
    rank: int,
    *,
    strides: int = 2,
    pads: tuple[int, int] = (1, 1),
    dilations: int = 1,
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XOI",
    **more: Any,
) -> dict[str, Any]:
    """Return the op's attributes, from values that hold for all spatial dims and `more`."""
    return {
        "strides": (strides,) * rank,
        "pads_begin": (pads[0],) * rank,
        "pads_end": (pads[1],) * rank,
        "dilations": (dilations,) * rank,
        "groups": groups,
        "data_format": data_format,
        "weights_format": weights_format,
        **more,
    }


def conv_transpose_op(
    dtype: str = "f32",
    *,
    spatial: tuple[int, ...] = (9, 8),
    channels: tuple[int, int] = CHANNELS,
    bias: bool = False,
    documented_weights: bool = False,
    **attributes: Any,
) -> GraphBuilder:
    """Build a ConvTranspose with constant weights.

    Parameters
    ----------
    dtype : str
    spatial : tuple of int
        The source's spatial dims.
    channels : tuple of int
        The channels of source and result.
    bias : bool
    documented_weights : bool
        Give grouped weights the shape of the documents, not the one that oneDNN needs.
    **attributes
        ``strides``, ``dilations``: a number for all dims; ``pads``: numbers before and after; all
        others as in the op.
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
    random = np.random.default_rng(len(spatial))
    weights = random.normal(0.0, 0.1, shape)
    inputs = [
        b.input(layout((2, channels[0]), spatial, attrs["data_format"]), dtype, name="x"),
        b.constant(weights, dtype),
    ]
    if bias:
        inputs.append(b.constant(random.normal(0.0, 1.0, channels[1]), dtype))
    b.output(b.op("ConvTranspose", *inputs, **attrs))
    return b


FORMATS = tuple(
    case
    for rank in (1, 2, 3)
    for data in ("NCX", "NXC")
    for weights in ("IOX", "XOI")
    for case in in_floats(
        f"{rank}-D, {data}, {weights}",
        spatial=(9, 8, 6)[:rank],
        data_format=data,
        weights_format=weights,
    )
)
_OTHER_SHAPE = Deviation(
    None, "oneDNN needs (IC, OC / groups, spatial), not the documented (IC / groups, OC, spatial)"
)
DOCUMENTED_SHAPES = tuple(
    case
    for weights in ("IOX", "XOI")
    for case in in_floats(
        f"2, {weights}, documented shape",
        deviations=(_OTHER_SHAPE,),
        groups=2,
        weights_format=weights,
        documented_weights=True,
    )
)
# The documents' spelling, which the package accepts too, and the library's.
AUTO_PADS = (
    *("none", "None", "valid", "VALID"),
    *("same_upper", "SAME_UPPER", "same_lower", "SAME_LOWER"),
)

PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        "CT-shape",
        "ConvTranspose: 1, 2 and 3 spatial dims",
        "operation",
        "strides, pads_begin, pads_end and dilations have an entry for each spatial dim. The "
        "data's channels come after the batch (NCX) or last (NXC, the default).",
        _PAGE,
        named("conv_transpose_ranks", conv_transpose_op),
        FORMATS,
    ),
    Pattern(
        "CT-wf",
        "ConvTranspose: the order of the weights' dims",
        "operation",
        "IOX means input channels, output channels, spatial dims; XOI, the default, means the "
        "reverse. Newer documents call them OIX and XIO, which the library rejects and this "
        "package accepts.",
        _PAGE,
        named("conv_transpose_weights_format", conv_transpose_op),
        (
            *in_floats("IOX", weights_format="IOX"),
            *in_floats("XOI", weights_format="XOI"),
            *in_floats("OIX", weights_format="OIX"),
            *in_floats("XIO", weights_format="XIO"),
        ),
    ),
    Pattern(
        "CT-groups",
        "ConvTranspose: groups",
        "operation",
        "groups divides the number of input and of output channels.",
        _PAGE,
        named("conv_transpose_groups", conv_transpose_op),
        (
            *in_floats("2, IOX", groups=2, weights_format="IOX"),
            *in_floats("2, XOI", groups=2, weights_format="XOI"),
            *in_floats("4, NCX", groups=4, data_format="NCX", weights_format="IOX"),
            *in_floats("a channel each", groups=16, channels=(16, 16), weights_format="IOX"),
            *DOCUMENTED_SHAPES,
        ),
    ),
    Pattern(
        "CT-bias",
        "ConvTranspose: bias",
        "operation",
        "The optional input 2 has an element for each output channel.",
        _PAGE,
        named("conv_transpose_bias", conv_transpose_op),
        (
            *in_floats("without"),
            *in_floats("NXC", bias=True),
            *in_floats("NCX", bias=True, data_format="NCX", weights_format="IOX"),
            *in_floats("2 groups", bias=True, groups=2),
        ),
    ),
    Pattern(
        "CT-outpad",
        "ConvTranspose: output_padding",
        "operation",
        "An entry for each spatial dim, not negative, by default 0, by which the result is longer "
        "at its end.",
        _PAGE,
        named("conv_transpose_output_padding", conv_transpose_op),
        (
            *in_floats("zeros", output_padding=(0, 0)),
            *in_floats("1 each", output_padding=(1, 1)),
            *in_floats("0 and 1", output_padding=(0, 1)),
            *in_floats("stride 3, 2 each", output_padding=(2, 2), strides=3),
            Case("too few", "f32", {"output_padding": (1,)}, partitions=None),
            Case("negative", "f32", {"output_padding": (-1, 0)}, partitions=None),
        ),
    ),
    Pattern(
        "CT-autopad",
        "ConvTranspose: auto_pad",
        "operation",
        "none uses the given paddings, and valid uses 0; same_upper and same_lower make the "
        "result as large as the source times the stride. The library spells these in capitals, "
        "and none as None; the package accepts both.",
        _PAGE,
        named("conv_transpose_auto_pad", conv_transpose_op),
        (
            *(case for name in AUTO_PADS for case in in_floats(name, auto_pad=name)),
            Case("explicit", "f32", {"auto_pad": "explicit"}, partitions=None),
        ),
    ),
    Pattern(
        "CT-dil",
        "ConvTranspose: dilations",
        "operation",
        "A positive number for each spatial dim; above 1, the window has gaps.",
        _PAGE,
        named("conv_transpose_dilations", conv_transpose_op),
        (
            *in_floats("2", dilations=2),
            *in_floats("3, stride 1", dilations=3, strides=1),
            *in_floats("2, NCX", dilations=2, data_format="NCX", weights_format="IOX"),
            *in_floats("2, 2 groups", dilations=2, groups=2),
            Case("0", "f32", {"dilations": 0}, partitions=None),
        ),
    ),
    Pattern(
        "CT-dt",
        "ConvTranspose: data types",
        "operation",
        "Source, weights, bias and result are all f32, all bf16 or all f16.",
        _PAGE,
        named("conv_transpose_types", conv_transpose_op),
        in_floats("with bias", bias=True),
    ),
)
"""The family's rows."""
