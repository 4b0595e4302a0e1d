"""Walk a model's nodes for given input dims: what is known, and the dims of all the rest."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt
import onnx_ir as ir

from ..model.building.builder import GraphBuilder
from .evaluation import Budget, evaluated, memory, require_sane
from .inference import NodeFacts
from .loading import subgraphs
from .lowering.table import LOWERINGS, Call, made_by
from .options import Most
from .packing import require_files
from .tensors import NUMPY, Shape, Tensor, dtype_of


class NotGeneral(Exception):
    """Two sets of dims do not run the same nodes, or one of them does not fit the model."""


@dataclass
class Section:
    """Nodes that run one after the other, and what they read."""

    nodes: Sequence[ir.Node]
    inputs: tuple[ir.Value, ...]  # what a call passes
    outputs: tuple[ir.Value, ...]
    known: Mapping[ir.Value, npt.NDArray[Any]]  # weights
    dtypes: Mapping[ir.Value, str]  # the data types of the inputs
    opsets: Mapping[str, int]
    ir_version: int
    facts: dict[ir.Node, NodeFacts] = field(default_factory=dict)
    # nodes whose islands made other dims than onnx infers
    misinferred: set[ir.Node] = field(default_factory=set)
    # nodes that another runtime runs faster, and how much
    slower: Mapping[ir.Node, str] = field(default_factory=dict)
    # the files that weights are mapped from, and how long they have to be
    files: Mapping[str, int] = field(default_factory=dict)
    most: Most = (None, None)  # what may be computed, in bytes and work

    def fact(self, node: ir.Node) -> NodeFacts:
        """Return what ONNX knows of a node."""
        found = self.facts.get(node)
        if found is None:
            found = self.facts[node] = NodeFacts(node, self.opsets)
        return found


@dataclass
class Survey:
    """The result of a walk."""

    tensors: dict[ir.Value, Tensor] = field(default_factory=dict)
    # the result of the branch that runs, for each result of an If
    aliases: dict[ir.Value, ir.Value] = field(default_factory=dict)
    calls: list[ir.Node] = field(default_factory=list)  # the nodes that have to run, in order
    # nodes whose dims follow only from numbers of a call, and those that read their results
    rest: list[ir.Node] = field(default_factory=list)

    def origin(self, value: ir.Value) -> ir.Value:
        """Return the value that a node makes, for a result of an If whose branch is known."""
        return self.aliases.get(value, value)

    def needed(self, outputs: Iterable[ir.Value]) -> list[ir.Node]:
        """Return the calls that something reads, in order."""
        wanted = {self.origin(v) for v in outputs}
        wanted.update(v for n in self.rest for v in self.read_by(n))
        made = []
        for node in reversed(self.calls):
            if not wanted.isdisjoint(node.outputs):
                made.append(node)
                wanted.update(v for v in self.read_by(node) if self.tensors[v].arrays is None)
        return made[::-1]

    def read_by(self, node: ir.Node) -> list[ir.Value]:
        """Return the values that a node reads, as nodes make them."""
        return list(dict.fromkeys(self.origin(v) for v in read_by(node)))


def why_unknown(section: Section, found: Survey, node: ir.Node) -> str:
    """Say why the dims of a node's results are not known before a call."""
    if node in section.misinferred:
        return "onnx infers other dims than it makes"
    read = [found.tensors[v] for v in read_by(node) if v in found.tensors]
    if node.domain or any(t.dtype not in NUMPY for t in read):
        return "onnx does not infer its dims"
    return "its dims depend on numbers"


def read_by(node: ir.Node) -> list[ir.Value]:
    """Return the values that a node reads, those that its subgraphs take from outside last."""
    made = [v for v in node.inputs if v is not None]
    for graph in subgraphs(node):
        made.extend(_captured(graph))
    return list(dict.fromkeys(made))


def _captured(graph: ir.Graph) -> Iterator[ir.Value]:
    own = {*graph.inputs, *graph.initializers.values()}
    for node in graph:
        yield from (v for v in read_by(node) if v not in own)
        own.update(node.outputs)
    yield from (v for v in graph.outputs if v not in own)


def survey(section: Section, sets: Sequence[Mapping[ir.Value, Shape]]) -> Survey:
    """Walk the nodes of a section for sets of input dims; NotGeneral if one of them runs others."""
    require_files(section.files)
    made = Survey()
    for value in section.inputs:
        made.tensors[value] = Tensor(section.dtypes[value], tuple(s[value] for s in sets))
    for value, array in section.known.items():
        made.tensors[value] = Tensor.of_arrays((array,) * len(sets), dtype_of(array))
    budget = Budget((array.nbytes for array in section.known.values()), section.most)
    _visit(section, section.nodes, made, len(sets), budget)
    return made


