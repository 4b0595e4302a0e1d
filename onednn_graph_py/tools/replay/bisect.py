"""Search for the first op of a model whose result is wrong."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from ...base.errors import OneDNNError
from ...model.building.builder import GraphBuilder
from ...model.building.value import Node, Value
from ...model.checking.expected import Expected, OutputCheck, Verification
from ...model.planning import KnownDefects, Policy

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Divergence:
    """The first op whose result is wrong."""

    # Its name, and the line of the program that made it.
    op: str
    # The comparison of its result with the reference.
    check: OutputCheck
    # The kinds of the ops that are fused with it.
    fused: tuple[str, ...]
    # The result without fusion; None if that can't be compiled.
    alone: OutputCheck | None

    def __str__(self) -> str:
        together = " + ".join(self.fused)
        text = f"first wrong op: {self.op}, run as {together}\n  {self.check}"
        if self.alone is None:
            return text
        verdict = "right" if self.alone.ok else "wrong too"
        return f"{text}\n  without fusion it is {verdict}: {self.alone}"


def _computed(
    builder: GraphBuilder,
    value: Value,
    inputs: Sequence[Array],
    policy: Policy,
    known_defects: KnownDefects,
) -> tuple[Array, tuple[str, ...]] | None:
    """Return a value, and the ops fused with its producer; None if it can't be compiled."""
    ending = builder.snapshot()
    ending.contents.outputs = {value.name or "result": value}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # compiling the whole graph warned already
            model = ending.compile(
                policy=policy, known_defects=known_defects, slow_fusions=known_defects
            )
    except OneDNNError:
        return None
    arrays: list[Any] = list(inputs)
    result: Array = model(*arrays)
    return result, model.steps()[-1].ops


def first_divergence(
    builder: GraphBuilder,
    inputs: Sequence[Array],
    seed: int = 0,
    *,
    known_defects: KnownDefects = "avoid",
) -> Divergence | None:
    """Find the first op whose result is wrong when the graph ends with it; None if there is none.

    oneDNN does not return results from inside a partition. So this compiles the graph once for each
    op, cut off after it; the ops before it fuse as in the whole graph. With `known_defects` of
    ``run`` it also finds those that models work around.
    """
    results: dict[int, tuple[Array, tuple[str, ...]]] = {}
    makers: dict[int, tuple[Node, Value]] = {}
    for node in builder.nodes:
        for value in node.outputs:
            result = _computed(builder, value, inputs, "fusion", known_defects)
            if result is not None:
                results[value.id] = result
                makers[value.id] = node, value
    names = {i: value.name or "its result" for i, (_, value) in makers.items()}
    checked = Expected(builder, inputs, seed).compare(
        {i: a for i, (a, _) in results.items()}, names
    )
    for id, check in zip(results, checked.outputs, strict=True):
        if check.ok:
            continue
        node, value = makers[id]
        unfused = _computed(builder, value, inputs, "debug", known_defects)
        alone: Verification | None = None
        if unfused is not None:
            alone = Expected(builder, inputs, seed).compare({id: unfused[0]}, names)
        return Divergence(
            f"{node.label} made at {node.where}",
            check,
            results[id][1],
            alone.outputs[0] if alone is not None else None,
        )
    return None
