"""The commands of ./dev, what they take, and `main`."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from argparse import REMAINDER, ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

import doc_pages
import sanitizers

from onednn_recipe.process import signals_raise
from onednn_recipe.report import RecipeError

from . import stages, system, wheels, where, words
from .environments import PACKAGE, Environment, cpp_files, docs_environment, main_environment
from .quietly import ROOT, DevError, say

# What measures speed runs as it does for users.
MEASURING = ("bench", "matrix", "patterns")

Run = Callable[[Namespace, list[str]], int]

PARSER = ArgumentParser(
    prog="./dev",
    allow_abbrev=False,
    epilog="Each works from a fresh clone: it makes the virtual environment it needs (.venv, "
    ".venv-pypi) of packages that are kept in the cache for all clones, builds oneDNN from source "
    "once (10 to 25 minutes on 2 cores; `third_party/onednn.py --help` lists the settings) and "
    "builds the extension when its sources have changed. Further arguments go to what is run.",
)
_COMMANDS = PARSER.add_subparsers(metavar="COMMAND", required=True)
_WHERE = ArgumentParser(add_help=False)
_WHERE.add_argument(
    "--onednn", type=where.release, default=False, metavar="pypi[==RELEASE]",
    help="with the newest oneDNN, from PyPI's wheels, or an older release, such as pypi==2025.2.0",
)  # fmt: skip
_WHERE.add_argument(
    "--isa", type=str.lower, metavar="NAME",
    help="with oneDNN held to an instruction set, of those that ./dev isa lists",
)  # fmt: skip
_SANITIZE = ArgumentParser(add_help=False)
_SANITIZE.add_argument(
    "--sanitize", choices=sanitizers.KNOWN,
    help="run tests of memory and threads, or those that are named, with the extension compiled "
    "with sanitizers",
)  # fmt: skip
_MANYLINUX = ArgumentParser(add_help=False)
_MANYLINUX.add_argument(
    "--manylinux", action="store_true", help="with its own OpenMP, for other systems too"
)
_BENCHMARK = ArgumentParser(add_help=False)
_BENCHMARK.add_argument("name", nargs="?", help="one of benchmarks/, or all")
_BENCHMARK.add_argument("arguments", nargs=REMAINDER, help="those of the benchmark, also --help")


def _command(*parents: ArgumentParser) -> Callable[[Run], Run]:
    """Register a command: a function of its options and of further arguments."""

    def register(run: Run) -> Run:
        name, text = run.__name__.rstrip("_"), run.__doc__ or ""
        parser = _COMMANDS.add_parser(
            name, parents=parents, help=text.splitlines()[0], description=text, allow_abbrev=False
        )
        parser.set_defaults(run=run, command=name)
        return run

    return register


def _where(options: Namespace) -> where.Where:
    pypi = options.onednn is not False
    return where.Where(pypi, options.isa, options.onednn or None)


@_command(_WHERE)
def examples(options: Namespace, rest: list[str]) -> int:
    """Run all examples, or some."""
    place = _where(options)
    return place.run(place.environment(), "-m", "onednn_graph_py.examples", *(rest or ["--all"]))


@_command(_WHERE)
def patterns(options: Namespace, rest: list[str]) -> int:
    """Run the gallery of fusion patterns.

    Or some, such as FP-08 or matmul; with --json, --html, --markdown, --no-time.
    """
    place = _where(options)
    return place.run(place.environment(), "-m", "gallery", *rest)


@_command(_WHERE)
def notebooks(options: Namespace, rest: list[str]) -> int:
    """Execute all notebooks, or some.

    --save writes their outputs into the files.
    """
    place = _where(options)
    if place.pypi and "--save" in rest:
        raise DevError("what --save writes is of the recipe's oneDNN; leave out --onednn=pypi")
    environment = place.environment()
    environment.group("notebooks")
    return place.run(environment, str(ROOT / "notebooks" / "run.py"), *rest)


@_command(_WHERE, _SANITIZE)
def test(options: Namespace, rest: list[str]) -> int:
    """Run the tests; further arguments go to pytest."""
    place = _where(options)
    if options.sanitize is None:
        return _test(place, rest)
    if place != where.Where(False, None):
        raise DevError("--sanitize goes neither with --onednn nor with --isa", status=2)
    return _test_sanitized(options.sanitize, rest)


def _test(place: where.Where, rest: Sequence[str]) -> int:
    environment = place.environment()
    if place.pypi:
        rest = _from_elsewhere(rest, [ROOT / "tests"])
    source = environment.source_tree()
    settings = {"ONEDNN_GRAPH_PY_SOURCE": source} if source else {}
    return place.run(environment, "-m", "pytest", *rest, **settings)


def _test_sanitized(names: str, rest: Sequence[str]) -> int:
    """Run tests with a sanitized extension; fail also for what is reported where nobody looks."""
    environment = main_environment()
    tree = environment.sanitized(names)
    (extension,) = tree.glob("onednn_graph_py/_core*.so")
    files = [f for n in sanitizers.TESTS for f in (ROOT / "tests").glob(f"*/test_{n}.py")]
    with tempfile.TemporaryDirectory(prefix="onednn_graph_py-") as folder:
        variables = sanitizers.environment(names, extension, Path(folder))
        command = ["-m", "pytest", *_from_elsewhere(rest, files)]
        status = environment.run(*command, cwd=tree, env={**variables, "PYTHONPATH": str(tree)})
        reports = sanitizers.reports(Path(folder))
    for report in reports:
        print(report)
    say(f"the sanitizers reported on {len(reports)} processes")
    return status or bool(reports)


def _from_elsewhere(arguments: Sequence[str], tests: Sequence[Path]) -> list[str]:
    """Arguments of a pytest that does not run at the root, with tests to run if none are named."""
    absolute = [_absolute(a) for a in arguments]
    if not any(a.startswith(str(ROOT)) for a in absolute):
        absolute += map(str, tests)
    return ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), *absolute]


def _absolute(argument: str) -> str:
    """Make a path, or a pytest node id that starts with one, independent of the directory."""
    path = ROOT / argument.split("::")[0]
    return f"{ROOT / argument}" if argument[:1] != "-" and path.exists() else argument


@_command(_WHERE)
def torch(options: Namespace, rest: list[str]) -> int:
    """Install torch, and run the tests of torch.compile, which test leaves out without it."""
    return _test_with("test-torch", _of_front_end("torch"), options, rest)


@_command(_WHERE)
def onnx(options: Namespace, rest: list[str]) -> int:
    """Install onnx, onnxruntime, torch and OpenVINO, and run the tests of ONNX models.

    And of all these in one process; test leaves them out without them.
    """
    files = [*_of_front_end("onnx"), "tests/processes/test_loader.py"]
    return _test_with("test-onnx", files, options, rest)


@_command(_WHERE)
def ray(options: Namespace, rest: list[str]) -> int:
    """Install Ray, and run the tests of its workers, which test leaves out without it."""
    files = ["tests/processes/test_ray.py", "tests/processes/test_parallel.py"]
    return _test_with("test-ray", files, options, rest)


def _of_front_end(name: str) -> list[str]:
    files = sorted((ROOT / "tests").glob(f"*/test_{name}*.py"))
    return [str(file.relative_to(ROOT)) for file in files]


def _test_with(group: str, files: Sequence[str], options: Namespace, rest: Sequence[str]) -> int:
    """Provide a group of packages, and run the tests that need them."""
    place = _where(options)
    place.environment().group(group)
    return _test(place, [*files, *rest])


@_command(_WHERE)
def isa(options: Namespace, rest: list[str]) -> int:
    """List the instruction sets that oneDNN can be held to on this CPU, its own choice last."""
    print(*where.isas(_where(options).environment()))
    return 0


@_command(_WHERE)
def matrix(options: Namespace, rest: list[str]) -> int:
    """Measure what oneDNN gets right with each instruction set; write the page of its defects."""
    place = _where(options)
    environment = place.environment()
    isas = [place.isa] if place.isa else [] if "--page" in rest else where.isas(environment)
    path = [str(ROOT / name) for name in ("tests/helpers", "benchmarks", "third_party")]
    return place.run(environment, "-m", "matrix", *isas, *rest, PYTHONPATH=os.pathsep.join(path))


@_command(_WHERE)
def screens(options: Namespace, rest: list[str]) -> int:
    """Look at pages of notebooks and of the documentation in a browser, which is installed."""
    place = _where(options)
    environment = place.environment()
    programs = {"chromium": "browser", "chromedriver": "driver", "dot": "graphviz"}
    system.install([need for name, need in programs.items() if not shutil.which(name)])
    environment.tools()
    environment.group("screens")
    if docs(options, []):
        return 1
    pictures = ROOT / "build" / "screens"
    pictures.mkdir(parents=True, exist_ok=True)
    say(f"pictures of the pages go to {pictures.relative_to(ROOT)}/")
    os.environ["ONEDNN_GRAPH_PY_SCREENS"] = str(pictures)
    files = ["tests/project/test_screens.py", "tests/tools/test_diagram.py"]
    return _test(place, ["-rs", *files, *rest])


@_command()
def landing(options: Namespace, rest: list[str]) -> int:
    """Run all that has to pass before a change lands, as CI does; ends with a table."""
    return stages.run("landing")


@_command()
def nightly(options: Namespace, rest: list[str]) -> int:
    """Run everything: sanitizers, slow tests, all with both oneDNNs, fewer instructions."""
    return stages.run("nightly")


@_command()
def lint(options: Namespace, rest: list[str]) -> int:
    """Check format, lint, types, and the programs and words of pages."""
    environment = main_environment()
    environment.tools()
    results = [
        environment.tool("ruff", "check", "--output-format=concise", *rest),
        environment.tool("ruff", "format", "--check"),
        environment.tool("mypy"),
        _check_page_types(environment),
        _check_cpp_format(environment),
        _check_words(),
    ]
    if any(results):
        say("./dev format repairs what is only a matter of format")
    return int(any(results))


def _check_page_types(environment: Environment) -> int:
    """Check the types of the pages' programs, which count on the package as a reader's do."""
    folder = ROOT / "build" / "page_programs"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for page in doc_pages.PAGES:
        (folder / f"program_of_{page.stem}.py").write_text(doc_pages.program(page), "utf-8")
    return environment.tool("mypy", str(folder))


def _check_words() -> bool:
    places = list(words.refused(ROOT))
    print(*places, sep="\n", end="\n" if places else "")
    return bool(places)


def _check_cpp_format(environment: Environment) -> int:
    # clang-format tells every place, which nobody reads; the names of the files are enough.
    program = str(environment.path / "bin" / "clang-format")
    sources = [str(path.relative_to(ROOT)) for path in cpp_files()]
    command = [program, "--dry-run", "--Werror", *sources]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    for name in dict.fromkeys(re.findall(r"^(\S+?):\d+:", done.stderr, re.MULTILINE)):
        print(f"Would reformat: {name.removeprefix(f'{ROOT}/')}")
    return done.returncode


@_command()
def format_(options: Namespace, rest: list[str]) -> int:
    """Rewrite Python and C++ in the project's format."""
    environment = main_environment()
    environment.tools()
    results = [
        environment.tool("ruff", "check", "--fix", *rest),
        environment.tool("ruff", "format"),
        environment.tool("clang-format", "-i", *map(str, cpp_files())),
    ]
    return int(any(results))


