"""The results that a graph should have by the NumPy reference, and their tolerances."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.dtypes import HOST_DTYPES
from ...ops.lookup import with_trait
from ...reference import round_to
from ...reference.rounding import float_info, is_integer
from ...reference.run import call_of, evaluate
from ...reference.tolerance import slack
from ..building.builder import GraphBuilder
from ..building.constant_arrays import unpacked
from ..building.foreign import ForeignNode
from ..building.value import Node

Array = npt.NDArray[Any]
Values = dict[int, Array]

# The number of samples of stochastic arithmetic, and the factor by which a right result may be
# further off than the worst of them: four uniform samples show about half of the largest error.
_SAMPLES = 4
_BEYOND_SAMPLES = 4

_REFERENCE = "each op of the graph by onednn_graph_py.reference, in NumPy's float64"


@dataclass(frozen=True)
class OutputCheck:
    """The comparison of one output with the reference.

    Parameters
    ----------
    name : str
    dtype : str
    wrong, count : int
        The number of elements that exceed their tolerance, and of all elements.
    max_error : float
        The largest difference.
    largest : float
        The largest magnitude expected.
    index : tuple of int
        The element with the largest error as a fraction of its tolerance.
    actual, expected, allowed : float
        Its value, the reference's, and the tolerance.
    """

    name: str
    dtype: str
    wrong: int
    count: int
    max_error: float
    largest: float
    index: tuple[int, ...]
    actual: float
    expected: float
    allowed: float

    @property
    def ok(self) -> bool:
        """Whether all elements are within their tolerance."""
        return self.wrong == 0

    @property
    def share(self) -> float:
        """The largest error, as a fraction of its tolerance."""
        error = abs(self.actual - self.expected)
        if np.isnan(error):
            return 0.0 if np.isnan(self.actual) and np.isnan(self.expected) else np.inf
        return 0.0 if error == 0 else error / self.allowed if self.allowed else np.inf

    def __str__(self) -> str:
        if self.ok:
            error = f"{self.max_error:.3g} of {self.largest:.3g}"
            return f"{self.name}: right; the largest error is {error}"
        return (
            f"{self.name}: {self.wrong} of {self.count} elements are wrong; the worst, at "
            f"{list(self.index)}, is {self.actual:.9g} and should be {self.expected:.9g} within "
            f"{self.allowed:.3g}"
        )


@dataclass(frozen=True)
class Verification:
    """The result of comparing all outputs; true if all are right.

    Parameters
    ----------
    outputs : tuple of OutputCheck
    reference : str
        What computed the expected results.
    """

    outputs: tuple[OutputCheck, ...]
    reference: str = ""

    @property
    def ok(self) -> bool:
        """Whether all outputs are right."""
        return all(o.ok for o in self.outputs)

    @property
    def max_error(self) -> float:
        """The largest difference of any output."""
        return max((o.max_error for o in self.outputs), default=0.0)

    @property
    def share(self) -> float:
        """The largest error of any output, as a fraction of its tolerance."""
        return max((o.share for o in self.outputs), default=0.0)

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        judge = [f"The reference is {self.reference}."] if self.reference else []
        return "\n".join([*map(str, self.outputs), *judge])


def reference_values(
    builder: GraphBuilder,
    inputs: Sequence[Array],
    after: Callable[[Node, int, Array, Array], Array] | None = None,
    kept: dict[int, list[tuple[Array, Array]]] | None = None,
) -> Values:
    """Compute all tensors of a graph op by op in NumPy.

    - `inputs`: the graph's inputs, in the order of a call
    - `after`: called with a node that does not quantize, the index of an output, its exact values
      and the largest error of each; returns the values to use in their place
    - `kept`: exact values and errors of ops that read only inputs and constants, by the op's id,
      for another time with the same inputs
    - returns: by the value's id, rounded to the values' data types
    """
    known: Values = {v.id: a for v, a in zip(builder.inputs, inputs, strict=True)}
    known.update({v.id: unpacked(v.data, v.shape, v.dtype) for v in builder.constants})
    compute(builder.nodes, known, builder.fpmath_mode.name, after, kept)
    return known


def compute(
    nodes: Iterable[Node],
    known: Values,
    fpmath_mode: str = "strict",
    after: Callable[[Node, int, Array, Array], Array] | None = None,
    kept: dict[int, list[tuple[Array, Array]]] | None = None,
) -> None:
    """Add the values that nodes, in an order of execution, make to those that are known, by id."""
    for node in nodes:
        if node.kind == "End":
            continue
        operands = [known[v.id] for v in node.inputs]
        if isinstance(node, ForeignNode):
            known.update(zip((v.id for v in node.outputs), node.compute(operands), strict=True))
            continue
        specs = [
            (v.shape if v.shape is not None and -1 not in v.shape else None, v.dtype)
            for v in node.outputs
        ]
        call = call_of(node.kind, operands, node.attrs, specs)
        if after is None or node.kind in with_trait("quantizes"):
            results = evaluate(call, operands)
        else:
            pairs = kept.get(node.id) if kept is not None else None
            if pairs is None:
                pairs = [
                    (exact, slack(call, i, operands, exact, fpmath_mode))
                    for i, exact in enumerate(evaluate(call, operands))
                ]
            if kept is not None and all(v.producer is None for v in node.inputs):
                kept[node.id] = pairs
            results = [after(node, i, *pair) for i, pair in enumerate(pairs)]
        for value, result in zip(node.outputs, results, strict=True):
            known[value.id] = round_to(result, value.dtype)


def _epsilon(dtype: str) -> float:
    """Return the largest relative error of rounding to a data type; 0 for integers."""
    if dtype in HOST_DTYPES:
        of = HOST_DTYPES[dtype]
        return float(np.finfo(of).eps) / 2 if of.kind in "fc" else 0.0
    return 0.0 if is_integer(dtype) or dtype == "boolean" else float(float_info(dtype).eps) / 2


def _margins(
    builder: GraphBuilder, inputs: Sequence[Array], exact: Values, seed: int, samples: int
) -> dict[int, float]:
    """Estimate the tolerance of each float tensor.

    This is stochastic arithmetic (Vignes 1993): we disturb every op's result at random by up to
    the error of its sums and its rounding (`onednn_graph_py.reference.slack`), and measure how much
    that changes each tensor.
    """
    random = np.random.default_rng(seed)
    worst = dict.fromkeys(exact, 0.0)
    kept: dict[int, list[tuple[Array, Array]]] = {}

    def disturb(node: Node, i: int, result: Array, off: Array) -> Array:
        if result.dtype.kind != "f":
            return result
        # Inside a partition oneDNN may keep a bf16 tensor in f32, or an f32 one in bf16.
        off = off + _epsilon(node.outputs[i].dtype) * np.abs(result)
        off = np.where(np.isfinite(result), off, 0.0)
        return np.asarray(result + off * random.uniform(-1, 1, result.shape))

    with np.errstate(all="ignore"):
        for _ in range(samples):
            for i, disturbed in reference_values(builder, inputs, disturb, kept).items():
                if exact[i].dtype.kind in "biu":
                    continue
                off = np.abs(_wide(disturbed) - _wide(exact[i]))
                worst[i] = max(worst[i], float(np.nanmax(off, initial=0.0)))
    return worst


def _quantized_margin(node: Node, exact: Values, margins: Mapping[int, float]) -> Array:
    """Return the steps by which quantized elements may be off: 0 unless near a rounding tie."""
    source = node.inputs[0].id
    result = exact[node.outputs[0].id].astype(np.float64)
    off = _BEYOND_SAMPLES * margins[source]
    widest = np.zeros(result.shape)
    for sign in (-1, 1):
        moved = [exact[v.id].astype(np.float64) for v in node.inputs]
        # The product with a reciprocal scale and the sum with the zero point are rounded too.
        finite = np.where(np.isfinite(moved[0]), moved[0], 0.0)
        moved[0] = moved[0] + sign * (off + 4 * 2.0**-23 * np.abs(finite))
        operands = [moved[0].astype(np.float32), *(exact[v.id] for v in node.inputs[1:])]
        call = call_of(node.kind, operands, node.attrs, [(result.shape, node.outputs[0].dtype)])
        stored = round_to(evaluate(call, operands)[0], node.outputs[0].dtype).astype(np.float64)
        widest = np.maximum(widest, _differences(stored, result))
    return widest


def _compared_margin(node: Node, exact: Values, margins: Mapping[int, float]) -> Array:
    """Return 1 where numbers that are compared are as near as they may be off, else 0."""
    one, other = (exact[v.id].astype(np.float64) for v in node.inputs)
    off = _BEYOND_SAMPLES * sum(margins[v.id] for v in node.inputs)
    with np.errstate(invalid="ignore"):  # infinities are equal, or far from each other
        return np.asarray((off > 0) & (np.abs(one - other) <= off), np.float64)


def _differences(got: Array, want: Array) -> Array:
    """Return elements' differences: 0 for equal infinities or two NaNs, infinite for one NaN."""
    with np.errstate(all="ignore"):
        off = np.where(got == want, 0.0, np.abs(got - want))
    return np.where(np.isnan(off), np.where(np.isnan(got) & np.isnan(want), 0.0, np.inf), off)


