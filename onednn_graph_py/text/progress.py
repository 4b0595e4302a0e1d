"""A line on a terminal that is written over."""

from __future__ import annotations

import sys

__all__ = ["show_progress"]


def show_progress(text: str) -> None:
    """Show a line in place of the one before; not where standard error is no terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
