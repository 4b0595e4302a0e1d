"""What the stateful fuzz builds: small models and partitions, and what each must give.

All values are small whole numbers, and so are all sums, so NumPy's results and oneDNN's are equal
to the last bit, in any order of summation and any math mode.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import onednn_graph_py as og

Arrays = list[np.ndarray]


def whole(rng: np.random.Generator, *shape: int, low: int = -4, high: int = 5) -> np.ndarray:
    return rng.integers(low, high, shape).astype(np.float32)


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A product of whole numbers, without BLAS, which may hang where another thread forks."""
    return (a.astype(np.int64) @ b.astype(np.int64)).astype(np.float32)


# -- models ----------------------------------------------------------------------------------------


class RefusedError(Exception):
    """What a host step raises for inputs that begin with `MAGIC`."""


MAGIC = 77.0


def doubled(x: np.ndarray) -> np.ndarray:
    if x.size and x.flat[0] == MAGIC:
        raise RefusedError
    return x * 2


def add_row(rows: np.ndarray, row: np.ndarray) -> None:
    rows[1] += row


@dataclass
class Recipe:
    """How a model is built for a number of rows (-1: any), its inputs and its results.

    `expected` gets the constants and a copy of the inputs, which it may update.
    """

    build: Callable[[int, Arrays], og.GraphBuilder]
    constants: Callable[[np.random.Generator], Arrays]
    inputs: Callable[[np.random.Generator, int], Arrays]
    expected: Callable[[Arrays, Arrays], Arrays]
    updates: bool = False
    host: bool = False


def _dense(rows: int, constants: Arrays) -> og.GraphBuilder:
    b = og.GraphBuilder()
    x = b.input((rows, 32), name="x")
    b.output((x @ b.constant(constants[0]) + b.constant(constants[1])).relu())
    return b


def _wide(rows: int, constants: Arrays) -> og.GraphBuilder:
    """One whose weights `release_constants` can give back."""
    b = og.GraphBuilder()
    b.output(b.input((rows, 256), name="x") @ b.constant(constants[0]))
    return b


def _elementwise(rows: int, constants: Arrays) -> og.GraphBuilder:
    b = og.GraphBuilder()
    x, y = b.input((rows, 8), name="x"), b.input((rows, 8), name="y")
    b.output(sum=(x + y).relu(), product=x * constants[0])
    return b


def _int8(rows: int, constants: Arrays) -> og.GraphBuilder:
    b = og.GraphBuilder()
    x = b.input((rows, 16), "u8", name="x").dequantize(scales=[1.0], zps=[0], qtype="per_tensor")
    w = b.constant(constants[0]).dequantize(scales=[0.5], zps=[0], qtype="per_tensor")
    b.output(x @ w)
    return b


def _hosted(rows: int, constants: Arrays) -> og.GraphBuilder:
    b = og.GraphBuilder()
    x = b.input((rows, 8), name="x")
    b.output(b.call(doubled, x, outputs=[((rows, 8), "f32")]) @ b.constant(constants[0]))
    return b


def _updated(rows: int, constants: Arrays) -> og.GraphBuilder:
    b = og.GraphBuilder()
    table = b.input((rows, 8), name="table", updated=True)
    row = b.input((8,), name="row")
    b.output(b.update(add_row, table, row) + constants[0])
    return b


def _with_row_added(constants: Arrays, given: Arrays) -> Arrays:
    add_row(*given)
    return [given[0] + constants[0]]


def _views(rows: int, constants: Arrays) -> og.GraphBuilder:
    b = og.GraphBuilder()
    left, right = b.input((rows, 16), name="x").split(2, axis=-1)
    b.output(left @ b.constant(constants[0]), right)
    return b


def _s8(rng: np.random.Generator) -> Arrays:
    return [whole(rng, 16, 8).astype(np.int8)]


RECIPES = {
    "dense": Recipe(
        _dense,
        lambda rng: [whole(rng, 32, 24), whole(rng, 24)],
        lambda rng, rows: [whole(rng, rows, 32)],
        lambda c, x: [relu(product(x[0], c[0]) + c[1])],
    ),
    "wide": Recipe(
        _wide,
        lambda rng: [whole(rng, 256, 256)],
        lambda rng, rows: [whole(rng, rows, 256)],
        lambda c, x: [product(x[0], c[0])],
    ),
    "elementwise": Recipe(
        _elementwise,
        lambda rng: [whole(rng, 8)],
        lambda rng, rows: [whole(rng, rows, 8), whole(rng, rows, 8)],
        lambda c, x: [relu(x[0] + x[1]), x[0] * c[0]],
    ),
    "int8": Recipe(
        _int8,
        _s8,
        lambda rng, rows: [whole(rng, rows, 16, low=0).astype(np.uint8)],
        lambda c, x: [product(x[0], c[0]) * np.float32(0.5)],
    ),
    "hosted": Recipe(
        _hosted,
        lambda rng: [whole(rng, 8, 4)],
        lambda rng, rows: [whole(rng, rows, 8)],
        lambda c, x: [2 * product(x[0], c[0])],
        host=True,
    ),
    "updated": Recipe(
        _updated,
        lambda rng: [whole(rng, 8)],
        lambda rng, rows: [whole(rng, rows, 8), whole(rng, 8)],
        _with_row_added,
        updates=True,
        host=True,
    ),
    "views": Recipe(
        _views,
        lambda rng: [whole(rng, 8, 4)],
        lambda rng, rows: [whole(rng, rows, 16)],
        lambda c, x: [product(x[0][:, :8], c[0]), x[0][:, 8:]],
    ),
}


