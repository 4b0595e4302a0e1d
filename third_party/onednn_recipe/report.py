"""What the recipe says to people: lines on stderr, and errors that tell what to do."""

import sys


class RecipeError(Exception):
    """The recipe can't go on; the message says why and what to do."""


class UnavailableError(Exception):
    """One source of oneDNN can't be had; the message is the reason, in one line."""


def say(line: str) -> None:
    """Print one line for the person who waits (stdout stays free for results)."""
    print(f"oneDNN: {line}", file=sys.stderr, flush=True)
