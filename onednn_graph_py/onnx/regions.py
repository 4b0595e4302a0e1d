"""Which regions of a program another runtime runs faster: `slower_nodes`."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import onnx_ir as ir

from ..base.text.numbers import seconds_text
from ..machine.timing import timed
from .program import Program, island_of
from .rivals import Rival
from .survey import Survey
from .tensors import Shape


def slower_nodes(
    program: Program, rival: Rival, shapes: Sequence[Shape], found: Survey, arrays: Sequence[Any]
) -> dict[ir.Node, str] | None:
    """Time each region beside onnxruntime, on what the nodes before it make.

    Return the nodes of those that are slower, with both times; {} if all or none are, and None if
    that can't be told as other processes disturb it.
    """
    parts = program.division.parts
    regions = [p for p in parts if p.is_region]
    seen = replace(program.found, tensors=program.seen(found).tensors)
    at = dict(zip(program.section.inputs, arrays, strict=True))
    slower: dict[ir.Node, str] = {}
    decided = True
    for part in parts if len(regions) > 1 else ():
        leaving = program.leaving(part.nodes)
        island, read, made = island_of(program.section, seen, part.nodes, leaving, program.options)
        read = [seen.origin(v) for v in read]
        given = [at[v] for v in read]
        if part.is_region:
            way = f"region of {made[-1].name}"
            kept = rival.known(shapes, way)
            pace = None if kept is None else kept.pace
            if kept is None:
                took, run = timed(partial(program.part, seen, part.nodes, read, made))
                ours = partial(run, *given)
                pace = rival.measured(shapes, given, ours, took, way, island, len(regions))
            decided &= pace is not None
            if pace is not None and pace.slow is not None:
                theirs, own = map(seconds_text, (pace.apart, pace.fused))
                slower |= dict.fromkeys(part.nodes, f"onnxruntime takes {theirs}, oneDNN {own}")
        results = island(*given)
        at.update(zip(made, results if len(made) > 1 else (results,), strict=True))
    if not slower and not decided:
        return None
    return slower if any(n not in slower for p in regions for n in p.nodes) else {}
