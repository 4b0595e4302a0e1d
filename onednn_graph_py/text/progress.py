"""A line on a terminal that is written over."""

from __future__ import annotations

import os
import sys

__all__ = ["show_progress"]


def show_progress(text: str) -> None:
    """Show a line in place of the one before, where standard error is a terminal that can."""
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
