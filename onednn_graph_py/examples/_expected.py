"""Compare what oneDNN computed with the NumPy reference, as `CompiledGraph.verify` does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import GraphBuilder, Value, op
from ..checking.expected import Expected, OutputCheck, Verification

Array = npt.NDArray[Any]


def expected_of(
    builder: GraphBuilder, inputs: Sequence[Array], results: Mapping[int, Array]
) -> Expected:
    """Compute the reference of a built graph, to compare results with, by the values' ids."""
    # One sample of rounding errors tells enough of a thousand elements.
    return Expected(
        builder, inputs, samples=1 if all(a.size >= 1024 for a in results.values()) else 4
    )


def compare(
    ops: Iterable[op], arrays: Mapping[int, Array], results: Mapping[int, Array]
) -> Verification:
    """Compare what ops computed with the reference.

    Parameters
    ----------
    ops : iterable of op
        In an order in which they can run.
    arrays, results : mapping of int to numpy.ndarray
        Their inputs, and what oneDNN made of them, by the id of the logical tensor.
    """
    return _compare(ops, [(arrays, results)])


def compare_entries(
    ops: Iterable[op], arrays: Mapping[int, Array], results: Mapping[int, Array]
) -> Verification:
    """Compare a batch entry by entry, as all of it at once might not fit into memory.

    What has one dim belongs to all entries; their errors are estimated with the first one.
    """

    def entry(of: Mapping[int, Array], number: int) -> dict[int, Array]:
        return {i: a[number : number + 1] if a.ndim > 1 else a for i, a in of.items()}

    batch = max(len(array) for array in results.values())
    return _compare(ops, [(entry(arrays, n), entry(results, n)) for n in range(batch)])


def _compare(
    ops: Iterable[op], parts: Sequence[tuple[Mapping[int, Array], Mapping[int, Array]]]
) -> Verification:
    builder = GraphBuilder()
    values: dict[int, Value] = {}
    given = []
    first, made = parts[0]
    for one in ops:
        for lt in one.get_inputs():
            number = lt.get_id()
            if number not in values:
                given.append(number)
                values[number] = builder.input(first[number].shape, lt.get_data_type().name)
        outputs = one.get_outputs()
        value = builder.op(
            one.get_kind().name,
            *(values[lt.get_id()] for lt in one.get_inputs()),
            outputs=[(None, lt.get_data_type().name) for lt in outputs],
            **one.get_attrs(),
        )
        values[outputs[0].get_id()] = value
    expected = expected_of(builder, [first[i] for i in given], made)
    checks: list[OutputCheck] = []
    for arrays, results in parts:
        if arrays is not first:
            expected = expected.of([arrays[i] for i in given])
        found = expected.compare({values[i].id: array for i, array in results.items()})
        checks += found.outputs
    return Verification(tuple(checks))


def normal(random: np.random.Generator, shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
    """Draw normally distributed numbers."""
    return random.standard_normal(tuple(shape), np.float32).astype(dtype)
