"""Files of ONNX models: `save`, and `from_file`, which needs onnx only for what a file lacks.

A file has a model's nodes and weights, and the graphs and islands that run its sizes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..base.errors import InvalidGraphError
from ..model.running.memory_limit import MemoryLimit
from ..model.running.model import restored
from ..model.running.releasing import require_plain
from ..serialization.model_file import built, described, write
from .inputs import InputCheck, Inputs
from .islands import Island, Place, Wiring, module
from .islands import from_file as island_from
from .model import OnnxModel
from .options import Options
from .tensors import NUMPY, dtype_of

if TYPE_CHECKING:
    from .file_model import FileModel
    from .programs import Entry

Array = npt.NDArray[Any]
Constant = tuple[Array, str, str]  # with its data type and name


class _Constants:
    """The constants of a file, each once."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []
        self.records: list[list[Any]] = []
        self._numbers: dict[Any, int] = {}

    def number(self, array: Array, dtype: str, shape: Sequence[int], name: str = "") -> int:
        """Return a constant's number, of a data type and shape that a packed array lacks."""
        if dtype not in NUMPY:
            raise InvalidGraphError(f"a file can't hold constants of {dtype}")
        key = array.ctypes.data, array.strides, dtype, tuple(shape)
        if key not in self._numbers:
            self._numbers[key] = len(self.arrays)
            self.arrays.append(array)
            self.records.append([shape, dtype, name])
        return self._numbers[key]

    def numbers(self, arrays: Mapping[str, Array]) -> dict[str, int]:
        """Return the numbers of named constants."""
        return {n: self.number(a, dtype_of(a), a.shape, n) for n, a in arrays.items()}

    def places(self, places: Sequence[Place]) -> list[Any]:
        """Return what JSON has for the places of a wiring."""
        return [p if isinstance(p, int) else [self.number(p, dtype_of(p), p.shape)] for p in places]


def save(
    file: FileModel, inputs: Inputs, outputs: Sequence[str], path: str | os.PathLike[str]
) -> None:
    """Write a model into a file; see `OnnxModel.save`."""
    from .packing import packed

    nodes, weights = packed(file.model)
    constants = _Constants()
    entries = file.required.entries
    header = {
        "onnx": file.name,
        "options": asdict(file.options),
        "sizes": [*entries],
        "weights": constants.numbers({"": np.frombuffer(nodes, np.uint8), **weights}),
    }
    with suppress(InvalidGraphError):  # what a file can't hold is compiled from the nodes
        header["ready"] = {
            "programs": _ready(entries.values(), constants),
            "inputs": [_input(c) for c in inputs.checks.values()],
            "required": inputs.required,
            "outputs": outputs,
        }
    header["graph"] = {"constants": constants.records}
    measured = {k: kept for p in file.programs.values() for k, kept in p.measured.items()}
    write(path, header, constants.arrays, measured)


def _ready(entries: Iterable[Entry], constants: _Constants) -> list[Any]:
    """Return what runs the sizes: models and islands, and the wirings of each."""
    made: dict[int, list[Any]] = {}
    for number, entry in enumerate(entries):
        if entry.tail is not None:
            raise InvalidGraphError("a file can't hold what runs by numbers that a call computes")
        run = entry.run
        if id(run.runner) not in made:
            made[id(run.runner)] = [_record(run.runner, constants), []]
        places = map(constants.places, (run.reads, run.results))
        made[id(run.runner)][1].append([number, *places])
    return [*made.values()]


def _record(runner: Any, constants: _Constants) -> dict[str, Any]:
    if runner is None:
        return {}
    if isinstance(runner, Island):
        weights = None if runner.weights is None else constants.numbers(runner.weights)
        return {"island": runner.kept(), "weights": weights}
    builder, options, _, _ = runner.state
    require_plain(builder.constants, f"{runner.name}.save")
    graph = described(builder)
    graph["constants"] = [
        constants.number(v.data, v.dtype, v.shape, v.name) for v in builder.constants
    ]
    return {"graph": graph, "options": options, "sizes": runner.sizes}


def _input(check: InputCheck) -> list[Any]:
    if check.numpy is None or NUMPY.get(check.dtype) != check.numpy:
        raise InvalidGraphError(f"a file can't hold what input {check.name!r} may be")
    return [check.name, check.dtype, check.dims]


def from_file(
    header: Mapping[str, Any], constants: Iterable[Constant], sizes: Any
) -> Callable[[], OnnxModel]:
    """Return what compiles a model of a file that `save` wrote for its sizes."""
    stored = [*constants]
    weights = {name: stored[i][0] for name, i in header["weights"].items()}
    nodes = weights.pop("").tobytes()
    options, name = Options(**header["options"]), str(header["onnx"])
    ready = header.get("ready")
    if ready is None:
        whole = _opening(name).restored(nodes, weights, options, name)
        return lambda: whole.prepare(*sizes) or whole
    checks = [InputCheck(n, t, dims, np.dtype(NUMPY[t])) for n, t, dims in ready["inputs"]]
    inputs = Inputs(name, checks, {c.name for c in checks} - {*ready["required"]})
    for shapes in sizes:
        inputs.shapes(shapes)
    outputs = tuple(map(str, ready["outputs"]))
    limit = None if options.memory_limit is None else MemoryLimit(name, options.memory_limit)
    makers = []
    count = len(inputs.required)
    for record, wirings in ready["programs"]:
        make, taken, made = _maker(record, stored, limit)
        read, result = range(count), range(-count, made)
        wired = [
            (sizes[number], _places(reads, read, stored), _places(results, result, stored))
            for number, reads, results in wirings
        ]
        if any((len(r), len(s)) != (taken, len(outputs)) for _, r, s in wired):
            raise ValueError(f"a program must read {taken} arrays, for {len(outputs)} outputs")
        makers.append((make, wired))

    def opened() -> Any:
        return _opening(name).FileModel(_opening(name).read(nodes, weights), options, inputs)

    def compiled() -> OnnxModel:
        made = {}
        for make, wired in makers:
            runner = make()
            made.update({s: Wiring(runner, reads, results, count) for s, reads, results in wired})
        return OnnxModel(inputs, outputs, options, opened, made)

    return compiled


def _places(
    places: Sequence[int | list[int]], there: range, stored: Sequence[Constant]
) -> list[Place]:
    return [there[there.index(p)] if isinstance(p, int) else stored[p[0]][0] for p in places]


def _maker(
    record: Mapping[str, Any], stored: Sequence[Constant], limit: MemoryLimit | None
) -> tuple[Callable[[], Any], int, int]:
    """Return what compiles what `_record` told, how many arrays it takes, and how many it gives."""
    if not record:
        return lambda: None, 0, 0
    if "island" in record:
        numbers = record["weights"]
        weights = None if numbers is None else {n: stored[i][0] for n, i in numbers.items()}
        island: Any = island_from(record["island"], weights)
        return lambda: island, len(island.names), len(island.model.outputs)
    graph = record["graph"]
    builder = built(graph, (stored[i] for i in graph["constants"]))
    options = {**record["options"], "memory_limit": limit}
    sizes = [tuple(map(tuple, shapes)) for shapes in record["sizes"]]
    made = partial(restored, builder, options, None, None, sizes)
    return made, len(builder.inputs), len(builder.outputs)


def _opening(name: str) -> Any:
    """Return the module that opens a model's nodes."""
    return module("file_model", f"{name}: what its file has no program for")
