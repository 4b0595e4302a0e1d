"""Processes of this package, which may crash or hang where their caller may not."""

from .worker import STARTUP, ending, last_words, started

__all__ = ["STARTUP", "ending", "last_words", "started"]
