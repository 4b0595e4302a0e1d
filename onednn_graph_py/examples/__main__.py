"""List the examples, or run some.

    python -m onednn_graph_py.examples                       list
    python -m onednn_graph_py.examples NAME [SIZE ...] ...   run the named ones
    python -m onednn_graph_py.examples --all                 run all

Some take sizes, shown in the list; what is left out is oneDNN's own. The exit status is 0 if
everything was as it should be, 1 if an example failed, and 2 if the command was wrong.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import inspect
import pkgutil
import sys
import textwrap
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from .. import OneDNNError, get_effective_cpu_isa, version
from . import __path__ as _folder
from ._report import Case, ExampleError, Skipped


class UsageError(Exception):
    """The command line is wrong; the message says how."""


@dataclass(frozen=True)
class Example:
    """An example, ready to run."""

    name: str
    summary: str
    run: Callable[..., Iterator[Case | Skipped]]

    @staticmethod
    def load(name: str) -> Example:
        """Import an example by its name."""
        module = importlib.import_module(f".{name}", __package__)
        return Example(name, (module.__doc__ or "").splitlines()[0], module.run)

    def parameters(self) -> list[inspect.Parameter]:
        """Sizes that the example takes."""
        return list(inspect.signature(self.run).parameters.values())

    def usage(self) -> str:
        """Name and sizes, with what they are if left out."""
        sizes = (f"[{one.name}={one.default}]" for one in self.parameters())
        return " ".join([self.name, *sizes])


@dataclass(frozen=True)
class Row:
    """One line of the closing table."""

    example: str
    case: str
    partitions: str
    ops: str
    error: str
    tolerance: str
    milliseconds: str
    verdict: str


def names() -> list[str]:
    """All examples."""
    found = (module.name for module in pkgutil.iter_modules(_folder))
    return sorted(name for name in found if not name.startswith("_"))


def listing() -> str:
    """Tell what there is, an example a line."""
    examples = [Example.load(name) for name in names()]
    width = max(len(example.name) for example in examples)
    lines = []
    for example in examples:
        lines.append(f"{example.name:{width}}  {example.summary}")
        if example.parameters():
            lines.append(f"{'':{width}}  sizes: {example.usage()}")
    return "\n".join(lines)


def parse(words: Sequence[str]) -> list[tuple[Example, list[int]]]:
    """Read names, each followed by the sizes that belong to it."""
    chosen: list[tuple[Example, list[int]]] = []
    for word in words:
        if word.lstrip("-").isdecimal():
            if not chosen:
                raise UsageError(f"{word}: a size goes behind an example's name")
            if int(word) < 1:
                raise UsageError(f"{word}: a size must be at least 1")
            chosen[-1][1].append(int(word))
            continue
        if word not in names():
            near = difflib.get_close_matches(word, names(), n=1, cutoff=0.4)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise UsageError(f"there is no example {word!r}{hint} There are: {', '.join(names())}")
        chosen.append((Example.load(word), []))
    for example, sizes in chosen:
        if len(sizes) > len(example.parameters()):
            raise UsageError(f"too many sizes: {example.usage()}")
    return chosen


def run(example: Example, sizes: Sequence[int]) -> list[Row]:
    """Run one example, tell what it shows, and sum it up."""
    print(f"\n{example.name}: {example.summary}", flush=True)
    rows = []
    try:
        for case in example.run(*sizes):
            rows.append(_tell(example.name, case))
    except ExampleError as error:
        rows.append(_failed(example.name, str(error)))
    except OneDNNError as error:
        rows.append(_failed(example.name, f"{type(error).__name__}: {error}"))
    except Exception:
        # A fault of the example itself; the other examples still count.
        rows.append(_failed(example.name, traceback.format_exc()))
    return rows


def _tell(name: str, case: Case | Skipped) -> Row:
    if isinstance(case, Skipped):
        print(f"  {case.name}\n    skipped: {case.reason}", flush=True)
        return Row(name, case.name, "", "", "", "", "", "skipped")
    first, *rest = case.lines()
    print(f"  {first}\n{textwrap.indent(chr(10).join(rest), '    ')}", flush=True)
    result = list(case.comparisons.values())[-1]
    return Row(
        name,
        case.name,
        str(len(case.partitions)),
        "+".join(str(len(ops)) for ops in case.partitions),
        f"{result.max_error:.2g}",
        f"{result.tolerance:.2g}",
        f"{case.milliseconds:.3f}",
        "FAILED" if case.all_faults() else "ok",
    )


def _failed(name: str, message: str) -> Row:
    print(textwrap.indent(message.rstrip(), "  "), flush=True)
    return Row(name, "", "", "", "", "", "", "FAILED")


def table(rows: Iterable[Row]) -> str:
    """Put the rows under headings, in columns."""
    headings = ("example", "case", "partitions", "ops", "max error", "tolerance", "ms", "")
    cells = [headings, *(tuple(vars(row).values()) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(headings))]
    return "\n".join(
        "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
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
    limits: contextlib.AbstractContextManager[object] = threadpoolctl.threadpool_limits(1, "blas")
    return limits


def main(words: Sequence[str]) -> int:
    """Do what the command line asks; return the exit status."""
    if not words:
        print(listing())
        return 0
    if "--help" in words or "-h" in words:
        print((__doc__ or "").strip())
        return 0
    try:
        chosen = parse(names() if list(words) == ["--all"] else words)
    except UsageError as error:
        print(f"examples: {error}", file=sys.stderr)
        return 2

    linked = version()
    print(
        f"oneDNN {linked['major']}.{linked['minor']}.{linked['patch']},"
        f" {linked['cpu_runtime']} runtime, instruction set {get_effective_cpu_isa().name}"
    )
    start = time.perf_counter()
    with _one_blas_thread():
        rows = [row for example, sizes in chosen for row in run(example, sizes)]
    print(f"\n{table(rows)}")
    failed = sorted({row.example for row in rows if row.verdict == "FAILED"})
    told = f"failed: {', '.join(failed)}" if failed else "all passed"
    print(f"\n{told}, in {time.perf_counter() - start:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
