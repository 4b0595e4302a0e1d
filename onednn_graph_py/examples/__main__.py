"""List the examples, or run them."""

import argparse
import importlib
import inspect
import pkgutil
import sys
import textwrap
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType

from .. import OneDNNError, get_effective_cpu_isa, version
from ..base.text.names import did_you_mean
from ..base.text.numbers import counted
from ..base.text.options import at_least, help_form
from ..base.text.table import text_table
from . import __path__ as _folder
from ._run import Case, Skipped

_ABOUT = """\
Where there is no engine of a kind, a graph is only partitioned for it. What can't run here is
skipped, and says why. The exit status is 0 if everything was as it should be, 1 if an example
failed, and 2 if the command was wrong. NAME --help shows what an example takes.
"""

Row = tuple[str, Case | Skipped | None]
"""An example and one of its cases; None where it raised an error."""


def names() -> list[str]:
    """All examples."""
    modules = (module.name for module in pkgutil.iter_modules(_folder))
    return sorted(name for name in modules if not name.startswith("_"))


def _module(name: str) -> ModuleType:
    return importlib.import_module(f".{name}", __package__)


def _summary(module: ModuleType) -> str:
    return (module.__doc__ or "").splitlines()[0]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m onednn_graph_py.examples", description=_ABOUT, formatter_class=help_form
    )
    parser.add_argument("--all", action="store_true", help="run all, some of them with small sizes")
    examples = parser.add_subparsers(title="examples", dest="name", metavar="NAME")
    for name in names():
        module = _module(name)
        one = examples.add_parser(name, help=_summary(module), description=_summary(module))
        # As those of oneDNN's own examples: the kind of engine, then sizes.
        for parameter in inspect.signature(module.run).parameters.values():
            default = parameter.default
            default_text = "" if default is None else f"{default} by default"
            if parameter.name == "engine_kind":
                one.add_argument(parameter.name, nargs="?", choices=("cpu", "gpu"), default=default)
            else:
                one.add_argument(
                    parameter.name, nargs="?", type=at_least(1), default=default, help=default_text
                )
    return parser


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


def _run(name: str, cases: Iterator[Case | Skipped]) -> list[Row]:
    """Run one example, print its results, and return its rows for the table."""
    print(f"\n{name}: {_summary(_module(name))}", flush=True)
    rows: list[Row] = []
    try:
        for case in cases:
            first, *rest = case.lines()
            print(f"  {first}\n{textwrap.indent(chr(10).join(rest), '    ')}", flush=True)
            rows.append((name, case))
    except Exception as error:  # the other examples still run
        text = traceback.format_exc()
        if isinstance(error, OneDNNError):
            text = f"{type(error).__name__}: {error}"
        print(textwrap.indent(text.rstrip(), "  "), flush=True)
        rows.append((name, None))
    return rows


def _closing(rows: Iterable[Row]) -> str:
    """Return the table of all cases, and count those that passed, were skipped, or failed."""
    headings = ("example", "case", "partitions", "ops", "max error", "of tolerance", "ms", "")
    rows = list(rows)
    count = Counter(verdict(case) for _, case in rows)
    failed = sorted({name for name, case in rows if verdict(case) == "FAILED"})
    outcome = f"failed: {', '.join(failed)}" if failed else "nothing failed"
    table = "\n".join(text_table([headings, *(cells(*row) for row in rows)]))
    return (
        f"{table}\n\n{outcome}; {counted(len({name for name, _ in rows}), 'example')},"
        f" {count['ok']} passed, {count['skipped']} skipped, {count['FAILED']} failed"
    )


def main(words: Sequence[str]) -> int:
    """Run the command line; return the exit status."""
    parser = _parser()
    if words and not words[0].startswith("-") and words[0] not in names():
        hint = did_you_mean(words[0], names()) or "."
        parser.error(f"there is no example {words[0]!r}{hint} There are: {', '.join(names())}")
    arguments = vars(parser.parse_args(words))
    name, every = arguments.pop("name"), arguments.pop("all")
    if every and name is None:
        chosen = {n: getattr(_module(n), "SIZES_IN_ALL", {}) for n in names()}
    elif every:
        parser.error("--all runs all examples, without a name")
    elif name is None:
        parser.print_help()
        return 0
    else:
        chosen = {name: arguments}

    linked = version()
    print(
        f"oneDNN {linked.release}, {linked.cpu_runtime} runtime,"
        f" instruction set {get_effective_cpu_isa().name}"
    )
    start = time.monotonic()
    rows = [row for n, sizes in chosen.items() for row in _run(n, _module(n).run(**sizes))]
    print(f"\n{_closing(rows)}, in {time.monotonic() - start:.1f} s")
    return int(any(verdict(case) == "FAILED" for _, case in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
