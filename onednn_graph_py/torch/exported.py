"""Modules of torch as models that run without torch: `trace` and `export`."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import fx

from ..base.errors import InvalidGraphError, OneDNNError
from ..frontends.host_calls import HOST, HostCall, call
from ..model.building.builder import GraphBuilder
from ..model.building.sizes import FUNCTIONS, Extent, Size, Slot, fulfils
from ..model.building.value import Value
from ..model.running.model import CompiledGraph
from . import capture, rewrites
from .arrays import array_of, constant_of, tensor_of
from .division import is_size, is_tensor, lowered, moves, op_name, reason, source
from .folding import folded
from .lowering.table import DTYPES, HOST_DTYPES, LOWERINGS, NotLowered, Unknown, dims_of, number_of


def trace(
    module: torch.nn.Module,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    fpmath_mode: str = "strict",
) -> GraphBuilder:
    """Make a graph of a module, to explain it, draw it, save it or compile it.

    Parameters
    ----------
    module : Module
        In the mode in which it is to run; ``module.eval()`` as a rule.
    args : tuple
        Arguments for which it is traced.
    kwargs : mapping, optional
        Those by name.
    dynamic_shapes : optional
        Which dims are unknown, as in ``torch.export.export``.
    fpmath_mode : str
        The smaller types that oneDNN may use to compute f32.

    Returns
    -------
    GraphBuilder
        Its inputs are the tensors among the arguments, under torch's names for them; parameters
        and buffers are constants, in torch's memory where oneDNN can read them there, but for
        copies of those up to 64 KiB. Calls that oneDNN has no ops for are host steps in NumPy.

    Raises
    ------
    InvalidGraphError
        There is neither an op nor a NumPy function for some calls or for the pieces to which torch
        takes them; the message lists them with their lines. Or the module changes its buffers.
    """
    return _traced(module, args, kwargs, dynamic_shapes, fpmath_mode).builder


def _traced(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    fpmath_mode: str,
) -> _Tracer:
    # A model takes row-major arrays; torch fails for others with unknown dims.
    args, given = capture.tree_map_only(
        torch.Tensor, torch.Tensor.contiguous, (args, dict(kwargs or {}))
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*LeafSpec", FutureWarning)  # torch warns of itself
        program = torch.export.export(module, args, given, dynamic_shapes=dynamic_shapes)
        used = {
            op: how
            for op, how in torch.export.default_decompositions().items()
            if op not in LOWERINGS and str(op._opname) not in HOST
        }
        traced = _of_program(program.run_decompositions(used), fpmath_mode)
        whole = traced.left
        # What neither an op nor a function takes whole may run in pieces.
        while pieces := capture.decompositions([op for op in traced.left if op not in used]):
            used |= pieces
            try:
                program_in_pieces = program.run_decompositions(used)
            except Exception:  # torch fails where sizes depend on elements
                break
            traced = _of_program(program_in_pieces, fpmath_mode)
    if traced.left:
        # An op of the program, and the pieces of it that are left.
        lines_left = {line for calls in traced.left.values() for _, line in calls}
        lines = "\n".join(
            f"  {op}: {why} ({line})"
            for op, calls in {**whole, **traced.left}.items()
            for why, line in calls
            if line in lines_left
        )
        raise InvalidGraphError(f"trace: no op and no NumPy function for\n{lines}")
    return traced


def _of_program(program: torch.export.ExportedProgram, fpmath_mode: str) -> _Tracer:
    signature = program.graph_signature
    changed = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
    if changed:
        raise InvalidGraphError(f"trace: the module changes {', '.join(changed)} when it is called")
    tensors = {**program.state_dict, **program.constants}
    names = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    graph = capture.without_repetitions(program.graph)
    for node in [n for n in graph.nodes if op_name(n).startswith("_assert") and not n.users]:
        graph.erase_node(node)  # the model checks what it is given
    graph = rewrites.rewritten(graph)
    weights = {
        n: tensors[names[n.name]] for n in graph.nodes if n.op == "placeholder" and n.name in names
    }
    traced = _Tracer(graph, weights, fpmath_mode, program.range_constraints)
    traced.builder.contents.conditions = _conditions(program, traced.inputs)
    return traced


def _conditions(
    program: torch.export.ExportedProgram, inputs: Sequence[torch.Tensor]
) -> list[Size]:
    """Return what the program takes as given of the inputs' sizes, as torch's own check it."""
    extents: dict[Any, Extent] = {}
    found: list[Any] = []
    taken: dict[Any, None] = {}

    def number(expression: Any) -> Any:
        return capture.sympy_interp(_Sizes(), extents, expression)

    for i, tensor in enumerate(inputs):
        for dim, size in enumerate(tensor.shape):
            if isinstance(size, torch.SymInt):
                symbol, extent = capture.symbol_of(size), Extent(i, dim)
                if extents.setdefault(symbol, extent) != extent:
                    found.append(Size(operator.eq, (extent, extents[symbol])))
                taken |= dict.fromkeys(g.expr for g in size.node.shape_env.guards)
    for expression, limits in program.range_constraints.items():
        if expression in extents and limits.lower > 2:  # torch never takes 0 and 1 for unknown
            found.append(Size(operator.ge, (number(expression), int(limits.lower))))
        if expression in extents and limits.upper < torch.iinfo(torch.int64).max:
            found.append(Size(operator.le, (number(expression), int(limits.upper))))
    for condition in taken:
        if condition.free_symbols <= {*extents}:
            try:
                found.append(number(condition))
            except (KeyError, AttributeError, NotImplementedError):
                raise InvalidGraphError(
                    f"trace: the module needs sizes for which {condition}, which no model checks"
                ) from None
    return list(dict.fromkeys(found))


class _Sizes:
    """Makes a `Size` of each function of sizes, as torch's interpreter calls them."""

    def constant(self, value: Any, dtype: torch.dtype) -> Any:
        """Return a number of torch's as Python's."""
        return {torch.bool: bool, torch.int64: int}.get(dtype, float)(value)

    def __getattr__(self, name: str) -> Callable[..., Size]:
        function = FUNCTIONS.get(SYMBOLIC.get(name, name))
        if function is None:
            raise AttributeError(name)
        return lambda *args: Size(
            function, tuple(a for a in args if not isinstance(a, torch.dtype))
        )


