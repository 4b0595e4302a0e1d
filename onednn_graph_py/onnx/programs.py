"""The programs of a section, by the dims of its inputs: `Programs`."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ..base.errors import GraphFormatError, OneDNNError, UnimplementedError
from ..base.processes.forked import renew_in_forks
from ..machine.pace import Pace
from ..machine.timing import timed
from ..model.building.builder import GraphBuilder
from ..model.planning.pace import Paces
from .assembly import Assembly, Weights
from .division import divided, first_island, share
from .islands import Island, Misinferred, Wiring
from .options import Options
from .packing import require_files
from .program import Program, island_of
from .rivals import REGIONS, Rival
from .survey import NotGeneral, Section, Survey, read_by, survey
from .tensors import Shape, dtype_of, shape_of

MOST_FAILURES = 2
"""After so many programs that should be general and are not, each set of dims gets its own."""

MORE_PARTS, LOST_SHARE = 2, 0.01
"""The parts that a program for all dims may have more, and the arithmetic that oneDNN may lose."""

Array = npt.NDArray[Any]


@dataclass
class Entry:
    """The program for a set of dims."""

    program: Program
    run: Wiring
    tail: Tail | None = None
    pace: Pace | None = None  # of a call here, and of one in onnxruntime

    def __post_init__(self) -> None:
        self.direct = self.run.direct if self.tail is None else None

    def __call__(self, given: Sequence[Any]) -> list[Any]:
        """Compute the section's outputs."""
        made = self.run(given)
        return made if self.tail is None else self.tail(given, made)


