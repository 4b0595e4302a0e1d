"""Cases that many patterns have: the floating-point types, epilogues up to the limit and on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._epilogue import chain
from .pattern import Case, Deviation

__all__ = ["FLOATS", "TOO_LONG_FOR_3_7", "in_floats", "kernels_of", "with_epilogues"]

FLOATS = ("f32", "bf16", "f16")
"""The data types of a floating-point pattern that mixes none."""

# The first of 3.8 to 3.13 to document and fuse more than four was not tried; these are what
# 3.7.2 and 3.13.2 do.
TOO_LONG_FOR_3_7 = (3, 13)
_NOT_EVERY_CPU = ("bf16", "f16", "f8_e4m3", "f8_e5m2")


def kernels_of(*dtypes: str) -> tuple[str, ...]:
    """Those of some data types that not every CPU computes with."""
    return tuple(dict.fromkeys(d for d in dtypes if d in _NOT_EVERY_CPU))


def in_floats(
    name: str, *, dtypes: Sequence[str] = FLOATS, partitions: int = 1,
    needs: tuple[int, int] = (3, 7), deviations: tuple[Deviation, ...] = (), **arguments: Any,
) -> tuple[Case, ...]:  # fmt: skip
    """The same case in each of some data types, which the pattern takes as ``dtype``."""
    return tuple(
        Case(name, d, {"dtype": d, **arguments}, partitions, kernels_of(d), needs, deviations)
        for d in dtypes
    )


def with_epilogues(
    *, most_in_3_7: int = 4, most: int = 19, documented: int = 20, **arguments: Any
) -> tuple[Case, ...]:
    """Epilogues of 0 to 3 ops, as 3.7 documents them; the most that is fused, and one more.

    Parameters
    ----------
    most_in_3_7, most : int
        The most that 3.7 and 3.13 fuse.
    documented : int
        The most that 3.13's documents say it fuses.
    **arguments
        Of the pattern.
    """

    def short(*ops: str) -> tuple[Case, ...]:
        name = " + ".join(ops) if ops else "no post-op"
        return in_floats(name, post_ops=ops, **arguments)

    def long(length: int) -> tuple[Case, ...]:
        # What does not fit is a partition of its own, which again begins with an op that counts
        # as the first and not as a post-op.
        deviations = []
        for limit, since, until in (
            (most_in_3_7, (3, 0), TOO_LONG_FOR_3_7),
            (most, TOO_LONG_FOR_3_7, (99, 0)),
        ):
            rest = length - limit
            if rest > 0:
                whole = -(-rest // (limit + 1))
                why = f"it fuses {limit} post-ops"
                deviations.append(Deviation(1 + whole, why, since, until))
        return in_floats(
            f"{length} post-ops",
            post_ops=chain(length),
            partitions=1 if length <= documented else 2,
            deviations=tuple(deviations),
            **arguments,
        )

    return (
        *short(),
        *short("ReLU"),
        *short("Add", "Sigmoid"),
        *short("Multiply", "Add", "ReLU"),
        *short("Add:residual", "ReLU"),
        *long(most_in_3_7),
        *long(most_in_3_7 + 1),
        *long(most),
        *long(most + 1),
    )
