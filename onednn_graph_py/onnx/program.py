"""A program runs nodes for certain dims, or for all: `Program`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from ..base.errors import OneDNNError, OutOfMemoryError, UnimplementedError
from ..frontends.division import Division
from ..frontends.regions import Part
from ..model.building.builder import GraphBuilder
from ..model.building.constant_arrays import unpacked
from ..model.building.infer import infer_shapes
from ..model.running.model import CompiledGraph
from .assembly import Assembly, IslandShapes, Weights
from .chains import chains, without
from .division import divided
from .island_model import model_of
from .islands import Island
from .lowering.table import NotLowered
from .options import Options
from .survey import NotGeneral, Section, Survey, read_by, why_unknown
from .tensors import same

Array = npt.NDArray[Any]
Run = Callable[[Mapping[ir.Value, Array]], list[Array]]
"""Computes a program's outputs of arrays for the section's inputs."""
Direct = Callable[..., Any]
"""Takes a section's inputs, and returns its output, or a tuple of them."""


def island_of(
    section: Section,
    found: Survey,
    nodes: Sequence[ir.Node],
    leaving: Callable[[ir.Value], bool],
    options: Options,
) -> tuple[Island, list[ir.Value], list[ir.Value]]:
    """Return nodes as an island, what it reads, and what it makes."""
    inside = {v for n in nodes for v in n.outputs if v.name}
    inputs: dict[ir.Value, str] = {}
    known: dict[ir.Value, Array] = {}
    renamed: list[onnx.NodeProto] = []
    for value in dict.fromkeys(v for n in nodes for v in read_by(n)):
        origin = found.origin(value)
        if origin in inside:
            if origin is not value:
                renamed.append(onnx.helper.make_node("Identity", [origin.name], [value.name]))
            continue
        tensor = found.tensors.get(value)
        fixed = None if tensor is None else tensor.fixed
        if fixed is not None:
            known[value] = fixed
        else:
            inputs[value] = "" if tensor is None else tensor.dtype
    outputs = [v for n in nodes for v in n.outputs if v in inside and leaving(v)]
    model = model_of(nodes, inputs, outputs, known, section.opsets, section.ir_version)
    if renamed:
        at = {name: i for i, n in enumerate(model.graph.node) for name in n.output}
        for node in sorted(renamed, key=lambda n: at[n.input[0]], reverse=True):
            model.graph.node.insert(at[node.input[0]] + 1, node)
    names = list(dict.fromkeys(n.op_type for n in nodes))
    label = f"island of {', '.join(names[:3])}{' ...' if len(names) > 3 else ''}"
    made = Island(model, label, options)
    made.nodes = tuple(nodes)
    return made, list(inputs), outputs


