"""Compare a model's results with those of another runtime: `OnnxVerification`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from ..base.text.names import printable
from .islands import Island
from .options import Options

__all__ = ["OnnxCheck", "OnnxVerification", "verified"]


@dataclass(frozen=True)
class OnnxCheck:
    """How far an output is off.

    Parameters
    ----------
    name : str
    error : float
        The largest difference; infinite if shapes or types differ, or NaN and infinity do.
    allowed : float
    """

    name: str
    error: float
    allowed: float

    @property
    def ok(self) -> bool:
        """Whether the output is right."""
        return self.error <= self.allowed


@dataclass(frozen=True)
class OnnxVerification:
    """What a comparison found; it is true if all outputs are right.

    Parameters
    ----------
    runtime : str
        What the results were compared with.
    outputs : tuple of OnnxCheck
    """

    runtime: str
    outputs: tuple[OnnxCheck, ...]

    @property
    def ok(self) -> bool:
        """Whether all outputs are right."""
        return all(o.ok for o in self.outputs)

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        lines = [f"compared with {self.runtime}:"]
        for o in self.outputs:
            word = "right" if o.ok else "WRONG"
            lines.append(f"  {o.name}: {word}, off by {o.error:.3g} of {o.allowed:.3g} allowed")
        return printable("\n".join(lines))


def verified(
    model: onnx.ModelProto,
    inputs: Mapping[str, npt.NDArray[Any]],
    names: Sequence[str],
    results: Sequence[Any],
    rtol: float,
    atol: float,
) -> OnnxVerification:
    """Run a model in onnxruntime, or in onnx's reference without it, and compare.

    Parameters
    ----------
    model : onnx.ModelProto
    inputs : mapping of str to numpy.ndarray
    names : sequence of str
        Of the outputs.
    results : sequence
        What is to be right.
    rtol, atol : float
        What is allowed, relative to an output's largest number, and absolute.
    """
    island = Island(model, "the model", Options())
    given = {n: a for n, a in inputs.items() if n in island.names}
    made = island.named(given)
    checks = [
        _compared(name, got, want, rtol, atol)
        for name, got, want in zip(names, results, made, strict=True)
    ]
    return OnnxVerification(island.runs_in, tuple(checks))


def _compared(name: str, got: Any, want: Any, rtol: float, atol: float) -> OnnxCheck:
    if not isinstance(want, np.ndarray) or want.dtype.kind not in "biufV":
        # What ZipMap makes: a number for each name, for each row.
        lists = isinstance(got, list) and isinstance(want, list) and len(got) == len(want) > 0
        if lists and all(isinstance(m, dict) and [*m] == [*want[0]] for m in (*got, *want)):
            made, wanted = (np.asarray([[*m.values()] for m in maps]) for maps in (got, want))
            return _compared(name, made, wanted, rtol, atol)
        same = np.array_equal(np.asarray(got), np.asarray(want))
        return OnnxCheck(name, 0.0 if same else np.inf, 0.0)
    if got.shape != want.shape or got.dtype != want.dtype:
        return OnnxCheck(name, np.inf, 0.0)
    if not got.size:
        return OnnxCheck(name, 0.0, 0.0)
    a, b = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return OnnxCheck(name, np.inf, 0.0)
    largest = float(np.max(np.abs(b[finite]), initial=0.0))
    error = float(np.max(np.abs(a[finite] - b[finite]), initial=0.0))
    exact = want.dtype.kind in "biu"
    return OnnxCheck(
        name, error if np.isfinite(error) else np.inf, 0.0 if exact else atol + rtol * largest
    )