class Programs:
    """The programs of a section, for threads; `unknown`: which dims are open, None if all."""

    def __init__(
        self,
        section: Section,
        weights: Weights,
        options: Options,
        name: str,
        unknown: Mapping[ir.Value, Sequence[bool] | None],
        rival: Rival | None = None,
    ) -> None:
        self.section = section
        self.name = name
        self._rival = rival
        self.general: list[Program] = []
        self.failures: list[str] = []
        self.tails: dict[Any, tuple[Island, list[ir.Value], list[ir.Value]]] = {}
        self.weights = weights
        self.options = options
        self._unknown = unknown
        self._entries: OrderedDict[tuple[Shape, ...], Entry] = OrderedDict()
        self._after_fork()
        renew_in_forks(self)

    def _after_fork(self) -> None:
        self._lock = threading.RLock()

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """Compute the section's outputs of arrays for its inputs."""
        shapes = tuple(shape_of(a) for a in arrays)
        try:
            return self.entry(shapes, arrays)(arrays)
        except Misinferred as e:
            with self._lock:  # the dims of these are taken as they come
                self.section.misinferred.update(e.nodes)
                self._entries.clear()
                self.general.clear()
            return self(arrays)

    @property
    def entries(self) -> dict[tuple[Shape, ...], Entry]:
        """All entries, by the shapes of the inputs, in the order in which they were made."""
        with self._lock:
            return dict(self._entries)

    @property
    def measured(self) -> Paces:
        """The paces that decided how all entries run."""
        made: Paces = {} if self._rival is None else dict(self._rival.paces)
        for entry in self.entries.values():
            if entry.program.model is not None:
                made.update(entry.program.model.state[3])
            if entry.tail is not None and entry.tail.rest is not None:
                made.update(entry.tail.rest.measured)
        return made

    def direct(self, shapes: tuple[Shape, ...]) -> Callable[..., Any] | None:
        """Return what runs inputs of these shapes by itself; None before it is made."""
        found = self._entries.get(shapes)
        return None if found is None else found.direct

    def entry(self, shapes: tuple[Shape, ...], arrays: Sequence[Any] | None = None) -> Entry:
        """Return what runs inputs of these shapes, made and, with arrays, timed if need be."""
        found = self._entries.get(shapes)
        if found is not None:
            return found
        with self._lock:
            found = self._entries.get(shapes)
            if found is None:  # else another thread made it
                found = self._entries[shapes] = self._faster(shapes, arrays)
                while len(self._entries) > self.options.max_shapes:
                    self._entries.popitem(last=False)
            return found

    def _faster(self, shapes: tuple[Shape, ...], arrays: Sequence[Any] | None) -> Entry:
        """Make what runs inputs of these shapes, in oneDNN or by the rival."""
        require_files(self.section.files)
        rival = self._rival
        kept = None if rival is None else rival.known(shapes)
        pace = None if kept is None else kept.pace
        plain: Entry | None = None
        if rival is None or pace is None or pace.slow is None:
            took, made = timed(partial(self._made, shapes))
            if rival is not None and kept is None and arrays is not None:
                ours = partial(made.direct, *arrays) if made.direct else partial(made, arrays)
                pace = rival.measured(shapes, arrays, ours, took)
            if rival is None or pace is None or pace.slow is None:
                made.pace = pace
                return made
            plain = made
        entry = None if arrays is None else self._mixed(rival, shapes, arrays, plain)
        if entry is None:
            found = survey(self.section, [dict(zip(self.section.inputs, shapes, strict=True))])
            program = self._program(found, self.section.outputs, rival.island)
            entry = Entry(program, program.wiring(program.found, 0), pace=pace)
        used = {id(e.program) for e in self._entries.values()}
        self.general = [p for p in self.general if id(p) in used]
        return entry

    def _mixed(
        self, rival: Rival, shapes: tuple[Shape, ...], arrays: Sequence[Any], made: Entry | None
    ) -> Entry | None:
        """Leave to the rival what regions it runs faster; None if the whole is still faster."""
        kept = rival.known(shapes, REGIONS)
        if kept is not None and (kept.pace is None or kept.pace.slow):
            return None
        made = made or self._made(shapes)
        slower: Mapping[ir.Node, str] | None = {}
        if made.tail is None and made.program.model is not None:
            with suppress(OneDNNError, NotGeneral):  # of a region alone
                slower = rival.slower(made.program, shapes, arrays)
        if not slower:
            whole = rival.known(shapes)
            rival.keep(shapes, REGIONS, whole.pace if whole and slower is not None else None)
            return None
        section = replace(self.section, slower=slower)
        others = Programs(section, self.weights, self.options, self.name, self._unknown)
        mixed = others.entry(shapes)
        ours = partial(mixed.direct, *arrays) if mixed.direct else partial(mixed, arrays)
        mixed.pace = kept.pace if kept else rival.measured(shapes, arrays, ours, 0, REGIONS)
        return mixed if mixed.pace is not None and mixed.pace.slow is None else None

    def _made(self, shapes: tuple[Shape, ...]) -> Entry:
        dims = dict(zip(self.section.inputs, shapes, strict=True))
        found = survey(self.section, [dims])
        for program in self.general:
            if program.fits(found):
                try:
                    return Entry(program, program.wiring(found, 0))
                except NotGeneral:
                    continue
        if not found.rest and len(self.failures) < MOST_FAILURES:
            made = self._generalized(dims, found)
            if made is not None:
                return made
        return self.single(found)

    def alone(self, dims: Mapping[ir.Value, Shape]) -> Entry:
        """Return what runs one set of dims only; it is not kept."""
        with self._lock:
            return self.single(survey(self.section, [dims]))

    def single(self, found: Survey) -> Entry:
        """Return what runs one set of dims only."""
        if not found.rest:
            program = self._program(found, self.section.outputs)
            return Entry(program, program.wiring(found, 0))
        tail = Tail(self, found)
        program = self._program(found, tail.reads)
        return Entry(program, program.wiring(found, 0), tail)

    def _program(
        self, found: Survey, outputs: Sequence[ir.Value], whole: Island | None = None
    ) -> Program:
        return Program(self.section, found, outputs, self.weights, self.options, self.name, whole)

    def _generalized(self, dims: Mapping[ir.Value, Shape], found: Survey) -> Entry | None:
        """Make a program for all sets of dims; None if that can't be or is not worth it."""
        # First twice the sizes, with which sums and multiples of dims stay what they are; then
        # sizes that are not above what a model can take.
        candidates = [
            {v: _others(s, self._unknown[v], larger) for v, s in dims.items()}
            for larger in (True, False)
        ]
        if self.failures and self._entries:  # then the dims that really differ
            latest = next(reversed(self._entries))
            candidates = [dict(zip(self.section.inputs, latest, strict=True))]
        why = ""
        for others in candidates:
            if others == dims:
                return None
            try:
                program = self._program(survey(self.section, [dims, others]), self.section.outputs)
                if program.division.reasons and self._is_worse(program, found):
                    raise NotGeneral("more runs in oneDNN with fixed dims")
                for index in range(2):
                    program.require_shapes(program.asked, index)
                entry = Entry(program, program.wiring(program.found, 0))
            except (NotGeneral, GraphFormatError, UnimplementedError) as e:
                why = str(e)  # the dims that were asked for may do alone
                continue
            self.general.append(program)
            return entry
        self.failures.append(why)
        return None

    def _is_worse(self, program: Program, found: Survey) -> bool:
        """Return whether a program for all dims leaves more to islands than one for these would."""
        trial = Assembly(self.section, found, self.weights, GraphBuilder())
        alone = divided(trial, found)
        parts = len(program.division.parts) - len(alone.parts)
        lost = share(found, alone.reasons) - share(program.found, program.division.reasons)
        return parts > MORE_PARTS or lost > LOST_SHARE