def largest_difference(one: Array, other: Array) -> float:
    """Return the largest difference of two arrays' elements; infinite if only one is NaN."""
    return float(_differences(_wide(one), _wide(other)).max(initial=0.0))


def _wide(array: Array) -> Array:
    """Return numbers in f64; complex ones as real and imaginary parts along a dim in front."""
    pairs = np.stack([array.real, array.imag]) if array.dtype.kind == "c" else array
    return pairs.astype(np.float64)


def compared(name: str, dtype: str, actual: Array, expected: Array, allowed: Array) -> OutputCheck:
    """Compare an output with what it should be, element by element."""
    got, want = _wide(actual), _wide(expected)
    error = _differences(got, want)
    with np.errstate(all="ignore"):
        right = error <= np.broadcast_to(allowed, error.shape)
        share = np.where(right & (error == 0), 0.0, error / allowed)
    if not error.size:
        return OutputCheck(name, dtype, 0, 0, 0.0, 0.0, (), 0.0, 0.0, 0.0)
    share = np.where(np.isnan(share), np.inf, share)
    where = tuple(int(i) for i in np.unravel_index(int(np.argmax(share)), share.shape))
    finite = np.abs(want[np.isfinite(want)])
    return OutputCheck(
        name,
        dtype,
        int(np.count_nonzero(~right)),
        int(right.size),
        float(error.max(initial=0.0)),
        float(finite.max(initial=0.0)),
        where,
        float(got[where]),
        float(want[where]),
        float(np.broadcast_to(allowed, error.shape)[where]),
    )