def export(
    module: torch.nn.Module,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    fpmath_mode: str = "strict",
    check: Any = None,
    **options: Any,
) -> CompiledGraph:
    """Compile a module into a model that needs no torch: it takes NumPy arrays, and pickles.

    Parameters
    ----------
    module, args, kwargs, dynamic_shapes, fpmath_mode
        As for `trace`.
    check : bool or str, optional
        True compares the model with the module for the arguments, and for them cut and repeated to
        two other sets of sizes if dims are unknown; ``verify`` is as for `GraphBuilder.compile`.
    **options
        As for `GraphBuilder.compile`.

    Raises
    ------
    InvalidGraphError
        As for `trace`; or results differ by more than half of the digits of their type. A call
        raises `InvalidShapeError` for sizes that torch's own program refuses.
    """
    traced = _traced(module, args, kwargs, dynamic_shapes, fpmath_mode)
    model = traced.builder.compile(check=None if check is True else check, **options)
    for resize in RESIZES if check is True else ():
        _compare(module, (args, dict(kwargs or {})), model, traced, resize)
    return model


RESIZES = (lambda size: size, lambda size: size + size // 2 + 1, lambda size: size - size // 2)


def _compare(
    module: torch.nn.Module,
    given: Any,
    model: CompiledGraph,
    traced: _Tracer,
    resize: Callable[[int], int],
) -> None:
    """Compare a model with its module for the arguments with other sizes."""
    leaves = [t for t in capture.tree_leaves(given) if isinstance(t, torch.Tensor)]
    values: dict[Any, int] = {}
    for tensor, described in zip(leaves, traced.inputs, strict=True):
        for size, unknown in zip(tensor.shape, described.shape, strict=True):
            symbol = unknown.node.expr if isinstance(unknown, torch.SymInt) else None
            if symbol in traced.ranges:
                wanted, limits = resize(size), traced.ranges[symbol]
                values[symbol] = wanted if limits.lower <= wanted <= limits.upper else size
    resized = []
    for tensor, described in zip(leaves, traced.inputs, strict=True):
        for dim, unknown in enumerate(described.shape):
            if isinstance(unknown, torch.SymInt) and unknown.node.expr.free_symbols <= {*values}:
                count = int(unknown.node.expr.subs(values))
                tensor = tensor.index_select(dim, torch.arange(count) % tensor.shape[dim])
        resized.append(tensor)
    shapes = [tuple(t.shape) for t in resized]
    if not all(fulfils(shapes, c) for c in model.builder.contents.conditions):
        return
    rest = iter(resized)
    args, kwargs = capture.tree_map_only(torch.Tensor, lambda _: next(rest), given)
    with torch.no_grad():
        results = [
            t for t in capture.tree_leaves(module(*args, **kwargs)) if isinstance(t, torch.Tensor)
        ]
    made = model(*map(array_of, resized))
    for i, result in enumerate(results):
        got = tensor_of(made[i] if isinstance(made, tuple) else made)
        if result.is_complex():
            got, result = torch.view_as_real(got), torch.view_as_real(result)
        exact, allowed = result.double(), 0.0
        if result.is_floating_point() and result.numel():
            finite = exact.masked_fill(~exact.isfinite(), 0)
            allowed = torch.finfo(result.dtype).eps ** 0.5 * float(finite.abs().amax())
        if got.shape != exact.shape or not torch.allclose(got.double(), exact, 0, allowed, True):
            sizes = ", ".join(map(str, shapes))
            raise InvalidGraphError(f"export: result {i} differs from the module's for {sizes}")


class _Tracer:
    """Adds the calls of a graph to a builder."""

    def __init__(
        self,
        graph: fx.Graph,
        weights: dict[fx.Node, torch.Tensor],
        fpmath_mode: str,
        ranges: Mapping[Any, Any],
    ) -> None:
        self.ranges = ranges
        self.inputs: list[torch.Tensor] = []
        self.builder = GraphBuilder(fpmath_mode=fpmath_mode)
        self.constants = folded(graph, weights)
        self.values: dict[fx.Node, Any] = {}
        self.left: dict[Any, list[tuple[str, str]]] = {}
        """Why calls of an op can't be added, and the program's lines that make them."""
        for node in graph.nodes:
            if node.op == "placeholder" and node not in weights and is_tensor(node):
                tensor = node.meta["val"]
                self.inputs.append(tensor)
                self.values[node] = self.builder.input(
                    dims_of(tensor), _dtype(tensor), name=node.name
                )
            elif node.op == "call_function" and node not in self.constants and not is_size(node):
                if all(
                    n in self.values or not is_tensor(n) or n in self.constants
                    for n in node.all_input_nodes
                ):
                    why = self._add(node)
                    if why is not None:
                        self.left.setdefault(node.target, []).append((why, source(node)))
            elif node.op == "output" and not self.left:
                self._outputs(node)

    def _add(self, node: fx.Node) -> str | None:
        """Add a call; return why it can't be added."""
        if node.target is operator.getitem:
            self.values[node] = self.values[node.args[0]][node.args[1]]
            return None
        why = reason(node, self.constants)
        name = op_name(node)
        if node.target in LOWERINGS and (why is None or moves(node)):  # views are of all types
            try:
                for given in filter(is_tensor, node.all_input_nodes):
                    self._read(given)
                self.values[node] = lowered(
                    self.builder, node, self.values, self.constants, host=why is not None
                )
            except (NotLowered, OneDNNError) as e:
                why = str(e)
            else:
                return None
        if name not in HOST or any(isinstance(a, torch.dtype) for a in node.args):
            return why
        results = node.meta["val"]
        several = results if isinstance(results, (tuple, list)) else (results,)
        arrays: list[Value] = []

        def slot(given: Any) -> Any:
            if isinstance(given, fx.Node):
                if not is_tensor(given):
                    return self._size(given, arrays)
                arrays.append(self._read(given))
                return Slot(len(arrays) - 1)
            if isinstance(given, (list, tuple)):
                return tuple(slot(g) for g in given)
            return given

        try:
            args = tuple(slot(a) for a in node.args)
            options = {k: slot(a) for k, a in node.kwargs.items() if k not in NO_NUMBERS}
        except NotLowered as e:
            return str(e)
        made = tuple((dims_of(r), _dtype(r)) for r in several)
        call = HostCall(name, args, options, tuple(a.dtype for a in arrays), made)
        value = self.builder.call(call, *arrays, outputs=call.outputs, name=node.name)
        self.values[node] = value
        return None

    def _size(self, node: fx.Node, arrays: list[Value]) -> Any:
        """Return how a number follows from sizes; the arrays get those that it is the size of."""
        known = number_of(node.meta["val"])
        if not isinstance(known, (Unknown, torch.Tensor)):
            return known
        name = op_name(node)
        if name == "sym_size":
            tensor, dim = node.args
            arrays.append(self._read(tensor))
            return Extent(len(arrays) - 1, dim)
        args = [self._size(a, arrays) if isinstance(a, fx.Node) else a for a in node.args]
        if name in ("_local_scalar_dense", "scalar_tensor"):
            return args[0]
        function: Any = NUMBERS.get(node.target, node.target)
        module = getattr(function, "__module__", "")
        if is_tensor(node) and name in HOST and not node.meta["val"].ndim and not node.kwargs:
            function = partial(call, name)
        elif node.kwargs or module not in ("_operator", "math", "builtins"):
            raise NotLowered(f"it reads a number that {name} gives")
        return Size(function, tuple(args))

    def _read(self, node: fx.Node) -> Any:
        """Return the value of a tensor that a call reads; constants come when they are read."""
        if node not in self.values:
            tensor = self.constants[node]
            self.values[node] = constant_of(self.builder, tensor, _dtype(tensor), node.name)
        return self.values[node]

    def _outputs(self, node: fx.Node) -> None:
        results = node.args[0]
        assert isinstance(results, (tuple, list))
        for i, result in enumerate(r for r in results if r is not None):
            if not isinstance(result, fx.Node) or not is_tensor(result):
                raise InvalidGraphError(f"trace: result {i} is {result!r}, not a tensor")
            self.builder.output(**{f"output{i}": self._read(result)})


NO_NUMBERS = frozenset({"dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking"})
"""Arguments that say what a result is like, not what is in it."""

NUMBERS: dict[Any, Any] = {
    torch.sym_float: float, torch.sym_int: int, torch.sym_max: max, torch.sym_min: min
}  # fmt: skip
"""Python's functions in place of torch's."""

SYMBOLIC = {
    "python_mod": "mod", "pow_by_natural": "pow", "int_truediv": "truediv", "to_dtype": "float",
    "minimum": "min", "maximum": "max",
    "floor_to_int": "floor", "ceil_to_int": "ceil", "trunc_to_int": "int",
}  # fmt: skip
"""The names of sizes' functions that torch's interpreter calls otherwise."""


def _dtype(tensor: torch.Tensor) -> str:
    """Return the name of a tensor's data type in a builder."""
    name = DTYPES.get(tensor.dtype) or HOST_DTYPES.get(tensor.dtype)
    if name is None:
        raise InvalidGraphError(f"trace: a tensor is of {tensor.dtype}")
    return name
