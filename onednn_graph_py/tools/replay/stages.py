"""The stages of running a graph: find and read a file, partition, build, compile, call.

Each stage returns what it makes, or raises `Ended` with the verdict.
"""

from __future__ import annotations

import glob
import math
import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.errors import (
    GraphFormatError,
    InvalidArgumentsError,
    NoDeviceError,
    OneDNNError,
    UnimplementedError,
)
from ...base.refusals import with_reason
from ...base.text.files import error_text
from ...base.text.numbers import gib_text
from ...machine.cpu import lacks
from ...machine.memory import free_bytes
from ...model.building.builder import GraphBuilder
from ...model.building.value import is_whole
from ...model.checking.filling import fill_inputs
from ...model.planning import KnownDefects
from ...model.running.model import CompiledGraph
from ...ops.check import check
from ...reference.rounding import NUMPY_DTYPES
from ...serialization import GraphDocument, OpRecord, parse, to_builder, to_graph
from .verdicts import Verdict


@dataclass(frozen=True)
class Case:
    """A graph to run: that of a file, or a document instead."""

    path: str
    document: GraphDocument | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.path


def _files(where: str) -> list[str]:
    if os.path.isdir(where):
        return sorted(str(p) for p in Path(where).rglob("*.json"))
    if not os.path.exists(where) and glob.has_magic(where):
        names = sorted(glob.glob(where, recursive=True))
        return [f for name in names for f in (_files(name) if os.path.isdir(name) else [name])]
    return [where]


def cases_of(places: str | Iterable[str]) -> list[Case]:
    """Find the cases of files, folders with all below, and patterns such as ``dumps/**/*.json``.

    - `places`: one, or several
    - raises `InvalidArgumentsError`: a folder or pattern has no JSON file
    """
    cases = []
    for place in [places] if isinstance(places, str) else places:
        files = _files(place)
        if not files:
            raise InvalidArgumentsError(f"{place}: there is no JSON file")
        cases += [Case(file) for file in files]
    return cases


Array = npt.NDArray[Any]


def why_unsupported(op: OpRecord, engine_kind: str = "cpu") -> str:
    """Return why an op has no kernel: a feature that this CPU lacks, or just that there is none."""
    name = f"op {op.id} ({op.kind})"
    if op.kind == "Wildcard":
        return f"{name}: a Wildcard stands for an op that oneDNN does not know"
    dtypes = dict.fromkeys(t.dtype for t in (*op.inputs, *op.outputs))
    for dtype in dtypes:
        missing = lacks(dtype) if engine_kind != "gpu" else None
        if missing is not None:
            return f"{name}: hardware: {missing}"
    return f"{name}: oneDNN has no kernel for it in {', '.join(dtypes)}"


# The reference computes an op in float64, with its inputs and their perturbations.
_WIDE = 8 * 6
# Tensors are kept three times: from oneDNN, exact, and perturbed.
_KEPT = 3


def bytes_needed(builder: GraphBuilder, *, verify: bool) -> int:
    """Estimate the bytes that a run needs; unknown dims count as 1."""
    total = largest = 0
    for value in (*builder.inputs, *(v for n in builder.nodes for v in n.outputs)):
        shape = value.shape if value.shape is not None and is_whole(value.shape) else ()
        count = math.prod(shape)
        total += count * np.dtype(NUMPY_DTYPES[value.dtype]).itemsize
        largest = max(largest, count)
    return _KEPT * total + _WIDE * largest if verify else total + 8 * largest


class Ended(Exception):
    """Raised if a graph can't pass a stage; another process finds the reason of a refusal."""

    def __init__(self, verdict: Verdict, reason: object) -> None:
        super().__init__(verdict, reason)
        self.verdict = verdict
        self.reason = with_reason(reason) if isinstance(reason, OneDNNError) else str(reason)


def read(case: Case) -> GraphDocument:
    """Read a case's file, unless the case has the graph."""
    if case.document is not None:
        return case.document
    try:
        return parse(case.path)
    except (GraphFormatError, OSError) as e:
        raise Ended(Verdict.UNREADABLE, error_text(e)) from None


def partition(document: GraphDocument) -> tuple[int, int, str]:
    """Count partitions as benchdnn does, and those for which oneDNN has a kernel.

    The text says why a partition has no kernel; it is empty if all have one.
    """
    try:
        partitions = to_graph(document).get_partitions()
    except UnimplementedError as e:
        raise Ended(Verdict.UNSUPPORTED, e) from None
    except OneDNNError as e:
        _require_version(document)
        raise Ended(Verdict.REFUSED, e) from None
    ops = {op.id: op for op in document.graph}
    missing = ""
    for each in partitions:
        members = [ops[i] for i in each.get_ops() if i in ops]
        if not each.is_supported() and any(op.kind != "End" for op in members):
            missing = "; ".join(why_unsupported(op, document.engine_kind) for op in members)
            break
    return len(partitions), sum(p.is_supported() for p in partitions), missing


def _require_version(document: GraphDocument) -> None:
    """Raise if an op needs a newer oneDNN, of which the library says only that it is invalid."""
    for op in document.graph:
        try:
            outputs = [(None, None)] * len(op.outputs)
            inputs = [(t.dims, t.dtype) for t in op.inputs]
            check(op.kind, inputs, op.values, outputs, name=op.name, id=op.id)
        except UnimplementedError as e:
            raise Ended(Verdict.UNSUPPORTED, e) from None
        except (OneDNNError, TypeError):  # the library says it again
            continue


def built(document: GraphDocument, file: str | None = None) -> GraphBuilder:
    """Build the graph; `file` names its origin in messages."""
    try:
        return to_builder(document, file=file)
    except UnimplementedError as e:
        raise Ended(Verdict.UNSUPPORTED, e) from None
    except OneDNNError as e:
        raise Ended(Verdict.REFUSED, e) from None


def check_memory(builder: GraphBuilder, *, verify: bool, share: float) -> None:
    """Raise unless a graph fits into a share of the free memory."""
    needed, free = bytes_needed(builder, verify=verify), free_bytes()
    if free is not None and needed > free * share:
        raise Ended(
            Verdict.TOO_LARGE,
            f"it takes about {gib_text(needed)}, and {gib_text(free)} are free "
            f"for {1 / share:.1f} cases at a time",
        )


def compiled(
    builder: GraphBuilder, threads: int | None, known_defects: KnownDefects = "avoid"
) -> tuple[CompiledGraph, str]:
    """Compile a graph; return the model, and the reason if it runs in parts."""
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            # "run" means all of oneDNN's partitions, also slow fusions.
            model = builder.compile(
                fallback="error",
                threads=threads,
                known_defects=known_defects,
                slow_fusions=known_defects,
            )
    except (UnimplementedError, NoDeviceError) as e:
        raise Ended(Verdict.UNSUPPORTED, e) from None
    except OneDNNError as e:
        raise Ended(Verdict.REFUSED, e) from None
    return model, "; ".join(str(w.message) for w in said)


def inputs_of(builder: GraphBuilder, seed: int) -> list[Array]:
    """Make arrays for a graph's inputs."""
    try:
        return fill_inputs(builder, seed)
    except OneDNNError as e:
        raise Ended(Verdict.REFUSED, e) from None


def called(model: CompiledGraph, inputs: Sequence[Array]) -> list[Array]:
    """Call a model, and return its outputs."""
    arguments: list[Any] = list(inputs)
    try:
        outputs = model(*arguments)
    except OneDNNError as e:
        raise Ended(Verdict.REFUSED, e) from None
    return list(outputs) if isinstance(outputs, tuple) else [outputs]