class Expected:
    """The reference values of a graph's tensors, and the tolerance of each.

    - `inputs`: the graph's inputs, in the order of a call
    - `seed`: seed for the random perturbations that estimate rounding errors
    - `samples`: the number of perturbed runs; one is enough for tensors of a thousand elements

    In each perturbed run, every op's result is disturbed at random by as much as rounding can
    change it in the graph's floating-point math mode. A tensor's tolerance is four times the
    largest difference that these runs show in it. A quantized element may be off only if this
    tolerance of its input reaches the next step.
    """

    def __init__(
        self, builder: GraphBuilder, inputs: Sequence[Array], seed: int = 0, samples: int = _SAMPLES
    ) -> None:
        self._builder = builder
        self._exact = reference_values(builder, inputs)
        self._margins = _margins(builder, inputs, self._exact, seed, samples)
        made = (v for n in builder.nodes for v in n.outputs)
        self._values = {v.id: v for v in (*builder.inputs, *builder.constants, *made)}

    def of(self, inputs: Sequence[Array]) -> Expected:
        """Return the values for other inputs that are about as large, with these tolerances."""
        other = copy(self)
        other._exact = reference_values(self._builder, inputs)
        return other

    def value(self, i: int) -> Array:
        """Return what the value with this id should be."""
        return self._exact[i]

    def allowed(self, i: int) -> Array:
        """Return how far each element of a value may be off."""
        want, value = self._exact[i], self._values[i]
        producer = value.producer
        if producer is not None and producer.kind in with_trait("quantizes"):
            allowed = _quantized_margin(producer, self._exact, self._margins)
        elif producer is not None and producer.kind == "GreaterEqual":
            allowed = _compared_margin(producer, self._exact, self._margins)
        else:
            wide = np.abs(want).astype(np.float64)
            rounding = 2 * _epsilon(value.dtype) * np.where(np.isfinite(wide), wide, 0.0)
            allowed = np.asarray(_BEYOND_SAMPLES * self._margins[i] + rounding)
        return np.broadcast_to(allowed, want.shape)

    def compare(
        self, actual: Mapping[int, Array], names: Mapping[int, str] | None = None
    ) -> Verification:
        """Compare tensors with the expected ones.

        - `actual`: by the value's id
        - `names`: the outputs' names in the result, which has the order of `actual`
        """
        checks = []
        for i, array in actual.items():
            value = self._values[i]
            name, got = (names or {}).get(i) or value.name or str(i), np.asarray(array)
            checks.append(compared(name, value.dtype, got, self.value(i), self.allowed(i)))
        return Verification(tuple(checks), _REFERENCE)
