"""The worker process of a run: it compiles and calls a graph, and compares outputs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..._core import get_effective_cpu_isa
from ...base.processes import serve
from ...machine.cpu import threads_can_be_set
from ...model.building.builder import GraphBuilder
from ...model.building.constant_arrays import aligned_copy
from ...model.checking.expected import Expected, largest_difference
from ..replay.stages import Ended, built, called, check_memory, compiled, inputs_of, partition
from ..replay.verdicts import Verdict
from .timing import time_in_batches

Array = npt.NDArray[Any]


def _builder(request: dict[str, Any]) -> GraphBuilder:
    """Build the graph, of which some inputs are constants, by the tensor's id."""
    builder = built(request["document"])
    contents = builder.contents
    for value in builder.inputs:
        array = request["constants"].get(int(value.name.removeprefix("t")))
        if array is not None:
            value.data, value.strides = aligned_copy(array), None
            contents.constants[value.id] = value
    contents.inputs = [v for v in contents.inputs if v.data is None]
    return builder


def _stored(array: Array) -> Array:
    """Return an array in a type that NumPy's files support: small floats become float32."""
    return array if array.dtype.kind in "biuf" else array.astype(np.float32)


def _loaded(paths: list[str]) -> list[Array]:
    return [np.load(path, mmap_mode="r", allow_pickle=False) for path in paths]


class _Worker:
    """Answers requests, and keeps the graph that was loaded last."""

    def __init__(self) -> None:
        self._call: Callable[[], Any] | None = None

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        """Build, compile and call a graph; save its outputs."""
        count, _, missing = partition(request["document"])
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
            "steps": model.steps(),
            "threads": None if decides else model.threads,
            "fpmath": builder.fpmath_mode.name + (":true" if builder.apply_to_int else ""),
            "split": split,
            "notes": notes,
        }

    def time(self, request: dict[str, Any]) -> dict[str, Any]:
        """Time calls of the loaded graph, in seconds."""
        assert self._call is not None
        return {"times": time_in_batches(self._call, request["seconds"])}

    def differences(self, request: dict[str, Any]) -> dict[str, Any]:
        """Compute the largest difference of each run's outputs to the first run's."""
        first = _loaded(request["first"])
        largest = []
        for paths in request["runs"]:
            pairs = zip(first, _loaded(paths), strict=True)
            largest.append(max((largest_difference(a, b) for a, b in pairs), default=0.0))
        return {"differences": largest}

    def verify(self, request: dict[str, Any]) -> dict[str, Any]:
        """Compare runs of one graph with the reference."""
        builder = _builder(request)
        check_memory(builder, verify=True, share=request["memory_share"])
        inputs = inputs_of(builder, request["seed"])
        expected = Expected(builder, inputs, request["seed"])
        names = {v.id: name for name, v in builder.outputs.items()}
        checks = []
        for paths in request["runs"]:
            # Some outputs may be one value under two names.
            ids = [v.id for v in builder.outputs.values()]
            verification = expected.compare(dict(zip(ids, _loaded(paths), strict=True)), names)
            wrong = "; ".join(str(o) for o in verification.outputs if not o.ok)
            checks.append(
                {"error": verification.max_error, "share": verification.share, "wrong": wrong}
            )
        return {"runs": checks}


def main(descriptor: int) -> None:
    """Tell the instruction set on a connection, then answer requests until it ends."""
    worker = _Worker()

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        try:
            result: dict[str, Any] = getattr(worker, request["do"])(request)
            return result
        except Ended as e:
            return {"verdict": e.verdict, "reason": e.reason}
        except MemoryError as e:
            return {"verdict": Verdict.TOO_LARGE, "reason": str(e) or "out of memory"}

    serve(descriptor, answer, first={"isa": get_effective_cpu_isa().name})
