"""Giving back the memory of constants that oneDNN has in a layout of its own.

`rest` moves them into files, where they can be read again; `release` gives them up:

oneDNN reorders most weights at the first call, and keeps the result in its cache under the
partition and the address of the weights. A later call reads only that, but whether it does depends
on kernel, shape and data type, and oneDNN tells nobody. So the system tells: each constant moves to
pages that nobody accessed yet, every step that reads it runs once, and the constants whose pages
were not accessed then are needed no more. Their memory goes back; their addresses stay taken,
because the cache knows them by these.

From then on all depends on oneDNN's entries. oneDNN drops none by itself, and
`_constant_cache_hold` lets nobody empty the cache while a model with released constants lives.
"""

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ... import _core
from ...base.errors import UnimplementedError
from ...machine import store
from ...ops.lookup import with_trait
from ..building.released import ReleasedArray
from ..building.value import Value
from ..planning import Plan
from ..planning.folding import FoldedConstants
from ..planning.options import Keep
from ..planning.plan import PlannedStep
from ..planning.trial import Trial

# The memory of smaller constants is not worth the system's calls.
_SMALLEST = 1 << 16
_SMALLEST_FILE = 1 << 20
# Products read all of a constant or nothing, whatever the inputs are. Other ops may depend on them:
# Select reads only elements that its condition selects.
_PRODUCTS = with_trait("product")
_CONVERTING = with_trait("moves") | with_trait("dequantizes") | {"TypeCast"}

Compiled = tuple[Plan, "_core._executor"]


def plain_bytes(values: Iterable[Value], folded: FoldedConstants) -> dict[int, int]:
    """Return the bytes of constants in memory, not released and not at rest, by their places."""
    arrays = [*(v.data for v in values), *folded.arrays]
    known = {a.ctypes.data: a for a in arrays if isinstance(a, np.ndarray)}
    return {place: a.nbytes for place, a in known.items() if not _rests(a)}


def _rests(array: npt.NDArray[Any]) -> bool:
    return _core._is_constant_memory(array) and _core._constant_place(array).rests


def require_plain(values: Iterable[Value], what: str) -> None:
    """Raise if constants were released that something, which `what` names, needs."""
    for value in values:
        if isinstance(value.data, ReleasedArray):
            value.data.refuse(what)


