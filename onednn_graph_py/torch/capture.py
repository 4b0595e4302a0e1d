"""Uses of torch beyond its public interface; nothing else here has private names of it."""

import operator
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import fx
from torch._decomp import get_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext
from torch._ops import OpOverload as OpOverload
from torch.export.exported_program import _override_composite_implicit_decomp
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves as tree_leaves
from torch.utils._pytree import tree_map_only as tree_map_only
from torch.utils._sympy.interp import sympy_interp as sympy_interp

from .lowering import LOWERINGS

aten = torch.ops.aten

_RESIZING = """
upsample_bicubic2d upsample_linear1d upsample_nearest1d upsample_nearest3d upsample_trilinear3d
_upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact1d _upsample_nearest_exact2d
_upsample_nearest_exact3d
"""

KEPT = tuple(op for op in LOWERINGS if getattr(op, "_can_decompose", bool)()) + tuple(
    getattr(aten, name).vec for name in _RESIZING.split()
)
"""Ops that stay whole: of their pieces oneDNN fuses fewer, or none between those of torch."""

PARTS = (aten.glu, aten.pixel_shuffle, aten.pixel_unshuffle)
"""Ops that torch takes to pieces that oneDNN has; whole, they would divide a region."""

NORMS = (aten.batch_norm.default, aten.instance_norm.default)
"""Ops that change running statistics, their fourth argument, if their sixth says so."""


def _whole(*args: Any, **kwargs: Any) -> Any:
    return NotImplemented


def _whole_unless_it_writes(op: OpOverload, *args: Any, **kwargs: Any) -> Any:
    """Keep a normalization whole unless it would hide a change of its statistics."""
    if args[3] is None or not args[5]:
        return NotImplemented
    return op._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)


def whole() -> AbstractContextManager[None]:
    """Return a context in which the ops in `KEPT` stay whole."""
    made: AbstractContextManager[None] = _override_composite_implicit_decomp(
        {
            **dict.fromkeys(KEPT, _whole),
            **{op: partial(_whole_unless_it_writes, op) for op in NORMS},
        }
    )
    return made


def decompositions(ops: Sequence[Any]) -> dict[Any, Callable[..., Any]]:
    """Return how torch takes ops to pieces, of those that it can."""
    every = torch.export.default_decompositions()
    found: dict[Any, Callable[..., Any]] = get_decompositions(
        [op for op in ops if isinstance(op, OpOverload)]
    )
    return found | {op: every[op] for op in ops if op in every}


class GradientsOn(Exception):
    """A graph computes gradients."""


def captured(
    module: fx.GraphModule,
    inputs: Sequence[Any],
    compile_graph: Callable[[fx.GraphModule, Sequence[Any]], Any],
) -> Any:
    """Hand Dynamo's graph over to AOTAutograd, which removes mutation and aliasing.

    It raises `GradientsOn` if the graph turns gradients on; ops that stay whole would lose them.
    """

    def stop(graph: fx.GraphModule, given: Sequence[Any]) -> Any:
        raise GradientsOn

    backend = aot_autograd(
        fw_compiler=stop, inference_compiler=compile_graph, decompositions=get_decompositions(PARTS)
    )
    with nullcontext() if _differentiates(module) else whole():
        return backend(module, inputs)


def _differentiates(module: fx.GraphModule) -> bool:
    """Return whether ``torch.func`` takes derivatives in a graph; whole ops would have none."""
    graphs = [m.graph for m in module.modules() if isinstance(m, fx.GraphModule)]
    names = {getattr(n.target, "__name__", "") for graph in graphs for n in graph.nodes}
    return not names.isdisjoint({"_grad_increment_nesting", "_jvp_increment_nesting"})


def symbol_of(size: torch.SymInt) -> Any:
    """Return the symbol that is a size's own; its ``expr`` may have that of an equal one."""
    return size.node._expr


def is_unwrapped(tensor: torch.Tensor) -> bool:
    """Return whether AOTAutograd takes a tensor for the plain ones that it is made of."""
    return bool(is_traceable_wrapper_subclass(tensor))


def name_of(node: fx.Node) -> str:
    """Return what the program calls an input of Dynamo's graph, such as ``first.weight``."""
    argument = node.meta.get("grapharg")
    path = str(argument.source.name) if argument is not None and argument.source else node.name
    parts = re.findall(r"(?<=\[')\w+(?=')|(?<=\.)[a-z]\w*", path)
    return ".".join(parts[parts[:1] in (["self"], ["fn"]) :]) or path


def recurrent_layers_are_captured() -> bool:
    """Return whether torch hands LSTMs, GRUs and RNNs over; by default it does not."""
    return bool(torch._dynamo.config.allow_rnn)


def static_inputs() -> tuple[int, ...]:
    """Return which inputs of the graph that is compiled are parameters, buffers and attributes.

    Those that a call changes are not among them.
    """
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None:
        return ()
    changed = {*metadata.mutated_inp_runtime_indices}
    return tuple(i for i in metadata.static_input_indices if i not in changed)


def without_repetitions(graph: fx.Graph) -> fx.Graph:
    """Make equal calls of torch's own ops once, in place, and return the graph.

    Calls whose results differ from call to call stay, and so do those whose memory the caller gets:
    what it writes to one result must not show in another.
    """
    output = next(n for n in graph.nodes if n.op == "output")
    returned = {_memory(n) for n in output.all_input_nodes} - {None}
    first: dict[tuple[Any, ...], fx.Node] = {}
    for node in graph.nodes:
        if _can_be_shared(node) and _memory(node) not in returned:
            same = first.setdefault((node.target, repr(node.args), repr(node.kwargs)), node)
            if same is not node:
                node.replace_all_uses_with(same)
                graph.erase_node(node)
    return graph


def _can_be_shared(node: fx.Node) -> bool:
    target = node.target
    return target is operator.getitem or (
        isinstance(target, OpOverload)
        and target.namespace in ("aten", "prims", "quantized_decomposed")
        and not OPEN.intersection(target.tags)
    )


OPEN = {
    torch.Tag.nondeterministic_seeded,
    torch.Tag.data_dependent_output,
    torch.Tag.dynamic_output_shape,
}
"""The tags of ops whose results, or their sizes, are new at each call."""


def _memory(node: fx.Node) -> int | None:
    """Return what tells in which memory a tensor lies."""
    made = node.meta.get("val")
    if not isinstance(made, torch.Tensor) or made.layout is not torch.strided:
        return None
    place: int = made.untyped_storage()._cdata
    return place
