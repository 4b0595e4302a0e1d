"""Load an ONNX model and call it: `load`, `OnnxModel`."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from ..errors import UnimplementedError
from .assembly import Weights
from .program import Program
from .survey import Section
from .tensors import name_of

__all__ = ["OnnxModel", "load"]


class OnnxModel:
    """A model for all its shapes."""

    def __init__(self, model: ir.Model) -> None:
        graph = model.graph
        self.section = Section(
            list(graph),
            tuple(graph.inputs),
            tuple(graph.outputs),
            {
                v: v.const_value.numpy()
                for v in graph.initializers.values()
                if v.const_value is not None
            },
            {v: name_of(v.dtype) for v in graph.inputs},
            dict(model.opset_imports),
        )
        self.weights = Weights()
        self.programs: dict[Any, Program] = {}

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """Run it."""
        names = [v.name or "" for v in self.section.inputs]
        given = {n: np.asarray(a) for n, a in (*zip(names, arrays, strict=False), *named.items())}
        key = tuple(given[n].shape for n in names)
        if key not in self.programs:
            dims = dict(zip(self.section.inputs, key, strict=True))
            self.programs[key] = Program(self.section, dims, self.weights)
        program = self.programs[key]
        if program.reasons:
            raise UnimplementedError(
                "; ".join(f"{n.op_type}: {why}" for n, why in program.reasons.items())
            )
        made = program(given)
        return made[0] if len(made) == 1 else tuple(made)


def load(model: onnx.ModelProto) -> OnnxModel:
    """Load a model."""
    return OnnxModel(ir.from_proto(model))
