"""Options that several commands have, and the numbers that options take."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from math import isfinite

__all__ = ["add_forms", "add_seed", "add_set", "add_timeout", "at_least", "positive", "seconds"]


def at_least(least: int) -> Callable[[str], int]:
    """The type of an option that takes integers from some number on."""

    def integer(text: str) -> int:
        number = int(text)
        if number < least:
            raise ArgumentTypeError(f"must be at least {least}, got {text}")
        return number

    return integer


def positive(text: str) -> float:
    """Read a number above 0."""
    number = float(text)
    if not number > 0:
        raise ArgumentTypeError(f"must be positive, got {text}")
    return number


def seconds(text: str) -> float:
    """Read a time, which may be 0."""
    number = float(text)
    if not isfinite(number) or number < 0:
        raise ArgumentTypeError(f"must be a time from 0 on, got {text}")
    return number


def add_set(parser: ArgumentParser, help: str) -> None:
    """Add ``--set OPTION``; what is given begins with dashes then, as benchdnn's options do."""

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
    """Add ``--timeout``, a time limit of something."""
    told = f"time limit {of}, in seconds (default: %(default)g)"
    parser.add_argument("--timeout", type=positive, default=default, help=told)


def add_forms(parser: ArgumentParser, **helps: str) -> None:
    """Add an option for each form of the output, of which one may be given: `form`."""
    group = parser.add_mutually_exclusive_group()
    for form, told in helps.items():
        group.add_argument(f"--{form}", dest="form", action="store_const", const=form, help=told)
