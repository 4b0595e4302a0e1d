"""Virtual environments at the root, and the package built into them."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from onednn_recipe import pins, toolchain
from onednn_recipe.cache import Cache, read_record, write_record
from onednn_recipe.recipe import Recipe
from onednn_recipe.report import RecipeError
from onednn_recipe.settings import Settings

from . import system
from .packages import Packages
from .quietly import ROOT, DevError, quietly, run_attended, say, visibly

PACKAGE = ROOT / "onednn_graph_py"

# What decides the compiled extension.
BUILD_INPUTS = ("bindings", "third_party", "setup.py", "pyproject.toml")
# What a copy of the tree needs to be installed from.
PACKAGE_INPUTS = (
    *BUILD_INPUTS,
    "onednn_graph_py",
    "MANIFEST.in",
    "README.md",
    "SECURITY.md",
    "LICENSE",
    "THIRD-PARTY-NOTICES",
)


P = ParamSpec("P")
T = TypeVar("T")


def _alone(
    method: Callable[Concatenate["Environment", P], T],
) -> Callable[Concatenate["Environment", P], T]:
    """Let other commands of this clone wait while a method changes an environment."""

    @wraps(method)
    def alone(self: "Environment", /, *args: P.args, **kwargs: P.kwargs) -> T:
        if self.held:
            return method(self, *args, **kwargs)
        with Cache(ROOT / "build" / "locks" / self.path.name).lock():
            self.held = True
            try:
                return method(self, *args, **kwargs)
            finally:
                self.held = False

    return alone


class Environment:
    """A virtual environment at the root, with the package built into it."""

    def __init__(self, name: str, groups: Sequence[str], wheels: Sequence[str] = ()) -> None:
        self.path = ROOT / name
        self.python = self.path / "bin" / "python"
        self._groups = groups
        self._wheels = wheels
        self._state = self.path / "state.json"
        self.held = False

    @_alone
    def tools(self) -> None:
        """Provide Python, build requirements, dependencies and groups; not the package."""
        wanted = _digest(["pyproject.toml", "third_party/onednn.json"], self._groups)
        if self.python.exists() and self._read("tools") == wanted:
            return
        system.provide_compiler()
        if self._read("python") != sys.version or not self._layers():
            say(f"making {self.path.name} with Python {sys.version.split()[0]}")
            shutil.rmtree(self.path, ignore_errors=True)
            self._follow([])
            self._write(python=sys.version)
        requirements = [*self._requirements(), *self._wheels]
        if self._layers()[:1] != [requirements]:
            self._follow([requirements])
        self._write(tools=wanted)

    @_alone
    def group(self, name: str) -> None:
        """Provide one more group of packages, which most commands do without."""
        requirements = self._group(self._pyproject(), name)
        if requirements not in self._layers():
            self._follow([*self._layers(), requirements])

    @_alone
    def editable(self) -> None:
        """Provide the package, built against the recipe's oneDNN, running from the source tree."""
        self.tools()
        wanted = _digest(BUILD_INPUTS, _build_settings())
        if self._read("package") == wanted and list(PACKAGE.glob("_core*.so")):
            return
        self.ready_to_compile()
        say("compiling the extension")
        self._install("--editable", str(ROOT))
        self._write(package=wanted)

    @_alone
    def installed(self, root: Path) -> None:
        """Provide the package, built against the oneDNN in ``root``, as users install it."""
        self.tools()
        wanted = _digest(PACKAGE_INPUTS, _build_settings())
        if self._read("package") == wanted:
            return
        system.provide_compiler()
        # A tree of its own, so that neither in-place libraries nor objects get mixed up with those
        # of the editable build. It stays, with its objects, for the next time.
        tree = self.path / "src"
        mirror(PACKAGE_INPUTS, tree)
        say(f"compiling the extension against the oneDNN in {root.relative_to(ROOT)}")
        self._install("--force-reinstall", str(tree), ONEDNN_ROOT=str(root))
        self._write(package=wanted)

    @_alone
    def sanitized(self, names: str) -> Path:
        """Provide the package in a tree of its own, compiled with sanitizers; return the tree."""
        self.tools()
        tree = ROOT / "build" / f"sanitize-{names.replace(',', '-')}"
        mirror(PACKAGE_INPUTS, tree)
        state = tree / "build" / "state.json"
        wanted = _digest(BUILD_INPUTS, _build_settings())
        if (read_record(state) or {}).get("extension") == wanted:
            return tree
        self.ready_to_compile()
        say(f"compiling the extension with -fsanitize={names}")
        command = [str(self.python), "setup.py", "build_ext", "--inplace"]
        quietly(command, tree, ONEDNN_GRAPH_PY_SANITIZE=names)
        write_record(state, {"extension": wanted})
        return tree

    def source_tree(self) -> str | None:
        """Where oneDNN's source tree is, for tests that read its files; None if nowhere."""
        kept: str | None = self._read("source")
        if kept is None or not Path(kept).is_dir():
            try:
                kept = str(Recipe().source())
            except RecipeError as error:
                say(f"going on without oneDNN's source tree: {str(error).splitlines()[0]}")
                return None
            self._write(source=kept)
        return kept

    def run(self, *arguments: str, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> int:
        """Run the environment's Python; return its exit status."""
        command = [str(self.python), *arguments]
        return run_attended(command, cwd=cwd, env={**os.environ, **(env or {})})

    def ask(self, code: str, env: Mapping[str, str] | None = None) -> str:
        """Run a program of the environment's Python; return what it prints."""
        command = [str(self.python), "-c", code]
        # Not from the root, where Python would find the package in the source tree.
        return subprocess.check_output(
            command, cwd=self.path, env={**os.environ, **(env or {})}, text=True
        )

    def tool(self, name: str, *arguments: str) -> int:
        """Run a program of the environment at the root; return its exit status."""
        return run_attended([str(self.path / "bin" / name), *arguments], cwd=ROOT)

    def _pyproject(self) -> dict[str, Any]:
        # Read by the environment's Python: ours may be 3.10, which has no tomllib, but pip has.
        code = (
            "import json, sys\n"
            "try: import tomllib\n"
            "except ImportError: from pip._vendor import tomli as tomllib\n"
            "print(json.dumps(tomllib.load(open(sys.argv[1], 'rb'))))"
        )
        file = str(ROOT / "pyproject.toml")
        data: dict[str, Any] = json.loads(subprocess.check_output([self.python, "-c", code, file]))
        return data

    def _requirements(self) -> list[str]:
        data = self._pyproject()
        project = data["project"]
        return [
            *data["build-system"]["requires"],
            *toolchain.missing_tools(pins.load().tools),
            *project["dependencies"],
            *(line for name in self._groups for line in self._group(data, name)),
        ]

    @staticmethod
    def _group(data: Mapping[str, Any], name: str) -> list[str]:
        """The requirements of an extra, which is for users, or of a dependency group."""
        groups = {**data["project"]["optional-dependencies"], **data["dependency-groups"]}
        found: list[str] = groups[name]
        return found

    def ready_to_compile(self) -> None:
        """Have tools, a compiler and oneDNN there, built visibly."""
        self.tools()
        system.provide_compiler()
        # With the environment's Python, where CMake and Ninja are if the system has none.
        command = [str(self.python), str(ROOT / "third_party" / "onednn.py"), "prefix"]
        if run_attended(command, stdout=subprocess.DEVNULL):
            raise DevError("oneDNN is needed first; see above")

    def _follow(self, layers: list[list[str]]) -> None:
        """Provide the packages of these requirements, and only those."""
        Packages(Settings.from_env().cache_dir, visibly).provide(self.path, layers)
        self._write(layers=layers)

    def _layers(self) -> list[list[str]]:
        """The requirements whose packages are there, together as pip got them."""
        return self._read("layers") or []

    def _install(self, *arguments: str, **env: str) -> None:
        pip = [str(self.python), "-m", "pip", "--disable-pip-version-check", "install", "-v"]
        options = ["--no-build-isolation", "--no-deps"]
        strict = os.environ.get("ONEDNN_GRAPH_PY_STRICT", "1")
        try:
            quietly([*pip, *options, *arguments], ONEDNN_GRAPH_PY_STRICT=strict, **env)
        except DevError as error:
            if "[-Werror" not in str(error):
                raise
            hint = "Warnings of your compiler count as errors here; ONEDNN_GRAPH_PY_STRICT=0 lets"
            raise DevError(f"{error}\n{hint} them pass.") from None

    def _read(self, name: str) -> Any:
        return (read_record(self._state) or {}).get(name)

    def _write(self, **facts: Any) -> None:
        write_record(self._state, {**(read_record(self._state) or {}), **facts})


def main_environment() -> Environment:
    """The environment of every command but one."""
    return Environment(".venv", ["dev", "test"])


def pypi_environment(release: str | None = None) -> Environment:
    """The environment with oneDNN from PyPI: of the pinned release of its wheels, or another."""
    pinned = pins.load().pypi
    wheels = [f"{name}=={release or version}" for name, version in pinned.items()]
    if release is None or release in pinned.values():
        return Environment(".venv-pypi", ["test", "sycl", "test-sycl"], wheels)
    # The newest SYCL runtime, for which some of these wheels ask too, does not serve older ones.
    # What shares a runtime with oneDNN needs the newest, so none of that is there.
    year = release.partition(".")[0]
    wheels += [f"{name}=={year}.*" for name in ("dpcpp-cpp-rt", "intel-opencl-rt")]
    return Environment(f".venv-pypi-{release}", ["test"], wheels)


def docs_environment() -> Environment:
    """What builds the documentation; the package itself is imported from the source tree."""
    return Environment(".venv-docs", ["docs"])


def _build_settings() -> list[str]:
    """What else the extension depends on: this Python, and the recipe's variables."""
    settings = Settings.from_env()
    return [sys.version, repr((settings.root, settings.source_dir, settings.version)),
            repr((settings.cmake_args, settings.cxx, settings.flags))]  # fmt: skip


def _files(names: Iterable[str]) -> list[Path]:
    """The files under the named places of the source tree, without what was generated there."""
    found = []
    for place in (ROOT / name for name in names):
        found += [place] if place.is_file() else sorted(place.rglob("*"))
    return [p for p in found if p.is_file() and p.suffix != ".pyc" and not _is_compiled(p)]


def _is_compiled(path: Path) -> bool:
    return path.suffix == ".so" or ".so." in path.name


def cpp_files() -> list[Path]:
    places = ["bindings", "onednn_graph_py/tools/export"]
    return [path for path in _files(places) if path.suffix in (".cpp", ".hpp")]


def _digest(names: Iterable[str], facts: Iterable[str]) -> str:
    digest = hashlib.sha256(json.dumps([sys.version, *facts]).encode())
    for path in _files(names):
        digest.update(f"\0{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def mirror(names: Iterable[str], tree: Path) -> None:
    """Copy the named places with their times, and remove what is no longer there."""
    wanted = {tree / path.relative_to(ROOT): path for path in _files(names)}
    for name in names:
        for old in (tree / name).rglob("*"):
            if old.is_file() and old not in wanted and not _is_compiled(old):
                old.unlink()
    # setuptools puts into a wheel whatever an earlier build left here.
    for stale in tree.glob("build/*lib*"):
        shutil.rmtree(stale)
    for copy, path in wanted.items():
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)
