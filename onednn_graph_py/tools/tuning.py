"""The timing cache: what this machine measured of the ways to run groups of ops.

``compile(tune=)`` fills it. Entries hold for a build of oneDNN, an instruction set, a CPU and a
number of threads; others are not seen. ``ONEDNN_GRAPH_PY_CACHE`` names the folder of all caches.
"""

import json
import os
from typing import NamedTuple

from ..base.errors import GraphFormatError, InvalidArgumentsError
from ..base.text.files import read_limited, write_whole
from ..base.text.numbers import seconds_text
from ..base.text.table import text_table
from ..machine.store import facts
from ..model.planning import pace
from ..model.planning.pace import Kept, Key

__all__ = ["Measurement", "clear", "export", "load", "measurements", "show"]

_FORMAT = "onednn_graph_py timings 1"
_LARGEST = 64 << 20  # bytes of a file of timings, each of some kilobytes


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
    """Return what this machine measured, by all processes, with this oneDNN; the longest first."""
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


def export(path: str | os.PathLike[str]) -> int:
    """Write what was measured into a JSON file, for `load` on machines of the same kind.

    Returns
    -------
    int
        The number of timings written.

    Raises
    ------
    OSError
    """
    timings = pace.rows_of(pace.on_disk())
    data = {"format": _FORMAT, "facts": facts(), "timings": timings}
    write_whole(path, json.dumps(data, indent=1) + "\n")
    return len(timings)


def load(path: str | os.PathLike[str]) -> int:
    """Take over the timings of a file that `export` wrote, where this machine has none.

    Returns
    -------
    int
        The number of timings taken over.

    Raises
    ------
    GraphFormatError
        It is no such file.
    InvalidArgumentsError
        The timings are of another oneDNN, instruction set or CPU.
    OSError
    """
    name = os.fspath(path)
    try:
        data = json.loads(read_limited(path, _LARGEST))
        if data["format"] != _FORMAT:
            raise ValueError(f"its format is {data['format']!r}, expected {_FORMAT!r}")
        of, timings = data["facts"], pace.paces_of(data["timings"])
    except (ValueError, TypeError, KeyError, RecursionError) as e:
        raise GraphFormatError(f"{name}: no file of timings: {e}") from None
    here = facts()
    if of != here:
        raise InvalidArgumentsError(f"{name}: the timings are of {of}, and this machine is {here}")
    new = [(key, kept) for key, kept in timings.items() if pace.known(key, undecided=False) is None]
    for key, kept in new:
        pace.keep(key, kept.pace)
    return len(new)
