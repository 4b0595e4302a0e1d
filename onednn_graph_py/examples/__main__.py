"""List the examples, or run some.

    python -m onednn_graph_py.examples                                 list
    python -m onednn_graph_py.examples NAME [cpu|gpu] [SIZE ...] ...   run the named ones
    python -m onednn_graph_py.examples --all                           run all

Some take a kind of engine and sizes, shown in the list; what is left out is oneDNN's own. The list
also shows the smaller sizes with which --all runs those that would take long. Where there is no
engine of the kind, the graph is only partitioned for it. What can't run here is skipped, and the
lines below the closing table say why. The exit status is 0 if everything was as it should be, 1 if
an example failed, and 2 if the command was wrong.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import pkgutil
import sys
import textwrap
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .. import OneDNNError, get_effective_cpu_isa, version
from ..base.text.names import did_you_mean
from ..base.text.numbers import counted
from ..base.text.table import text_table
from . import __path__ as _folder
from ._run import Case, ExampleError, Skipped

ENGINE_KINDS = ("cpu", "gpu")


class UsageError(Exception):
    """The command line is wrong; the message says how."""


@dataclass(frozen=True)
class Example:
    """An example, ready to run."""

    name: str
    summary: str
    run: Callable[..., Iterator[Case | Skipped]]
    sizes_in_all: Mapping[str, int]

    @staticmethod
    def load(name: str) -> Example:
        """Import an example by its name."""
        module = importlib.import_module(f".{name}", __package__)
        summary = (module.__doc__ or "").splitlines()[0]
        return Example(name, summary, module.run, getattr(module, "SIZES_IN_ALL", {}))

    def takes_engine_kind(self) -> bool:
        """Whether the first argument may be ``cpu`` or ``gpu``."""
        return "engine_kind" in inspect.signature(self.run).parameters

    def sizes(self) -> list[inspect.Parameter]:
        """Sizes that the example takes."""
        parameters = inspect.signature(self.run).parameters.values()
        return [one for one in parameters if one.name != "engine_kind"]

    def usage(self) -> str:
        """Name, kind of engine and sizes, with their defaults."""
        words = [self.name]
        if self.takes_engine_kind():
            words.append(f"[{'|'.join(ENGINE_KINDS)}]")
        for one in self.sizes():
            words.append(f"[{one.name}]" if one.default is None else f"[{one.name}={one.default}]")
        return " ".join(words)


@dataclass
class Request:
    """An example, and the arguments to run it with."""

    example: Example
    engine_kind: str | None = None
    sizes: list[int] = field(default_factory=list)
    in_all: bool = False

    def cases(self) -> Iterator[Case | Skipped]:
        """Start the example."""
        names = (one.name for one in self.example.sizes())
        arguments: dict[str, str | int] = dict(zip(names, self.sizes, strict=False))
        if self.in_all:
            arguments = {**self.example.sizes_in_all}
        if self.engine_kind is not None:
            arguments["engine_kind"] = self.engine_kind
        return self.example.run(**arguments)


Row = tuple[str, Case | Skipped | None]
"""An example and one of its cases; None where it raised an error."""


def verdict(case: Case | Skipped | None) -> str:
    """Return whether a case is ok, skipped or FAILED."""
    if isinstance(case, Skipped):
        return "skipped"
    return "FAILED" if case is None or case.all_faults() else "ok"


def cells(example: str, case: Case | Skipped | None) -> list[str]:
    """Return a line of the closing table."""
    if case is None:
        return [example, *[""] * 6, verdict(case)]
    numbers = ["", "", ""]
    if isinstance(case, Case):
        result = list(case.comparisons.values())[-1]
        numbers = [f"{result.max_error:.2g}", f"{result.share:.2g}", f"{case.milliseconds:.3f}"]
    ops = "+".join(str(len(fused)) for fused in case.partitions)
    return [example, case.name, str(len(case.partitions) or ""), ops, *numbers, verdict(case)]


def names() -> list[str]:
    """All examples."""
    found = (module.name for module in pkgutil.iter_modules(_folder))
    return sorted(name for name in found if not name.startswith("_"))


def listing() -> str:
    """Return the list of examples, one a line."""
    examples = [Example.load(name) for name in names()]
    rows = []
    for example in examples:
        rows.append((example.name, example.summary))
        if example.usage() != example.name:
            rows.append(("", f"takes: {example.usage()}"))
        if example.sizes_in_all:
            sizes = " ".join(f"{name}={size}" for name, size in example.sizes_in_all.items())
            rows.append(("", f"with --all: {sizes}"))
    return "\n".join(text_table(rows))


def parse(words: Sequence[str]) -> list[Request]:
    """Read names, each followed by the kind of engine and the sizes that belong to it."""
    chosen: list[Request] = []
    for word in words:
        if word.lstrip("-").isdecimal():
            if not chosen:
                raise UsageError(f"{word}: a size goes behind an example's name")
            if int(word) < 1:
                raise UsageError(f"{word}: a size must be at least 1")
            chosen[-1].sizes.append(int(word))
        elif word in ENGINE_KINDS:
            if not chosen or chosen[-1].sizes or chosen[-1].engine_kind is not None:
                raise UsageError(f"{word}: a kind of engine goes right behind an example's name")
            if not chosen[-1].example.takes_engine_kind():
                raise UsageError(f"{chosen[-1].example.name} takes no kind of engine, got {word!r}")
            chosen[-1].engine_kind = word
        elif word in names():
            chosen.append(Request(Example.load(word)))
        else:
            raise UsageError(_unknown(word, behind_a_name=bool(chosen)))
    for request in chosen:
        if len(request.sizes) > len(request.example.sizes()):
            raise UsageError(f"too many sizes: {request.example.usage()}")
    return chosen


def _unknown(word: str, behind_a_name: bool) -> str:
    what = f"there is no example {word!r}"
    if behind_a_name:
        what += f", and the kinds of engine are {' and '.join(ENGINE_KINDS)}"
    return f"{what}{did_you_mean(word, names()) or '.'} There are: {', '.join(names())}"


def run(request: Request) -> list[Row]:
    """Run one example, print its results, and return its rows for the table."""
    example = request.example
    print(f"\n{example.name}: {example.summary}", flush=True)
    rows: list[Row] = []
    try:
        for case in request.cases():
            first, *rest = case.lines()
            print(f"  {first}\n{textwrap.indent(chr(10).join(rest), '    ')}", flush=True)
            rows.append((example.name, case))
    except Exception as error:  # the other examples still run
        told = traceback.format_exc()
        if isinstance(error, ExampleError):
            told = str(error)
        elif isinstance(error, OneDNNError):
            told = f"{type(error).__name__}: {error}"
        print(textwrap.indent(told.rstrip(), "  "), flush=True)
        rows.append((example.name, None))
    return rows


def table(rows: Iterable[Row]) -> str:
    """Put the rows under headings, in columns."""
    headings = ("example", "case", "partitions", "ops", "max error", "of tolerance", "ms", "")
    return "\n".join(text_table([headings, *(cells(*row) for row in rows)]))


def reasons(rows: Iterable[Row]) -> str:
    """Say why cases were skipped, each reason once."""
    skipped: dict[str, Counter[str]] = {}
    for example, case in rows:
        if isinstance(case, Skipped):
            skipped.setdefault(case.reason, Counter())[example] += 1
    lines = []
    for reason, examples in skipped.items():
        counts = (f"{name} ({counted(n, 'case')})" for name, n in examples.items())
        lines.append(f"skipped: {', '.join(counts)}\n  {reason}")
    return "\n".join(lines)


def summary(rows: Sequence[Row]) -> str:
    """Count the cases that passed, were skipped, or failed."""
    count = Counter(verdict(case) for _, case in rows)
    examples = {example for example, _ in rows}
    failed = sorted({example for example, case in rows if verdict(case) == "FAILED"})
    told = f"failed: {', '.join(failed)}" if failed else "nothing failed"
    return (
        f"{told}; {counted(len(examples), 'example')}, {count['ok']} passed,"
        f" {count['skipped']} skipped, {count['FAILED']} failed"
    )


def _one_blas_thread() -> contextlib.AbstractContextManager[object]:
    """Keep NumPy to one thread, where threadpoolctl (which comes with scikit-learn) can.

    The threads of NumPy's BLAS and those of oneDNN both spin while they wait. On a busy machine
    they take the processors from each other: all examples then took four times as long.
    """
    try:
        threadpoolctl = importlib.import_module("threadpoolctl")
    except ImportError:
        return contextlib.nullcontext()
    return threadpoolctl.threadpool_limits(1, "blas")  # type: ignore[no-any-return]


def main(words: Sequence[str]) -> int:
    """Run the command line; return the exit status."""
    if not words:
        print(listing())
        return 0
    if "--help" in words or "-h" in words:
        print((__doc__ or "").strip())
        return 0
    try:
        if list(words) == ["--all"]:
            chosen = [Request(Example.load(name), in_all=True) for name in names()]
        else:
            chosen = parse(words)
    except UsageError as error:
        print(f"examples: {error}", file=sys.stderr)
        return 2

    linked = version()
    print(
        f"oneDNN {linked.release}, {linked.cpu_runtime} runtime,"
        f" instruction set {get_effective_cpu_isa().name}"
    )
    start = time.monotonic()
    with _one_blas_thread():
        rows = [row for request in chosen for row in run(request)]
    print(f"\n{table(rows)}")
    below = reasons(rows)
    if below:
        print(f"\n{below}")
    print(f"\n{summary(rows)}, in {time.monotonic() - start:.1f} s")
    return int(any(verdict(case) == "FAILED" for _, case in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
