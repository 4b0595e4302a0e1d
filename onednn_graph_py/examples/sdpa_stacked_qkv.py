"""Attention on queries, keys and values that lie in one buffer: strided logical tensors.

A layer that computes all three at once leaves them as (batch, sequence, heads, 3, head size).
Logical tensors with strides describe each of the three in that buffer, and oneDNN reads them where
they are. Sizes are those of oneDNN's own example of 3.13 (in 3.7 the batch is 32 and the sequence
384).
"""

from collections.abc import Iterator

import numpy as np

from .. import GraphBuilder
from ..base.linked import linked_version
from ._attention import attention, padding_mask, random_array, root_scale, scores_type
from ._run import DATA_TYPES, BuiltRun, Case, Skipped, cannot_run


def _known_wrong(name: str, mb: int, seq: int) -> Skipped | None:
    if linked_version() >= (3, 13) or mb == 1 or mb != seq:
        return None
    return Skipped(
        name,
        "oneDNN 3.7 to 3.10 computes attention on strided inputs wrong where the batch is as large"
        " as the sequence and has few heads",
    )


def run(
    engine_kind: str = "cpu", mb: int = 2, seq: int = 128, heads: int = 16, head_size: int = 64
) -> Iterator[Case | Skipped]:
    """Run in each data type."""
    # Elements from one batch entry, head, position and component to the next.
    strides = (seq * heads * 3 * head_size, 3 * head_size, heads * 3 * head_size, 1)

    def build(batch: int) -> GraphBuilder:
        vectors, mask = (batch, heads, seq, head_size), (batch, 1, 1, seq)
        return attention(engine_kind, data_type, vectors, vectors, mask, between, strides)

    for data_type in DATA_TYPES:
        name = f"{data_type}, {mb}x{seq}, {heads} heads of {head_size}"
        between = scores_type(data_type)
        b = build(mb)
        skipped = cannot_run(name, data_type, b.graph) or _known_wrong(name, mb, seq)
        if skipped is not None:
            yield skipped
            continue
        stacked = random_array(np.random.default_rng(0), (mb, seq, heads, 3, head_size), data_type)
        # Views, (batch, heads, sequence, head size); nothing is copied.
        views = (stacked[:, :, :, number].swapaxes(1, 2) for number in range(3))
        arrays = dict(zip(("query", "key", "value"), views, strict=True))
        arrays["scale"] = root_scale(head_size, between)
        arrays["mask"] = padding_mask((mb, 1, 1, seq), between)
        facts = [
            f"one buffer: {stacked.nbytes / 2**20:.3g} MiB, strides"
            f" {'x'.join(str(stride) for stride in strides)}, keys {head_size} and"
            f" values {2 * head_size} elements behind queries",
            f"between MatMul and SoftMax: {between}",
        ]
        yield BuiltRun(b, arrays, entry=build(1)).case(name, facts)
