"""Interpolation of images."""

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ...model.building.value import Value
from .table import Call, NotLowered, lowers

Array = npt.NDArray[np.floating[Any]]

_NAMES = {1: "linear", 2: "bilinear", 3: "trilinear"}

_MOST_WORK = {"nearest": 16, "linear": 40, "cubic": 1500}
"""Multiplications for an element up to which products are faster than onnxruntime, measured."""

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
        return before / 2 * (1 - after / (np.float32(scale) * before)) + (to + 0.5) / scale - 0.5
    if how == "tf_half_pixel_for_nn":
        return (to + 0.5) / scale
    raise NotLowered(f"oneDNN has no coordinates {how}")


def _is_alike(mode: str, wanted: Array, rounding: str, before: int) -> bool:
    """Return whether oneDNN, which knows half_pixel only, takes the same elements."""
    ours = _places("half_pixel", before, len(wanted), len(wanted) / before)
    if mode == "linear":
        off = wanted.clip(0, before - 1) - ours.clip(0, before - 1)
        return bool(np.all(np.abs(off) < 1e-6 * before))
    between = np.abs(ours - np.floor(ours) - 0.5)
    if np.any(between < 1e-4):
        return False  # oneDNN's rounding of what lies between two elements is not ONNX's
    indices = _ROUND[rounding](wanted).clip(0, before - 1)
    return bool(np.all(indices == np.rint(ours).clip(0, before - 1)))


def _taps(call: Call, mode: str, rounding: str, places: Array, before: int) -> Array:
    """Return by what each element of a dim is multiplied, for each element of its result."""
    if mode == "nearest":
        first = _ROUND[rounding](places)
        factors = [np.ones_like(places)]
    elif mode == "linear":
        places = places.clip(0, before - 1)
        first = np.floor(places)
        factors = [1 - (places - first), places - first]
    else:
        a = call.attribute("cubic_coeff_a", -0.75)
        first = np.floor(places) - 1
        off = [np.abs(places - first - i) for i in range(4)]
        near = [((a + 2) * x - (a + 3)) * x * x + 1 for x in off[1:3]]
        far = [(((x - 5) * x + 8) * x - 4) * a for x in (off[0], off[3])]
        factors = [far[0], *near, far[1]]
    sources = [first + i for i in range(len(factors))]
    if mode == "cubic" and call.attribute("exclude_outside", 0):
        inside = [f * ((s >= 0) & (s < before)) for f, s in zip(factors, sources, strict=True)]
        factors = [f / sum(inside) for f in inside]
    made = np.zeros((len(places), before), np.float32)
    for factor, source in zip(factors, sources, strict=True):
        columns = source.clip(0, before - 1).astype(int)
        np.add.at(made, (np.arange(len(places)), columns), factor)
    return made


def _by_products(call: Call, x: Value, mode: str, rounding: str, places: dict[int, Array]) -> Value:
    """Interpolate dim by dim as products by constants, those first that become smaller."""
    sizes = [max(d, 1) for d in x.shape or ()]
    order = sorted(places, key=lambda axis: len(places[axis]) / sizes[axis])
    work = 0
    for axis in order:
        before, sizes[axis] = sizes[axis], len(places[axis])
        work += before * math.prod(sizes)
    if work > _MOST_WORK[mode] * math.prod(sizes):
        raise NotLowered("oneDNN has no such coordinates, and products are slow for its sizes")
    made = call.cast(x, "f32")
    for axis in order:
        shape = list(made.shape or ())
        inner = shape[axis + 1 :]
        if -1 in inner or shape.count(-1) > 1:
            raise NotLowered("a dim behind the one that changes is unknown, or more than one")
        taps = _taps(call, mode, rounding, places[axis], shape[axis])
        shape[axis] = len(taps)
        if inner:
            flat = made.reshape((-1, taps.shape[1], math.prod(inner)))
            made = call.b.matmul(call.b.constant(taps[None], "f32"), flat)
        else:
            flat = made.reshape((-1, taps.shape[1]))
            made = call.b.matmul(flat, call.b.constant(taps, "f32"), transpose_b=True)
        made = made.reshape(shape)
    return call.cast(made, x.dtype)


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
    if call.attribute("antialias", 0):
        raise NotLowered("oneDNN does not smooth where it makes images smaller")
    if call.attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise NotLowered("it keeps the aspect ratio")
    old = call.version < 11  # which knew no other coordinates
    how = "asymmetric" if old else call.attribute("coordinate_transformation_mode", "half_pixel")
    rounding = "floor" if old else call.attribute("nearest_mode", "round_prefer_floor")
    before, after, scales = x.shape or (), call.result_dims[0], _scales(call)

    is_alike = mode != "cubic"
    resized = []
    places: dict[int, Array] = {}
    for axis, (size, new) in enumerate(zip(before, after, strict=True)):
        given = None if scales is None else scales[axis]
        if given == 1 or (given is None and size == new != -1):
            continue
        resized.append(axis)
        if -1 not in (size, new):
            scale = given or new / size
            wanted = _places(how, size, new, scale)
            if old and mode == "nearest" and scale < 1:
                wanted = np.ceil(wanted)  # as onnxruntime has it
            is_alike = is_alike and _is_alike(mode, wanted, rounding, size)
            # By what onnx says corners are those of images that a factor does not make.
            if how != "align_corners" or abs(scale * size - new) < 1e-4:
                places[axis] = wanted
        elif given is not None and given.is_integer():
            # By a whole factor all elements are alike but those near the ends.
            wanted = _places(how, 5, 5 * int(given), given)
            is_alike = is_alike and _is_alike(mode, wanted, rounding, 5)
        else:
            raise NotLowered("a factor is unknown, or no whole number")
    if not resized:
        return x
    layout: Literal["NCX", "NXC"] = "NCX" if resized[0] > 1 else "NXC"
    space = [*range(2, x.ndim)] if layout == "NCX" else [*range(1, x.ndim - 1)]
    if not is_alike or not set(resized) <= set(space) or len(space) not in _NAMES:
        if len(places) < len(resized):
            raise NotLowered(f"oneDNN has no coordinates {how} with {mode} {rounding}")
        return _by_products(call, x, mode, rounding, places)
    name = mode if mode == "nearest" else _NAMES[len(space)]
    sizes = [after[i] for i in space]
    if -1 not in sizes:
        return call.b.interpolate(x, mode=name, sizes=sizes, data_format=layout)
    factors = [1.0 if scales is None else scales[i] or 1.0 for i in space]
    return call.b.interpolate(x, mode=name, scales=factors, data_format=layout)
