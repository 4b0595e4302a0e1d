"""Grouped-query attention: each head of keys and values serves a group of query heads.

It is one partition in either form: with query heads grouped by StaticReshape, as oneDNN's own
example of 3.7 builds it, and with inputs that are grouped already, as that of 3.13 does. Sizes are
those of 3.13 (in 3.7 the batch is 32 and the sequence 384).
"""

from collections.abc import Iterator

from ._attention import GroupedHeads, cases, check_groups
from ._run import Case, Skipped


def run(
    engine_kind: str = "cpu",
    mb: int = 2,
    seq: int = 128,
    q_heads: int = 16,
    kv_heads: int = 2,
    head_size: int = 64,
) -> Iterator[Case | Skipped]:
    """Run in each data type and both forms."""
    check_groups("gqa", q_heads, kv_heads)
    yield from cases(engine_kind, GroupedHeads(mb, seq, q_heads, kv_heads, head_size))
