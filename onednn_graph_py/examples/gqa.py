"""Grouped-query attention: each head of keys and values serves a group of query heads.

It is one partition in either form: with query heads grouped by StaticReshape, as oneDNN's own
example of 3.7 builds it, and with inputs that are grouped already, as that of 3.13 does. Sizes are
those of 3.13 (in 3.7 the batch is 32 and the sequence 384).
"""

from __future__ import annotations

from collections.abc import Iterator

from ._arguments import check_arguments
from ._attention import check_groups
from ._grouped_heads import GroupedHeads, cases
from ._report import Case, Skipped


def run(
    engine_kind: str = "cpu",
    mb: int = 2,
    seq: int = 128,
    q_heads: int = 16,
    kv_heads: int = 2,
    head_size: int = 64,
) -> Iterator[Case | Skipped]:
    """Run in each data type and both forms.

    Raises
    ------
    InvalidArgumentsError
        A size is not positive, `kv_heads` does not divide `q_heads`, or there is no such kind of
        engine.
    """
    check_arguments(
        "gqa", engine_kind, mb=mb, seq=seq, q_heads=q_heads, kv_heads=kv_heads, head_size=head_size
    )
    check_groups("gqa", q_heads, kv_heads)
    yield from cases(engine_kind, GroupedHeads(mb, seq, q_heads, kv_heads, head_size))
