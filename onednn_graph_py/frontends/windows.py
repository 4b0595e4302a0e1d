"""Windows that slide over the spatial dims: convolutions and pooling."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..model.building.value import Value
from .lowering import NotLowered, Place


@dataclass(frozen=True)
class Windows:
    """Windows over spatial dims."""

    # kernel, strides, dilations, begin, end: one number for each spatial dim; the last two are the
    # padding
    kernel: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    begin: Sequence[int]
    end: Sequence[int]
    # whether the padding at the end is longer than the model says, because its last window reaches
    # beyond
    is_longer: bool = False

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes that all of oneDNN's ops with windows have."""
        pads = {"pads_begin": self.begin, "pads_end": self.end}
        return {"strides": self.strides, **pads, "data_format": "NCX"}


def convolution(
    at: Place, x: Value, weights: Value, bias: Value | None, windows: Windows, groups: int
) -> Value:
    """Convolve."""
    at.need_float(x, weights)
    return at.b.convolution(
        x,
        weights,
        bias,
        **windows.attributes,
        dilations=windows.dilations,
        groups=groups,
        weights_format="OIX",
    )


def conv_transpose(
    at: Place,
    x: Value,
    weights: Value,
    bias: Value | None,
    windows: Windows,
    further: Sequence[int],
    groups: int,
) -> Value:
    """Convolve transposed, with as much further padding of the result."""
    at.need_float(x, weights)
    if any(n >= s for n, s in zip(further, windows.strides, strict=True)):
        raise NotLowered("oneDNN pads the output by less than a stride")
    made = at.b.conv_transpose(
        x,
        weights,
        **windows.attributes,
        output_padding=further,
        dilations=windows.dilations,
        groups=groups,
        weights_format="IOX",
    )
    return made if bias is None else at.b.bias_add(made, bias, data_format="NCX")


def max_pool(at: Place, x: Value, windows: Windows) -> Value:
    """Take the largest element of each window."""
    attributes = {**windows.attributes, "dilations": windows.dilations}
    return at.b.max_pool(x, kernel=windows.kernel, **attributes)


def avg_pool(at: Place, x: Value, windows: Windows, padding_counts: bool = False) -> Value:
    """Take the mean of each window."""
    if any(d != 1 for d in windows.dilations):
        raise NotLowered("oneDNN's AvgPool has no dilations")
    padding_counts = padding_counts and any((*windows.begin, *windows.end))
    if padding_counts and windows.is_longer:
        raise NotLowered("ceil_mode with padding that counts")
    exclude = not padding_counts
    return at.b.avg_pool(x, kernel=windows.kernel, exclude_pad=exclude, **windows.attributes)
