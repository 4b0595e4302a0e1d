"""Packages of the system: a compiler, Python's headers, a browser, Graphviz."""

import os
import shutil
import sysconfig
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from onednn_recipe import toolchain
from onednn_recipe.report import RecipeError
from onednn_recipe.settings import Settings

from .quietly import DevError, quietly, say


def provide_compiler() -> None:
    """Install a compiler, venv and Python's headers where they are missing and we may."""
    needs = []
    try:
        toolchain.find_compiler(Settings.from_env())
    except RecipeError:
        needs.append("compiler")
    if find_spec("ensurepip") is None or find_spec("venv") is None:
        needs.append("venv")
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        needs.append("headers")
    install(needs)


def install(needs: Sequence[str]) -> None:
    """Install what the system lacks, where we may."""
    if not needs:
        return
    command = toolchain.install_command(needs)
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise DevError(f"missing: {', '.join(needs)}. Install with:\n  {command}")
    say(f"installing system packages: {command}")
    quietly(["apt-get", "update"])
    quietly(command.split(), DEBIAN_FRONTEND="noninteractive")