class Program:
    """Nodes as one model with host steps, or as one island.

    A survey of two sets of dims makes it general: it runs all sets that `fits` accepts. If there is
    `whole`, that island runs all of it.
    """

    def __init__(
        self,
        section: Section,
        found: Survey,
        outputs: Sequence[ir.Value],
        weights: Weights,
        options: Options,
        name: str,
        whole: Island | None = None,
    ) -> None:
        self.section = section
        self.asked = found
        self._chains = chains(found)
        self.found, self._stands = without(found, self._chains)
        found = self.found
        self.outputs = tuple(found.origin(v) for v in outputs)
        found.calls = found.needed(self.outputs)
        self.name = name
        self.options = options
        self.is_general = any(len(t.shapes) > 1 for t in found.tensors.values())
        self._weights = weights
        self.islands: list[Island] = []
        self.failure: str | None = None
        self.assembly: Assembly | None = None
        self.model: CompiledGraph | None = None
        if whole is not None:
            self.islands = [whole]
            self._direct = [*section.inputs], [*self.outputs]
            self.division = Division([Part((*found.calls, *found.rest), False)])
            return
        trial = self._assembly()
        self.division = divided(trial, found)
        reasons = self.division.reasons
        if options.fallback == "error" and (reasons or found.rest):
            left = {n: why_unknown(section, found, n) for n in found.rest}
            raise UnimplementedError(_listed(name, {**reasons, **left}))
        if any(p.is_region for p in self.division.parts):
            try:
                self._build(None if reasons else trial)
            except OutOfMemoryError:
                raise
            except (OneDNNError, NotLowered) as e:
                if self.is_general:
                    raise NotGeneral(str(e)) from e
                if options.fallback == "error":
                    raise
                self.failure = str(e)
                self.model = self.assembly = None
        if self.model is None:
            self._whole()

    def _assembly(self) -> Assembly:
        b = GraphBuilder(fpmath_mode=self.options.fpmath_mode)
        refuses = self.options.fallback == "error"
        return Assembly(self.section, self.found, self._weights, b, refuses)

    def _leaving(self, nodes: Sequence[ir.Node]) -> Callable[[ir.Value], bool]:
        inside = set(nodes)
        outside = {v for n in self.found.calls if n not in inside for v in self.found.read_by(n)}
        outside.update(self.outputs)
        return outside.__contains__

    def _build(self, made: Assembly | None) -> None:
        """Make the model, of an assembly that has all nodes if there are no islands."""
        if made is None:
            made = self._assembly()
            for part in self.division.parts:
                if part.is_region:
                    for node in part.nodes:
                        made.lower(node)
                    continue
                island, inputs, outputs = island_of(
                    self.section, self.found, part.nodes, self._leaving(part.nodes), self.options
                )
                made.island(island, inputs, outputs)
                self.islands.append(island)
        self.assembly = made
        values = [made.values[v] for v in self.outputs if v in made.values]
        self._names: dict[int, str] = {}
        for output in self.outputs:
            value = made.values.get(output)
            if value is not None and value.producer is not None:
                self._names.setdefault(value.id, output.name or str(value.id))
        made.b.output(**{self._names[v.id]: v for v in values if v.id in self._names})
        options = self.options
        limit: Any = self._weights.limit  # one for all programs, which the public signature hides
        if self._names:
            self.model = made.b.compile(
                threads=options.threads,
                max_shapes=options.max_shapes,
                memory_limit=limit,
                fallback="error",
                known_defects=options.known_defects,
                tune=options.tune,
                warn=False,  # the report has the reasons
                name=self.name,
            )

    def _whole(self) -> None:
        """Run all nodes in one island."""
        if self.found.calls:
            island, inputs, outputs = island_of(
                self.section,
                self.found,
                self.found.calls,
                set(self.outputs).__contains__,
                self.options,
            )
            self.islands = [island]
            tensors = [self.found.tensors[v] for v in outputs]
            island.promised = IslandShapes([(t.dims, t.dtype) for t in tensors])
            self._direct = inputs, outputs

    # -- for a set of dims

    def fits(self, found: Survey) -> bool:
        """Return whether the program is right for a set of dims that it was not made for."""
        mine = self.asked
        if found.calls != mine.calls or found.rest or found.aliases != mine.aliases:
            return False
        for value, tensor in mine.tensors.items():
            other = found.tensors[value]
            shape = other.shapes[0]
            if len(shape) != len(tensor.shapes[0]) or (tensor.arrays is None) != (
                other.arrays is None
            ):
                return False
            if any(d not in (-1, s) for d, s in zip(tensor.dims, shape, strict=True)):
                return False
            fixed = tensor.fixed
            if fixed is not None and not same(fixed, other.arrays[0]):  # type: ignore[index]
                return False
            if other.is_empty != tensor.is_empty:
                return False
        transposing = chains(found)  # dims of 1 can make more of them
        if any(c not in transposing for c in self._chains):
            return False
        try:
            self.require_shapes(found, 0)
        except NotGeneral:
            return False
        return True

    def require_shapes(self, found: Survey, index: int) -> None:
        """Raise NotGeneral if the builder infers other shapes than a survey."""
        made = self.assembly
        if made is None:
            return
        found = self._seen(found)
        for shapes, inputs, outputs in made.island_shapes:
            shapes.enter(found, index, inputs, outputs)
        given = {made.values[v].id: found.tensors[v].shapes[index] for v in made.inputs}
        try:
            inferred = infer_shapes(made.b, given)
        except OneDNNError as e:
            raise NotGeneral(str(e)) from e
        for value, mine in made.values.items():
            if inferred[mine.id] != found.tensors[value].shapes[index]:
                raise NotGeneral(f"the dims of {value.name!r} do not follow")

    def _seen(self, found: Survey) -> Survey:
        """Return another survey with the values of this program's own nodes."""
        own = {mine: found.tensors[value] for mine, value in self._stands.items()}
        return replace(found, tensors={**found.tensors, **own})

    def run(self, found: Survey, index: int) -> tuple[Run, Direct | None]:
        """Return what runs the program for a set of dims of a survey.

        The model or island alone does if it has just the section's inputs and outputs. It raises
        NotGeneral if the program, which is general, can't be compiled for these dims.
        """
        found = self._seen(found)
        names: tuple[str, ...] = ()
        reads: Sequence[ir.Value]
        places: dict[ir.Value, int]
        runner: Callable[..., Any] | None = None
        if self.model is not None and self.assembly is not None:
            reads = self.assembly.inputs
            names = self.model.output_names
            values = self.assembly.values
            places = {
                v: names.index(self._names[values[v].id])
                for v in self.outputs
                if v in values and values[v].id in self._names
            }
            runner = self.model
            if self.is_general:
                shapes = tuple(found.tensors[v].shapes[index] for v in reads)
                try:
                    self.model.specialization(shapes)
                except OutOfMemoryError:
                    raise
                except OneDNNError as e:
                    raise NotGeneral(str(e)) from e
        elif self.islands:
            reads, made = self._direct
            if isinstance(self.islands[0].promised, IslandShapes):
                self.islands[0].promised.enter(found, index, reads, made)
            places = {v: i for i, v in enumerate(made)}
            names = tuple(str(i) for i in range(len(made)))
            runner = self.islands[0]
        else:
            reads, places = (), {}
        inputs = set(self.section.inputs)
        derived = {v: _array(found, v, index) for v in reads if v not in inputs}
        results = [self._result(found, v, index, places) for v in self.outputs]
        alone = len(names) == 1
        taken = [r for r in results if isinstance(r, int)]
        repeated = len(set(taken)) < len(taken)  # outputs do not share memory

        def run(given: Mapping[ir.Value, Array]) -> list[Array]:
            outputs: Any = ()
            if runner is not None:
                outputs = runner(*[derived[v] if v in derived else given[v] for v in reads])
                if alone:
                    outputs = (outputs,)
            return [
                (np.array(outputs[r]) if repeated else outputs[r])
                if isinstance(r, int)
                else _copied(given[r] if isinstance(r, ir.Value) else r)
                for r in results
            ]

        direct = tuple(reads) == self.section.inputs and results == list(range(len(names)))
        return run, runner if direct else None

    def _result(
        self, found: Survey, value: ir.Value, index: int, places: Mapping[ir.Value, int]
    ) -> int | ir.Value | Array:
        """Return where an output is, or which input it is, or its numbers."""
        if value in places:
            return places[value]
        if found.tensors[value].arrays is not None:
            return _array(found, value, index)
        if self.assembly is None or value not in self.assembly.values:
            return value
        made = self.assembly.values[value]
        if made.data is not None:
            return unpacked(made.data, made.shape, made.dtype)
        # A node that changes nothing.
        given = next(v for v in self.assembly.inputs if self.assembly.values[v] is made)
        return given if given in self.section.inputs else _array(found, given, index)


def _copied(given: Any) -> Any:
    return np.array(given) if isinstance(given, np.ndarray) else given  # a sequence


def _array(found: Survey, value: ir.Value, index: int) -> Array:
    arrays = found.tensors[value].arrays
    assert arrays is not None
    return arrays[index]


def _listed(name: str, reasons: Mapping[ir.Node, str]) -> str:
    lines = [f"  {n.op_type} {n.name!r}: {why}" for n, why in reasons.items()]
    return f"{name}: oneDNN does not take these nodes:\n" + "\n".join(lines)
