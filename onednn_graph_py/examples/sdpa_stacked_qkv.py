"""Attention on queries, keys and values that lie in one buffer: strided logical tensors.

A layer that computes all three at once leaves them as (batch, sequence, heads, 3, head size).
Logical tensors with strides describe each of the three in that buffer, and oneDNN reads them where
they are. Sizes are those of oneDNN's own example of 3.13 (in 3.7 the batch is 32 and the sequence
384).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .. import engine, graph, logical_tensor, op
from ..linked import linked_version
from ._arguments import DATA_TYPES, check_arguments
from ._attention import padding_mask, random_array, root_scale, scores_type
from ._expected import compare_entries
from ._pipeline import Pipeline, fused_ops, median_milliseconds
from ._report import Case, Skipped
from ._skips import cannot_run

# _STACKED names the three in their order in the buffer; the places in _NAMES are tensors' ids.
_STACKED = ("query", "key", "value")
_NAMES = (*_STACKED, "scale", "mask")


class _Attention:
    """The graph, and its inputs and output as logical tensors."""

    def __init__(
        self, engine_kind: str, data_type: str, mb: int, seq: int, heads: int, head_size: int
    ) -> None:
        between = scores_type(data_type)

        def row_major(number: int, dtype: str, *dims: int) -> logical_tensor:
            return logical_tensor(number, dtype, dims, logical_tensor.strided)

        vectors, matrices = (mb, heads, seq, head_size), (mb, heads, seq, seq)
        # Elements from one batch entry, head, position and component to the next.
        self.strides = (seq * heads * 3 * head_size, 3 * head_size, heads * 3 * head_size, 1)
        query, key, value = (
            logical_tensor(number, data_type, vectors, self.strides) for number in range(3)
        )
        scale = row_major(3, between, 1)
        mask = row_major(4, between, mb, 1, 1, seq)
        products, scaled, masked = (row_major(number, between, *matrices) for number in (5, 6, 7))
        weights = row_major(8, data_type, *matrices)
        self.output = row_major(9, data_type, *vectors)
        self.inputs = [query, key, value, scale, mask]

        multiply = op(0, op.MatMul, [query, key], [products], "query by key")
        multiply.set_attr(op.transpose_b, True)
        divide = op(1, op.Divide, [products, scale], [scaled], "scale")
        add = op(2, op.Add, [scaled, mask], [masked], "mask")
        softmax = op(3, op.SoftMax, [masked], [weights], "softmax")
        softmax.set_attr(op.axis, -1)
        combine = op(4, op.MatMul, [weights, value], [self.output], "weights by value")
        self.net = graph(engine_kind)
        for one in (multiply, divide, add, softmax, combine):
            self.net.add_op(one)
        self.net.finalize()


def _known_wrong(name: str, mb: int, seq: int) -> Skipped | None:
    if linked_version() >= (3, 8) or mb == 1 or mb != seq:
        return None
    return Skipped(
        name,
        "oneDNN 3.7 computes attention on strided inputs wrong where the batch is as large as the"
        " sequence and has few heads",
    )


def run(
    engine_kind: str = "cpu", mb: int = 2, seq: int = 128, heads: int = 16, head_size: int = 64
) -> Iterator[Case | Skipped]:
    """Run in each data type.

    Raises
    ------
    InvalidArgumentsError
        A size is not positive, or there is no such kind of engine.
    """
    check_arguments(
        "sdpa_stacked_qkv", engine_kind, mb=mb, seq=seq, heads=heads, head_size=head_size
    )
    for data_type in DATA_TYPES:
        name = f"{data_type}, {mb}x{seq}, {heads} heads of {head_size}"
        attention = _Attention(engine_kind, data_type, mb, seq, heads, head_size)
        skipped = cannot_run(name, data_type, attention.net) or _known_wrong(name, mb, seq)
        if skipped is not None:
            yield skipped
            continue
        between = scores_type(data_type)
        stacked = random_array(np.random.default_rng(0), (mb, seq, heads, 3, head_size), data_type)
        named = {
            # Views, (batch, heads, sequence, head size); nothing is copied.
            **{
                name: stacked[:, :, :, number].swapaxes(1, 2)
                for number, name in enumerate(_STACKED)
            },
            "scale": root_scale(head_size, between),
            "mask": padding_mask((mb, 1, 1, seq), between),
        }
        partitions = attention.net.get_partitions()
        device = engine(engine_kind, 0)
        pipeline = Pipeline(partitions, attention.inputs, [attention.output], device)
        arrays = {number: named[name] for number, name in enumerate(_NAMES)}
        execution = pipeline.bind(arrays)
        execution()
        result = {9: execution.output(attention.output)}
        compared = compare_entries(attention.net.get_ops(), arrays, result)
        yield Case(
            name=name,
            expected_partitions=1,
            partitions=fused_ops(attention.net.get_ops(), partitions),
            comparisons={"all elements with NumPy in float64": compared},
            milliseconds=median_milliseconds(execution),
            facts=[
                f"one buffer: {stacked.nbytes / 2**20:.3g} MiB, strides"
                f" {'x'.join(str(stride) for stride in attention.strides)}, keys {head_size} and"
                f" values {2 * head_size} elements behind queries",
                f"between MatMul and SoftMax: {between}",
            ],
        )
