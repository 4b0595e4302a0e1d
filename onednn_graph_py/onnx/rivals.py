"""Whole models in another runtime: `Rival`, where it is faster; `verified`, to compare results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from .._core import num_threads
from ..base.errors import OneDNNError
from ..base.text.numbers import seconds_text
from ..machine.pace import Pace
from ..machine.timing import timed
from ..model.checking.expected import OutputCheck, Verification, compared
from ..model.planning import pace
from ..model.planning.pace import Kept, Key, Paces
from .island_model import island_model
from .islands import Island, has_onnxruntime, release
from .loading import subgraphs
from .options import Options
from .packing import packed, spread
from .program import Program, island_of
from .survey import Section, survey
from .tensors import NUMPY, Shape, dtype_of

WAY = "onnxruntime"
REGIONS = "regions"  # the way in which onnxruntime runs some of the regions
SECONDS = 3.0
"""Seconds for which calls are timed, for all sizes, or as long as compiling for one takes."""

_CALLS = 8  # calls that a comparison makes at least, of both sides
_LONG, _SHORT = 0.2, 0.05  # seconds of a comparison of short calls, of a model and a region
_SMALL = 64  # elements of a weight up to which its numbers may decide what runs


class Rival:
    """onnxruntime's session of a model's file; its paces are kept for nodes, not for weights."""

    def __init__(self, model: ir.Model, section: Section, options: Options) -> None:
        self._model = model
        self._section = section
        self._options = options
        self._island: Island | None = None
        self._digest = ""
        self._left = SECONDS
        self._latest: Pace | None = None
        self.paces: Paces = {}

    @classmethod
    def of(cls, model: ir.Model, section: Section, options: Options) -> Rival | None:
        """Return the rival of a model; None if it may have none."""
        wanted = options.islands == "fastest" and options.fallback in ("auto", WAY)
        if not wanted or any(d not in NUMPY for d in section.dtypes.values()):
            return None
        return cls(model, section, options) if has_onnxruntime() else None

    @property
    def island(self) -> Island:
        """The whole model as one island."""
        if self._island is None:
            proto, weights = spread(*packed(self._model))
            island = Island(island_model(proto), "the whole model", self._options, weights)
            island.names = [v.name or "" for v in self._section.inputs]
            self._island = island
        return self._island

    def known(self, shapes: Sequence[Shape], way: str = WAY) -> Kept | None:
        """Return what is known of inputs of these shapes, or of others once the time is over."""
        key = self.key(shapes, way)
        kept = pace.known(key)
        if kept is None and self._left <= 0:
            kept = Kept(self._latest)
        if kept is not None:
            self.paces[key] = kept
        return kept

    def keep(self, shapes: Sequence[Shape], way: str, measured: Pace | None) -> Pace | None:
        """Keep what was measured; return what counts."""
        key = self.key(shapes, way)
        self.paces[key] = pace.keep(key, measured)
        return self.paces[key].pace

    def measured(
        self,
        shapes: Sequence[Shape],
        arrays: Sequence[Any],
        ours: Callable[[], object],
        took: float,
        way: str = WAY,
        region: Island | None = None,
    ) -> Pace | None:
        """Time a program beside onnxruntime; None if that can't be done in time or undisturbed."""
        theirs = region or self.island
        if self._options.tune == "off" or theirs.saturation:
            return None
        try:
            spent, _ = timed(ours)
            if spent > took / _CALLS:  # this call may have compiled what numbers determine
                spent, _ = timed(ours)
        except OneDNNError:  # of these numbers, such as random indices
            return None
        measured = None
        if self._options.tune == "full" or _CALLS * spent < max(self._left, took):
            seconds = max(_LONG if region is None else _SHORT, _CALLS / 2 * spent)
            try:
                measured = Pace.measured(ours, partial(theirs, *arrays), seconds)
            except Exception:  # onnxruntime does not take the model, or these numbers
                self._left = 0.0
                return None
            self._left -= seconds
        counts = self.keep(shapes, way, measured)
        if way == WAY:
            self._latest = counts
        if region is None and (counts is None or counts.slow is None):
            self._island = None  # its memory
        return counts

    def slower(
        self, program: Program, shapes: Sequence[Shape], arrays: Sequence[Any]
    ) -> dict[ir.Node, str] | None:
        """Return the nodes of regions that are slower, and why; {} if all or none are.

        None if other processes disturb it. Regions read what the nodes before them make.
        """
        section, options = program.section, program.options
        regions = [p for p in program.division.parts if p.is_region]
        found = survey(section, [dict(zip(section.inputs, shapes, strict=True))])
        seen = replace(program.found, tensors=program.seen(found).tensors)
        at = dict(zip(section.inputs, arrays, strict=True))
        slower: dict[ir.Node, str] = {}
        decided = True
        for part in program.division.parts if len(regions) > 1 else ():
            leaving = program.leaving(part.nodes)
            island, read, made = island_of(section, seen, part.nodes, leaving, options)
            read = [seen.origin(v) for v in read]
            given = [at[v] for v in read]
            if part.is_region:
                ends = replace(section, inputs=tuple(read), outputs=tuple(made))
                nodes = replace(seen, calls=[*part.nodes])
                alone = Program(ends, nodes, made, program.weights, options, program.name)
                ours = partial(alone.wiring(alone.found, 0).direct, *given)
                way = f"region of {made[-1].name}"
                kept = self.known(shapes, way)
                pace = kept.pace if kept else self.measured(shapes, given, ours, 0, way, island)
                decided &= pace is not None
                if pace is not None and pace.slow is not None:
                    theirs, own = map(seconds_text, (pace.apart, pace.fused))
                    slower |= dict.fromkeys(part.nodes, f"onnxruntime takes {theirs}, oneDNN {own}")
            results = island(*given)
            at.update(zip(made, results if len(made) > 1 else (results,), strict=True))
        if not slower and not decided:
            return None
        return slower if len(slower) < sum(len(p.nodes) for p in regions) else {}

    def key(self, shapes: Sequence[Shape], way: str = WAY) -> Key:
        """Return by what the pace of calls with inputs of these shapes is kept."""
        if not self._digest:
            self._digest = hashlib.sha256("\n".join(_told(self._section)).encode()).hexdigest()[:16]
        places = list(range(len(shapes)))
        dtypes = [self._section.dtypes[v] for v in self._section.inputs]
        signature = {
            "ops": [[f"ONNX model {self._digest}", {}, places, []]],
            "tensors": [[d, list(s)] for d, s in zip(dtypes, shapes, strict=True)],
        }
        written = f"{release()} {self._options}"
        return Key(self._options.threads or num_threads(), way, json.dumps(signature), written)


