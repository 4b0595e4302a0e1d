"""Look up ops in the table by kind, trait or attribute."""

from collections.abc import Iterable
from functools import cache

from .. import _core
from ..base.arguments import need_instance
from .describe import aligned, version_text
from .schema import OpSchema
from .table import OPS
from .terms import Version


def row(kind: str) -> OpSchema:
    """Return the row of a kind, in its newest form; raise if oneDNN has no such kind."""
    need_instance("kind", kind, str)
    if kind not in OPS:
        _core.op(0, kind)  # raises, and names the nearest kind
    return OPS[kind]


@cache
def with_trait(*words: str) -> frozenset[str]:
    """Return the kinds that have all these traits.

    >>> sorted(with_trait("moves"))
    ['Reorder', 'StaticReshape', 'StaticTranspose']
    """
    return frozenset(kind for kind, row in OPS.items() if set(words) <= set(row.traits))


@cache
def with_attribute(name: str) -> frozenset[str]:
    """Return the kinds that have an attribute of this name.

    >>> sorted(with_attribute("zps"))
    ['Dequantize', 'Quantize']
    """
    return frozenset(kind for kind, row in OPS.items() if row.attribute(name) is not None)


def is_quantized(kinds: Iterable[str]) -> bool:
    """Return whether a partition of these kinds computes in 8 bits: has others between casts."""
    return len({k in with_trait("quantizes") | with_trait("dequantizes") for k in kinds}) == 2


def overview(version: Version) -> str:
    """Return a line for each op; it names the oneDNN that it needs if the version lacks it."""
    rows: list[tuple[str, ...]] = []
    for kind, schema in sorted(OPS.items()):
        needs = f"needs oneDNN >= {version_text(schema.since)}: " if schema.since > version else ""
        rows.append((kind, needs + schema.summary))
    return "\n".join(aligned(rows, indent=""))
