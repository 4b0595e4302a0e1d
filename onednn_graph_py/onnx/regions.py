"""Which regions of a program another runtime runs faster: `slower_nodes`."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import onnx_ir as ir

from ..base.text.numbers import seconds_text
from .program import Program, island_of
from .rivals import Rival
from .survey import survey
from .tensors import Shape


def slower_nodes(
    program: Program, rival: Rival, shapes: Sequence[Shape], arrays: Sequence[Any]
) -> dict[ir.Node, str] | None:
    """Time each region beside onnxruntime, on what the nodes before it make.

    Return the nodes of those that are slower, with both times; {} if all or none are, and None if
    that can't be told as other processes disturb it.
    """
    section, options = program.section, program.options
    regions = [p for p in program.division.parts if p.is_region]
    found = survey(section, [dict(zip(section.inputs, shapes, strict=True))])
    seen = replace(program.found, tensors=program.seen(found).tensors)
    at = dict(zip(section.inputs, arrays, strict=True))
    slower: dict[ir.Node, str] = {}
    decided = True
    for part in program.division.parts if len(regions) > 1 else ():
        leaving = program.leaving(part.nodes)
        island, read, made = island_of(section, seen, part.nodes, leaving, options)
        read = [seen.origin(v) for v in read]
        given = [at[v] for v in read]
        if part.is_region:
            ends = replace(section, inputs=tuple(read), outputs=tuple(made))
            nodes = replace(seen, calls=[*part.nodes])
            alone = Program(ends, nodes, made, program.weights, options, program.name)
            ours = partial(alone.wiring(alone.found, 0).direct, *given)
            way = f"region of {made[-1].name}"
            kept = rival.known(shapes, way)
            pace = kept.pace if kept else rival.measured(shapes, given, ours, 0, way, island)
            decided &= pace is not None
            if pace is not None and pace.slow is not None:
                theirs, own = map(seconds_text, (pace.apart, pace.fused))
                slower |= dict.fromkeys(part.nodes, f"onnxruntime takes {theirs}, oneDNN {own}")
        results = island(*given)
        at.update(zip(made, results if len(made) > 1 else (results,), strict=True))
    if not slower and not decided:
        return None
    return slower if len(slower) < sum(len(p.nodes) for p in regions) else {}
