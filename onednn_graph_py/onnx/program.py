"""A program runs nodes for certain dims, or for all: `Program`."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

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
from .assembly import Assembly, Weights, enter
from .division import divided
from .island_model import island_model, model_of
from .islands import Island, IslandShapes, Place, Wiring
from .lowering.table import NotLowered
from .options import Options
from .survey import NotGeneral, Section, Survey, read_by, why_unknown
from .tensors import same

Chain = tuple[ir.Node, ir.Value, tuple[int, ...]]
"""The last node, what the first one reads, and the order of its dims in the result."""


def chains(found: Survey) -> list[Chain]:
    """Return the chains of a survey, which transpose in all of its sets of dims."""
    return [chain for node in found.calls if (chain := _chain(node, found)) is not None]


def _chain(last: ir.Node, found: Survey) -> Chain | None:
    middle = _before(last, "Reshape")
    first = None if middle is None else _before(middle, "Transpose")
    source = None if first is None or first.op_type != "Reshape" else first.inputs[0]
    if middle is None or first is None or source is None or first.domain:
        return None
    order = middle.attributes.get("perm")
    axes = None if order is None else tuple(order.as_ints())
    if axes is None or not axes or axes[0] != 0:
        return None
    values = source, first.outputs[0], last.outputs[0]
    if any(v not in found.tensors for v in values):
        return None
    for given, merged, made in zip(*(found.tensors[v].shapes for v in values), strict=True):
        ahead = len(given) - (len(axes) - 1)
        if ahead < 1 or merged != (math.prod(given[:ahead]), *given[ahead:]):
            return None
        perm = (*range(ahead), *(a - 1 + ahead for a in axes[1:]))
        if made != tuple(given[p] for p in perm):
            return None
    return last, source, perm


def _before(node: ir.Node, op_type: str) -> ir.Node | None:
    """Return what makes the first operand of a node of some type."""
    given = node.inputs[0] if node.inputs else None
    if node.op_type != op_type or node.domain or given is None:
        return None
    return given.producer()


def without(found: Survey, given: list[Chain]) -> tuple[Survey, dict[ir.Value, ir.Value]]:
    """Return a survey with transposes in place of chains, and what their results stand for."""
    made = replace(found, tensors=dict(found.tensors), aliases=dict(found.aliases))
    by_node: dict[ir.Node, ir.Node] = {}
    stands: dict[ir.Value, ir.Value] = {}
    for last, source, perm in given:
        node = ir.node("Transpose", [source], {"perm": perm}, name=last.name)
        result = node.outputs[0]
        result.name = f"{last.outputs[0].name}/transposed"
        made.tensors[result] = found.tensors[last.outputs[0]]
        made.aliases[last.outputs[0]] = result
        by_node[last] = node
        stands[result] = last.outputs[0]
    made.calls = [by_node.get(n, n) for n in found.calls]
    return made, stands


Array = npt.NDArray[Any]


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
    made = Island(island_model(model), label, options)
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
        self.weights = weights
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
        return Assembly(self.section, self.found, self.weights, b, refuses)

    def leaving(self, nodes: Sequence[ir.Node]) -> Callable[[ir.Value], bool]:
        """Return which results of nodes something else reads."""
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
                    self.section, self.found, part.nodes, self.leaving(part.nodes), self.options
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
        limit: Any = self.weights.limit  # one for all programs, which the public signature hides
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
        found = self.seen(found)
        for shapes, inputs, outputs in made.island_shapes:
            enter(shapes, found, index, inputs, outputs)
        given = {made.values[v].id: found.tensors[v].shapes[index] for v in made.inputs}
        try:
            inferred = infer_shapes(made.b, given)
        except OneDNNError as e:
            raise NotGeneral(str(e)) from e
        for value, mine in made.values.items():
            if inferred[mine.id] != found.tensors[value].shapes[index]:
                raise NotGeneral(f"the dims of {value.name!r} do not follow")

    def seen(self, found: Survey) -> Survey:
        """Return another survey with the values of this program's own nodes."""
        own = {mine: found.tensors[value] for mine, value in self._stands.items()}
        return replace(found, tensors={**found.tensors, **own})

    def wiring(self, found: Survey, index: int) -> Wiring:
        """Return what runs a set of dims of a survey; NotGeneral if it can't be compiled for it."""
        found = self.seen(found)
        reads: Sequence[ir.Value] = ()
        places: dict[ir.Value, int] = {}
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
            if self.islands[0].promised is not None:
                enter(self.islands[0].promised, found, index, reads, made)
            places = {v: i for i, v in enumerate(made)}
            runner = self.islands[0]
        numbers = {v: i for i, v in enumerate(self.section.inputs)}
        return Wiring(
            runner,
            [numbers[v] if v in numbers else _array(found, v, index) for v in reads],
            [self._result(found, v, index, places, numbers) for v in self.outputs],
            len(numbers),
        )

    def _result(
        self,
        found: Survey,
        value: ir.Value,
        index: int,
        places: Mapping[ir.Value, int],
        numbers: Mapping[ir.Value, int],
    ) -> Place:
        """Return where an output is, or which input it is, or its numbers."""
        if value in places:
            return places[value]
        if found.tensors[value].arrays is not None:
            return _array(found, value, index)
        if self.assembly is None or value not in self.assembly.values:
            return ~numbers[value]
        made = self.assembly.values[value]
        if made.data is not None:
            return unpacked(made.data, made.shape, made.dtype)
        # A node that changes nothing.
        given = next(v for v in self.assembly.inputs if self.assembly.values[v] is made)
        return ~numbers[given] if given in numbers else _array(found, given, index)


def _array(found: Survey, value: ir.Value, index: int) -> Array:
    arrays = found.tensors[value].arrays
    assert arrays is not None
    return arrays[index]


def _listed(name: str, reasons: Mapping[ir.Node, str]) -> str:
    lines = [f"  {n.op_type} {n.name!r}: {why}" for n, why in reasons.items()]
    return f"{name}: oneDNN does not take these nodes:\n" + "\n".join(lines)
