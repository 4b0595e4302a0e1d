"""benchdnn, oneDNN's own test driver, built from the kept source against the finished library.

The library is not built again. oneDNN's CMake configures a build with the tests on; of that only
benchdnn's objects are compiled, so that they get upstream's flags, and upstream's link command is
carried out with the installed library in the place of the build's. All of oneDNN's inner functions
that benchdnn calls are exported by the shared library.

    PYTHONPATH=third_party python -m matrix.benchdnn_build     build it if needed, print its path
"""

import re
import shlex
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from onednn_recipe.cache import Cache, read_record, write_record
from onednn_recipe.prefix import OneDNN
from onednn_recipe.process import Steps, signals_raise
from onednn_recipe.recipe import Recipe
from onednn_recipe.report import RecipeError, say

_TARGET = "tests/benchdnn/benchdnn"
_OBJECTS = "tests/benchdnn/CMakeFiles/benchdnn.dir/"
# What is measured runs in the library; the driver itself need not be fast, and compiles in about
# half the time. NDEBUG as in the library, whose inner headers it includes.
_OPTIONS = (
    "-DDNNL_BUILD_TESTS=ON",
    "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG",
    "-DCMAKE_C_FLAGS_RELEASE=-O1 -DNDEBUG",
)


@dataclass(frozen=True)
class Benchdnn:
    """A finished benchdnn."""

    program: Path
    # The installed library that it runs.
    onednn: OneDNN


def key(library: OneDNN) -> str:
    """The cache key: one benchdnn for each installed library."""
    return f"benchdnn-{library.prefix.name}"


def finished(recipe: Recipe) -> Benchdnn | None:
    """The benchdnn of the finished library, if the cache holds both; builds and fetches nothing."""
    if recipe.settings.root is not None:
        return None
    library = recipe.finished(recipe.preferred)
    return None if library is None else _finished(recipe.cache, library)


def ensure(recipe: Recipe | None = None) -> Benchdnn:
    """Return benchdnn for the recipe's library; build it first, visibly, if there is none yet.

    An interrupted build is resumed by the next call. Raises RecipeError where it can't be built.
    """
    recipe = recipe or Recipe()
    if recipe.settings.root is not None:
        raise RecipeError(
            "benchdnn is built for the library that the recipe builds, with its options, and "
            f"ONEDNN_ROOT={recipe.settings.root} names another. Unset it to have both built."
        )
    library = recipe.ensure()
    ready = _finished(recipe.cache, library)
    if ready is not None:
        return ready
    with recipe.cache.lock() as lock:
        ready = _finished(recipe.cache, library)
        return ready or _build(recipe, library, recipe.verified_source(), lock)


def link_command(upstream: str, build: Path, library: Path, program: Path) -> list[str]:
    """Upstream's link command with the installed library instead of the build tree's.

    Parameters
    ----------
    upstream : str
        As ``ninja -t commands`` tells it: a shell line with ``: &&`` around the compiler's call.
    build : Path
        The build tree, which the line's relative paths start at.
    library : Path
        The shared library to link, and whose folder the program looks in.
    program : Path
        The executable to write.

    Raises
    ------
    RecipeError
        The line links no libdnnl*.so.
    """
    words = [word for word in shlex.split(upstream) if word not in (":", "&&")]
    made: list[str] = []
    linked = False
    for word in words:
        if re.fullmatch(r"(.*/)?libdnnl[^/]*\.so[.\d]*", word):
            made += [str(library), f"-Wl,-rpath,{library.parent}"]
            linked = True
        elif not word.startswith("-Wl,-rpath,"):
            made.append(word)
    if not linked or "-o" not in made:
        raise RecipeError(f"no command that links benchdnn with oneDNN's library: {upstream}")
    made[made.index("-o") + 1] = str(program)
    return [str(build / word) if word.startswith(_OBJECTS) else word for word in made]


