"""Build the extension ``onednn_graph_py._core`` against the oneDNN that third_party/ provides.

pip hides a build's output unless it is called with -v. As building oneDNN takes many minutes, run
``python third_party/onednn.py`` first to see its progress; this then finds it finished.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from pybind11.setup_helpers import ParallelCompile, Pybind11Extension, build_ext
from setuptools import setup

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "third_party"))

from onednn_recipe import pins, toolchain  # noqa: E402
from onednn_recipe.prefix import OneDNN  # noqa: E402
from onednn_recipe.recipe import Recipe  # noqa: E402
from onednn_recipe.report import RecipeError, lacked_by, lacking  # noqa: E402

PACKAGE = "onednn_graph_py"
SOURCES = sorted(ROOT.glob("bindings/*.cpp"))
HEADERS = sorted(ROOT.glob("bindings/*.hpp"))
# pybind11's headers cost the compiler more than most of our files do, so several are compiled as
# one. After an edit one of these is compiled again: more of them make that faster, and all slower.
UNITS = 8


def unite(directory: Path) -> list[str]:
    """Write the sources that are compiled: each includes several of ours."""
    units = [directory / f"unit{n}.cpp" for n in range(UNITS)]
    for n, unit in enumerate(units):
        unit.write_text("".join(f'#include "{path}"\n' for path in SOURCES[n::UNITS]))
    return [str(unit) for unit in units]


def inputs_of(unit: str) -> str:
    """What a unit is made of, by content: times go back when files are restored or copied."""
    included = Path(unit).read_text().split('"')[1::2]
    digest = hashlib.sha256(repr(included).encode())
    for path in (*map(Path, included), *HEADERS):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def needs_recompile(obj: str, unit: str) -> bool:
    """Whether an object file was made from other contents than its sources and headers have now."""
    made_from = Path(f"{obj}.inputs")
    return not made_from.exists() or made_from.read_text() != inputs_of(unit)


def run_tool(command: list[str], **_: object) -> None:
    """Run one tool of the build; an object counts as made when its compiler has succeeded."""
    made = command[command.index("-o") + 1]
    made_from = Path(f"{made}.inputs")
    made_from.unlink(missing_ok=True)
    inputs = inputs_of(command[command.index("-c") + 1]) if "-c" in command else None
    print(shlex.join(command), flush=True)
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace")
    print(done.stderr, end="", file=sys.stderr, flush=True)
    if done.returncode:
        ended = f"{command[0]} ended with status {done.returncode}"
        raise RecipeError(lacking(done.stderr) or ended)
    if inputs:
        made_from.write_text(inputs)


class BuildExtension(build_ext):
    """Provides oneDNN, links against it by path, and lays it beside the extension."""

    def run(self) -> None:
        """Build everything."""
        try:
            self._run()
        except RecipeError as error:
            raise SystemExit(f"error: {error}") from None
        except OSError as error:
            if lack := lacked_by(error):
                raise SystemExit(f"error: {lack}") from None
            raise

    def _run(self) -> None:
        self._recipe = Recipe()
        onednn = self._recipe.ensure()
        if self.editable_mode:  # set by setuptools for `pip install -e`
            # setuptools would compile everything anew in a temporary directory each time.
            self.build_temp = str(ROOT / "build" / "temp-editable")
        for extension in self.extensions:
            self._configure(extension, onednn)
        self._forget_objects_of_other_settings(onednn)
        # setuptools would compare times to skip linking; needs_recompile knows better.
        self.force = True
        jobs = self._recipe.settings.jobs
        ParallelCompile(needs_recompile=needs_recompile, default=jobs).install()
        for extension in self.extensions:
            extension.sources = unite(Path(self.build_temp))
        super().run()
        in_wheel = Path(self.build_lib) / PACKAGE
        beside = {in_wheel, *([ROOT / PACKAGE] if self.inplace else [])}
        for directory in beside:
            _lay_library(onednn, directory)
        if onednn.built:
            _lay_licenses(onednn, in_wheel / "onednn_licenses")

    def build_extensions(self) -> None:
        """Compile and link."""
        # Newer setuptools call tools by the one, older ones by the other.
        self.compiler.call = self.compiler.spawn = run_tool
        super().build_extensions()

    def _configure(self, extension: Pybind11Extension, onednn: OneDNN) -> None:
        version = self.distribution.get_version()
        extension.define_macros.append(("ONEDNN_GRAPH_PY_VERSION", f'"{version}"'))
        extension.include_dirs.append(str(onednn.include_dir))
        extension.extra_objects.append(str(onednn.library))
        if onednn.built:  # it travels with the extension
            extension.extra_link_args.append("-Wl,--enable-new-dtags,-rpath,$ORIGIN")
        else:
            # An installed oneDNN stays where it is. The old kind of RPATH also serves what the
            # library itself needs: the PyPI wheel's has no path to the TBB and SYCL beside it.
            directory = onednn.library.parent
            extension.extra_link_args.append(f"-Wl,--disable-new-dtags,-rpath,{directory}")
        extension.extra_compile_args += ["-Wall", "-Wextra"]
        if sanitizers := os.environ.get("ONEDNN_GRAPH_PY_SANITIZE"):
            # Without optimization, which compiles this twice as fast and removes no fault.
            extension.extra_compile_args += [f"-fsanitize={sanitizers}", "-O0", "-g1"]
            extension.extra_link_args.append(f"-fsanitize={sanitizers}")
        if os.environ.get("ONEDNN_GRAPH_PY_STRICT") == "1":
            extension.extra_compile_args.append("-Werror")

    def _forget_objects_of_other_settings(self, onednn: OneDNN) -> None:
        # What needs_recompile doesn't see: flags, Python, compiler and oneDNN.
        facts = [
            sys.version,
            self._recipe.compiler.identity,
            self._recipe.settings.flags,
            onednn,
            onednn.library.stat().st_mtime_ns,
            [(e.define_macros, e.extra_compile_args, e.extra_link_args) for e in self.extensions],
        ]
        record = Path(self.build_temp) / "settings.txt"
        if not record.is_file() or record.read_text() != repr(facts):
            shutil.rmtree(self.build_temp, ignore_errors=True)
            record.parent.mkdir(parents=True)
            record.write_text(repr(facts))


def _lay_library(onednn: OneDNN, directory: Path) -> None:
    """Put the stripped library under its SONAME into a directory, or nothing if it isn't ours."""
    for stale in directory.glob("libdnnl*.so*"):
        stale.unlink()
    if not onednn.built:
        return
    header = subprocess.check_output(
        ["readelf", "-d", str(onednn.library)], text=True, env={**os.environ, "LC_ALL": "C"}
    )
    match = re.search(r"\(SONAME\).*\[(.+)\]", header)
    assert match, f"{onednn.library} should have a SONAME, as every shared library of oneDNN has"
    # A new file each time: a process that runs the old one keeps it.
    target = directory / match.group(1)
    run_tool(["strip", "--strip-unneeded", "-o", str(target), str(onednn.library)])


def _lay_licenses(onednn: OneDNN, directory: Path) -> None:
    """Who passes oneDNN on passes on its licences."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("LICENSE", "THIRD-PARTY-PROGRAMS"):
        for path in onednn.prefix.glob(f"share/doc/*/{name}"):
            shutil.copy(path, directory / name)


def tools_from_pypi() -> list[str]:
    """CMake and Ninja as build requirements, where they are needed and the system has none."""
    if os.environ.get("ONEDNN_ROOT"):
        return []
    minimums = pins.load().tools
    return [f"{name}>={minimums[name]}" for name in toolchain.missing_tools(minimums)]


setup(
    ext_modules=[
        Pybind11Extension(
            f"{PACKAGE}._core",
            [str(path.relative_to(ROOT)) for path in SOURCES],
            cxx_std=17,
        )
    ],
    cmdclass={"build_ext": BuildExtension},
    setup_requires=tools_from_pypi(),
)
