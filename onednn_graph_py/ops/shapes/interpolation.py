"""Shapes of interpolation."""

import numpy as np

from ..call import Call
from ..terms import UNKNOWN, Shape
from .windows import Data, data_of


def _resized(call: Call) -> Shape:
    """Return the shape of the forward op's result for input 0."""
    data = data_of(call, call.input(0))
    scales, sizes = call.attr("scales"), call.attr("sizes")
    if data is None:
        listed = sizes or scales
        if not listed:
            return None
        made = sizes or (UNKNOWN,) * len(listed)
        return Data(UNKNOWN, UNKNOWN, tuple(made)).shape(call)
    for name, listed in (("scales", scales), ("sizes", sizes)):
        if listed and len(listed) != len(data.spatial):
            call.refuse_shape(
                f"attribute {name} must have {len(data.spatial)} entries, one for each spatial "
                f"dim, it has {len(listed)}"
            )
    if sizes and min(sizes) < 1:
        call.refuse(f"attribute sizes must have no entry below 1, got {list(sizes)}")
    spatial = list(data.spatial)
    if 0 in spatial:
        call.refuse_shape(f"spatial dims {spatial} of input 0 must be at least 1")
    for i, d in enumerate(spatial):
        if sizes:
            spatial[i] = sizes[i]
        elif scales and d >= 0:
            # oneDNN multiplies in single precision too.
            with np.errstate(over="ignore", invalid="ignore"):
                scaled = np.float32(d) * np.float32(scales[i])
            if not 1 <= scaled < 1e9:
                call.refuse_shape(
                    f"attribute scales makes spatial dim {i} of the output {float(scaled)}"
                )
            spatial[i] = int(scaled)
        else:
            spatial[i] = UNKNOWN
    return Data(data.batch, data.channels, tuple(spatial)).shape(call)


def interpolate(call: Call) -> list[Shape]:
    """Infer (N, C, other sizes) from (N, C, sizes)."""
    return [_resized(call)]


def interpolate_backward(call: Call) -> list[Shape]:
    """Return the shape of src."""
    src = call.input(0)
    call.input(1).need_shape(_resized(call), f"the forward op's result for {src.name}")
    return [src.shape]
