"""The kernels of the gallery's patterns, and their speed: `python -m matrix.kernels` prints JSON.

One case stands for the cases of a pattern whose result has the same data type: the first that
oneDNN runs here.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from gallery import PATTERNS
from gallery.measure import FAILURES, Result, measure
from gallery.pattern import Case, Pattern
from gallery.report import LIMITED
from onednn_graph_py.model.checking.filling import fill_inputs
from onednn_graph_py.tools.kernels import Kernels, job_of, kernels_of

__all__ = ["TYPES", "measured"]

TYPES = ("f32", "bf16", "f16", "s8", "u8")
"""The data types of results that are told apart."""


def _by_type(pattern: Pattern) -> dict[str, list[Case]]:
    """Return a pattern's cases of known shapes, by the data type that each names last."""
    found: dict[str, list[Case]] = {}
    for case in pattern.cases:
        found.setdefault(case.dtypes.split()[-1], []).append(case)
    return {dtype: found[dtype] for dtype in TYPES if dtype in found}


def _first_run(pattern: Pattern, cases: list[Case]) -> tuple[Case, Result] | None:
    """Return the first of the cases that oneDNN computes here, and its measurement."""
    for case in cases:
        result = measure(pattern, case)
        if result.verdict not in (*FAILURES, *LIMITED) and result.fused_ms is not None:
            return case, result
    return None


def _used(found: Kernels) -> list[str]:
    """Return the kernels that run at each call: kind and implementation, without reorders."""
    return [
        f"{kernel.kind} {kernel.implementation}"
        for step in found.of.values()
        for kernel in step.kernels
        if kernel.when == "each call" and kernel.kind != "reorder"
    ]


def measured() -> dict[str, dict[str, Any]]:
    """Measure one case of each pattern and data type.

    Returns
    -------
    dict
        For each pattern, and each data type of a result: ``case``, ``kernels``, and ``gain``, the
        time with one op in each partition by the time as compiled by default (1 if both are the
        same, more if fusion gains; missing if an op can't run alone).
    """
    chosen, jobs = [], []
    for pattern in PATTERNS.values():
        for dtype, cases in _by_type(pattern).items():
            first = _first_run(pattern, cases)
            if first is None:
                continue
            case, result = first
            builder = pattern.graph(case)
            if any(-1 in (v.shape or (-1,)) for v in builder.inputs):
                continue
            shapes = tuple(a.shape for a in fill_inputs(builder))
            jobs.append(job_of(builder.compile(), shapes))
            chosen.append((pattern.id, dtype, case, result))
    made: dict[str, dict[str, Any]] = {}
    for (pattern_id, dtype, case, result), found in zip(chosen, kernels_of(jobs), strict=True):
        entry: dict[str, Any] = {"case": f"{case.dtypes}, {case.name}", "kernels": _used(found)}
        if result.unfused_ms is not None and result.fused_ms is not None:
            entry["gain"] = round(result.unfused_ms / result.fused_ms, 2)
        made.setdefault(pattern_id, {})[dtype] = entry
    return made


if __name__ == "__main__":
    json.dump(measured(), sys.stdout)
