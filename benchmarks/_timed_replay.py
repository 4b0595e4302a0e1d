"""One graph's file, replayed and timed in a process of its own; one line of JSON comes out.

    python benchmarks/_timed_replay.py FILE SECONDS

As benchdnn does: on the CPU, with the file's shapes and data made once; a call to warm up, then
every call timed by itself until the time is over, of which the least counts.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from dataclasses import replace

from onednn_graph_py.filling import fill_inputs
from onednn_graph_py.serialization import parse, to_builder


def replay(path: str, seconds: float) -> dict[str, object]:
    """Times of a model's calls.

    Parameters
    ----------
    path : str
        A graph's JSON.
    seconds : float
        How long to go on; there are 5 calls at least.

    Returns
    -------
    dict
        ``least_ms`` and ``mean_ms`` of a call, ``calls``; ``steps``, which is how many calls of
        oneDNN the model makes in one of its own; ``warnings``, if it runs in parts.
    """
    builder = to_builder(replace(parse(path), engine_kind="cpu"))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = builder.compile()
    call = model.bind(list(fill_inputs(builder)))
    call()
    times: list[int] = []
    end = time.perf_counter_ns() + round(seconds * 1e9)
    while len(times) < 5 or time.perf_counter_ns() < end:
        began = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - began)
    return {
        "least_ms": min(times) / 1e6,
        "mean_ms": sum(times) / len(times) / 1e6,
        "calls": len(times),
        "steps": len(model.steps()),
        "warnings": [str(w.message) for w in said],
    }


if __name__ == "__main__":
    print(json.dumps(replay(sys.argv[1], float(sys.argv[2]))))
