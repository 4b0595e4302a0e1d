"""What this room needs of torch beyond its public interface; nothing else uses private names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.compile_utils import fx_graph_cse
from torch._guards import TracingContext
from torch._ops import OpOverload
from torch.export.exported_program import _override_composite_implicit_decomp

__all__ = [
    "KEPT",
    "GradientsOn",
    "OpOverload",
    "captured",
    "static_inputs",
    "whole",
    "without_repetitions",
]

aten = torch.ops.aten

KEPT = (
    aten.linear.default,
    aten.matmul.default,
    aten.scaled_dot_product_attention.default,
    aten.rms_norm.default,
    aten.layer_norm.default,
    aten.batch_norm.default,
    aten.group_norm.default,
    aten.instance_norm.default,
    aten.conv1d.default,
    aten.conv2d.default,
    aten.conv3d.default,
    aten.conv1d.padding,
    aten.conv2d.padding,
    aten.conv3d.padding,
    aten.conv_transpose1d.default,
    aten.conv_transpose2d.input,
    aten.conv_transpose3d.input,
    aten.max_pool1d.default,
    aten.max_pool2d.default,
    aten.max_pool3d.default,
    aten.avg_pool1d.default,
    aten.adaptive_avg_pool1d.default,
    aten.adaptive_avg_pool2d.default,
    aten.upsample_nearest2d.vec,
    aten.upsample_bilinear2d.vec,
    aten.softmax.int,
    aten.log_softmax.int,
    aten.reshape.default,
)
"""Ops that stay whole: torch would take them to pieces, of which oneDNN fuses fewer."""


def _whole(*args: Any, **kwargs: Any) -> Any:
    return NotImplemented


def whole() -> AbstractContextManager[None]:
    """Return a context in which the ops in `KEPT` stay whole."""
    made: AbstractContextManager[None] = _override_composite_implicit_decomp(
        dict.fromkeys(KEPT, _whole)
    )
    return made


class GradientsOn(Exception):
    """A graph computes gradients."""


def captured(
    module: fx.GraphModule,
    inputs: Sequence[Any],
    compile_graph: Callable[[fx.GraphModule, Sequence[Any]], Any],
) -> Any:
    """Hand Dynamo's graph over to AOTAutograd, which removes mutation and aliasing.

    Parameters
    ----------
    module : fx.GraphModule
        Dynamo's graph.
    inputs : sequence
        The tensors and sizes of the first call.
    compile_graph : callable
        It compiles the graph of an inference.

    Returns
    -------
    callable
        What Dynamo calls from now on.

    Raises
    ------
    GradientsOn
        The graph itself turns gradients on; ops that stay whole would lose them.
    """

    def stop(graph: fx.GraphModule, given: Sequence[Any]) -> Any:
        raise GradientsOn

    backend = aot_autograd(fw_compiler=stop, inference_compiler=compile_graph, decompositions={})
    with whole():
        return backend(module, inputs)


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
    """Return the graph with equal calls made once.

    Not if a normalization changes its running statistics, which ops that stay whole don't show.
    """
    hidden = (aten.batch_norm.default, aten.instance_norm.default)
    for node in graph.nodes:
        if node.target in hidden and node.args[3] is not None and node.args[5]:
            return graph
    made: fx.Graph = fx_graph_cse(graph)
    return made