def _visit(
    section: Section, nodes: Sequence[ir.Node], made: Survey, sets: int, budget: Budget
) -> None:
    for node in nodes:
        read = read_by(node)
        if any(v not in made.tensors for v in read):
            made.rest.append(node)
            continue
        if node.op_type == "If" and node.domain == "":
            branch = _branch(node, made)
            if branch is not None:
                calls, rest = len(made.calls), len(made.rest)
                for value in branch.initializers.values():
                    if value.const_value is not None:
                        array = value.const_value.numpy()
                        made.tensors[value] = Tensor.of_arrays((array,) * sets, dtype_of(array))
                _visit(section, list(branch), made, sets, budget)
                if len(made.rest) > rest:  # the node stays whole
                    del made.calls[calls:], made.rest[rest:]
                    made.rest.append(node)
                    continue
                for outer, inner in zip(node.outputs, branch.outputs, strict=True):
                    made.aliases[outer] = made.origin(inner)
                    made.tensors[outer] = made.tensors[inner]
                continue
        operands = [None if v is None else made.tensors[v] for v in node.inputs]
        known = evaluated(section.fact(node), operands, sets, budget)
        if known is not None:
            for value, tensor in zip(node.outputs, known, strict=False):
                made.tensors[value] = tensor
            continue
        captured = {v.name or "": made.tensors[v] for v in read if v not in node.inputs}
        results = _results(section, node, operands, captured, sets)
        if results is None:
            if sets > 1:
                raise NotGeneral(f"the dims of {node.name}'s results depend on numbers")
            made.rest.append(node)
            continue
        made.calls.append(node)
        made.tensors.update(zip(node.outputs, results, strict=True))


def _branch(node: ir.Node, made: Survey) -> ir.Graph | None:
    """Return the branch of an If that runs, if that is known."""
    condition = made.tensors[node.inputs[0]] if node.inputs[0] is not None else None
    if condition is None or condition.arrays is None or any(a.size != 1 for a in condition.arrays):
        return None
    taken = {a.item() for a in condition.arrays}
    if len(taken) > 1:
        raise NotGeneral(f"{node.name} takes another branch")
    return node.attributes["then_branch" if taken.pop() else "else_branch"].as_graph()


def _results(
    section: Section,
    node: ir.Node,
    operands: Sequence[Tensor | None],
    captured: Mapping[str, Tensor],
    sets: int,
) -> list[Tensor] | None:
    """Return the types and dims of a node's results; None if they do not follow from dims."""
    if node in section.misinferred:
        return None
    fact = section.fact(node)
    columns = []
    for index in range(sets):
        inferred = fact.infer(operands, index, captured)
        if inferred is None or any(shape is None for _, shape in inferred):
            inferred = _as_lowered(section, node, operands, index)
        if inferred is None:
            return None
        for dtype, shape in inferred:
            require_sane(node, dtype, shape, memory())
        columns.append(inferred)
    results = []
    for row in zip(*columns, strict=True):
        shapes = tuple(shape for _, shape in row)
        if len({len(s) for s in shapes if s is not None}) > 1:
            raise NotGeneral(f"the number of dims of {node.name}'s results differs")
        results.append(Tensor(row[0][0], shapes))
    return results


def _as_lowered(
    section: Section, node: ir.Node, operands: Sequence[Tensor | None], index: int
) -> list[tuple[str, Shape | None]] | None:
    """Return the results as a lowering makes them, for ops that ONNX does not know."""
    if (node.domain, node.op_type) not in LOWERINGS:
        return None
    b = GraphBuilder()

    def constant(i: int, dtype: str) -> Any:
        tensor = alone[i]
        assert tensor is not None and tensor.arrays is not None
        return b.constant(tensor.arrays[0], dtype, copy=None)

    try:
        alone = [_alone(b, o, index) for o in operands]
        call = Call(b, node, section.fact(node).version, alone, (), constant, may_refuse=True)
        values = LOWERINGS[node.domain, node.op_type](call)
    except Exception:  # whatever is wrong is said where the node is lowered for its program
        return None
    row = made_by(values, len(node.outputs))
    return [("", ()) if v is None else (v.dtype, v.shape) for v in row]


def _alone(b: GraphBuilder, tensor: Tensor | None, index: int) -> Tensor | None:
    if tensor is None:
        return None
    shape = tensor.shapes[index]
    if tensor.arrays is not None:
        return Tensor(tensor.dtype, (shape,), (tensor.arrays[index],))
    return Tensor(tensor.dtype, (shape,), None, b.input(shape, tensor.dtype))
