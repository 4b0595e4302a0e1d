"""Compare a model's results with those of another runtime: `verified`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from ..model.checking.expected import OutputCheck, Verification, compared
from .island_model import island_model
from .islands import Island
from .options import Options
from .tensors import NUMPY, dtype_of

_UNITS = {"f16": 2.0**-10, "bf16": 2.0**-7}  # the distance of 1 from the next number


def verified(
    model: onnx.ModelProto,
    inputs: Mapping[str, npt.NDArray[Any]],
    names: Sequence[str],
    results: Sequence[Any],
    rtol: float,
    atol: float,
) -> Verification:
    """Run a model in onnxruntime, or in onnx's reference without it, and compare.

    `rtol` is relative to an output's largest number.
    """
    island = Island(island_model(model), "the model", Options())
    made = island.named({n: a for n, a in inputs.items() if n in island.names})
    checks = [
        _checked(name, got, want, rtol, atol)
        for name, got, want in zip(names, results, made, strict=True)
    ]
    return Verification(tuple(checks), island.runs_in)


def rounding_of(results: Sequence[Any], nodes: int) -> float:
    """Return how far results of 16 bits may be off, relative to the largest, if each node rounds.

    The roundings of so many nodes add up at random.
    """
    types = {getattr(r, "dtype", None) for r in results}
    units = [unit for name, unit in _UNITS.items() if NUMPY[name] in types]
    return 2 * max(units, default=0.0) * float(nodes**0.5)


def _checked(name: str, got: Any, want: Any, rtol: float, atol: float) -> OutputCheck:
    if not isinstance(want, np.ndarray) or want.dtype.kind not in "biufV":
        # What ZipMap makes: a number for each name, for each row.
        lists = isinstance(got, list) and isinstance(want, list) and len(got) == len(want) > 0
        if lists and all(isinstance(m, dict) and [*m] == [*want[0]] for m in (*got, *want)):
            made, wanted = (np.asarray([[*m.values()] for m in maps]) for maps in (got, want))
            return _checked(name, made, wanted, rtol, atol)
        return _whole(name, want, np.array_equal(np.asarray(got), np.asarray(want)))
    if got.shape != want.shape or got.dtype != want.dtype:
        return _whole(name, want, False)
    numbers = want.astype(np.float64)
    largest = float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0))
    allowed = 0.0 if want.dtype.kind in "biu" else atol + rtol * largest
    return compared(name, dtype_of(want), got, want, np.asarray(allowed))


def _whole(name: str, want: Any, right: bool) -> OutputCheck:
    """Return the check of what is right or wrong as a whole: texts, other shapes or types."""
    error = 0.0 if right else np.inf
    return OutputCheck(name, dtype_of(want), int(not right), 1, error, 0.0, (), error, 0.0, 0.0)
