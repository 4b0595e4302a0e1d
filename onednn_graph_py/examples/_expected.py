"""Compare what oneDNN computed with the NumPy reference, as `CompiledGraph.verify` does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import GraphBuilder, Value, op
from ..checking.expected import Expected, Verification

Array = npt.NDArray[Any]


def compare_built(
    builder: GraphBuilder, inputs: Sequence[Array], results: Mapping[int, Array]
) -> Verification:
    """Compare values of a built graph, by their ids, with the reference."""
    # One sample of rounding errors tells enough of a thousand elements.
    samples = 1 if all(array.size >= 1024 for array in results.values()) else 4
    return Expected(builder, inputs, samples=samples).compare(results)


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
    builder = GraphBuilder()
    values: dict[int, Value] = {}
    given = []
    for one in ops:
        for lt in one.get_inputs():
            number = lt.get_id()
            if number not in values:
                given.append(arrays[number])
                values[number] = builder.input(given[-1].shape, lt.get_data_type().name)
        made = one.get_outputs()
        value = builder.op(
            one.get_kind().name,
            *(values[lt.get_id()] for lt in one.get_inputs()),
            outputs=[(None, lt.get_data_type().name) for lt in made],
            **one.get_attrs(),
        )
        values[made[0].get_id()] = value
    return compare_built(builder, given, {values[i].id: array for i, array in results.items()})


def compare_entries(
    ops: Sequence[op], arrays: Mapping[int, Array], results: Mapping[int, Array]
) -> Verification:
    """Compare a batch entry by entry, as all of it at once might not fit into memory.

    What has one dim belongs to all entries.
    """

    def entry(of: Mapping[int, Array], number: int) -> dict[int, Array]:
        return {i: a[number : number + 1] if a.ndim > 1 else a for i, a in of.items()}

    batch = max(len(array) for array in results.values())
    found = (compare(ops, entry(arrays, n), entry(results, n)) for n in range(batch))
    return Verification(tuple(check for one in found for check in one.outputs))


def normal(random: np.random.Generator, shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
    """Draw normally distributed numbers."""
    return random.standard_normal(tuple(shape), np.float32).astype(dtype)
