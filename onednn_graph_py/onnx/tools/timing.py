"""The time of a model, and of onnxruntime: `time_model`."""

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..._core import num_threads
from ...machine.timing import time_calls
from ...tools.inspect.profile import profile
from ..islands import has_onnxruntime, imported
from ..model import OnnxModel
from ..programs import Entry
from ..report import steps_of

ROUNDS = 5
PROFILED = 5  # calls of which onnxruntime writes a profile
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
    nodes: tuple[tuple[str, float], ...]  # median times of onnxruntime's nodes, slowest first


def time_model(
    model: OnnxModel, entry: Entry, inputs: Mapping[str, Any], path: str, seconds: float
) -> Times:
    """Time calls of a model, in turns with onnxruntime if it is installed, `seconds` for each."""
    threads = model.options.threads or num_threads()
    given = dict(inputs)
    calls: dict[str, Callable[[], Any]] = {"ours": lambda: model(**inputs)}
    version = ""
    failure = "not installed"
    nodes: tuple[tuple[str, float], ...] = ()
    if has_onnxruntime():
        try:
            nodes = _nodes(path, inputs, threads)
            version = str(imported().__version__)
            session = _session(path, threads)
            calls["theirs"] = lambda: session.run(None, given)
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
    return Times(threads, best["ours"], best.get("theirs"), version, failure, steps, nodes)


def _session(path: str, threads: int, profile: str = "") -> Any:
    onnxruntime = imported()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what it says is raised
    options.intra_op_num_threads = threads
    if profile:
        options.enable_profiling, options.profile_file_prefix = True, profile
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _nodes(path: str, inputs: Mapping[str, Any], threads: int) -> tuple[tuple[str, float], ...]:
    """Return how long onnxruntime's nodes take by its own profile."""
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        session = _session(path, threads, str(Path(folder, "profile")))
        for _ in range(PROFILED):
            session.run(None, dict(inputs))
        for event in json.loads(Path(session.end_profiling()).read_text()):
            name, last, _ = event["name"].partition("_kernel_time")
            if event.get("cat") == "Node" and last:
                label = f"{event['args']['op_name']} {name}"
                found.setdefault(label, []).append(event["dur"] / 1e6)
    medians = [(label, statistics.median(times)) for label, times in found.items()]
    return tuple(sorted(medians, key=lambda m: -m[1]))
