"""Sums of products of values by indices, as ``numpy.einsum`` writes them: `einsum`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...base.errors import InvalidShapeError
from .value import Value

_Term = tuple[str, Value]


def einsum(equation: str, operands: Sequence[Value]) -> Value | None:
    """Write a sum of products as matrix products, sums and views.

    - `equation`: such as ``bhqd,bhkd->bhqk``; without an arrow the result has the indices that
      occur once
    - `operands`: one for each term, of one floating-point data type
    - returns: None for what it does not write: dots, and an index twice in a term
    - raises `InvalidShapeError`: there is not one operand for each term, and one index for each of
      its dims
    """
    left, arrow, result = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow:
        result = "".join(sorted(c for c in {*left} - {","} if left.count(c) == 1))
    if "." in equation or any(len({*t}) < len(t) for t in (*terms, result)):
        return None
    if [len(t) for t in terms] != [v.ndim for v in operands]:
        raise InvalidShapeError(
            f"einsum: {equation!r} must have a term for each operand and an index for each dim, "
            f"got {', '.join(map(repr, operands))}"
        )

    indices, value = terms[0], operands[0]
    for i, other in enumerate(zip(terms[1:], operands[1:], strict=True), 2):
        indices, value = _product((indices, value), other, {*result, *"".join(terms[i:])})
    indices, value = _summed(indices, value, {*result})
    order = [indices.index(c) for c in result]
    return value if order == sorted(order) else value.transpose(order)


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
    sizes = dict(zip(left, x.shape or (), strict=True)) | dict(
        zip(right, y.shape or (), strict=True)
    )
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