def _others(shape: Shape, is_open: Sequence[bool] | None, larger: bool) -> Shape:
    """Return other sizes of the open dims."""
    flags = [True] * len(shape) if is_open is None else is_open
    others = [2 * d if larger or d <= 1 else d - 1 for d in shape]
    return tuple(o if flag else d for d, o, flag in zip(shape, others, flags, strict=True))


class Tail:
    """The programs after a program, whose dims follow from numbers that it computes."""

    def __init__(self, programs: Programs, found: Survey) -> None:
        self._programs = programs
        self._found = found
        section = programs.section
        there = found.tensors
        breaking = [n for n in found.rest if all(v in there for v in read_by(n))]
        self.first = first_island(found.rest, breaking)
        inside = set(self.first)
        self.second = [n for n in found.rest if n not in inside]
        read = {v for n in found.rest for v in read_by(n)} | set(section.outputs)
        self.reads = [v for v in read if v in there and there[v].fixed is None]
        later = {v for n in self.second for v in read_by(n)} | set(section.outputs)
        key = (*found.rest, *found.aliases.values())
        made = programs.tails.get(key) or island_of(
            section, found, self.first, later.__contains__, programs.options
        )
        self.island, self._inputs, self._outputs = made
        if all(there[v].fixed is None for v in (read & there.keys()) - section.known.keys()):
            programs.tails[key] = made  # for all sizes
        self.rest: Programs | None = None
        self._after_fork()
        renew_in_forks(self)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()

    def __call__(self, given: Sequence[Any], made: Sequence[Array]) -> list[Any]:
        """Compute the section's outputs from its inputs and what the program computed."""
        at = dict(zip(self._programs.section.inputs, given, strict=True))
        at.update(zip(self.reads, made, strict=True))
        results = self.island(*(at[v] for v in self._inputs))
        results = results if len(self._outputs) > 1 else (results,)
        at.update(zip(self._outputs, results, strict=True))
        for value in self._programs.section.outputs:
            tensor = self._found.tensors.get(value)
            fixed = None if tensor is None else tensor.fixed
            if fixed is not None:
                at[value] = np.array(fixed)
        if self.second:
            rest = self._rest(at)
            arrays = [at[v] for v in rest.section.inputs]
            at.update(zip(rest.section.outputs, rest(arrays), strict=True))
        return [at[v] for v in self._programs.section.outputs]

    def _rest(self, at: Mapping[ir.Value, Array]) -> Programs:
        with self._lock:
            if self.rest is None:
                section = self._programs.section
                made = {v for n in self.second for v in n.outputs}
                needed = dict.fromkeys(v for n in self.second for v in read_by(n) if v not in made)
                known = {v: t.fixed for v, t in self._found.tensors.items() if v in needed}
                fixed = {v: a for v, a in known.items() if a is not None}
                inputs = tuple(v for v in needed if v not in fixed)
                later = replace(
                    section,
                    nodes=self.second,
                    inputs=inputs,
                    outputs=tuple(v for v in section.outputs if v in made),
                    known=fixed,
                    dtypes={v: dtype_of(at[v]) for v in inputs},
                    files={},
                )
                found = self._found.tensors
                unknown: dict[ir.Value, Sequence[bool] | None] = {
                    v: [v not in found] * len(shape_of(at[v])) for v in inputs
                }
                of = self._programs
                self.rest = Programs(later, of.weights, of.options, of.name, unknown)
            return self.rest
