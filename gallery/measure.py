"""Measurements of a case of a pattern: partitions, errors, times."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_graph_py import _core
from onednn_graph_py.base.errors import KnownDefectError, OneDNNError, UnimplementedError
from onednn_graph_py.base.linked import linked_version, version
from onednn_graph_py.base.refusals import with_reason
from onednn_graph_py.machine import current
from onednn_graph_py.machine.cpu import lacks
from onednn_graph_py.machine.timing import time_calls
from onednn_graph_py.model.building.builder import GraphBuilder, leaving_of, readers_of
from onednn_graph_py.model.building.value import Node
from onednn_graph_py.model.checking.filling import fill_inputs
from onednn_graph_py.model.planning import engine_of
from onednn_graph_py.model.planning.group import group_of
from onednn_graph_py.model.running.model import CompiledGraph
from onednn_graph_py.ops.terms import Version
from onednn_graph_py.safety.table import wrong_result

from .pattern import Case, Pattern

__all__ = ["FAILURES", "VERDICTS", "Result", "measure"]

VERDICTS = {
    "fused": "oneDNN makes the documented number of partitions",
    "runs in parts": "oneDNN's fusion is wrong or out of bounds, so models run it in parts",
    "refused": "oneDNN refuses the graph, as the documents say",
    "deviates": "oneDNN deviates from the documents in a known way, which the row names",
    "lacks hardware": "this CPU has no instructions for a data type",
    "needs newer oneDNN": "the linked oneDNN lacks an op, attribute or data type of the case",
    "unexpected partitions": "oneDNN does neither what the documents say nor a known deviation",
    "wrong": "the results differ from the reference",
    "error": "the graph can't be built or run",
}
"""The verdicts on a case, and their meanings."""

FAILURES = ("unexpected partitions", "wrong", "error")
"""The verdicts that count as failures."""

# The seconds for which a model is called, and how often at least and at most.
_MEASURING, _FEW, _MANY = 0.02, 5, 200

# Ids of ops count up in a process, so they tell a reader nothing.
_IDS = re.compile(r"\bop \d+ (?=')")


@dataclass(frozen=True)
class Result:
    """The result of measuring a case.

    Parameters
    ----------
    pattern, name, case, dtypes : str
        The pattern's id and name, the case's name and data types.
    destination : str
        The data types of the graph's outputs.
    partitions : int or None
        Number of partitions that oneDNN makes; None if it refuses one.
    documented : int or None
        Number of partitions in the documents; None if oneDNN must refuse the graph.
    fused : tuple of tuple of str
        The kinds of ops in each partition.
    gpu_partitions : int or None
        Number of partitions for a GPU; None if the library has no GPU support, or refuses one.
    max_error : float or None
        The largest difference from the reference.
    share : float or None
        The largest error, as a fraction of its tolerance.
    fused_ms, unfused_ms : float or None
        Milliseconds of the fastest call: as compiled by default, and with one op per partition.
    verdict : str
        A key of `VERDICTS`.
    note : str
        The reason for the verdict.
    """

    pattern: str
    name: str
    case: str
    dtypes: str
    destination: str = ""
    partitions: int | None = None
    documented: int | None = 1
    fused: tuple[tuple[str, ...], ...] = ()
    gpu_partitions: int | None = None
    max_error: float | None = None
    share: float | None = None
    fused_ms: float | None = None
    unfused_ms: float | None = None
    verdict: str = "error"
    note: str = ""

    @property
    def failed(self) -> bool:
        """Whether the verdict is a failure."""
        return self.verdict in FAILURES


@dataclass(frozen=True)
class _Partitioned:
    """The partitions of a graph.

    Parameters
    ----------
    fused : tuple of tuple of str
    count : int or None
        None if oneDNN refuses one.
    refusal : str
        The refused partition; and the reason, unless `error` says it.
    defect : str
        The known defect that would make results wrong.
    error : OneDNNError, optional
        The error behind the refusal.
    """

    fused: tuple[tuple[str, ...], ...]
    count: int | None
    refusal: str = ""
    defect: str = ""
    error: OneDNNError | None = None

    def why_refused(self) -> str:
        """The refusal with oneDNN's reason, which another process finds."""
        return self.refusal if self.error is None else f"{self.refusal}: {with_reason(self.error)}"


def _defect(builder: GraphBuilder, nodes: Sequence[Node]) -> str | None:
    """Return the known defect of a partition of these ops, or None."""
    group = group_of(
        nodes,
        fpmath=builder.fpmath_mode.name,
        apply_to_int=builder.apply_to_int,
        leaving=leaving_of(nodes, readers_of(builder)),
    )
    found = wrong_result(group, current())
    return None if found is None else found.what


def _partitioned(builder: GraphBuilder, *, compiled: bool) -> _Partitioned:
    """Partition a graph unchanged, and check whether each partition compiles."""
    nodes = {node.id: node for node in builder.nodes if node.kind != "End"}
    fused, refusal, defect = [], "", ""
    error: OneDNNError | None = None
    for partition in builder.graph.get_partitions():
        members = [nodes[i] for i in partition.get_ops() if i in nodes]
        if not members:
            continue
        kinds = tuple(node.kind for node in members)
        fused.append(kinds)
        if not partition.is_supported():
            refusal, error = f"{' + '.join(kinds)} is not supported", None
        elif compiled:
            wrong = _defect(builder, members)
            if wrong:
                # Alone, an op may meet a defect that it does not among those which make its inputs.
                if any(_defect(builder, [n]) == wrong for n in members):
                    refusal, error = f"{' + '.join(kinds)}: {wrong}", None
                    continue
                # Some of these don't compile; whether they do makes no difference here.
                defect = wrong
                continue
            try:
                partition.compile(
                    partition.get_input_ports(),
                    partition.get_output_ports(),
                    engine_of(builder.engine_kind),
                )
            except KnownDefectError as e:
                if len(members) > 1:
                    defect = str(e)
                else:
                    refusal, error = f"{' + '.join(kinds)}: {e}", None
            except OneDNNError as e:
                refusal, error = f"{' + '.join(kinds)} does not compile", e
    return _Partitioned(tuple(fused), None if refusal else len(fused), refusal, defect, error)