@dataclass
class Sharing:
    """What models of one builder share: its constants."""

    released: bool = False


@dataclass
class Subject:
    """A model with what it was built from."""

    recipe: Recipe
    constants: Arrays
    model: og.CompiledGraph
    rows: int  # -1: any
    released: bool = False  # by this model
    sharing: Sharing = field(default_factory=Sharing)

    def inputs(self, seed: int, rows: int) -> Arrays:
        return self.recipe.inputs(np.random.default_rng(seed), rows if self.rows < 0 else self.rows)

    def expected(self, given: Arrays) -> Arrays:
        return self.recipe.expected(self.constants, [x.copy() for x in given])


def make_subject(name: str, rows: int, seed: int, **options: Any) -> Subject:
    recipe = RECIPES[name]
    constants = recipe.constants(np.random.default_rng(seed))
    builder = recipe.build(rows, constants)
    return Subject(recipe, constants, builder.compile(**options), rows)


# -- partitions of the mirror ----------------------------------------------------------------------


@dataclass
class Draft:
    """A graph of the mirror, its ops, and what it computes; its first dim may be unknown."""

    graph: og.graph
    ops: list[og.op]
    shapes: list[tuple[int, ...]]
    compute: Callable[[Arrays], np.ndarray]


def _lt(tid: int, shape: tuple[int, ...]) -> og.logical_tensor:
    return og.logical_tensor(tid, "f32", list(shape), "strided", "variable")


KINDS = ["relu", "add", "matmul"]


def make_draft(kind: str, rows: int) -> Draft:
    x, y = (rows, 16), (rows, 8)
    if kind == "relu":
        ops = [og.op(0, "ReLU", [_lt(0, x)], [_lt(1, x)], "relu")]
        draft = Draft(og.graph("cpu"), ops, [x], lambda a: relu(a[0]))
    elif kind == "add":
        ops = [og.op(0, "Add", [_lt(0, x), _lt(1, x)], [_lt(2, x)], "add")]
        draft = Draft(og.graph("cpu"), ops, [x, x], lambda a: a[0] + a[1])
    else:
        matmul = og.op(0, "MatMul", [_lt(0, x), _lt(1, (16, 8))], [_lt(2, y)], "matmul")
        ops = [matmul, og.op(1, "ReLU", [_lt(2, y)], [_lt(3, y)], "relu")]
        draft = Draft(og.graph("cpu"), ops, [x, (16, 8)], lambda a: relu(product(a[0], a[1])))
    for op in ops:
        draft.graph.add_op(op)
    return draft


@dataclass
class Compiled:
    """A compiled partition with an engine and a stream for it."""

    draft: Draft
    engine: og.engine
    stream: og.stream
    compiled: og.compiled_partition
    shapes: list[tuple[int, ...]]
    out_shape: tuple[int, ...]

    def inputs(self, seed: int) -> Arrays:
        rng = np.random.default_rng(seed)
        return [whole(rng, *shape) for shape in self.shapes]

    def tensors(self, arrays: Arrays, out: np.ndarray) -> tuple[list[og.tensor], list[og.tensor]]:
        ins, (result,) = self.compiled.get_inputs(), self.compiled.get_outputs()
        made = [og.tensor(lt, self.engine, a) for lt, a in zip(ins, arrays, strict=True)]
        return made, [og.tensor(result, self.engine, out)]


def compile_draft(draft: Draft, engine: og.engine, rows: int) -> Compiled:
    """Compile the one partition of a draft, for a number of rows where that is unknown."""
    (partition,) = draft.graph.get_partitions()

    def sized(lt: og.logical_tensor) -> og.logical_tensor:
        return _lt(lt.get_id(), tuple(rows if d < 0 else d for d in lt.get_dims()))

    # In the order in which `compute` takes them, whatever the order of the ports is.
    ins = sorted(map(sized, partition.get_input_ports()), key=lambda lt: lt.get_id())
    outs = [sized(lt) for lt in partition.get_output_ports()]
    compiled = partition.compile(ins, outs, engine)
    shapes = [tuple(lt.get_dims()) for lt in ins]
    return Compiled(draft, engine, og.stream(engine), compiled, shapes, tuple(outs[0].get_dims()))
