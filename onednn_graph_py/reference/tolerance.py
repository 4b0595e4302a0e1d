"""Tolerances of results, which allow only the errors of rounding."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..ops.call import Call, Operand
from ..ops.lookup import with_attribute, with_trait
from .normalization import sizes_before_centring
from .registry import Array
from .rounding import is_integer
from .run import evaluate

_UNIT_ROUNDOFF = {"f32": 2.0**-24, "f16": 2.0**-11}
"""The largest relative error of one rounding, by the data type of sums."""

# Ops that choose or copy elements, or round once: they are exact before the output is rounded.
_EXACT = with_trait("keeps") | {
    "Abs", "AbsBackward", "Clamp", "ClampBackward", "GenIndex", "GreaterEqual", "MaxPool",
    "Maximum", "Minimum", "ReLU", "ReLUBackward", "ReduceMax", "ReduceMin", "Round", "Select",
}  # fmt: skip

# Ops whose kernels approximate a function, with the error in unit roundoffs of the largest of 1,
# the inputs and the output: at least twice the errors observed in oneDNN 3.7 and 3.13 with SSE4.1,
# AVX2 and AVX-512, and at most the tolerance of oneDNN's own tests (671, or 67 for simpler ones).
_FUNCTIONS = {
    "Exp": 140,
    **dict.fromkeys(("HardSigmoid", "HardSwish"), 4),
    **dict.fromkeys(("Log", "LogSoftmax", "Pow"), 256),
    **{
        kind + way: 16
        for kind in ("Elu", "GELU", "Mish", "Sigmoid", "SoftPlus", "Tanh")
        for way in ("", "Backward")
    },
}
_ELEMENTWISE = frozenset(_FUNCTIONS) - {"LogSoftmax"}

# Smaller numbers may become 0 in intermediate results.
SMALLEST = 2.0**-126

# Half a unit in the last place of the smallest type in which a floating-point math mode lets oneDNN
# compute f32, by the mode's name.
_NARROWED = {"strict": 0.0, "bf16": 2.0**-8, "f16": 2.0**-11, "tf32": 2.0**-11, "any": 2.0**-8}
# The ops to which such a mode applies.
_NARROWING = with_trait("product")

# Plain sums of products of the inputs' elements.
_SUMS = with_trait("product") | with_attribute("sizes")
_SUMS |= {"Add", "BiasAdd", "BiasAddBackward", "ReduceSum"}

# Ops that subtract a mean that they compute: which inputs have its elements, and their variance.
_CENTRED: dict[str, tuple[int, ...]] = dict.fromkeys(with_trait("normalizes") - {"RMSNorm"}, (0,))
_CENTRED |= dict.fromkeys(with_trait("gradient") & with_attribute("epsilon"), (1, 3))

# Inputs whose order decides which elements count, so a small change may change the result.
_FIXED_INPUTS = {"MaxPoolBackward": (0,)}


@dataclass(frozen=True)
class Tolerance:
    """The tolerance of an op, before its result is rounded to the output's data type.

    Both are 0 for an op that chooses or copies elements, or rounds once.

    Parameters
    ----------
    function : float
        The error of an approximated function, relative to the largest of 1, the result, and the
        product of the inputs above 1.
    accumulation : float
        The error of a sum of n terms: Higham's gamma_n = n u / (1 - n u), relative to the root of
        the sum of the squares of the terms. u is the unit roundoff of the type of sums: f32, or f16
        if the op's accumulation_mode allows it. (The strict bound is relative to the sum of the
        terms' magnitudes, up to sqrt(n) times as large; the bound that holds with high probability
        replaces n by sqrt(n) there. Ours is between the two.)
    terms : int
        The number of terms; n also counts a few other roundings.
    """

    function: float
    accumulation: float
    terms: int


def _channels(call: Call, operand: Operand) -> int:
    return operand.dim(-1 if call.channels_last else 1)


def _ratio(call: Call) -> int:
    """Return the elements of the largest input divided by those of the smallest output."""
    largest = max((o.count() for o in call.inputs), default=1)
    smallest = min((o.count() for o in call.outputs), default=1)
    return largest // max(smallest, 1)


def _weights_terms(call: Call) -> int:
    return min(o.count() // max(_channels(call, o), 1) for o in call.inputs[:2])


def _matmul_terms(call: Call) -> int:
    a = call.input(0)
    return a.dim(-2 if call.attr("transpose_a") and (a.rank or 0) > 1 else -1)


def _interpolation_terms(call: Call) -> int:
    spatial = max((call.input(0).rank or 2) - 2, 1)
    return (1 << spatial) * max(_ratio(call), 1)


def _last_axes_terms(call: Call) -> int:
    x = call.input(0)
    first = call.axis("begin_norm_axis", x.rank or 1)
    return max(math.prod((x.shape or ())[first:]), _ratio(call))


def _group_terms(call: Call) -> int:
    x = call.input(0)
    groups: int = call.attr("groups")
    return x.count() // max(x.dim(0) * groups, 1)


_TERMS: dict[str, Callable[[Call], int]] = {
    **dict.fromkeys(with_attribute("kernel"), lambda call: math.prod(call.attr("kernel"))),
    **dict.fromkeys(
        with_attribute("weights_format"),
        lambda call: call.input(1).count() // max(_channels(call, call.output(0)), 1),
    ),
    "ConvTransposeBackwardWeights": _weights_terms,
    "ConvolutionBackwardWeights": _weights_terms,
    "GroupNorm": _group_terms,
    **dict.fromkeys(with_attribute("sizes"), _interpolation_terms),
    **dict.fromkeys(with_attribute("begin_norm_axis"), _last_axes_terms),
    **dict.fromkeys(
        ("LogSoftmax", "LogSoftmaxBackward", "SoftMax", "SoftMaxBackward"),
        lambda call: call.input(0).dim(call.attr("axis")),
    ),
    "MatMul": _matmul_terms,
}

# Ops with at most three roundings for each element.
_ARITHMETIC = {
    "Add", "BiasAdd", "Divide", "Dropout", "LeakyReLU", "Multiply", "PReLU", "Reciprocal", "Sqrt",
    "Square", "SquaredDifference", "Subtract",
}  # fmt: skip

# The number of roundings outside the sum: of products, a bias, means, roots, quotients.
_FURTHER = 8
# An exponential's error is relative to its value, so it counts as that many roundings.
_EXPONENTIAL = _FUNCTIONS["Exp"]


def tolerance(call: Call, output: int = 0) -> Tolerance:
    """Return the tolerance that rounding needs for an op's result; see `Tolerance` for the units.

    Parameters
    ----------
    call : Call
        The op, with all shapes and data types.
    output : int
        The output's number.
    """
    relaxed = call.attr("accumulation_mode") in ("relaxed", "any", "f16")
    u = _UNIT_ROUNDOFF["f16" if relaxed else "f32"]
    if call.kind in _EXACT:
        return Tolerance(0.0, 0.0, 0)
    # The statistics of SoftMax are those of LogSoftmax.
    statistics = call.kind == "SoftMax" and output == 1
    function = _FUNCTIONS.get("LogSoftmax" if statistics else call.kind, 0) * u
    if call.kind in _ELEMENTWISE:
        return Tolerance(function, 0.0, 0)
    terms = max(_TERMS.get(call.kind, _ratio)(call), 1)
    n = 3 if call.kind in _ARITHMETIC else terms + _FURTHER
    n += _EXPONENTIAL if call.kind in ("SoftMax", "LogSoftmaxBackward") else 0
    # From n u = 1 on there is no bound: the sum may have any error.
    gamma = n * u / (1.0 - n * u) if n * u < 1.0 else math.inf
    return Tolerance(function, gamma, terms)


def _root_of_squared_terms(call: Call, output: int, inputs: Sequence[Array]) -> Array:
    """Return the root of the sum of the squared terms of each element of an output."""
    wide = [
        a.astype(np.float64) if _is_float(o) else a
        for a, o in zip(inputs, call.inputs, strict=True)
    ]
    if call.kind in _SUMS:
        return np.sqrt(evaluate(call, [a * a for a in wide])[output])
    # For other ops a term is an input's element times the derivative by it. Changing all elements
    # by normally distributed relative amounts adds up the terms with random weights. Four of these
    # sums, squared and added, are about four times the wanted square, and hardly ever less than it.
    chance = np.random.default_rng(0)
    step = 2.0**-20
    result = evaluate(call, wide)[output]
    squares = np.zeros(result.shape)
    for _ in range(4):
        changed = [
            a * (1.0 + step * chance.standard_normal(a.shape))
            if _is_float(o) and i not in _FIXED_INPUTS.get(call.kind, ())
            else a
            for i, (a, o) in enumerate(zip(wide, call.inputs, strict=True))
        ]
        squares += ((evaluate(call, changed)[output] - result) / step) ** 2
    terms: Array = np.sqrt(squares)
    if call.kind in _CENTRED and output == 0:
        # Subtracting the mean causes an error relative to the element and the mean, even if the
        # result hardly depends on them: two elements always give about 1 and -1, and one has a
        # gradient of about 0.
        gamma = [
            a
            for i, a in enumerate(wide)
            if (port := call.schema.port("inputs", i)) and port.name == "gamma"
        ]
        largest = max((float(np.abs(a).max(initial=0.0)) for a in gamma), default=1.0)
        centred = (wide[i] for i in _CENTRED[call.kind])
        terms = terms + largest * sizes_before_centring(call, *centred)
    return terms


def _is_float(operand: Operand) -> bool:
    return operand.dtype != "boolean" and not is_integer(operand.dtype or "f32")


def _narrowing(call: Call, fpmath_mode: str) -> float:
    """Return the error of rounding an op's inputs, relative to the root of the squared terms.

    oneDNN rounds the two factors of each product, but not a bias.
    """
    if call.kind not in _NARROWING:
        return 0.0
    return _NARROWED[fpmath_mode] * sum(o.dtype == "f32" for o in call.inputs[:2])


def _underflow(call: Call, x: Array, magnitude: Array) -> Array:
    """Return what a product or a root of squares loses where a part of it is too small for f32."""
    if call.kind == "ReduceProd":
        factors = np.maximum(np.abs(x.astype(np.float64)), 1.0)
        axes = tuple(call.attr("axes") or ())
        grown: Array = factors.prod(axis=axes, keepdims=call.attr("keep_dims"))
        return SMALLEST * grown
    lost = SMALLEST * (x.size // max(magnitude.size, 1))
    return np.asarray(np.sqrt(magnitude**2 + lost) - magnitude)


def slack(
    call: Call,
    output: int,
    inputs: Sequence[Array] | None,
    exact: Array,
    fpmath_mode: str = "strict",
) -> Array:
    """Return the tolerance of each element before it is rounded to the output's data type.

    - `call`: the op, with all shapes and data types
    - `output`: the output's number
    - `inputs`: the op's inputs; without them all elements have the largest one's tolerance
    - `exact`: the output of `evaluate`; integers and booleans have no slack
    - `fpmath_mode`: the graph's mode: the types in which oneDNN may compute f32 products and
      convolutions
    """
    if exact.dtype.kind != "f":
        return np.zeros(exact.shape)
    limits = tolerance(call, output)
    magnitude = np.abs(exact)
    allowed = np.zeros(exact.shape)
    if limits.function:
        product = np.ones(())
        for a in inputs or ():
            # What holds scores back may be infinite, and is exact then.
            size = np.where(np.isfinite(a), np.abs(a.astype(np.float64)), 0.0)
            product = product * np.maximum(size, 1.0)
        if call.kind == "SoftMax" and product.ndim:  # its statistics are of whole rows
            product = product.max(axis=call.attr("axis"), keepdims=True)
        scale = np.maximum(np.maximum(magnitude, 1.0), product)
        if call.kind == "Exp":  # an absolute error of x is a relative one of exp(x)
            scale = np.maximum(magnitude, 2.0**-24) * product
        allowed = limits.function * scale
        if call.kind == "HardSigmoid" and inputs:  # it cuts off what is beyond 0 and 1, errors too
            line = call.attr("alpha") * inputs[0].astype(np.float64) + call.attr("beta")
            cut = (line - allowed >= 1) | (line + allowed <= 0)
            allowed = np.where(cut, 0.0, np.minimum(allowed, 1.0))
    if limits.accumulation and inputs is not None:
        terms = _root_of_squared_terms(call, output, inputs)
        allowed = allowed + limits.accumulation * np.maximum(magnitude, terms)
        allowed = allowed + _narrowing(call, fpmath_mode) * terms
    elif limits.accumulation:
        # Terms of random sign add up to about the root of the sum of their squares, so the
        # largest results show how large the terms are.
        finite = magnitude[np.isfinite(magnitude)]
        share = limits.accumulation + _narrowing(call, fpmath_mode)
        allowed = allowed + share * 2.0 * float(finite.max(initial=0.0))
    if call.kind in ("ReduceProd", "ReduceL2") and inputs is not None:
        allowed = allowed + _underflow(call, inputs[0], magnitude)
    return np.asarray(allowed)
