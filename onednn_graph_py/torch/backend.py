"""The backend of ``torch.compile``."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import fx

from ..base.arguments import need_choice
from ..base.errors import UnimplementedError
from . import capture
from .captured import Captured
from .division import function_of
from .fallback import FallbackWarning
from .options import Options

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""Those of ``torch.compile``, which are about Inductor."""


def backend(
    module: fx.GraphModule,
    inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Any:
    """Compile a graph of Dynamo; ``torch.compile(model, backend="onednn_graph")`` calls it.

    Parameters
    ----------
    module : fx.GraphModule
    inputs : sequence of Tensor, int
        Those of the first call.
    options : mapping, optional
        See `Options`.
    mode : str, optional
        One of torch's, which changes nothing, and a warning says so; `options` say what is wanted.

    Returns
    -------
    callable

    Raises
    ------
    InvalidArgumentsError
        An option or a mode is unknown, or an option has no such value.
    UnimplementedError
        The whole graph would run in torch, and the option `fallback` is ``error``.
    """
    if mode not in (None, "default"):
        need_choice("mode", mode, MODES)
        warnings.warn(
            f"the backend onednn_graph has no modes: {mode!r} changes nothing", stacklevel=2
        )
    chosen = Options.of(options)
    names = [capture.name_of(n) for n in module.graph.nodes if n.op == "placeholder"]

    def compiled(graph: fx.GraphModule, given: Sequence[Any]) -> Captured:
        known = names if len(given) == len(names) else ()
        return Captured(graph, capture.static_inputs(), chosen, known)

    why = _unfit(inputs)
    if why is None:
        try:
            return capture.captured(module, inputs, compiled)
        except capture.GradientsOn:
            why = "gradients are on within it"
    if chosen.fallback == "error":
        raise UnimplementedError(f"oneDNN can't run this graph: {why}")
    cause = function_of(module.graph), why
    if cause not in _LEFT:
        warnings.warn(f"the graph runs in torch: {why}", FallbackWarning, stacklevel=2)
        _LEFT[cause] = module
    return module.forward


_LEFT: WeakValueDictionary[tuple[str, str], fx.GraphModule] = WeakValueDictionary()
"""A graph for each function and each reason why graphs stay in torch whole."""


def _unfit(inputs: Sequence[Any]) -> str | None:
    """Say why a whole graph stays in torch, or None."""
    tensors = [t for t in inputs if isinstance(t, torch.Tensor)]
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return "gradients are on; call it in torch.no_grad() or torch.inference_mode()"
    for tensor in tensors:
        if tensor.device.type != "cpu":
            return f"a tensor is on {tensor.device}"
        plain = type(tensor) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
        if not plain and not capture.is_unwrapped(tensor):
            return f"a tensor is a {type(tensor).__name__}"
        if tensor.layout is not torch.strided:
            return f"a tensor is {tensor.layout}"
    return None