@_command(_BENCHMARK)
def bench(options: Namespace, rest: list[str]) -> int:
    """Run benchmarks/NAME.py, or all benchmarks."""
    available = sorted(path.stem for path in (ROOT / "benchmarks").glob("[!_]*.py"))
    names = [options.name] if options.name else available
    if not set(names) <= set(available):
        raise DevError(f"there is no benchmark {names[0]!r}; there are: {', '.join(available)}")
    environment = main_environment()
    environment.editable()
    results = [environment.run(f"benchmarks/{name}.py", *options.arguments) for name in names]
    return int(any(results))


@_command()
def docs(options: Namespace, rest: list[str]) -> int:
    """Build the documentation into build/docs/; further arguments go to Sphinx."""
    main_environment().editable()  # autodoc reads the docstrings of the compiled extension
    environment = docs_environment()
    environment.tools()
    system.install([] if shutil.which("dot") else ["graphviz"])  # draws its diagrams
    site, kept = ROOT / "build" / "docs", ROOT / "build" / "docs-doctrees"
    say("building the documentation")
    sphinx = ["--fail-on-warning", "--keep-going", "--quiet", "-b", "html", "-d", str(kept)]
    status = environment.run("-m", "sphinx", *sphinx, *rest, str(ROOT / "docs"), str(site))
    if status == 0:
        say(f"open {site / 'index.html'}")
    return status


