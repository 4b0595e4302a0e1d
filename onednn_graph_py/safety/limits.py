"""Ranks that an op's definition allows and oneDNN's kernels do not survive."""

from __future__ import annotations

from typing import NamedTuple

from ..ops.call import Call

__all__ = ["check_limits"]


class _Ranks(NamedTuple):
    low: int
    high: int
    inputs: tuple[int, ...] = (0,)
    outputs: tuple[int, ...] = ()
    why: str = "oneDNN's kernels overflow their arrays with more"


_SPATIAL = "oneDNN's kernels know one to three spatial dims"

_RANKS: dict[str, _Ranks] = {
    **dict.fromkeys(
        (
            "Convolution",
            "ConvolutionBackwardData",
            "ConvolutionBackwardWeights",
            "ConvTranspose",
            "ConvTransposeBackwardData",
            "ConvTransposeBackwardWeights",
        ),
        _Ranks(3, 5, (0, 1), (0,), _SPATIAL),
    ),
    **dict.fromkeys(
        ("AvgPool", "AvgPoolBackward", "MaxPool", "MaxPoolBackward"), _Ranks(3, 5, why=_SPATIAL)
    ),
    **dict.fromkeys(("Interpolate", "InterpolateBackward"), _Ranks(3, 5, why=_SPATIAL)),
    **dict.fromkeys(
        ("BatchNormInference", "BatchNormForwardTraining", "BatchNormTrainingBackward"),
        _Ranks(2, 5),
    ),
    "GroupNorm": _Ranks(3, 5, why="oneDNN crashes with less and reads out of bounds with more"),
    **dict.fromkeys(
        ("PReLU", "PReLUBackward"), _Ranks(2, 12, why="oneDNN crashes when it compiles it for one")
    ),
    "Select": _Ranks(0, 5, (0, 1, 2)),
}


def check_limits(call: Call) -> None:
    """Check the ranks of an op's tensors.

    Raises
    ------
    InvalidShapeError
        One is beyond what the kernels know.
    """
    ranks = _RANKS.get(call.kind)
    if ranks is None:
        return
    operands = [call.input(i) for i in ranks.inputs] + [call.output(i) for i in ranks.outputs]
    for operand in operands:
        if operand.rank is not None and not ranks.low <= operand.rank <= ranks.high:
            operand.refuse(f"rank {ranks.low} to {ranks.high} ({ranks.why})")
