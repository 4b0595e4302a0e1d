"""Find the graphs to run, in files, folders, patterns and benchdnn's batch files."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...base.errors import InvalidArgumentsError
from ...base.text.files import Unreadable, read_limited
from ...serialization.options import Rewriting, parse_rewritings

# Limits of batch files.
MAX_BYTES = 4 << 20
MAX_DEPTH = 20
MAX_FILES = 1000
MAX_CASES = 100_000


@dataclass(frozen=True)
class Case:
    """A graph to run.

    Parameters
    ----------
    path : str
        The graph's file.
    rewriting : Rewriting, optional
        Changes to make first; None runs the file unchanged.
    error : str
        What is wrong with the line that asks for it.
    """

    path: str
    rewriting: Rewriting | None = None
    error: str = ""

    def __str__(self) -> str:
        words = str(self.rewriting) if self.rewriting is not None else ""
        return f"{words} {self.path}" if words else self.path


def _files(where: str) -> list[str]:
    if os.path.isdir(where):
        return sorted(str(p) for p in Path(where).rglob("*.json"))
    if not os.path.exists(where) and glob.has_magic(where):
        found = sorted(glob.glob(where, recursive=True))
        return [f for name in found for f in (_files(name) if os.path.isdir(name) else [name])]
    return [where]


def cases_of(
    places: Iterable[str],
    options: Sequence[str] | None = None,
    batches: Iterable[str] = (),
) -> list[Case]:
    """Find all cases, in order.

    Parameters
    ----------
    places : iterable of str
        Files, folders (searched for ``*.json``, with all below) and patterns such as
        ``dumps/**/*.json``.
    options : sequence of str, optional
        Options for `parse_rewritings`; each file runs with each combination.
    batches : iterable of str
        Files of benchdnn's command lines, which have their own options; `options` do not apply.

    Raises
    ------
    InvalidArgumentsError
        A folder or pattern has no file, options are invalid, or a batch file is no text or leads to
        too many cases.
    OSError
        A batch file can't be read.
    """
    rewritings: list[Rewriting] | list[None] = parse_rewritings(options) if options else [None]
    made = []
    for place in places:
        files = _files(place)
        if not files:
            raise InvalidArgumentsError(f"{place}: there is no JSON file")
        made += [Case(file, rewriting) for file in files for rewriting in rewritings]
    for batch in batches:
        for case in _Reader().cases(Path(batch)):
            made.append(case)
            if len(made) > MAX_CASES:
                raise InvalidArgumentsError(f"{batch}: more than {MAX_CASES} cases")
    return made


def _found(name: str, batch: Path) -> Path:
    """Find a file that a batch names, here, in the batch's folder or in one above it."""
    near = [Path(), *batch.resolve().parents[:4]]
    return next((folder / name for folder in near if (folder / name).is_file()), Path(name))


class _Reader:
    """Reads batch files; one may name others, and so many in a few lines."""

    def __init__(self) -> None:
        self._options: dict[str, str] = {}  # persist between lines and files
        self._files = 0

    def cases(self, batch: Path, above: Sequence[Path] = ()) -> Iterator[Case]:
        """Yield the cases of a batch file."""
        if batch.resolve() in above:
            raise InvalidArgumentsError(f"{batch}: this batch file reads itself")
        self._files += 1
        if len(above) >= MAX_DEPTH or self._files > MAX_FILES:
            raise InvalidArgumentsError(
                f"{batch}: at most {MAX_FILES} batch files are read, {MAX_DEPTH} inside each other"
            )
        for number, word in _words(_text(batch)):
            name, _, value = word.partition("=")
            if "\0" in value:
                raise InvalidArgumentsError(f"{batch}:{number}: NUL is in a value")
            if name == "--reset":
                self._options.clear()
            elif name == "--batch":
                yield from self.cases(_found(value, batch), [*above, batch.resolve()])
            elif name == "--case":
                yield from self._of_file(str(_found(value, batch)), f"{batch}:{number}")
            else:
                self._options[name] = word

    def _of_file(self, path: str, where: str) -> Iterator[Case]:
        # By default benchdnn expects a single partition.
        words = ["--expected-n-partitions=1", *self._options.values()]
        try:
            rewritings = parse_rewritings(words)
        except InvalidArgumentsError as e:
            yield Case(path, error=f"{where}: {e}")
            return
        for rewriting in rewritings:
            yield Case(path, _shown_as_given(rewriting, self._options))


def _text(batch: Path) -> str:
    try:
        return read_limited(batch, MAX_BYTES).decode()
    except UnicodeDecodeError as e:
        raise InvalidArgumentsError(f"{batch}: not UTF-8: byte {e.start}") from None
    except Unreadable as e:
        raise InvalidArgumentsError(f"{batch}: {e}") from None


def _words(text: str) -> Iterator[tuple[int, str]]:
    """Yield the words of a batch file, with their line numbers.

    ``#`` begins a comment; a backslash at the end of a line joins its last word with the next one.
    """
    begun = ""
    for number, line in enumerate(text.splitlines(), 1):
        for word in line.split():
            if word.startswith("#"):
                break
            begun += word
            if word.endswith("\\"):
                begun = begun[:-1]
            else:
                yield number, begun
                begun = ""
    if begun:
        yield text.count("\n") + 1, begun


def _shown_as_given(rewriting: Rewriting, options: dict[str, str]) -> Rewriting:
    if "--expected-n-partitions" in options:
        return rewriting
    kept = tuple(w for w in rewriting.words if not w.startswith("--expected-n-partitions"))
    return replace(rewriting, words=kept)
