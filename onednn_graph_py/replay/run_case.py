"""One case, from its file to a verdict, in this process."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from ..builder import GraphBuilder
from ..errors import GraphFormatError, OneDNNError, UnimplementedError
from ..filling import fill_inputs
from ..serialization import GraphDocument, parse, to_builder, to_graph
from ..verify import compare_values
from .bisect import first_divergence
from .cases import Case
from .hardware import why_unsupported
from .memory import bytes_needed, free_bytes
from .verdicts import Result, Verdict

if TYPE_CHECKING:
    from ..executor import CompiledGraph

__all__ = ["DEFAULTS", "Options", "run_case"]

Array = npt.NDArray[Any]

# A call is timed for at least so long and so often.
_BENCH_SECONDS = 0.3
_BENCH_CALLS = 5


@dataclass(frozen=True)
class Options:
    """How cases are run.

    Parameters
    ----------
    partition_only : bool
        Compile and run nothing.
    verify : bool
        Compare results with the reference in NumPy.
    bisect : bool
        Name the first op whose result is wrong.
    bench : bool
        Time a call.
    threads : int, optional
        Of a call.
    seed : int
        Of the inputs.
    memory_share : float
        The part of the free memory that a case may take.
    """

    partition_only: bool = False
    verify: bool = False
    bisect: bool = False
    bench: bool = False
    threads: int | None = None
    seed: int = 0
    memory_share: float = 0.9


class _Ended(Exception):
    """There is nothing more to do for a case."""

    def __init__(self, verdict: Verdict, reason: object) -> None:
        super().__init__(verdict, reason)
        self.verdict = verdict
        self.reason = str(reason)


DEFAULTS = Options()


def run_case(case: Case, options: Options = DEFAULTS) -> Result:
    """Run a case; whatever goes wrong with it becomes its verdict.

    Parameters
    ----------
    case : Case
    options : Options
    """
    began = time.perf_counter()
    result = Result(str(case), Verdict.RAN)
    try:
        _run(case, options, result)
    except _Ended as e:
        result.verdict, result.reason = e.verdict, e.reason
    except MemoryError as e:
        result.verdict, result.reason = Verdict.TOO_LARGE, str(e) or "out of memory"
    result.seconds = time.perf_counter() - began
    return result


def _run(case: Case, options: Options, result: Result) -> None:
    document = _read(case)
    result.ops = len(document.graph)
    result.expected = case.rewriting.expected_partitions if case.rewriting is not None else None
    missing = _partition(document, result)
    if missing:
        raise _Ended(Verdict.UNSUPPORTED, missing)
    if result.expected is not None and result.partitions != result.expected:
        raise _Ended(
            Verdict.PARTITIONS,
            f"oneDNN makes {result.partitions} partitions of it, expected {result.expected}",
        )
    if options.partition_only:
        result.verdict = Verdict.PARTITIONED
        return
    builder, model, split = _compiled(document, options)
    try:
        inputs = fill_inputs(builder, options.seed)
    except OneDNNError as e:
        raise _Ended(Verdict.REFUSED, e) from None
    outputs = _called(model, inputs)
    if options.bench:
        result.milliseconds = _milliseconds(model, inputs)
    if options.verify:
        _verify(builder, inputs, outputs, options, result)
    if split:
        result.verdict, result.reason = Verdict.SPLIT, split


def _read(case: Case) -> GraphDocument:
    try:
        document = parse(case.path)
    except (GraphFormatError, OSError) as e:
        raise _Ended(Verdict.UNREADABLE, e) from None
    if case.rewriting is None:
        return document
    try:
        return case.rewriting.apply(document)
    except OneDNNError as e:
        raise _Ended(Verdict.REFUSED, f"rewriting: {e}") from None


def _partition(document: GraphDocument, result: Result) -> str:
    """Count partitions as benchdnn does; return why one has no kernel, or an empty string."""
    try:
        partitions = to_graph(document).get_partitions()
    except UnimplementedError as e:
        raise _Ended(Verdict.UNSUPPORTED, e) from None
    except OneDNNError as e:
        raise _Ended(Verdict.REFUSED, e) from None
    ops = {op.id: op for op in document.graph}
    result.partitions = len(partitions)
    result.supported = sum(p.is_supported() for p in partitions)
    for partition in partitions:
        members = [ops[i] for i in partition.get_ops() if i in ops]
        if not partition.is_supported() and any(op.kind != "End" for op in members):
            return "; ".join(why_unsupported(op) for op in members)
    return ""


def _compiled(document: GraphDocument, options: Options) -> tuple[GraphBuilder, CompiledGraph, str]:
    """The model, and why it runs in parts, if it does."""
    try:
        builder = to_builder(document)
        needed, free = bytes_needed(builder, verify=options.verify), free_bytes()
        if free is not None and needed > free * options.memory_share:
            raise _Ended(
                Verdict.TOO_LARGE,
                f"it takes about {needed / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB are free "
                f"for {1 / options.memory_share:.1f} cases at a time",
            )
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model = builder.compile(threads=options.threads)
    except UnimplementedError as e:
        raise _Ended(Verdict.UNSUPPORTED, e) from None
    except OneDNNError as e:
        raise _Ended(Verdict.REFUSED, e) from None
    return builder, model, "; ".join(str(w.message) for w in said)


def _called(model: CompiledGraph, inputs: Sequence[Array]) -> list[Array]:
    given: list[Any] = list(inputs)
    try:
        made = model(*given)
    except OneDNNError as e:
        raise _Ended(Verdict.REFUSED, e) from None
    return list(made) if isinstance(made, tuple) else [made]


def _milliseconds(model: CompiledGraph, inputs: Sequence[Array]) -> float:
    """The median of one call's times."""
    call = model.bind(list(inputs))
    call()
    times: list[float] = []
    end = time.perf_counter() + _BENCH_SECONDS
    while len(times) < _BENCH_CALLS or time.perf_counter() < end:
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e3


def _verify(
    builder: GraphBuilder,
    inputs: Sequence[Array],
    outputs: Sequence[Array],
    options: Options,
    result: Result,
) -> None:
    values = builder.outputs
    names = {v.id: name for name, v in values.items()}
    actual = {v.id: a for v, a in zip(values.values(), outputs, strict=True)}
    found = compare_values(builder, inputs, actual, names, options.seed)
    result.error, result.share = found.max_error, found.share
    if found.ok:
        result.verdict = Verdict.PASSED
        return
    if options.bisect:
        first = first_divergence(builder, inputs, options.seed)
        result.diverges = str(first or "every op is right when the graph ends there")
    raise _Ended(Verdict.WRONG, "; ".join(str(o) for o in found.outputs if not o.ok))