def _for_gpu(builder: GraphBuilder) -> int | None:
    """Count the partitions of the same graph for a GPU, which need not be present."""
    if version().gpu_runtime.lower() == "none":
        return None
    other = builder.snapshot()
    other.engine_kind = _core.engine.kind.gpu
    return _partitioned(other, compiled=False).count


def _milliseconds(model: CompiledGraph, arrays: list[npt.NDArray[Any]]) -> float:
    """Return the time of the fastest call, the one that other programs disturb least."""
    return 1e3 * min(time_calls(model.bind(arrays), _MEASURING, least=_FEW, most=_MANY))


def _unfused(builder: GraphBuilder, arrays: list[npt.NDArray[Any]]) -> float | None:
    """Return the time with one op in each partition; None if an op can't run alone."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return _milliseconds(builder.compile(policy="debug", fallback="error"), arrays)
    except OneDNNError:
        return None


def _known_shapes(builder: GraphBuilder) -> dict[str, tuple[int, ...]]:
    """Return shapes for inputs with unknown dims, setting all of these to the same number."""
    return {
        v.name: tuple(4 if d < 0 else d for d in v.shape)
        for v in builder.inputs
        if v.shape is not None and -1 in v.shape
    }


def measure(pattern: Pattern, case: Case, *, timed: bool = True) -> Result:
    """Build a case, partition it, run it and compare it with the reference.

    Parameters
    ----------
    pattern : Pattern
    case : Case
        A case of this pattern.
    timed : bool
        Whether to time calls, which takes about 0.05 s.

    Returns
    -------
    Result
        Errors of the library are verdicts, not exceptions.
    """
    told: dict[str, Any] = {"documented": case.partitions}

    def result(verdict: str, note: str = "") -> Result:
        named = (pattern.id, pattern.name, case.name, case.dtypes)
        return Result(*named, verdict=verdict, note=_IDS.sub("", note), **told)

    linked = linked_version()
    if linked < case.needs:
        return result("needs newer oneDNN", f"it needs oneDNN {case.needs[0]}.{case.needs[1]}")
    try:
        builder = pattern.graph(case)
        told["destination"] = " ".join(dict.fromkeys(v.dtype for v in builder.outputs.values()))
        missing = next((why for d in case.kernels if (why := lacks(d))), None)
        found = _partitioned(builder, compiled=missing is None and not _known_shapes(builder))
        told |= {
            "partitions": found.count,
            "fused": found.fused,
            "gpu_partitions": _for_gpu(builder),
        }
        if missing is not None:
            return result("lacks hardware", missing)
        deviation = case.deviation(linked)
        wanted = case.expected(linked)
        if found.count != wanted and not (found.defect and wanted is None):
            return result(
                "unexpected partitions",
                f"expected {'a refusal' if wanted is None else wanted}, got "
                f"{found.why_refused() or found.count}",
            )
        try:
            checked = _run(builder, timed=timed, told=told, refused=found.count is None)
        except UnimplementedError as e:
            if not found.defect:
                raise
            return result("deviates", f"{found.defect}; and in parts, {e}")
    except OneDNNError as e:
        if case.expected(linked) is None and "partitions" not in told:
            # There are no partitions yet.
            return _refused(case, linked, result, str(e))
        return result("error", f"{type(e).__name__}: {e}")
    except Exception as e:
        return result("error", f"{type(e).__name__}: {e}")
    if checked is not None:
        return result("wrong", checked)
    if found.defect:
        return result("runs in parts", found.defect)
    if deviation is not None:
        return result("deviates", deviation.why)
    if found.count is None:
        return result("refused", found.why_refused())
    return result("fused")


def _refused(
    case: Case, linked: Version, result: Callable[[str, str], Result], refusal: str
) -> Result:
    """Return the verdict on a graph that was refused, as expected."""
    deviation = case.deviation(linked)
    return result("refused", refusal) if deviation is None else result("deviates", deviation.why)


def _run(builder: GraphBuilder, *, timed: bool, told: dict[str, Any], refused: bool) -> str | None:
    """Fill in errors and times; return the reason why results are wrong, or None."""
    arrays = fill_inputs(builder, shapes=_known_shapes(builder))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the verdict says that it runs in parts
        try:
            model = builder.compile(fallback="error")
            verification = model.verify(*arrays)
        except OneDNNError:
            if refused:  # not even its ops run one by one
                return None
            raise
    told |= {"max_error": verification.max_error, "share": verification.share}
    if not all(np.isfinite(o.largest) for o in verification.outputs):
        return "the reference is not finite"
    if not verification.ok:
        return "; ".join(str(o) for o in verification.outputs if not o.ok)
    if timed:
        told |= {"fused_ms": _milliseconds(model, arrays), "unfused_ms": _unfused(builder, arrays)}
    return None
