"""Compare a result of one op with the reference: `compare`."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onednn_graph_py.ops.call import Call
from onednn_graph_py.reference.registry import Array
from onednn_graph_py.reference.rounding import NUMPY_DTYPES, float_info, is_integer, round_to
from onednn_graph_py.reference.tolerance import SMALLEST, slack

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True)
class Comparison:
    """The result of comparing an output with the reference.

    Parameters
    ----------
    ok : bool
        Whether all elements are within their tolerance.
    wrong : int
        Number of elements that exceed their tolerance.
    count : int
        Number of all elements.
    max_error : float
        The largest difference.
    index : tuple of int
        The element with the largest error as a fraction of its tolerance.
    actual, expected : float
        That element's value, and the reference's.
    allowed : float
        That element's tolerance, including the rounding to the output's data type.
    ratio : float
        That element's error as a fraction of its tolerance.
    """

    ok: bool
    wrong: int
    count: int
    max_error: float
    index: tuple[int, ...]
    actual: float
    expected: float
    allowed: float
    ratio: float

    def __str__(self) -> str:
        verdict = "agrees" if self.ok else f"{self.wrong} of {self.count} elements are wrong"
        return (
            f"{verdict}; the worst, at {self.index}, is {self.actual:.9g} and should be "
            f"{self.expected:.9g}: off by {self.ratio:.3g} times the {self.allowed:.3g} allowed"
        )


def compare(
    actual: Array,
    expected: Array,
    call: Call,
    *,
    output: int = 0,
    inputs: Sequence[Array] | None = None,
) -> Comparison:
    """Compare an output with the reference.

    An element is right if some number within `tolerance` of the exact result rounds to it. So an
    integer may be off by one only if the exact result is that close to a tie.

    Parameters
    ----------
    actual : numpy.ndarray
        The output, with NumPy's dtype for its data type.
    expected : numpy.ndarray
        The output of `evaluate`, or a rounded one; the tolerance then includes that rounding.
    call : Call
        The op, with all shapes and data types.
    output : int
        The output's number.
    inputs : sequence of numpy.ndarray, optional
        The op's inputs. With them each element has its own tolerance; without them all have the
        largest one's tolerance.

    Raises
    ------
    ValueError
        The shapes differ.
    """
    dtype = call.output(output).dtype or "f32"
    given = np.asarray(expected)
    exact = given.astype(np.float64)
    got = np.asarray(actual).astype(np.float64)
    if got.shape != exact.shape:
        raise ValueError(f"actual has shape {got.shape}, expected has {exact.shape}")
    with np.errstate(all="ignore"):
        off = slack(call, output, inputs, given if given.dtype.kind in "iub" else exact)
        if off.any():
            off = off + SMALLEST
            if given.dtype == NUMPY_DTYPES[dtype] and not is_integer(dtype):
                info = float_info(dtype)
                off += np.maximum(np.abs(exact) * float(info.eps), float(info.smallest_subnormal))
        off = np.where(np.isfinite(exact), np.nan_to_num(off, nan=np.inf), 0.0)
        low, high = (round_to(exact + s, dtype).astype(np.float64) for s in (-off, off))
        nan = np.isnan(low) | np.isnan(high)
        right = ((got >= low) & (got <= high)) | (nan & np.isnan(got))
        error = np.where(got == exact, 0.0, np.abs(got - exact))
        error = np.where(np.isnan(got) & np.isnan(exact), 0.0, error)
        allowed = np.fmax(np.abs(high - exact), np.abs(low - exact))
        ratio = np.where(error == 0.0, 0.0, error / allowed)
    ratio = np.where(right, np.nan_to_num(ratio), np.where(ratio > 1.0, ratio, np.inf))
    if not ratio.size:
        return Comparison(True, 0, 0, 0.0, (), 0.0, 0.0, 0.0, 0.0)
    worst = tuple(int(i) for i in np.unravel_index(int(np.argmax(ratio)), ratio.shape))
    return Comparison(
        bool(right.all()),
        int((~right).sum()),
        right.size,
        float(np.where(np.isnan(error), np.inf, error).max()),
        worst,
        float(got[worst]),
        float(exact[worst]),
        float(allowed[worst]),
        float(ratio[worst]),
    )
