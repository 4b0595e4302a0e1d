"""A progress line that is written over on a terminal."""

import os
import sys


def show_progress(text: str) -> None:
    """Replace the last progress line, if standard error is a terminal that supports it."""
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
