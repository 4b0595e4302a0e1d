"""Which regions of a program another runtime runs faster: `slower_nodes`."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import onnx_ir as ir

from ..base.text.numbers import seconds_text
from ..machine.pace import Pace
from ..machine.timing import timed
from .program import Program, island_of
from .rivals import Rival
from .survey import Survey
from .tensors import shape_of


def slower_nodes(
    program: Program, rival: Rival, found: Survey, arrays: Sequence[Any]
) -> dict[ir.Node, str] | None:
    """Time each region beside onnxruntime, on what the nodes before it make.

    Return the nodes of those that are slower, with both times; {} if all or none are, and None if
    that can't be told as other processes disturb it.
    """
    parts = program.division.parts
    count = sum(p.is_region for p in parts)
    if count < 2:
        return {}
    seen = replace(program.found, tensors=program.seen(found).tensors)
    at = dict(zip(program.section.inputs, arrays, strict=True))
    slower: dict[ir.Node, str] = {}
    paces: list[Pace | None] = []
    for part in parts:
        leaving = program.leaving(part.nodes)
        island, read, made = island_of(program.section, seen, part.nodes, leaving, program.options)
        given = [at[seen.origin(v)] for v in read]
        if part.is_region:
            values = {v for n in part.nodes for v in seen.read_by(n)}
            fixed = {v: t.fixed for v, t in seen.tensors.items() if v in values}
            section = replace(
                program.section,
                nodes=part.nodes,
                inputs=tuple(map(seen.origin, read)),
                outputs=tuple(made),
                known={v: a for v, a in fixed.items() if a is not None},
                dtypes={seen.origin(v): seen.tensors[v].dtype for v in read},
            )
            alone = replace(seen, calls=[*part.nodes])
            pace = _paced(
                rival.of_region(section, island, count),
                given,
                partial(program.part, section, alone),
            )
            paces.append(pace)
            if pace is not None and pace.slow is not None:
                theirs, ours = map(seconds_text, (pace.apart, pace.fused))
                slower |= dict.fromkeys(part.nodes, f"onnxruntime takes {theirs}, oneDNN {ours}")
        results = island(*given)
        at.update(zip(made, results if len(made) > 1 else (results,), strict=True))
    if not slower and None in paces:
        return None
    return slower if any(n not in slower for p in parts if p.is_region for n in p.nodes) else {}


def _paced(
    rival: Rival, given: Sequence[Any], compiled: Callable[[], Callable[..., Any]]
) -> Pace | None:
    shapes = [shape_of(a) for a in given]
    kept = rival.known(shapes)
    if kept is not None:
        return kept.pace
    took, call = timed(compiled)
    return rival.measured(shapes, given, partial(call, *given), took)
