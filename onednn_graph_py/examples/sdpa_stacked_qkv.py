"""Attention on queries, keys and values that lie in one buffer: strided logical tensors.

A layer that computes all three at once leaves them as (batch, sequence, heads, 3, head size).
Logical tensors with strides describe each of the three in that buffer, and oneDNN reads them where
they are. Sizes are those of oneDNN's own example of 3.13 (in 3.7 the batch is 32 and the sequence
384).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..base.linked import linked_version
from ._attention import attention, padding_mask, random_array, root_scale, scores_type
from ._run import DATA_TYPES, Case, Pipeline, Skipped, cannot_run, checked


def _known_wrong(name: str, mb: int, seq: int) -> Skipped | None:
    if linked_version() >= (3, 13) or mb == 1 or mb != seq:
        return None
    return Skipped(
        name,
        "oneDNN 3.7 to 3.10 computes attention on strided inputs wrong where the batch is as large"
        " as the sequence and has few heads",
    )


@checked
def run(
    engine_kind: str = "cpu", mb: int = 2, seq: int = 128, heads: int = 16, head_size: int = 64
) -> Iterator[Case | Skipped]:
    """Run in each data type."""
    vectors = (mb, heads, seq, head_size)
    # Elements from one batch entry, head, position and component to the next.
    strides = (seq * heads * 3 * head_size, 3 * head_size, heads * 3 * head_size, 1)
    for data_type in DATA_TYPES:
        name = f"{data_type}, {mb}x{seq}, {heads} heads of {head_size}"
        between = scores_type(data_type)
        b, result = attention(
            engine_kind, data_type, vectors, vectors, (mb, 1, 1, seq), between, strides
        )
        skipped = cannot_run(name, data_type, b.graph) or _known_wrong(name, mb, seq)
        if skipped is not None:
            yield skipped
            continue
        stacked = random_array(np.random.default_rng(0), (mb, seq, heads, 3, head_size), data_type)
        # Views, (batch, heads, sequence, head size); nothing is copied.
        arrays = [stacked[:, :, :, number].swapaxes(1, 2) for number in range(3)]
        arrays += [root_scale(head_size, between), padding_mask((mb, 1, 1, seq), between)]
        given = {value.id: array for value, array in zip(b.inputs, arrays, strict=True)}
        facts = [
            f"one buffer: {stacked.nbytes / 2**20:.3g} MiB, strides"
            f" {'x'.join(str(stride) for stride in strides)}, keys {head_size} and"
            f" values {2 * head_size} elements behind queries",
            f"between MatMul and SoftMax: {between}",
        ]
        execution = Pipeline.of(b, [result]).bind(given)
        yield execution.case(name, b.graph.get_ops(), facts, by_entry=True)
