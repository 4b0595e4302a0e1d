"""Store the results of attempts on disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..store import load as stored
from ..store import place
from .probe import Attempt


def path(attempts: Sequence[Attempt]) -> Path:
    """Return the file that stores the results of these attempts on this machine."""
    # The package's version and the attempts determine the sample uses, so these need no key.
    return place("capabilities", [[a.kind, a.inputs, a.outputs] for a in attempts])


def load(file: Path, count: int) -> list[tuple[str, str]] | None:
    """Return the saved outcomes; None if there are none, or not `count` of them."""
    kept: Any = stored(file)
    if not isinstance(kept, list) or len(kept) != count:
        return None
    try:
        return [(str(outcome), str(reason)) for outcome, reason in kept]
    except (TypeError, ValueError):
        return None
