"""The table by op kind."""

from __future__ import annotations

from ..errors import InvalidArgumentsError
from ..text.names import did_you_mean
from .describe import aligned, version_text
from .schema import OpSchema
from .table import OPS
from .terms import Version

__all__ = ["overview", "row"]


def row(kind: str) -> OpSchema:
    """The row of a kind, in its newest form.

    Raises
    ------
    InvalidArgumentsError
        There is no such kind.
    """
    found = OPS.get(kind)
    if found is not None:
        return found
    same = [k for k in OPS if k.lower() == kind.lower()]
    hint = did_you_mean(same[0] if same else kind, OPS)
    raise InvalidArgumentsError(f"oneDNN has no op kind {kind!r}{hint}")


def overview(version: Version) -> str:
    """All ops, a line each; those that a version lacks say what they need."""
    rows: list[tuple[str, ...]] = []
    for kind, schema in sorted(OPS.items()):
        needs = f"needs oneDNN >= {version_text(schema.since)}: " if schema.since > version else ""
        rows.append((kind, needs + schema.summary))
    return "\n".join(aligned(rows, indent=""))
