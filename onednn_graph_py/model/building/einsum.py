"""Sums of products of values by indices, as ``numpy.einsum`` writes them: `einsum`."""

import math
from collections.abc import Sequence
from string import ascii_letters

from ...base.errors import InvalidShapeError
from .value import Value

_Term = tuple[str, Value]


def einsum(equation: str, operands: Sequence[Value]) -> Value | None:
    """Write a sum of products as matrix products, sums and views.

    - `equation`: such as ``bhqd,...kd->bhq...k``; without an arrow the result has the dims of dots,
      and the indices that occur once
    - `operands`: one for each term, of one floating-point data type
    - returns: None for what it does not write: an index twice in a term, or for dims of two sizes
    - raises `InvalidShapeError`: there is not one operand for each term, and one index for each of
      its dims
    """
    left, arrow, result = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow:
        once = sorted(c for c in {*left} - {*",."} if left.count(c) == 1)
        result = "".join(["..." if "..." in left else "", *once])
    terms, result = _without_dots(terms, result, operands)
    if any(len({*t}) < len(t) for t in (*terms, result)):
        return None
    if [len(t) for t in terms] != [v.ndim for v in operands]:
        raise InvalidShapeError(
            f"einsum: {equation!r} must have a term for each operand and an index for each dim, "
            f"got {', '.join(map(repr, operands))}"
        )

    sizes: dict[str, set[int]] = {}
    for term, operand in zip(terms, operands, strict=True):
        for c, size in zip(term, operand.shape or (), strict=True):
            sizes.setdefault(c, set()).add(size)
    if any(len(s - {-1}) > 1 for s in sizes.values()):
        return None

    indices, value = terms[0], operands[0]
    for i, other in enumerate(zip(terms[1:], operands[1:], strict=True), 2):
        indices, value = _product((indices, value), other, {*result, *"".join(terms[i:])})
    indices, value = _summed(indices, value, {*result})
    order = [indices.index(c) for c in result]
    return value if order == sorted(order) else value.transpose(order)


def _without_dots(
    terms: Sequence[str], result: str, operands: Sequence[Value]
) -> tuple[list[str], str]:
    """Return terms and result with letters for the dims that dots stand for."""
    free = [c for c in ascii_letters if c not in {*result, *"".join(terms)}]
    counts = [v.ndim - len(t) + 3 for t, v in zip(terms, operands, strict=False) if "..." in t]
    dots = "".join(free[: max(counts, default=0)])
    filled = [
        t.replace("...", dots[len(dots) + len(t) - 3 - v.ndim :])
        for t, v in zip(terms, operands, strict=False)
    ]
    return filled + list(terms[len(operands) :]), result.replace("...", dots)


def _summed(indices: str, value: Value, kept: set[str]) -> _Term:
    """Sum over the indices that nothing else has."""
    axes = [i for i, c in enumerate(indices) if c not in kept]
    if axes:
        value = value.sum(axis=tuple(axes))
    return "".join(c for c in indices if c in kept), value


def _product(a: _Term, b: _Term, wanted: set[str]) -> _Term:
    """Multiply two operands, and sum over the indices that nobody reads later."""
    (left, x), (right, y) = (
        _summed(own, value, wanted | {*other}) for (own, value), (other, _) in ((a, b), (b, a))
    )
    shared = [c for c in left if c in right]
    batch = [c for c in shared if c in wanted]
    inner = [c for c in shared if c not in wanted]
    rows = [c for c in left if c not in shared]
    columns = [c for c in right if c not in shared]
    sizes = dict(zip(left + right, (*(x.shape or ()), *(y.shape or ())), strict=True))
    order = [*batch, *rows, *columns]
    x = _arranged(x, left, (batch, rows, inner), sizes)
    y = _arranged(y, right, (batch, inner, columns), sizes)
    value: Value = x @ y if inner else x * y
    return "".join(order), value.reshape([sizes[c] for c in order])


def _arranged(
    value: Value, term: str, groups: Sequence[Sequence[str]], sizes: dict[str, int]
) -> Value:
    """Return an operand with its batch dims first, and one dim for each of the other groups."""
    batch, *others = groups
    order = [term.index(c) for c in (*batch, *others[0], *others[1])]
    if order != sorted(order):
        value = value.transpose(order)
    if all(len(group) == 1 for group in others):
        return value
    joined = [[sizes[c] for c in group] for group in others]
    dims = [sizes[c] for c in batch] + [-1 if -1 in g else math.prod(g) for g in joined]
    return value.reshape(dims)
