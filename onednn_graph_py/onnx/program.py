"""A program: what runs a model for given input dims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ..building.builder import GraphBuilder
from .assembly import Assembly, Weights
from .lowering.table import NotLowered
from .survey import Section, survey
from .tensors import Shape

__all__ = ["Program"]


class Program:
    """A section for one set of dims."""

    def __init__(self, section: Section, dims: Mapping[ir.Value, Shape], weights: Weights) -> None:
        self.section = section
        self.reasons: dict[ir.Node, str] = {}
        found = survey(section, [dims])
        assembly = Assembly(section, found, weights, GraphBuilder())
        for value in section.inputs:
            assembly.value(value)
        for node in found.calls:
            try:
                assembly.lower(node)
            except NotLowered as e:
                self.reasons[node] = str(e)
                return
        if found.rest:
            self.reasons[found.rest[0]] = "its dims depend on numbers"
            return
        b = assembly.b
        self.known: dict[int, npt.NDArray[Any]] = {}
        outputs = {}
        for i, output in enumerate(section.outputs):
            tensor = found.tensors[output]
            if tensor.fixed is not None:
                self.known[i] = tensor.fixed
                continue
            value = assembly.values[output]
            if value.producer is None or any(v is value for v in outputs.values()):
                value = b.reorder(value)
            outputs[str(i)] = value
        b.output(**outputs)
        self.model = b.compile(warn=False) if outputs else None

    def __call__(self, arrays: Mapping[str, npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """Run it."""
        made: list[Any] = []
        if self.model is not None:
            result = self.model(*[np.asarray(arrays[v.name or ""]) for v in self.section.inputs])
            made = [result] if len(self.model.output_names) == 1 else list(result)
        rest = iter(made)
        return [
            self.known[i] if i in self.known else next(rest)
            for i in range(len(self.section.outputs))
        ]
