"""How long a model takes, beside onnxruntime: `time_model`."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..._core import num_threads
from ...machine.timing import time_calls
from ...tools.inspect.profile import profile
from ..islands import has_onnxruntime, imported
from ..model import OnnxModel
from ..programs import Entry
from ..report import steps_of

ROUNDS = 5
PAUSE = 0.02
"""Seconds after which the threads of the other runtime no longer wait for work in a loop."""


@dataclass(frozen=True)
class Times:
    """Seconds of a call, the shortest of many."""

    threads: int
    ours: float
    theirs: float | None  # onnxruntime's, if it runs the model
    version: str  # of onnxruntime
    failure: str  # why there is no time of onnxruntime
    steps: tuple[float, ...] | None  # median times of the steps; None if they can't be told apart


def time_model(
    model: OnnxModel, entry: Entry, inputs: Mapping[str, Any], path: str, seconds: float
) -> Times:
    """Time calls of a model, in turns with onnxruntime if it is installed, `seconds` for each."""
    threads = model.options.threads or num_threads()
    calls: dict[str, Callable[[], Any]] = {"ours": lambda: model(**inputs)}
    version = ""
    failure = "not installed"
    if has_onnxruntime():
        try:
            version, calls["theirs"] = _session(path, inputs, threads)
        except Exception as e:  # it has a class for each of its statuses
            failure = str(e).strip().splitlines()[0]
    best = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        call()
    for _ in range(ROUNDS):
        for name, call in calls.items():
            time.sleep(PAUSE)
            call()
            best[name] = min(best[name], *time_calls(call, seconds / ROUNDS, least=2))
    time.sleep(PAUSE)
    with profile() as recorded:
        time_calls(calls["ours"], seconds / ROUNDS, least=3)
    medians = tuple(s.median for s in recorded.steps)
    steps = medians if len(medians) == len(steps_of(entry)) else None
    return Times(threads, best["ours"], best.get("theirs"), version, failure, steps)


def _session(path: str, inputs: Mapping[str, Any], threads: int) -> tuple[str, Callable[[], Any]]:
    onnxruntime = imported()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what it says is raised
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = dict(inputs)
    return str(onnxruntime.__version__), lambda: session.run(None, given)
