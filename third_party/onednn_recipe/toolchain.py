"""The tools a build needs: a C++ compiler, CMake, Ninja; and how to get what is missing."""

import importlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .report import RecipeError, say
from .settings import Settings
from .trees import at_least

_PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"

# Package managers in the order in which they are looked for, and how each installs.
_MANAGERS = {
    "apt-get": "apt-get install -y --no-install-recommends",
    "dnf": "dnf install -y",
    "zypper": "zypper install -y",
    "apk": "apk add",
}
# What each of them calls it.
_PACKAGES = {
    "compiler": ("g++", "gcc-c++", "gcc-c++", "build-base linux-headers"),
    "venv": (f"{_PYTHON}-venv", "python3", "python3", "python3"),
    "headers": (f"{_PYTHON}-dev", "python3-devel", "python3-devel", "python3-dev"),
    "browser": ("chromium", "chromium", "chromium", "chromium"),
    "driver": ("chromium-driver", "chromedriver", "chromedriver", "chromium-chromedriver"),
    "graphviz": ("graphviz", "graphviz", "graphviz", "graphviz"),
}


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: the command, and what tells it from another."""

    command: tuple[str, ...]
    identity: str


def install_command(needs: Iterable[str]) -> str:
    """The command that installs what is needed on this system: keys of `_PACKAGES`."""
    needs = list(needs)
    for number, (manager, command) in enumerate(_MANAGERS.items()):
        if shutil.which(manager):
            sudo = "" if os.geteuid() == 0 else "sudo "
            return f"{sudo}{command} {' '.join(_PACKAGES[need][number] for need in needs)}"
    return f"your system's package manager (needed: {', '.join(needs)})"


def find_compiler(settings: Settings) -> Compiler:
    """Find the C++ compiler that CMake will take."""
    names = [settings.cxx] if settings.cxx else ["c++", "g++", "clang++"]
    for name in names:
        command = tuple(shlex.split(name))
        if shutil.which(command[0]):
            version = _output([*command, "--version"]).splitlines()
            machine = _output([*command, "-dumpmachine"]).strip()
            if version:
                return Compiler(command, f"{version[0]} {machine}")
    given = f"CXX={settings.cxx!r} does not run" if settings.cxx else "none is on PATH"
    raise RecipeError(
        f"a C++ compiler is needed, and {given}. Install one with:\n"
        f"  {install_command(['compiler'])}"
    )


def missing_tools(minimums: Mapping[str, str]) -> list[str]:
    """Those of CMake and Ninja that the system lacks, as names of PyPI wheels."""
    return [name for name, minimum in minimums.items() if _on_path(name, minimum) is None]


def find_tool(name: str, minimum: str, private: Path) -> str:
    """Find CMake or Ninja: the system's, an importable wheel's, or one in a private venv."""
    found = _on_path(name, minimum) or _in_wheel(name, minimum)
    return found or _in_private_venv(name, minimum, private)


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _if_recent(path: str | None, minimum: str) -> str | None:
    match = re.search(r"\d+(\.\d+)+", _output([path, "--version"])) if path else None
    return path if match and at_least(match.group(), minimum) else None


def _on_path(name: str, minimum: str) -> str | None:
    return _if_recent(shutil.which(name), minimum)


def _in_wheel(name: str, minimum: str) -> str | None:
    if importlib.util.find_spec(name) is None:
        return None
    module = importlib.import_module(name)
    # Each wheel names its folder of programs after its own fashion.
    folder = getattr(module, "CMAKE_BIN_DIR", None) or getattr(module, "BIN_DIR", None)
    return _if_recent(str(Path(folder) / name), minimum) if folder else None


def _in_private_venv(name: str, minimum: str, private: Path) -> str:
    path = str(private / "bin" / name)
    if not _if_recent(path, minimum):
        say(f"installing {name} from PyPI into {private}")
        requirement = f"{name}>={minimum}"
        for command in (
            [sys.executable, "-I", "-m", "venv", str(private)],
            [str(private / "bin/python"), "-I", "-m", "pip", "install", "--quiet", requirement],
        ):
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if done.returncode:
                raise RecipeError(
                    f"{name} {minimum} or newer is needed, the system has none, and installing "
                    f"it failed:\n{done.stdout}{done.stderr}\n"
                    f"Install {name} yourself, or a Python with venv:\n"
                    f"  {install_command(['venv'])}"
                )
    return path