@_command()
def stubs(options: Namespace, rest: list[str]) -> int:
    """Write the generated stubs (.pyi) of the extension and of the builder's methods."""
    environment = main_environment()
    environment.editable()
    building = PACKAGE / "model" / "building"
    targets = {"generate_stub": PACKAGE / "_core.pyi"}
    for name in ("op_methods", "attached_methods"):
        targets[f"generate_{name}_stub"] = building / f"{name}.pyi"
    for writer, target in targets.items():
        if status := environment.run(f"bindings/{writer}.py", str(target)):
            return status
    return 0


@_command(_MANYLINUX)
def wheel(options: Namespace, rest: list[str]) -> int:
    """Build a wheel into dist/, and show what auditwheel says about it."""
    return wheels.write_wheel(main_environment(), options.manylinux, rest)


@_command()
def help_(options: Namespace, rest: list[str]) -> int:
    """List the commands."""
    PARSER.print_help()
    return 0


def main(arguments: list[str]) -> int:
    """Run one command; return its exit status, or exit with 2 where there is none such."""
    options, rest = PARSER.parse_known_args(arguments or ["help"])
    if options.command not in MEASURING and "OMP_WAIT_POLICY" not in os.environ:
        # OpenMP's threads would spin for milliseconds where other processes want their core, and
        # beside another run of the tests these would take several times as long.
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    if options.command not in MEASURING:
        # NumPy's threads would spin there, too, and a test's arrays are small.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Each process that a test or a page starts would compile the package anew, in a quarter of a
    # second, where Python keeps nothing of that.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        with signals_raise():
            status: int = options.run(options, rest)
            return status
    except (DevError, RecipeError) as error:
        print(f"./dev: error: {error}", file=sys.stderr)
        return error.status if isinstance(error, DevError) else 1
    except KeyboardInterrupt:
        return 130
