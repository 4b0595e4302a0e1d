"""A part of a graph that runs in oneDNN: `Region`."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Container, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import fx

from ..base.errors import OneDNNError, UnimplementedError
from ..frontends.lowering import FLOATS
from ..model.building.builder import GraphBuilder
from ..model.building.value import Value
from ..model.running.model import CompiledGraph
from ..model.running.renewing import follows
from .arrays import array_of, constant_of, tensor_of
from .division import constant_without_type, is_tensor, lowered, memory_order, operands, viewed
from .fallback import FallbackWarning
from .lowering.table import NotLowered, dims_of, dtype_of, has_type
from .options import Options


class Region:
    """Calls that a model runs in oneDNN, or torch where oneDNN fails.

    `constants` are the tensors that are known; `name` is the model's in messages.
    """

    def __init__(
        self,
        nodes: Sequence[fx.Node],
        constants: Mapping[fx.Node, torch.Tensor],
        options: Options,
        threads: int,
        name: str,
    ) -> None:
        self.__name__ = self.__qualname__ = name
        self.failure: str | None = None
        self._strict = options.fallback == "error"
        # What torch sees of a result is a view that torch makes of it, as in torch's own graph.
        inside = set(nodes)
        leaving = [viewed(n, inside) for n in nodes if not inside.issuperset(n.users)]
        self.outputs = [n for n in dict.fromkeys(leaving) if n in inside]
        needed = set(self.outputs)
        for node in reversed(nodes):
            if node in needed:
                needed.update(inside.intersection(operands(node.all_input_nodes, inside)))
        self.nodes = tuple(n for n in nodes if n in needed)
        self.orders: list[tuple[int, ...] | None] = [None] * len(self.outputs)
        every = chain.from_iterable(n.all_input_nodes for n in self.nodes)
        read = [n for n in operands(every, inside) if n not in inside]
        self.inputs = [n for n in dict.fromkeys(read) if is_tensor(n) and n not in constants]
        self.sizes = [n for n in dict.fromkeys(read) if not is_tensor(n)]
        self._rest = {n: constants[n] for n in dict.fromkeys(read) if n in constants}
        self._eager: fx.GraphModule | None = None
        self._given: dict[fx.Node, Value] = {}
        self._read: set[fx.Node] = set()  # the constants of which a lowering read numbers
        self.model: CompiledGraph | None = None
        try:
            self.model = self._built(constants, options).compile(
                threads=threads,
                max_shapes=options.max_shapes,
                fallback="error",
                known_defects=options.known_defects,
                tune=options.tune,
                check=options.check,
                warn=False,  # the report has the reasons
                name=name,
            )
        except (OneDNNError, NotLowered) as e:
            self._failed(e)

    def _built(self, constants: Mapping[fx.Node, torch.Tensor], options: Options) -> GraphBuilder:
        b = GraphBuilder(fpmath_mode=options.fpmath_mode)
        values: dict[fx.Node, Any] = {}
        watched = _Watched(constants, self._read)
        for i, node in enumerate(self.inputs):
            tensor = node.meta["val"]
            dtype = dtype_of(tensor, host=True)
            values[node] = b.input(dims_of(tensor), dtype, name=f"{i}_{node.name}")
        for node in self.nodes:
            for given in node.all_input_nodes:
                if given not in values and given in constants:
                    values[given] = made = self._constant(b, given, constants[given])
                    if isinstance(made, Value):
                        self._given[given] = made
            values[node] = lowered(b, node, values, watched)
        outputs: dict[str, Value] = {}
        for i, node in enumerate(self.outputs):
            value: Value = values[node]
            if value.producer is None or any(value is v for v in outputs.values()):
                value = _copied(b, value)  # an output is made by an op, and is an output once
            outputs[f"{i}_{node.name}"] = value
        b.output(**outputs)
        return b

    @staticmethod
    def _constant(b: GraphBuilder, node: fx.Node, tensor: torch.Tensor) -> Any:
        if not has_type(tensor):
            return constant_without_type(tensor)
        return constant_of(b, tensor, None, node.name)

    @property
    def constant_bytes(self) -> int:
        """The bytes of the tensors that are constants."""
        return sum(t.nbytes for t in self._rest.values())

    def follows(self, written: Collection[fx.Node]) -> bool:
        """Compute with other numbers in the memory of constants; return False if that can't be."""
        changed = [n for n in self._rest if n in written]
        if self.model is None or not changed:
            return True
        if any(n not in self._given or n in self._read for n in changed):
            return False
        return follows(self.model, [(self._given[n], array_of(self._rest[n])) for n in changed])

    def _failed(self, error: OneDNNError | NotLowered) -> None:
        """Let torch run the region from now on, and say so."""
        if self._strict:
            raise UnimplementedError(f"{self.__name__}: {error}") from error
        self.failure = str(error)
        self.model = None
        warnings.warn(
            f"{self.__name__} runs in torch, since oneDNN refuses it: {error}",
            FallbackWarning,
            stacklevel=2,
        )

    def __call__(self, *tensors: Any) -> Any:
        """Run the calls: tensors and then sizes in, a tensor or a tuple of tensors out."""
        model = self.model
        read = tensors[: len(self.inputs)]
        if model is not None and all(map(torch.Tensor.numel, read)):
            try:
                results = model(*map(array_of, read))
            except OneDNNError as e:
                self._failed(e)
            else:
                if len(self.outputs) == 1:
                    return _laid_out(tensor_of(results), self.orders[0])
                return tuple(map(_laid_out, map(tensor_of, results), self.orders))
        given = zip(self.inputs, tensors, strict=False)
        laid_out = [_laid_out(t, memory_order(n.meta["val"])) for n, t in given]
        return self.eager(*laid_out, *tensors[len(self.inputs) :])

    def lay_out(self, among: Container[fx.Node]) -> None:
        """Give results the strides that torch gives them, if others read them than these nodes."""
        self.orders = [
            None if all(u in among for u in n.users) else memory_order(n.meta["val"])
            for n in self.outputs
        ]

    @property
    def eager(self) -> fx.GraphModule:
        """The same calls in torch."""
        if self._eager is None:
            graph = fx.Graph()
            root = torch.nn.Module()
            placeholders = {n: graph.placeholder(n.name) for n in (*self.inputs, *self.sizes)}
            for i, (node, tensor) in enumerate(self._rest.items()):
                setattr(root, f"constant{i}", tensor)
                placeholders[node] = graph.get_attr(f"constant{i}")

            def taken(node: fx.Node) -> fx.Node:
                """Return a node of the new graph; a size comes when it is read."""
                if node not in placeholders:
                    placeholders[node] = graph.node_copy(node, taken)
                return placeholders[node]

            for node in self.nodes:
                taken(node)
            results = [placeholders[n] for n in self.outputs]
            graph.output(results[0] if len(results) == 1 else tuple(results))
            self._eager = fx.GraphModule(root, graph)
        return self._eager


def _copied(b: GraphBuilder, value: Value) -> Value:
    """Return a copy of a value, by oneDNN if it copies the type."""
    if value.dtype in FLOATS:
        return b.reorder(value)
    made: Value = b.call(np.copy, value, outputs=[(value.shape or (), value.dtype)])
    return made


class _Watched(dict[fx.Node, torch.Tensor]):
    """Constants, and those that were looked up."""

    def __init__(self, constants: Mapping[fx.Node, torch.Tensor], read: set[fx.Node]) -> None:
        super().__init__(constants)
        self._read = read

    def get(self, node: fx.Node, default: Any = None) -> Any:
        """Return a constant, and note that it was asked for."""
        self._read.add(node)
        return super().get(node, default)


def _laid_out(tensor: torch.Tensor, order: Sequence[int] | None) -> torch.Tensor:
    """Return a tensor with its dims in this order in memory; only one of another is copied."""
    if order is None:
        return tensor.contiguous()
    back = sorted(range(len(order)), key=order.__getitem__)
    return tensor.permute(order).contiguous().permute(back)
