"""Multi-query attention: all query heads share one head of keys and values.

It is grouped-query attention with one group. oneDNN's own example gives MatMul a query of
(batch, heads, ...) and a key of (batch, 1, ...) instead, which makes oneDNN 3.7 to 3.13 read out of
bounds on a CPU; `onednn_graph_py` refuses to compile that. Sizes are those of the example of 3.13
(in 3.7 the batch is 32 and the sequence 384).
"""

from collections.abc import Iterator

from ._attention import GroupedHeads, cases
from ._run import Case, Skipped


def run(
    engine_kind: str = "cpu", mb: int = 2, seq: int = 128, q_heads: int = 16, head_size: int = 64
) -> Iterator[Case | Skipped]:
    """Run in each data type, with heads grouped by the graph and grouped already."""
    yield from cases(engine_kind, GroupedHeads(mb, seq, q_heads, 1, head_size))
