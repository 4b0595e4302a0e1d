"""The command line: ``python -m onednn_graph_py COMMAND``, or ``onednn-graph COMMAND``."""

import argparse
import contextlib
import io
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from .. import _core
from ..base.errors import OneDNNError
from ..base.linked import version
from ..base.text.files import error_text, write_whole
from ..base.text.names import did_you_mean, install_line, printable
from ..base.text.numbers import counted
from ..base.text.options import help_form
from ..base.text.progress import show_progress
from ..base.text.table import text_table
from ..machine.hardware.facts import cpu_data_types

_MODULES = {
    "ops": "ops.command",
    "devices": "machine.hardware.command",
    "replay": "tools.replay.command",
    "compare": "tools.comparing.command",
    "shrink": "tools.shrinking.command",
    "capture": "tools.capture.command",
    "export": "tools.export.command",
    "explain": "tools.explaining.command",
    "tune": "onnx.tools.command",
    "onnx": "onnx.tools.command",
    "selftest": "tools.selftest.command",
}
"""The commands in the order of the help, and the module that has a function ``add_COMMAND``."""

# Extras, and a module that each needs.
_EXTRAS = {"torch": "torch", "onnx": "onnx_ir", "ray": "ray"}


def _versions() -> str:
    linked, package = version(), vars(_core)["__version__"]
    runtimes = f"cpu {linked.cpu_runtime}, gpu {linked.gpu_runtime}"
    return f"onednn_graph_py {package}, oneDNN {linked.release} (runtimes: {runtimes})"


def _screen(parser: argparse.ArgumentParser) -> str:
    """Return what is linked, what runs here, and the commands."""
    commands = [(f"  {name}", told) for name, told in _commands(parser).items()]
    extras = [
        (f"  {name}", "installed" if find_spec(module) else f"not installed: {install_line(name)}")
        for name, module in _EXTRAS.items()
    ]
    isa, types = _core.get_effective_cpu_isa().name, " ".join(cpu_data_types())
    threads = counted(_core.num_threads(), "thread")
    cpu = f"CPU: {isa} instructions, {threads}, data types {types}"
    rows = [*text_table(extras), "commands:", *text_table(commands)]
    last = f"{parser.prog} COMMAND --help describes a command, with an example"
    return "\n".join([_versions(), cpu, "extras:", *rows, last])


def _commands(parser: argparse.ArgumentParser) -> dict[str, str]:
    """Return the line of help of each command."""
    (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return {a.dest: a.help or "" for a in commands._choices_actions}


class _Parser(argparse.ArgumentParser):
    """A parser whose errors can't command a terminal: a shell may pass names of others' files."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def _parser(command: str = "") -> argparse.ArgumentParser:
    """Make the parser of one command, without the others' imports; of all if there is none such."""
    script = Path(sys.argv[0]).name
    parser: argparse.ArgumentParser = _Parser(
        prog=script if script == "onednn-graph" else "python -m onednn_graph_py",
        description="oneDNN's Graph API from the command line.",
        formatter_class=help_form,
    )
    parser.add_argument("--version", action="version", version=_versions())
    commands = parser.add_subparsers(
        title="commands", dest="command", metavar="COMMAND", required=True
    )
    package = __package__.rpartition(".")[0]
    for name in [command] if command in _MODULES else _MODULES:
        getattr(import_module(f"{package}.{_MODULES[name]}"), f"add_{name}")(commands)
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Run the command of a command line; return the exit status."""
    words = list(sys.argv[1:] if words is None else words)
    parser = _parser(*words[:1])
    if not words:
        print(_screen(parser))
        return 0
    known = _commands(parser)
    if not words[0].startswith("-") and words[0] not in known:
        hint = did_you_mean(words[0], known, str) or f"; there are: {', '.join(known)}"
        parser.error(f"there is no command {words[0]!r}{hint}")
    arguments = parser.parse_args(words)
    try:
        return _run(arguments)
    except BrokenPipeError:  # __main__ handles it
        raise
    except KeyboardInterrupt:
        show_progress("")
        print(f"{arguments.command}: interrupted", file=sys.stderr)
        return 130
    except (OneDNNError, OSError) as e:  # errors about a file or an option
        print(printable(f"{arguments.command}: {error_text(e)}"), file=sys.stderr)
        return 2


def _run(arguments: argparse.Namespace) -> int:
    """Run a command, and write what it prints into a file if the options say so."""
    output = getattr(arguments, "output", None)
    if output is None:
        return int(arguments.run(arguments))
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        status = int(arguments.run(arguments))
    try:
        if status != 130:  # interrupted
            write_whole(output, printed.getvalue())
    except OSError:
        print(printed.getvalue(), end="")  # it may have taken long
        raise
    return status
