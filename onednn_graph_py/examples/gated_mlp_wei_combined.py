"""A gated MLP whose gate and up weights lie side by side in one buffer.

That is how checkpoints often keep them: a matrix of (ic, 2 * oc), its left half gate and its right
half up. oneDNN reads both where they are: each is a logical tensor of (ic, oc) whose strides are
those of the whole, and a tensor over its half of the buffer, without a copy.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .. import engine, graph, logical_tensor, op, version
from ..dtypes import numpy_dtype
from ._arguments import DATA_TYPES, check_arguments
from ._expected import compare
from ._gated_mlp import SIZES_IN_ALL, draw
from ._pipeline import Pipeline, fused_ops, median_milliseconds
from ._report import Case, Skipped
from ._skips import cannot_run

__all__ = ["SIZES_IN_ALL", "run"]


class _GatedMLP:
    """The graph, and the tensors at its edge."""

    def __init__(self, engine_kind: str, data_type: str, mb: int, ic: int, oc: int) -> None:
        numbers = iter(range(100))
        linked = version()
        # An f32 result of a bf16 or f16 MatMul is allowed from 3.8 on; down takes the small type.
        wide = data_type != "f32" and (linked["major"], linked["minor"]) >= (3, 8)
        self.between = "f32" if wide else data_type

        def tensor(kind: str, *dims: int) -> logical_tensor:
            return logical_tensor(next(numbers), kind, dims, logical_tensor.strided)

        def half() -> logical_tensor:
            return logical_tensor(next(numbers), data_type, [ic, oc], [2 * oc, 1])

        x, down = tensor(data_type, mb, ic), tensor(data_type, oc, ic)
        gate, up = half(), half()
        gated, raised, gates, swish, hidden = (tensor(self.between, mb, oc) for _ in range(5))
        self.output = tensor(data_type, mb, ic)
        self.inputs = [x, gate, up, down]

        ops = [
            op(next(numbers), op.MatMul, [x, gate], [gated], "gate"),
            op(next(numbers), op.MatMul, [x, up], [raised], "up"),
            op(next(numbers), op.Sigmoid, [gated], [gates], "swish/sigmoid"),
            op(next(numbers), op.Multiply, [gated, gates], [swish], "swish/multiply"),
            op(next(numbers), op.Multiply, [swish, raised], [hidden], "multiply"),
        ]
        if wide:
            narrow = tensor(data_type, mb, oc)
            ops.append(op(next(numbers), op.TypeCast, [hidden], [narrow], "narrow"))
            hidden = narrow
        ops.append(op(next(numbers), op.MatMul, [hidden, down], [self.output], "down"))
        self.net = graph(engine_kind)
        for one in ops:
            self.net.add_op(one)
        self.net.finalize()


def _case(name: str, mlp: _GatedMLP) -> Case:
    partitions = mlp.net.get_partitions()
    device = engine(mlp.net.get_engine_kind(), 0)
    pipeline = Pipeline(partitions, mlp.inputs, [mlp.output], device)

    mb, ic = mlp.output.get_dims()
    oc, _ = mlp.inputs[3].get_dims()
    x, combined, down = draw(mb, ic, oc, numpy_dtype(mlp.output.get_data_type()))
    gate, up = np.hsplit(combined, 2)
    arrays = {lt.get_id(): a for lt, a in zip(mlp.inputs, (x, gate, up, down), strict=True)}
    execution = pipeline.bind(arrays)
    execution()
    return Case(
        name=name,
        expected_partitions=1,
        partitions=fused_ops(mlp.net.get_ops(), partitions),
        comparisons={
            "all elements with NumPy in float64": compare(
                mlp.net.get_ops(), arrays, {mlp.output.get_id(): execution.output(mlp.output)}
            )
        },
        milliseconds=median_milliseconds(execution),
        facts=[
            f"gate and up: two views of one buffer of {combined.nbytes} bytes",
            f"between the MatMuls: {mlp.between}",
        ],
    )


def run(
    engine_kind: str = "cpu", mb: int = 1, ic: int = 4096, oc: int = 14336
) -> Iterator[Case | Skipped]:
    """Run in each data type; each takes the memory of its three matrices, in turn.

    Raises
    ------
    InvalidArgumentsError
        A size is not positive, or there is no such kind of engine.
    """
    check_arguments("gated_mlp_wei_combined", engine_kind, mb=mb, ic=ic, oc=oc)
    for data_type in DATA_TYPES:
        name = f"{data_type}, mb {mb}, ic {ic}, oc {oc}"
        mlp = _GatedMLP(engine_kind, data_type, mb, ic, oc)
        yield cannot_run(name, data_type, mlp.net) or _case(name, mlp)
