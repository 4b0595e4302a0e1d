"""Interpolation of images."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ...model.building.value import Value
from .table import Call, NotLowered, lowers

Array = npt.NDArray[np.floating[Any]]

_NAMES = {1: "linear", 2: "bilinear", 3: "trilinear"}

_ROUND: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _places(how: str, before: int, after: int, scale: float) -> Array:
    """Return the place in a dim that each element of its result comes from, as runtimes round."""
    to = np.arange(after, dtype=np.float32)
    centers = (to + 0.5) / scale - 0.5
    if how == "half_pixel" or (how == "pytorch_half_pixel" and after > 1):
        return centers
    if how == "pytorch_half_pixel":
        return np.zeros_like(to)
    if how == "asymmetric":
        return to / scale
    if how == "align_corners":
        return to * (before - 1) / max(after - 1, 1)
    if how == "half_pixel_symmetric":
        return before / 2 * (1 - after / (scale * before)) + centers
    if how == "tf_half_pixel_for_nn":
        return (to + 0.5) / scale
    raise NotLowered(f"oneDNN has no coordinates {how}")


def _is_alike(mode: str, how: str, rounding: str, before: int, after: int, scale: float) -> bool:
    """Return whether oneDNN, which knows half_pixel only, takes the same elements."""
    wanted = _places(how, before, after, scale)
    ours = _places("half_pixel", before, after, after / before)
    if mode == "linear":
        off = wanted.clip(0, before - 1) - ours.clip(0, before - 1)
        return bool(np.all(np.abs(off) < 1e-6 * before))
    between = np.abs(ours - np.floor(ours) - 0.5)
    if np.any(between < 1e-4):
        return False  # oneDNN's rounding of what lies between two elements is not ONNX's
    indices = _ROUND[rounding](wanted).clip(0, before - 1)
    return bool(np.all(indices == np.rint(ours).clip(0, before - 1)))


def _scales(call: Call) -> list[float | None] | None:
    """Return the given factor of each dim; None if sizes are given."""
    rank = len(call.dims(0))
    place = 1 if call.node.op_type == "Upsample" or call.version < 11 else 2
    given: Any = call.attribute("scales")
    if given is None and call.has(place):
        given = call.need(place, "scales").reshape(-1)
    if given is None or not len(given):
        return None
    axes = call.attribute("axes", range(rank))
    made: list[float | None] = [1.0] * rank
    for axis, scale in zip(axes, given, strict=True):
        made[axis] = float(scale)
    return made


@lowers("Resize", "Upsample")
def _resize(call: Call) -> Value:
    [x] = call.floats(0)
    mode = call.attribute("mode", "nearest")
    mode = "linear" if mode == "bilinear" else mode
    if mode not in ("nearest", "linear"):
        raise NotLowered(f"oneDNN has no {mode} interpolation")
    if call.attribute("antialias", 0):
        raise NotLowered("oneDNN does not smooth where it makes images smaller")
    if call.attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise NotLowered("it keeps the aspect ratio")
    old = call.version < 11  # which knew no other coordinates
    how = "asymmetric" if old else call.attribute("coordinate_transformation_mode", "half_pixel")
    rounding = "floor" if old else call.attribute("nearest_mode", "round_prefer_floor")
    before, after, scales = x.shape or (), call.result_dims[0], _scales(call)

    resized = []
    for axis, (size, new) in enumerate(zip(before, after, strict=True)):
        scale = None if scales is None else scales[axis]
        if scale == 1 or (scale is None and size == new != -1):
            continue
        resized.append(axis)
        if -1 not in (size, new):
            alike = _is_alike(mode, how, rounding, size, new, scale or new / size)
        elif scale is not None and scale.is_integer():
            # By a whole factor all elements are alike but those near the ends.
            alike = _is_alike(mode, how, rounding, 5, 5 * int(scale), scale)
        else:
            raise NotLowered("a factor is unknown, or no whole number")
        if not alike:
            raise NotLowered(f"oneDNN has no coordinates {how} with {mode} {rounding}")
    if not resized:
        return x
    layout: Literal["NCX", "NXC"] = "NCX" if resized[0] > 1 else "NXC"
    space = [*range(2, x.ndim)] if layout == "NCX" else [*range(1, x.ndim - 1)]
    if not set(resized) <= set(space) or len(space) not in _NAMES:
        raise NotLowered("more than the spatial dims is resized")
    name = mode if mode == "nearest" else _NAMES[len(space)]
    sizes = [after[i] for i in space]
    if -1 not in sizes:
        return call.b.interpolate(x, mode=name, sizes=sizes, data_format=layout)
    factors = [1.0 if scales is None else scales[i] or 1.0 for i in space]
    return call.b.interpolate(x, mode=name, scales=factors, data_format=layout)