@dataclass
class _Constant:
    """A constant's array and all of a model's references to it."""

    array: npt.NDArray[Any]
    values: list[Value] = field(default_factory=list)
    used: list[tuple[Plan, _core._executor, int]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.values[0].name if self.values else ""

    def replace(self, array: npt.NDArray[Any] | ReleasedArray, folded: FoldedConstants) -> None:
        """Replace the array wherever the model has it."""
        new = cast("npt.NDArray[Any]", array)
        folded.replace(self.array, new)
        for value in self.values:
            value.data = new
        for plan, run, i in self.used:
            plan.constants[i] = new
            run.hold_constant(i, new)
        self.array = new


def _is_read_whole(step: PlannedStep, id: int) -> bool:
    """Return whether a step reads all of a tensor or nothing, whatever its other inputs are."""
    if step.compiled is None:
        return False
    same = {id}
    for node in step.nodes:
        if not same & {v.id for v in node.inputs}:
            continue
        if node.kind in _CONVERTING:
            same.update(v.id for v in node.outputs)
        elif node.kind not in _PRODUCTS:
            return False
    return not same & {lt.get_id() for lt in step.outputs}


def _reading(plan: Plan) -> Iterator[tuple[PlannedStep, int, int]]:
    """Yield each step that runs, with the id and the number of each constant that it reads."""
    for step in plan.running:
        for lt in step.inputs:
            slot = plan.slots[lt.get_id()]
            if slot.where == "constant":
                yield step, lt.get_id(), slot.at


def _constants(values: Sequence[Value], made: Sequence[Compiled]) -> list[_Constant]:
    """Return the constants that may be released."""
    constants: dict[int, _Constant] = {}
    in_plans = [
        v for p, _ in made for s in p.steps for n in s.nodes for v in (*n.inputs, *n.outputs)
    ]
    for value in {id(v): v for v in (*values, *in_plans)}.values():
        if isinstance(value.data, np.ndarray):
            constants.setdefault(id(value.data), _Constant(value.data)).values.append(value)
    partly = set()  # addresses: a constant may have other dims for some ops
    for plan, run in made:
        for i, array in enumerate(plan.constants):
            if isinstance(array, np.ndarray):
                constants.setdefault(id(array), _Constant(array)).used.append((plan, run, i))
        for step, tensor, i in _reading(plan):
            if not _is_read_whole(step, tensor):
                partly.add(_address(plan.constants[i]))
    return [
        c
        for c in constants.values()
        if _address(c.array) not in partly
        and c.array.nbytes >= _SMALLEST
        and _core._is_constant_memory(c.array)
    ]


def _address(array: npt.NDArray[Any]) -> int:
    return 0 if isinstance(array, ReleasedArray) else array.ctypes.data


def _run_readers(made: Sequence[Compiled], constants: Sequence[_Constant]) -> None:
    """Run each step that reads one of some constants, each with memory of its own."""
    wanted = {id(c.array) for c in constants}
    for plan, _ in made:
        steps = [s for s, _, i in _reading(plan) if id(plan.constants[i]) in wanted]
        arrays = {lt: plan.constants[i] for _, lt, i in _reading(plan)}
        with _core._compiling_with(plan.threads):
            for step in {id(s): s for s in steps}.values():
                Trial(plan.engine, [step], arrays).run()


def release(
    model: str, values: Sequence[Value], compiled: Sequence[Compiled], folded: FoldedConstants
) -> int:
    """Give back the memory of constants that no step reads any more; return the bytes.

    The caller sees to it that the model, whose plans are `compiled`, compiles nothing meanwhile.
    """
    gc.collect()  # what is dropped, but not gone yet, may have an array
    hold = _core._constant_cache_hold(model)
    if _core.get_constant_tensor_cache_capacity("cpu") == 0:
        return 0
    given_back = 0
    with ExitStack() as stack:
        places = []
        constants = _constants(values, compiled)
        _run_readers(compiled, constants)  # the first run of a step reorders what it reads
        in_place: dict[int, list[_Constant]] = {}
        for constant in constants:
            in_place.setdefault(_address(constant.array), []).append(constant)
        for alike in in_place.values():
            place = _core._constant_place(alike[0].array)
            stack.callback(place.keep)
            place.watch()
            places.append(place)
        _run_readers(compiled, constants)
        for place, alike in zip(places, in_place.values(), strict=True):
            if place.were_read():
                continue
            standing_in = [ReleasedArray(c.array, c.name, model) for c in alike]
            for constant, released in zip(alike, standing_in, strict=True):
                constant.replace(released, folded)
            if place.owners:  # somebody else has the array
                for constant, released in zip(alike, standing_in, strict=True):
                    constant.replace(released.restored(), folded)
            else:
                given_back += place.give_back(hold)
    return given_back


def rest(values: Sequence[Value], plan: Plan, run: _core._executor, keep: Keep) -> None:
    """Let constants lie in files, if the model has integers that oneDNN packs, or if asked to.

    Each step that reads some of them runs twice, which tells whether oneDNN has copies of its own.
    Where it has none, or no file can be written, they stay in memory.
    """
    every = [*plan.constants, *(v.data for v in values)]
    packed = any(isinstance(a, np.ndarray) and a.dtype.itemsize == 1 for a in every)
    if keep == "all" or (keep == "auto" and not packed):
        return
    large = [c.array for c in _constants(values, [(plan, run)]) if c.array.nbytes >= _SMALLEST_FILE]
    if keep == "auto" and all(a.dtype.itemsize > 1 for a in large):
        return
    # Those of a further size rest already: it costs nothing more.
    places = {_address(a): _core._constant_place(a) for a in large if not _rests(a)}
    if not places or _core.get_constant_tensor_cache_capacity("cpu") == 0:
        return
    arrays = {lt: plan.constants[i] for _, lt, i in _reading(plan)}
    with suppress(OSError, UnimplementedError), _core._compiling_with(plan.threads):
        folder = store.folder()
        folder.mkdir(parents=True, exist_ok=True)
        unread = dict(places)
        for step in plan.running:
            known = [arrays[lt.get_id()] for lt in step.inputs if lt.get_id() in arrays]
            read = [places[a] for a in map(_address, known) if unread.pop(a, a in places)]
            if read and _packs(Trial(plan.engine, [step], arrays), read):
                for place in read:
                    place.rest(str(folder))
        for place in unread.values():
            place.rest(str(folder))


def _packs(step: Trial, places: Sequence[_core._constant_place]) -> bool:
    """Return whether a step reads constants at its first call only."""
    step.run()
    with ExitStack() as stack:
        for place in places:
            stack.callback(place.keep)
            place.watch()
        step.run()
        packs = not any(p.were_read() for p in places)
        if packs:
            stack.pop_all()
    return packs
