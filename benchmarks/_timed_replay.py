"""One graph's file, replayed and timed in a process of its own.

    python benchmarks/_timed_replay.py FILE SECONDS

As benchdnn does: on the CPU, with the file's shapes and data made once; a call to warm up, then
every call timed by itself until the time is over, of which the least counts. A line of JSON says
what the model is; then each line of standard input asks for a round, answered by a line of JSON.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace

from onednn_graph_py.machine.timing import time_calls
from onednn_graph_py.model.checking.filling import fill_inputs
from onednn_graph_py.serialization import parse, to_builder


def serve(path: str, seconds: float) -> None:
    """Make a model of a graph's JSON, and time it as often as asked.

    Parameters
    ----------
    path : str
    seconds : float
        How long a round goes on; it has 5 calls at least.
    """
    builder = to_builder(replace(parse(path), engine_kind="cpu"))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = builder.compile()
    call = model.bind(list(fill_inputs(builder)))
    call()
    # The model runs in parts where a fused partition is known to be wrong; a warning tells.
    tell({"steps": len(model.steps()), "warnings": [str(w.message) for w in said]})
    for _ in sys.stdin:
        call()
        tell(one_round(call, seconds))


def one_round(call: Callable[[], object], seconds: float) -> dict[str, object]:
    """The least and mean time of a call in milliseconds, and how many there were."""
    times = time_calls(call, seconds, least=5)
    mean = sum(times) / len(times)
    return {"least_ms": min(times) * 1e3, "mean_ms": mean * 1e3, "calls": len(times)}


def tell(record: dict[str, object]) -> None:
    """Send a line."""
    print(json.dumps(record), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], float(sys.argv[2]))
