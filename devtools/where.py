"""Which oneDNN a command runs with, held to which instructions."""

import re
import tempfile
from argparse import ArgumentTypeError
from pathlib import Path
from typing import NamedTuple

from .environments import Environment, main_environment, pypi_environment
from .quietly import ROOT, DevError

# Packages at the root that the wheel lacks; they run with an installed package too.
TOOLS = ("gallery", "matrix")


class Where(NamedTuple):
    """Which oneDNN a command runs with: its options ``--onednn=pypi`` and ``--isa=NAME``."""

    pypi: bool
    isa: str | None
    release: str | None = None
    """That of PyPI's wheels, if it is not the pinned one."""

    def environment(self) -> Environment:
        """Provide the environment, with the package in it."""
        environment = pypi_environment(self.release) if self.pypi else main_environment()
        if self.pypi:
            environment.installed(environment.path)
        else:
            environment.editable()
        return environment

    def run(self, environment: Environment, *command: str, **env: str) -> int:
        """Run a module or program with the package; return its exit status."""
        if self.isa is not None:
            env |= _held_to(environment, self.isa)
        if not self.pypi:
            return environment.run(*command, env=env)
        # From elsewhere, so that the installed package runs and not the one in the source tree.
        with tempfile.TemporaryDirectory(prefix="onednn_graph_py-") as elsewhere:
            for name in TOOLS:
                Path(elsewhere, name).symlink_to(ROOT / name)
            return environment.run(*command, cwd=Path(elsewhere), env=env)


def release(text: str) -> str | None:
    """The release of PyPI's wheels that ``--onednn=`` names, None for the pinned one."""
    match = re.fullmatch(r"pypi(?:==(\d+(?:\.\d+)+))?", text)
    if match is None:
        raise ArgumentTypeError(
            "the only other oneDNN is --onednn=pypi, or a release of its wheels, such as "
            f"--onednn=pypi==2025.2.0; given was --onednn={text}"
        )
    return match[1]


_ASK_ISA = (
    "import onednn_graph_py as og; own = og.get_effective_cpu_isa(); "
    "print(own.name, own.value, *(f'{n}={i.value}' for n, i in og.cpu_isa.__members__.items()))"
)


def _effective(environment: Environment, isa: str) -> tuple[str, bool, list[str]]:
    """Ask oneDNN held to an instruction set which one it uses, if that is it, and all there are."""
    told = environment.ask(_ASK_ISA, {"ONEDNN_MAX_CPU_ISA": isa.upper()}).split()
    values = dict(entry.split("=") for entry in told[2:])
    names = [name for name in values if name != "isa_default"]
    return told[0], values.get(isa) == told[1], names


def isas(environment: Environment) -> list[str]:
    """Those that oneDNN can be held to on this CPU; the one that it uses by itself is the last."""
    own, _, names = _effective(environment, "default")
    # Some have two names, of which oneDNN uses one.
    return [n for n in names if n != own and _effective(environment, n)[0] == n] + [own]


def _held_to(environment: Environment, isa: str) -> dict[str, str]:
    """The variable that holds oneDNN to an instruction set."""
    _, is_it, names = _effective(environment, isa)
    if isa not in names:
        known = ", ".join(names)
        raise DevError(f"--isa: oneDNN knows no {isa!r}; there are: {known}", status=2)
    if not is_it:
        there = ", ".join(isas(environment))
        # A status that pytest has not: CI tells one from the other.
        raise DevError(f"this CPU can't be held to {isa}; it can be held to: {there}", status=77)
    return {"ONEDNN_MAX_CPU_ISA": isa.upper()}
