"""Arrays for a graph's inputs that make its results mean something.

Noise everywhere would not do: a variance must be positive, scales are small, what masks an
attention score is 0 or far below it, what a backward op takes as the forward op's result must be
one that it can have. The rules go by what the op that reads a tensor calls the port.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .builder import GraphBuilder
from .errors import InvalidShapeError
from .ops.call import shape_text
from .ops.check import row
from .reference import round_to
from .value import Node, Value, is_whole

__all__ = ["fill_inputs"]

Array = npt.NDArray[Any]
Rule = Callable[[np.random.Generator, tuple[int, ...]], Array]

# They hand on what they are given, so that the next reader decides.
_MOVES = ("Reorder", "StaticReshape", "StaticTranspose", "TypeCast", "End", "Concat")
# What keeps an attention's mask on its way to SoftMax.
_MASKED = -1e4


def _uniform(low: float, high: float) -> Rule:
    return lambda random, shape: random.uniform(low, high, shape)


def _noise(scale: float = 1.0) -> Rule:
    return lambda random, shape: scale * random.standard_normal(shape)


def _powers_of_two(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.asarray(2.0 ** random.integers(-6, -3, shape))


def _whole(low: int, high: int) -> Rule:
    return lambda random, shape: random.integers(low, high, shape, endpoint=True)


def _mostly_true(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    made = random.random(shape) < 0.75
    if made.ndim and made.shape[-1]:
        made[..., 0] = True  # a row of a mask that lets nothing through has no softmax
    return made


def _causal_mask(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    del random
    made = np.zeros(shape)
    if len(shape) < 2:
        return made
    rows, columns = shape[-2:]
    if rows == 1:  # padding: the last quarter of the keys does not count
        made[..., max(columns - columns // 4, 1) :] = _MASKED
        return made
    made[..., np.arange(columns)[None] > np.arange(rows)[:, None] + max(columns - rows, 0)] = (
        _MASKED
    )
    return made


# By kind and port name; a kind of "" stands for all others.
_RULES: Mapping[tuple[str, str], Rule] = {
    ("", "variance"): _uniform(0.5, 1.5),
    ("", "gamma"): _uniform(0.8, 1.2),
    ("", "beta"): _noise(0.1),
    ("", "mean"): _noise(0.1),
    ("", "scales"): _powers_of_two,
    ("", "zps"): _whole(0, 3),
    ("", "src/dst"): _uniform(0.1, 0.9),
    ("", "seed"): _whole(7, 7),
    ("", "offset"): _whole(3, 3),
    ("", "probability"): _uniform(0.5, 0.5),
    ("", "cond"): _mostly_true,
    ("Divide", "src_1"): _uniform(0.5, 2.0),
    ("Log", "src"): _uniform(0.5, 2.0),
    ("Pow", "src"): _uniform(0.5, 2.0),
    ("Reciprocal", "src"): _uniform(0.5, 2.0),
    ("ReduceProd", "src"): _uniform(0.5, 1.5),
    ("SoftMaxBackward", "dst"): _uniform(0.0, 1.0),
    ("LogSoftmaxBackward", "dst"): _uniform(-4.0, -0.5),
    ("Sqrt", "src"): _uniform(0.1, 2.0),
}
_WHOLE_NUMBERS: Mapping[str, tuple[int, int]] = {
    "s8": (-16, 16),
    "u8": (0, 32),
    "s4": (-8, 7),
    "u4": (0, 15),
    "s32": (0, 0),
    "s64": (0, 0),
}


def _readers(builder: GraphBuilder) -> dict[int, list[tuple[Node, int]]]:
    found: dict[int, list[tuple[Node, int]]] = {}
    for node in builder.nodes:
        for i, value in enumerate(node.inputs):
            found.setdefault(value.id, []).append((node, i))
    return found


def _final_readers(
    value: Value, readers: Mapping[int, list[tuple[Node, int]]]
) -> Iterator[tuple[Node, int]]:
    for node, i in readers.get(value.id, ()):
        if node.kind in _MOVES:
            for made in node.outputs:
                yield from _final_readers(made, readers)
        else:
            yield node, i


def _masks_softmax(node: Node, i: int, readers: Mapping[int, list[tuple[Node, int]]]) -> bool:
    """Whether it is added to attention scores."""
    other = node.inputs[1 - i].producer if node.kind == "Add" else None
    behind = {n.kind for n, _ in _final_readers(node.outputs[0], readers)}
    return other is not None and bool(behind & {"SoftMax", "Select"})


def _weights_scale(node: Node, i: int, shape: tuple[int, ...]) -> float:
    """So that a sum of products is about as large as one input."""
    if node.kind == "MatMul" and len(shape) > 1:
        terms = shape[-1] if node.attrs.get("transpose_b", False) else shape[-2]
    else:
        terms = int(np.prod(shape)) // max(max(shape, default=1), 1)
    return 1 / math.sqrt(max(terms, 1))


def _rule(value: Value, shape: tuple[int, ...], readers: Mapping[int, Any]) -> Rule:
    rule = _noise()
    for node, i in _final_readers(value, readers):
        port = row(node.kind).port("inputs", i)
        name = port.name if port is not None else ""
        found = _RULES.get((node.kind, name)) or _RULES.get(("", name))
        if found is not None:
            return found
        if _masks_softmax(node, i, readers):
            return _causal_mask
        if name == "weights":
            rule = _noise(_weights_scale(node, i, shape))
    if value.dtype in _WHOLE_NUMBERS:
        return _whole(*_WHOLE_NUMBERS[value.dtype])
    if value.dtype == "boolean":
        return _mostly_true
    return rule


def fill_inputs(
    builder: GraphBuilder,
    seed: int = 0,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> list[Array]:
    """Arrays for all inputs, in the order of a call.

    Parameters
    ----------
    builder : GraphBuilder
    seed : int
        The same seed gives the same arrays.
    shapes : mapping of str to tuple of int, optional
        Of inputs with unknown dims, by name.

    Returns
    -------
    list of numpy.ndarray
        In the inputs' data types; 4-bit integers as int8 or uint8, one to an element.

    Raises
    ------
    InvalidShapeError
        Dims are unknown.
    """
    readers = _readers(builder)
    made = []
    for i, value in enumerate(builder.inputs):
        shape = (shapes or {}).get(value.name, value.shape)
        if shape is None or not is_whole(shape):
            raise InvalidShapeError(
                f"input {value.name!r}: its shape must be given, it is {shape_text(value.shape)}"
            )
        random = np.random.default_rng((seed, i))
        drawn = _rule(value, tuple(shape), readers)(random, tuple(shape))
        made.append(round_to(drawn, value.dtype))
    return made