def _program(cache: Cache, library: OneDNN) -> Path:
    return cache.build(key(library)) / "benchdnn"


def _finished(cache: Cache, library: OneDNN) -> Benchdnn | None:
    program = _program(cache, library)
    stamp = read_record(program.with_name("finished.json"))
    if stamp is None or stamp.get("library") != _stamp(library) or not program.is_file():
        return None
    return Benchdnn(program, library)


def _stamp(library: OneDNN) -> list[str | int]:
    # A library that was built again is another, also under the same path.
    facts = library.library.resolve().stat()
    return [str(library.library), facts.st_size, facts.st_mtime_ns]


def _build(recipe: Recipe, library: OneDNN, tree: Path, lock: int) -> Benchdnn:
    tools = recipe.tools()
    cmake, ninja = tools["cmake"], tools["ninja"]
    place = recipe.cache.build(key(library))
    view, build, log_path = place / "source", place / "objects", recipe.cache.log(key(library))
    program = _program(recipe.cache, library)
    log_path.parent.mkdir(parents=True, exist_ok=True)
    build.mkdir(parents=True, exist_ok=True)
    resumed = (build / "build.ninja").is_file()
    say(f"{'resuming' if resumed else 'building'} benchdnn {library.version} from {tree}")
    say(f"{recipe.settings.jobs} jobs; full output: {log_path}")
    start = time.monotonic()
    with log_path.open("ab" if resumed else "wb") as log:
        steps = Steps(f"benchdnn {library.version}", log, tree, lock, {})
        if not resumed:
            _view(tree, view)
            steps.check(
                "configuring",
                [
                    cmake, "-S", str(view), "-B", str(build), "-G", "Ninja",
                    f"-DCMAKE_MAKE_PROGRAM={ninja}", *recipe.arguments, *_OPTIONS,
                ],
            )  # fmt: skip
        in_tree = [ninja, "-C", str(build)]
        targets = steps.output([*in_tree, "-t", "targets", "all"])
        objects = [t.split(": ")[0] for t in targets if t.startswith(_OBJECTS) and ".o: " in t]
        if not objects:
            raise RecipeError(f"oneDNN's build in {build} has no objects of benchdnn")
        # What is measured or tested meanwhile keeps the cores.
        nice = ["nice", "-n", "10"] if shutil.which("nice") else []
        steps.check("compiling", [*nice, *in_tree, "-j", str(recipe.settings.jobs), *objects])
        commands = steps.output([*in_tree, "-t", "commands", _TARGET])
        steps.check("linking", link_command(commands[-1], build, library.library, program))
    seconds = round(time.monotonic() - start)
    # Written last: no unfinished program ever has one.
    record = {"library": _stamp(library), "version": library.version, "seconds": seconds}
    write_record(program.with_name("finished.json"), record)
    for folder in (build, view):
        shutil.rmtree(folder)
    say(f"benchdnn is ready: {program} ({seconds // 60} min {seconds % 60} s)")
    return Benchdnn(program, library)


def _view(tree: Path, view: Path) -> None:
    """Make a source tree of links in which the other tests are empty.

    Debian's source package lacks the googletest that oneDNN's CMake asks for with the tests on.
    """
    shutil.rmtree(view, ignore_errors=True)
    tests = view / "tests"
    tests.mkdir(parents=True)
    others = [tests / name for name in ("gtests", "noexcept")]
    for folder in others:
        folder.mkdir()
        (folder / "CMakeLists.txt").touch()
    for at, entries in ((view, tree), (tests, tree / "tests")):
        for entry in entries.iterdir():
            link = at / entry.name
            if not link.exists():
                link.symlink_to(entry)


def main() -> int:
    """Build benchdnn if needed and print its path; return an exit status."""
    try:
        with signals_raise():
            print(ensure().program)
    except RecipeError as error:
        print(f"oneDNN: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("oneDNN: interrupted; the same command resumes it", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
