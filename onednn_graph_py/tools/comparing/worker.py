"""The worker process; requests and answers are JSON, as another Python may run it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..._core import __version__, cpu_isa, get_effective_cpu_isa
from ...base.errors import InvalidArgumentsError
from ...base.linked import version
from ...base.processes import JSON
from ...base.processes import serve as answering
from ...machine.cpu_runtime import threads_can_be_set
from ...model.building.builder import GraphBuilder
from ...model.checking.expected import Expected, largest_difference
from ..replay.cases import Case
from ..replay.stages import Ended, built, called, check_memory, compiled, inputs_of, partition, read
from ..replay.verdicts import Verdict
from .graph_files import bind_constants
from .timing import time_in_batches

Array = npt.NDArray[Any]


def hello() -> dict[str, Any]:
    """Return the facts about this install: versions, runtime, instruction sets."""
    linked = version()
    effective = get_effective_cpu_isa()
    return {
        "package": __version__,
        "onednn": linked.release,
        "runtime": linked.cpu_runtime,
        "isa": effective.name,
        # Some have two names.
        "isas": {n: m.name for n, m in cpu_isa.__members__.items() if n != "isa_default"},
    }


def _builder(request: dict[str, Any]) -> GraphBuilder:
    builder = built(read(Case(request["graph"])))
    if request["constants"] is not None:
        # Before they are read.
        check_memory(builder, verify=False, share=request["memory_share"])
        try:
            bind_constants(builder, Path(request["constants"]))
        except (InvalidArgumentsError, OSError) as e:
            raise Ended(Verdict.UNREADABLE, f"constants: {e}") from None
    return builder


def _stored(array: Array) -> Array:
    """Return an array in a type that NumPy's files support: small floats become float32."""
    return array if array.dtype.kind in "biuf" else array.astype(np.float32)


class _Worker:
    """Answers requests, and keeps the graph that was loaded last."""

    def __init__(self) -> None:
        self._call: Callable[[], Any] | None = None

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        """Read, compile and call a graph; save its outputs."""
        count, _, missing = partition(read(Case(request["graph"])))
        if missing:
            raise Ended(Verdict.UNSUPPORTED, missing)
        builder = _builder(request)
        check_memory(builder, verify=False, share=request["memory_share"])
        threads, notes = request["threads"], []
        decides = not threads_can_be_set()
        if decides and threads is not None:
            notes.append(f"asked for {threads} threads, but the runtime decides how many")
            threads = None
        model, split = compiled(builder, threads)
        inputs = inputs_of(builder, request["seed"])
        outputs = called(model, inputs)
        for path, array in zip(request["outputs"], outputs, strict=False):
            np.save(path, _stored(array), allow_pickle=False)
        self._call = model.bind(list(inputs))
        return {
            "partitions": count,
            "steps": [s._asdict() for s in model.steps()],
            "threads": None if decides else model.threads,
            "fpmath": builder.fpmath_mode.name,
            "apply_to_int": builder.apply_to_int,
            "split": split,
            "notes": notes,
        }

    def time(self, request: dict[str, Any]) -> dict[str, Any]:
        """Time calls of the loaded graph, in seconds."""
        assert self._call is not None
        return {"times": time_in_batches(self._call, request["seconds"])}

    def differences(self, request: dict[str, Any]) -> dict[str, Any]:
        """Compute the largest difference of each run's outputs to the first run's."""
        first = [np.load(p, mmap_mode="r", allow_pickle=False) for p in request["first"]]
        made = []
        for paths in request["runs"]:
            others = [np.load(p, mmap_mode="r", allow_pickle=False) for p in paths]
            pairs = zip(first, others, strict=True)
            made.append(max((largest_difference(a, b) for a, b in pairs), default=0.0))
        return {"differences": made}

    def verify(self, request: dict[str, Any]) -> dict[str, Any]:
        """Compare runs of one graph with the reference."""
        builder = _builder(request)
        check_memory(builder, verify=True, share=request["memory_share"])
        inputs = inputs_of(builder, request["seed"])
        expected = Expected(builder, inputs, request["seed"])
        names = {v.id: name for name, v in builder.outputs.items()}
        made = []
        for paths in request["runs"]:
            # Some outputs may be one value under two names.
            arrays = [np.load(p, mmap_mode="r", allow_pickle=False) for p in paths]
            ids = [v.id for v in builder.outputs.values()]
            found = expected.compare(dict(zip(ids, arrays, strict=True)), names)
            wrong = "; ".join(str(o) for o in found.outputs if not o.ok)
            made.append({"error": found.max_error, "share": found.share, "wrong": wrong})
        return {"runs": made}


def serve(descriptor: int) -> None:
    """Send `hello` on a connection, then answer requests until it ends."""
    worker = _Worker()
    commands = {
        "load": worker.load,
        "time": worker.time,
        "differences": worker.differences,
        "verify": worker.verify,
    }

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        command = commands.get(request["do"])
        if command is None:
            reason = f"onednn_graph_py {__version__} does not know the request {request['do']!r}"
            return {"verdict": Verdict.REFUSED.value, "reason": reason}
        try:
            return command(request)
        except Ended as e:
            return {"verdict": e.verdict.value, "reason": e.reason}
        except MemoryError as e:
            return {"verdict": Verdict.TOO_LARGE.value, "reason": str(e) or "out of memory"}

    answering(descriptor, answer, first=hello(), form=JSON)
