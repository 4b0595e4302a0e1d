"""Options that several commands have, and the numbers that options take."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from math import isfinite
from typing import TypeVar

__all__ = ["add_forms", "add_seed", "add_set", "add_timeout", "at_least", "positive", "seconds"]


N = TypeVar("N", int, float)


def _number(kind: Callable[[str], N], must: str, fits: Callable[[N], bool]) -> Callable[[str], N]:
    def number(text: str) -> N:
        found = kind(text)
        if not fits(found):
            raise ArgumentTypeError(f"must be {must}, got {text}")
        return found

    return number


def at_least(least: int) -> Callable[[str], int]:
    """Make the type of an option that takes integers from `least` on."""
    return _number(int, f"at least {least}", lambda n: n >= least)


positive = _number(float, "positive", lambda n: n > 0)
seconds = _number(float, "a time from 0 on", lambda n: isfinite(n) and n >= 0)


def add_set(parser: ArgumentParser, help: str) -> None:
    """Add ``--set OPTION``; parsed options begin with dashes, as benchdnn's do."""

    def dashed(option: str) -> str:
        return option if option.startswith("--") else f"--{option}"

    parser.add_argument(
        "--set", action="append", default=[], type=dashed, metavar="OPTION", help=help
    )


def add_seed(parser: ArgumentParser) -> None:
    """Add ``--seed``."""
    parser.add_argument(
        "--seed", type=int, default=0, help="seed for generated inputs (default: %(default)s)"
    )


def add_timeout(parser: ArgumentParser, default: float, of: str) -> None:
    """Add ``--timeout``; `of` names in the help text what it limits."""
    told = f"time limit {of}, in seconds (default: %(default)g)"
    parser.add_argument("--timeout", type=positive, default=default, help=told)


def add_forms(parser: ArgumentParser, **helps: str) -> None:
    """Add an option for each form of the output; at most one may be given, and sets `form`."""
    group = parser.add_mutually_exclusive_group()
    for form, told in helps.items():
        group.add_argument(f"--{form}", dest="form", action="store_const", const=form, help=told)