def _told(section: Section) -> Iterator[str]:
    """Say what decides how fast a model is: its nodes, and the weights without their numbers."""
    for value, array in section.known.items():
        numbers = array.tobytes() if array.size <= _SMALL else b""
        yield f"{value.name} {array.dtype} {array.shape} {numbers!r}"
    yield from _nodes(section.nodes)


def _nodes(nodes: Sequence[ir.Node]) -> Iterator[str]:
    graphs = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    for node in nodes:
        names = [v and v.name for v in (*node.inputs, None, *node.outputs)]
        given = [(n, str(a.value)) for n, a in node.attributes.items() if a.type not in graphs]
        yield f"{node.domain} {node.op_type} {names} {given}"
        for graph in subgraphs(node):
            yield from _nodes(list(graph))


_UNITS = {"f16": 2.0**-10, "bf16": 2.0**-7}  # the distance of 1 from the next number


def verified(
    model: onnx.ModelProto,
    inputs: Mapping[str, npt.NDArray[Any]],
    names: Sequence[str],
    results: Sequence[Any],
    rtol: float,
    atol: float,
) -> Verification:
    """Compare with onnxruntime, or onnx's reference; `rtol` is of an output's largest number."""
    island = Island(island_model(model), "the model", Options())
    made = island.named({n: a for n, a in inputs.items() if n in island.names})
    checks = [
        _checked(name, got, want, rtol, atol)
        for name, got, want in zip(names, results, made, strict=True)
    ]
    return Verification(tuple(checks), island.runs_in)


def rounding_of(results: Sequence[Any], nodes: int) -> float:
    """Return how far results of 16 bits may be off, of the largest, if nodes round at random."""
    types = {getattr(r, "dtype", None) for r in results}
    units = [unit for name, unit in _UNITS.items() if NUMPY[name] in types]
    return 2 * max(units, default=0.0) * float(nodes**0.5)


def _checked(name: str, got: Any, want: Any, rtol: float, atol: float) -> OutputCheck:
    if not isinstance(want, np.ndarray) or want.dtype.kind not in "biufV":
        # What ZipMap makes: a number for each name, for each row.
        lists = isinstance(got, list) and isinstance(want, list) and len(got) == len(want) > 0
        if lists and all(isinstance(m, dict) and [*m] == [*want[0]] for m in (*got, *want)):
            made, wanted = (np.asarray([[*m.values()] for m in maps]) for maps in (got, want))
            return _checked(name, made, wanted, rtol, atol)
        return _whole(name, want, np.array_equal(np.asarray(got), np.asarray(want)))
    if got.shape != want.shape or got.dtype != want.dtype:
        return _whole(name, want, False)
    numbers = want.astype(np.float64)
    largest = float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0))
    allowed = 0.0 if want.dtype.kind in "biu" else atol + rtol * largest
    return compared(name, dtype_of(want), got, want, np.asarray(allowed))


def _whole(name: str, want: Any, right: bool) -> OutputCheck:
    """Return the check of what is right or wrong as a whole: texts, other shapes or types."""
    error = 0.0 if right else np.inf
    return OutputCheck(name, dtype_of(want), int(not right), 1, error, 0.0, (), error, 0.0, 0.0)
