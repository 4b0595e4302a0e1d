"""Cases that many patterns share: floating-point types, and epilogues of all lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._epilogue import chain
from .pattern import Case, Deviation

__all__ = ["FLOATS", "LONG_EPILOGUES", "in_floats", "kernels_of", "with_epilogues"]

FLOATS = ("f32", "bf16", "f16")
"""The data types of floating-point patterns that use only one."""

LONG_EPILOGUES = (3, 13)
"""The first version known to fuse more than four post-ops; those from 3.8 on were not tried."""

_NOT_EVERY_CPU = ("bf16", "f16", "f8_e4m3", "f8_e5m2")


def kernels_of(*dtypes: str) -> tuple[str, ...]:
    """Return those of some data types with which not every CPU computes."""
    return tuple(dict.fromkeys(d for d in dtypes if d in _NOT_EVERY_CPU))


def in_floats(
    name: str, *, dtypes: Sequence[str] = FLOATS, partitions: int = 1,
    needs: tuple[int, int] = (3, 7), deviations: tuple[Deviation, ...] = (), **arguments: Any,
) -> tuple[Case, ...]:  # fmt: skip
    """Return the same case for each of some data types, the pattern's argument ``dtype``."""
    return tuple(
        Case(name, d, {"dtype": d, **arguments}, partitions, kernels_of(d), needs, deviations)
        for d in dtypes
    )


def with_epilogues(**arguments: Any) -> tuple[Case, ...]:
    """Return cases with epilogues of 0 to 3 ops, as 3.7 documents; up to the limit; and beyond.

    3.13 documents 20 and fuses 19.

    Parameters
    ----------
    **arguments
        Arguments of the pattern.
    """

    def short(*ops: str) -> tuple[Case, ...]:
        name = " + ".join(ops) if ops else "no post-op"
        return in_floats(name, post_ops=ops, **arguments)

    def long(length: int, in_3_7: int = 1, later: int = 1) -> tuple[Case, ...]:
        deviations = []
        if in_3_7 != 1:
            deviations.append(
                Deviation(in_3_7, "it fuses 4 post-ops, but documents 3", until=LONG_EPILOGUES)
            )
        if later != 1:
            deviations.append(
                Deviation(later, "it fuses 19 post-ops, but documents 20", since=LONG_EPILOGUES)
            )
        name = f"{length} post-ops"
        ops = chain(length)
        return in_floats(name, post_ops=ops, deviations=tuple(deviations), **arguments)

    return (
        *short(),
        *short("ReLU"),
        *short("Add", "Sigmoid"),
        *short("Multiply", "Add", "ReLU"),
        *short("Add:residual", "ReLU"),
        *long(4),
        *long(5, in_3_7=2),
        *long(19, in_3_7=5),
        *long(20, in_3_7=5, later=2),
    )
