"""The timing cache: what this machine measured of the ways to run groups of ops.

``compile(tune=)`` fills it. Entries hold for a build of oneDNN, an instruction set, a CPU and a
number of threads; others are not seen. ``ONEDNN_GRAPH_PY_CACHE`` names the folder of all caches.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from ..base.text.numbers import seconds_text
from ..base.text.table import text_table
from ..model.planning import pace
from ..model.planning.pace import Kept, Key

__all__ = ["Measurement", "clear", "measurements", "show"]


class Measurement(NamedTuple):
    """The times of a group of ops."""

    ops: tuple[str, ...]  # the op kinds
    inputs: str  # the data types and shapes of what they read
    threads: int
    way: str  # another way to run them: a form, or `apart` for each op by itself
    # written, other: seconds as the graph has them, in one partition, and in the other way
    written: float
    other: float


def _measurement(key: Key, kept: Kept) -> Measurement | None:
    if kept.pace is None:
        return None
    group = json.loads(key.signature)
    results = {i for op in group["ops"] for i in op[3]}
    read = dict.fromkeys(i for op in group["ops"] for i in op[2] if i not in results)
    inputs = " and ".join(f"{group['tensors'][i][0]} {group['tensors'][i][1]}" for i in read)
    kinds = tuple(op[0] for op in group["ops"])
    return Measurement(kinds, inputs, key.threads, key.way, kept.pace.fused, kept.pace.apart)


def measurements() -> tuple[Measurement, ...]:
    """Return what this machine measured, by all processes, with the linked oneDNN.

    - returns: the longest first
    """
    read = (_measurement(key, kept) for key, kept in pace.on_disk().items())
    return tuple(sorted((m for m in read if m is not None), key=lambda m: m.written, reverse=True))


def show() -> str:
    """Return `measurements` as a table: a row for each group and way."""
    head = ("ops", "inputs", "threads", "as written", "other way", "", "times as fast")
    rows = [
        (
            " + ".join(m.ops),
            m.inputs,
            str(m.threads),
            seconds_text(m.written),
            seconds_text(m.other),
            m.way,
            f"{m.written / m.other:.2f}",
        )
        for m in measurements()
    ]
    return "\n".join(text_table([head, *rows], right=(2, 3, 4, 6)))


def clear() -> None:
    """Forget what was measured with the linked oneDNN; compiled models stay as they are."""
    pace.forget()
