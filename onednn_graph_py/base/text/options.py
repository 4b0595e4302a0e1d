"""Options that several commands have, and the numbers that options take."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from math import isfinite
from typing import TypeVar


def _width() -> int:
    """Return the columns of help: at most 98, on however wide a terminal."""
    return min(98, shutil.get_terminal_size().columns - 2)


N = TypeVar("N", int, float)


def _number(kind: Callable[[str], N], must: str, fits: Callable[[N], bool]) -> Callable[[str], N]:
    def number(text: str) -> N:
        value = kind(text)
        if not fits(value):
            raise ArgumentTypeError(f"must be {must}, got {text}")
        return value

    return number


def at_least(least: int) -> Callable[[str], int]:
    """Make the type of an option that takes integers from `least` on."""
    return _number(int, f"at least {least}", lambda n: n >= least)


positive = _number(float, "positive", lambda n: n > 0)
seconds = _number(float, "a time from 0 on", lambda n: isfinite(n) and n >= 0)


def add_seed(parser: ArgumentParser) -> None:
    """Add ``--seed``."""
    parser.add_argument(
        "--seed",
        type=at_least(0),
        default=0,
        help="seed for generated inputs (default: %(default)s)",
    )


def add_timeout(parser: ArgumentParser, default: float, of: str) -> None:
    """Add ``--timeout``; `of` names in the help text what it limits."""
    text = f"time limit {of}, in seconds (default: %(default)g)"
    parser.add_argument("--timeout", type=positive, default=default, help=text)


def add_seconds(parser: ArgumentParser, default: float, of: str) -> None:
    """Add ``--seconds``; `of` names in the help text what they are for."""
    text = f"{of}, in seconds (default: %(default)g)"
    parser.add_argument("--seconds", type=seconds, default=default, help=text)


def help_form(prog: str) -> argparse.HelpFormatter:
    """Make the formatter of a parser's help."""
    return argparse.RawDescriptionHelpFormatter(prog, width=_width())


def add_command(
    commands: argparse._SubParsersAction[ArgumentParser],
    name: str,
    help: str,
    description: str,
    example: str,
    *,
    more: str = "",
) -> ArgumentParser:
    """Add a command; `help` is its line in the list, `example` what follows its name.

    The description has at most two lines of full width; `more` has the rest.
    """
    return commands.add_parser(
        name,
        help=help,
        description=textwrap.fill(description, _width()),
        epilog=f"example:\n  %(prog)s {example}\n\n{textwrap.fill(more, _width())}",
        formatter_class=help_form,
    )


def add_forms(parser: ArgumentParser, **helps: str) -> None:
    """Add ``--format``, an option for each form of the output, and ``--output``.

    At most one form may be given, and sets `form`; `cli.main` writes the output.
    """
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--format",
        dest="form",
        choices=["text", *helps],
        metavar="FORM",
        help=f"form of the output: {', '.join(['text', *helps])} (default: text)",
    )
    for form, text in helps.items():
        group.add_argument(f"--{form}", dest="form", action="store_const", const=form, help=text)
    add_output(parser)


def add_output(parser: ArgumentParser) -> None:
    """Add ``--output``, which `cli.main` obeys."""
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="output file (default: standard output)"
    )
