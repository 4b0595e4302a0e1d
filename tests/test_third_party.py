"""The recipe that fetches and builds oneDNN, on a library of two files instead of oneDNN's 500."""

import dataclasses
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

import onednn_graph_py as og
from onednn_recipe import pins as pins_module
from onednn_recipe import prefix, toolchain, trees
from onednn_recipe import recipe as recipe_module
from onednn_recipe.cache import Cache
from onednn_recipe.progress import Progress
from onednn_recipe.recipe import Recipe
from onednn_recipe.report import RecipeError
from onednn_recipe.settings import Settings

# The recipe builds no oneDNN for SYCL, and does the same whatever the package is linked with.
pytestmark = pytest.mark.skipif(
    og.version()["cpu_runtime"] == "SYCL", reason="the recipe is tested with the oneDNN it builds"
)

RECIPE = Path(pins_module.DATA).with_name("onednn.py")
PINS = pins_module.load()
GIT, DEBIAN = PINS.git.version, PINS.debian.version
STEERING = re.compile(r"ONEDNN_|DNNL_|CMAKE_|CC$|CXX|CFLAGS|CPPFLAGS|LDFLAGS|XDG_CACHE_HOME")

LISTS = """\
cmake_minimum_required(VERSION 3.13)
set(PROJECT_VERSION "{version}")
project(oneDNN VERSION "${{PROJECT_VERSION}}" LANGUAGES CXX)
set(DNNL_CPU_THREADING_RUNTIME {runtime})
file(GLOB SOURCES ${{PROJECT_SOURCE_DIR}}/src/*.cpp)
add_library(${{DNNL_LIBRARY_NAME}} SHARED ${{SOURCES}})
set_target_properties(${{DNNL_LIBRARY_NAME}} PROPERTIES SOVERSION 3 VERSION 3.9)
set(HEADERS ${{PROJECT_BINARY_DIR}}/include/oneapi/dnnl)
file(MAKE_DIRECTORY ${{HEADERS}})
string(REPLACE "." ";" PARTS ${{PROJECT_VERSION}})
list(GET PARTS 0 MAJOR)
list(GET PARTS 1 MINOR)
list(GET PARTS 2 PATCH)
file(WRITE ${{HEADERS}}/dnnl_version.h
  "#define DNNL_VERSION_MAJOR ${{MAJOR}}\\n#define DNNL_VERSION_MINOR ${{MINOR}}\\n"
  "#define DNNL_VERSION_PATCH ${{PATCH}}\\n")
file(WRITE ${{HEADERS}}/dnnl_config.h
  "#define DNNL_CPU_THREADING_RUNTIME DNNL_RUNTIME_${{DNNL_CPU_THREADING_RUNTIME}}\\n")
if(ONEDNN_BUILD_GRAPH)
  file(APPEND ${{HEADERS}}/dnnl_config.h "#define ONEDNN_BUILD_GRAPH\\n")
endif()
file(WRITE ${{HEADERS}}/dnnl_graph.hpp "")
install(DIRECTORY ${{PROJECT_BINARY_DIR}}/include DESTINATION .)
install(TARGETS ${{DNNL_LIBRARY_NAME}} DESTINATION ${{CMAKE_INSTALL_LIBDIR}})
"""


def make_tree(path: Path, version: str = "3.9.1", runtime: str = "OMP") -> Path:
    """A source tree with the outward shape of oneDNN's."""
    (path / "src").mkdir(parents=True)
    (path / "CMakeLists.txt").write_text(LISTS.format(version=version, runtime=runtime))
    (path / "src/graph.cpp").write_text('extern "C" int dnnl_graph_graph_finalize() { return 0; }')
    (path / "src/other.cpp").write_text("int other() { return 1; }")
    return path


def make_prefix(path: Path, version: str = "3.9.1", graph: bool = True, lib: str = "lib") -> Path:
    """An installed oneDNN, as far as the recipe looks."""
    headers = path / "include/oneapi/dnnl"
    headers.mkdir(parents=True)
    parts = zip(("MAJOR", "MINOR", "PATCH"), version.split("."), strict=True)
    lines = [f"#define DNNL_VERSION_{name} {number}\n" for name, number in parts]
    (headers / "dnnl_version.h").write_text("".join(lines))
    (headers / "dnnl_graph.hpp").write_text("")
    config = "#define ONEDNN_BUILD_GRAPH\n" if graph else "/* #undef ONEDNN_BUILD_GRAPH */\n"
    (headers / "dnnl_config.h").write_text(config)
    (path / lib).mkdir(parents=True)
    (path / lib / "libdnnl.so").write_bytes(b"\x7fELF...dnnl_graph_graph_finalize...")
    return path


def script(path: Path, text: str) -> Path:
    """An executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch, tmp_path):
    """No setting of the machine or the caller reaches a test; the cache is a fresh one."""
    for name in os.environ:
        if STEERING.match(name):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ONEDNN_GRAPH_PY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CMAKE_BUILD_PARALLEL_LEVEL", "2")


@pytest.fixture
def nothing_reachable(monkeypatch, tmp_path):
    """A PATH with the compiler's tools and no way to a source: git and apt-get always fail."""
    calls = tmp_path / "calls"
    for name in ("git", "apt-get"):
        script(
            tmp_path / "bin" / name, f'echo {name} >> "{calls}"; echo "E: no network" >&2; exit 1'
        )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("ONEDNN_DEBIAN_MIRROR", "http://mirror.invalid/debian")
    return calls


@pytest.fixture
def debian_only(monkeypatch, tmp_path, nothing_reachable):
    """An apt-get that serves a tarball of a fake 3.7.2; returns pins that expect it."""
    tree = make_tree(tmp_path / "upstream" / f"oneDNN-{DEBIAN}", DEBIAN)
    tarball = tmp_path / PINS.debian.file
    with tarfile.open(tarball, "w:xz") as archive:
        archive.add(tree, tree.name)
    script(
        tmp_path / "bin/apt-get",
        f'echo apt-get >> "{nothing_reachable}"\n'
        f'case "$*" in *source*--download-only*) cp "{tarball}" . ;; esac',
    )
    digest = hashlib.sha256(tarball.read_bytes()).hexdigest()
    return dataclasses.replace(PINS, debian=dataclasses.replace(PINS.debian, sha256=digest))


def git_repository(path: Path, tag: str = PINS.git.tag) -> str:
    """A repository with a fake release; returns its commit."""
    tree = make_tree(path, GIT)
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
    for command in (
        ["init", "--quiet"],
        ["add", "."],
        [*identity, "commit", "--quiet", "--message=release"],
        [*identity, "tag", "--annotate", "--message=release", tag],
    ):
        subprocess.run(["git", *command], cwd=tree, check=True)
    return subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=tree, text=True).strip()


def calls_of(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def run_recipe(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(RECIPE), *arguments],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=120,
    )


# -- sources: order, fallbacks, pins ---------------------------------------------------------------


def test_a_named_tree_is_built_where_it_stands(monkeypatch, tmp_path, nothing_reachable):
    tree = make_tree(tmp_path / "mine")
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(tree))
    found = Recipe().ensure()
    assert (found.version, found.source_dir, found.built) == ("3.9.1", tree, True)
    assert found.library.name == "libdnnl_ogp.so"
    assert (found.include_dir / "oneapi/dnnl/dnnl_graph.hpp").is_file()
    assert calls_of(nothing_reachable) == []


def test_git_comes_before_debian(monkeypatch, tmp_path, nothing_reachable):
    (tmp_path / "bin/git").unlink()
    commit = git_repository(tmp_path / "repository")
    monkeypatch.setenv("ONEDNN_GIT_URL", str(tmp_path / "repository"))
    pins = dataclasses.replace(PINS, git=dataclasses.replace(PINS.git, commit=commit))
    recipe = Recipe(pins=pins)
    tree = recipe.source()
    assert tree == tmp_path / f"cache/src/onednn-{GIT}"
    assert trees.version_of(tree) == GIT
    assert calls_of(nothing_reachable) == []


def test_a_tag_that_moved_is_refused(monkeypatch, tmp_path, capfd, nothing_reachable):
    (tmp_path / "bin/git").unlink()
    commit = git_repository(tmp_path / "repository")
    monkeypatch.setenv("ONEDNN_GIT_URL", str(tmp_path / "repository"))
    monkeypatch.setenv("ONEDNN_VERSION", GIT)
    with pytest.raises(RecipeError, match=rf"is commit {commit}, but {PINS.git.commit} is pinned"):
        Recipe().source()
    assert not list((tmp_path / "cache/src").iterdir())


def test_an_unreachable_source_costs_one_line_and_the_next_is_used(capfd, debian_only):
    recipe = Recipe(pins=debian_only)
    assert trees.version_of(recipe.source()) == DEBIAN
    lines = capfd.readouterr().err.splitlines()
    assert lines[0] == f"oneDNN: {GIT} from upstream git can't be had: E: no network"
    assert len([line for line in lines if "can't be had" in line]) == 1


def test_a_silent_source_is_given_up_within_seconds(monkeypatch, tmp_path, capfd, debian_only):
    script(tmp_path / "bin/git", "exec sleep 60")
    git = dataclasses.replace(debian_only.git, probe_seconds=0.3)
    start = time.monotonic()
    Recipe(pins=dataclasses.replace(debian_only, git=git)).source()
    assert time.monotonic() - start < 10
    assert f"no answer from {PINS.git.url} in 0.3 s" in capfd.readouterr().err


def test_no_source_at_all_names_each_reason_and_how_to_supply_one(nothing_reachable):
    with pytest.raises(RecipeError) as caught:
        Recipe().ensure()
    text = str(caught.value)
    for expected in (
        "upstream git: ",
        "Debian's source package: ",
        "ONEDNN_SOURCE_DIR=/",
        "ONEDNN_ROOT=/",
    ):
        assert expected in text


def test_a_pinned_version_never_becomes_another(monkeypatch, debian_only):
    monkeypatch.setenv("ONEDNN_VERSION", GIT)
    with pytest.raises(RecipeError) as caught:
        Recipe(pins=debian_only).source()
    assert f"no source of oneDNN {GIT} can be had" in str(caught.value)
    assert "Debian" not in str(caught.value).split("Supply one yourself")[0]


def test_a_pinned_version_that_nobody_offers_lists_what_is_offered(monkeypatch):
    monkeypatch.setenv("ONEDNN_VERSION", "3.9.9")
    expected = rf"3\.9\.9, which no source offers. Offered: {GIT} \(upstream git\), {DEBIAN} \(Deb"
    with pytest.raises(RecipeError, match=expected):
        Recipe().ensure()


def test_a_pinned_version_and_a_named_tree_must_agree(monkeypatch, tmp_path):
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(make_tree(tmp_path / "mine", "3.9.1")))
    monkeypatch.setenv("ONEDNN_VERSION", "3.9.2")
    with pytest.raises(RecipeError, match=r"ONEDNN_VERSION asks for 3\.9\.2, but .* is 3\.9\.1"):
        Recipe().ensure()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: make_tree(path, "3.6.2"), r"is oneDNN 3\.6\.2, but 3\.7 or newer is needed"),
        (lambda path: path.mkdir(), r"there is no CMakeLists\.txt"),
        (lambda path: None, "should name an existing directory"),
    ],
    ids=["too old", "no tree", "no directory"],
)
def test_an_unusable_named_tree_is_refused(monkeypatch, tmp_path, make, message):
    make(tmp_path / "mine")
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(tmp_path / "mine"))
    with pytest.raises(RecipeError, match=message):
        Recipe().ensure()


def test_a_tarball_with_another_checksum_is_refused(monkeypatch, tmp_path, debian_only):
    monkeypatch.setenv("ONEDNN_VERSION", DEBIAN)
    with pytest.raises(RecipeError, match=rf"has SHA-256 \w+, but {PINS.debian.sha256} is pinned"):
        Recipe(pins=PINS).source()
    assert not list((tmp_path / "cache/src").iterdir())


def test_an_interrupted_download_is_redone(debian_only, tmp_path):
    partial = tmp_path / f"cache/src/onednn-{DEBIAN}.partial"
    partial.mkdir(parents=True)
    (partial / "rubbish").write_text("")
    tree = tmp_path / f"cache/src/onednn-{DEBIAN}"
    tree.mkdir()  # a tree without the record that is written after it
    assert Recipe(pins=debian_only).source() == tree
    assert (tree / "CMakeLists.txt").is_file()
    assert not partial.exists()


def test_the_choice_is_remembered_and_no_source_is_asked_again(debian_only, nothing_reachable):
    first = Recipe(pins=debian_only).ensure()
    asked = calls_of(nothing_reachable)
    assert {"git", "apt-get"} == set(asked)
    second = Recipe(pins=debian_only).ensure()
    assert second == first
    assert calls_of(nothing_reachable) == asked


def test_a_pinned_build_does_not_become_the_choice(monkeypatch, debian_only):
    monkeypatch.setenv("ONEDNN_VERSION", DEBIAN)
    Recipe(pins=debian_only).source()
    monkeypatch.delenv("ONEDNN_VERSION")
    assert Recipe(pins=debian_only).preferred.version == GIT


def test_a_finished_build_outlives_its_source_tree(debian_only):
    recipe = Recipe(pins=debian_only)
    first = recipe.ensure()
    shutil.rmtree(first.source_dir)
    again = Recipe(pins=debian_only).ensure()
    assert (again.library, again.source_dir) == (first.library, None)


# -- ONEDNN_ROOT -----------------------------------------------------------------------------------


@pytest.mark.parametrize("lib", ["lib", "lib64", "lib/x86_64-linux-gnu"])
def test_an_installed_onednn_is_used_as_it_is(monkeypatch, tmp_path, lib):
    root = make_prefix(tmp_path / "root", lib=lib)
    monkeypatch.setenv("ONEDNN_ROOT", str(root))
    found = Recipe().ensure()
    assert (found.version, found.built, found.source_dir) == ("3.9.1", False, None)
    assert found.library == root / lib / "libdnnl.so"
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda root: shutil.rmtree(root / "include"), "should hold include/oneapi/dnnl"),
        (lambda root: shutil.rmtree(root / "lib"), "no shared library"),
        (
            lambda root: (shutil.rmtree(root), make_prefix(root, "3.6.0")),
            r"holds oneDNN 3\.6\.0, but 3\.7 or newer is needed",
        ),
        (
            lambda root: (shutil.rmtree(root), make_prefix(root, graph=False)),
            "without the graph component",
        ),
        (
            lambda root: (root / "lib/libdnnl.so").write_bytes(b"\x7fELF primitives only"),
            "without the graph component",
        ),
    ],
    ids=["no headers", "no library", "too old", "graph off", "graph missing in library"],
)
def test_an_unusable_installed_onednn_is_refused(monkeypatch, tmp_path, spoil, message):
    root = make_prefix(tmp_path / "root")
    spoil(root)
    monkeypatch.setenv("ONEDNN_ROOT", str(root))
    with pytest.raises(RecipeError, match=message) as caught:
        Recipe().ensure()
    assert "ONEDNN_ROOT should name" in str(caught.value)


def test_an_installed_onednn_must_agree_with_a_pinned_version(monkeypatch, tmp_path):
    monkeypatch.setenv("ONEDNN_ROOT", str(make_prefix(tmp_path / "root")))
    monkeypatch.setenv("ONEDNN_VERSION", "3.7.2")
    with pytest.raises(RecipeError, match=r"asks for 3\.7\.2, but ONEDNN_ROOT=.* is 3\.9\.1"):
        Recipe().ensure()


# -- cache key, options ----------------------------------------------------------------------------


def key(pins=PINS) -> str:
    recipe = Recipe(pins=pins)
    return recipe.key(recipe.preferred)


def test_the_key_is_readable_and_stable():
    assert re.fullmatch(rf"{re.escape(GIT)}-[0-9a-f]{{12}}", key())
    assert key() == key()


def test_the_key_changes_with_everything_that_changes_the_result(monkeypatch, tmp_path):
    keys = {key()}
    included = tmp_path / "included.cmake"
    included.write_bytes(recipe_module.INCLUDED.read_bytes())
    with monkeypatch.context() as patch:
        patch.setattr(recipe_module, "INCLUDED", included)
        assert key() in keys  # wherever it lies
        included.write_text("# another")
        keys.add(key())
    options = {**PINS.cmake_options, "CMAKE_BUILD_TYPE": "Debug"}
    keys.add(key(dataclasses.replace(PINS, cmake_options=options)))
    keys.add(key(dataclasses.replace(PINS, git=dataclasses.replace(PINS.git, commit="0" * 40))))
    for name, value in {
        "ONEDNN_VERSION": DEBIAN,
        "ONEDNN_CMAKE_ARGS": "-DDNNL_VERBOSE=OFF",
        "CXXFLAGS": "-O1",
        "CXX": str(script(tmp_path / "othercxx", "echo other 1.0")),
    }.items():
        monkeypatch.setenv(name, value)
        keys.add(key())
        monkeypatch.delenv(name)
    assert len(keys) == 8


def test_extra_cmake_arguments_are_split_as_by_a_shell_and_win(monkeypatch, tmp_path):
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(make_tree(tmp_path / "mine")))
    monkeypatch.setenv("ONEDNN_CMAKE_ARGS", "-DDNNL_LIBRARY_NAME=dnnl_mine '-DX=a b'")
    assert Recipe().arguments[-2:] == ("-DDNNL_LIBRARY_NAME=dnnl_mine", "-DX=a b")
    assert Recipe().ensure().library.name == "libdnnl_mine.so"


def test_the_library_can_not_be_taken_for_another_onednn():
    options = PINS.cmake_options
    assert options["DNNL_LIBRARY_NAME"] not in ("dnnl", "mkldnn")
    assert options["CMAKE_SHARED_LINKER_FLAGS"] == "-Wl,-Bsymbolic"


@pytest.mark.parametrize("value", ["0", "-1", "many"])
def test_a_bad_number_of_jobs_is_refused(monkeypatch, value):
    monkeypatch.setenv("CMAKE_BUILD_PARALLEL_LEVEL", value)
    with pytest.raises(RecipeError, match=f"CMAKE_BUILD_PARALLEL_LEVEL .* it is '{value}'"):
        Settings.from_env()


# -- building --------------------------------------------------------------------------------------


def test_an_edited_tree_is_built_again_and_only_what_changed(monkeypatch, tmp_path):
    tree = make_tree(tmp_path / "mine")
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(tree))
    Recipe().ensure()
    (tree / "src/other.cpp").write_text("int other() { return 2222; }")
    recipe = Recipe()
    assert recipe.finished(recipe.preferred) is None
    found = recipe.ensure()
    log = recipe.cache.log(recipe.key(recipe.preferred)).read_text()
    assert log.count("other.cpp.o") == 2 * log.count("graph.cpp.o") == 2
    assert Recipe().ensure() == found


def make_tree_with_cpu_targets(path: Path) -> Path:
    """A tree whose library is made of two targets that oneDNN has, with kernels and a generator."""
    tree = make_tree(path)
    sources = {
        "common/primitive.hpp": "#include <vector>\n",
        "common/type_helpers.hpp": "#include <map>\n",
        "cpu/ref_relu.cpp": "int relu() { return std::vector<int>(1).size(); }",
        "cpu/cpu_relu_list.cpp": "int list() { return std::map<int, int>().size(); }",
        "cpu/x64/jit_relu.cpp": "int drives() { return std::vector<int>(2).size(); }",
        "cpu/x64/jit_relu_kernel.cpp": "int generates() { return std::vector<int>(3).size(); }",
    }
    for name, text in sources.items():
        (tree / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / "src" / name).write_text(text)
    lists = (
        (tree / "CMakeLists.txt")
        .read_text()
        .replace(
            "file(GLOB SOURCES ${PROJECT_SOURCE_DIR}/src/*.cpp)",
            "file(GLOB SOURCES ${PROJECT_SOURCE_DIR}/src/*.cpp)\n"
            "set(CMAKE_EXPORT_COMPILE_COMMANDS ON)\n"
            "include_directories(${PROJECT_SOURCE_DIR}/src)\n"
            "add_subdirectory(src/cpu)\n"
            "list(APPEND SOURCES $<TARGET_OBJECTS:dnnl_cpu> $<TARGET_OBJECTS:dnnl_cpu_x64>)",
        )
    )
    (tree / "CMakeLists.txt").write_text(lists)
    for place, target, more in (
        ("cpu", "dnnl_cpu", "add_subdirectory(x64)\n"),
        ("cpu/x64", "dnnl_cpu_x64", ""),
    ):
        (tree / "src" / place / "CMakeLists.txt").write_text(
            f"file(GLOB SOURCES ${{CMAKE_CURRENT_SOURCE_DIR}}/*.cpp)\n{more}"
            f"add_library({target} OBJECT ${{SOURCES}})\n"
            f"set_target_properties({target} PROPERTIES POSITION_INDEPENDENT_CODE ON)\n"
        )
    return tree


def compile_commands() -> dict[str, str]:
    """The compiler's call for each file of the build that the cache keeps."""
    recipe = Recipe()
    build = recipe.cache.build(recipe.key(recipe.preferred))
    listed = json.loads((build / "compile_commands.json").read_text())
    return {Path(entry["file"]).name: entry["command"] for entry in listed}


needs_gcc = pytest.mark.skipif(
    shutil.which("g++") is None, reason="only GCC's builds are made faster, and there is no g++"
)


@needs_gcc
def test_kernels_keep_their_optimisation_and_generators_of_code_are_compiled_in_less_time(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("CXX", "g++")
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(make_tree_with_cpu_targets(tmp_path / "mine")))
    Recipe().ensure()
    commands = compile_commands()
    # The last one on a command line counts.
    last = {name: re.findall(r" (-O\w)", command)[-1] for name, command in commands.items()}
    assert last["ref_relu.cpp"] == last["cpu_relu_list.cpp"] == last["jit_relu.cpp"] == "-O3"
    assert last["jit_relu_kernel.cpp"] == "-O1"
    # The sources above include nothing: without precompiled headers they would not compile.
    assert "cmake_pch.hxx" in commands["ref_relu.cpp"]
    # A compiler says so where it can't use what is precompiled.
    assert "invalid-pch" not in Recipe().cache.log(key()).read_text().replace("-Winvalid-pch", "")


@needs_gcc
def test_the_build_can_be_left_as_onednn_has_it(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "g++")
    tree = make_tree_with_cpu_targets(tmp_path / "mine")
    for source in tree.glob("src/cpu/**/*.cpp"):
        source.write_text(f"#include <vector>\n#include <map>\n{source.read_text()}")
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(tree))
    monkeypatch.setenv("ONEDNN_CMAKE_ARGS", "-DONEDNN_GRAPH_PY_FAST_BUILD=OFF")
    Recipe().ensure()
    for command in compile_commands().values():
        assert set(re.findall(r" (-O\w)", command)) == {"-O3"}
        assert "cmake_pch" not in command
        assert "ggc-min-heapsize" not in command


@pytest.mark.parametrize("chosen", [True, False])
def test_ccache_is_used_where_it_is_installed_and_no_launcher_is_chosen(
    monkeypatch, tmp_path, chosen
):
    calls = tmp_path / "calls"
    settings = 'echo "$CCACHE_BASEDIR $CCACHE_SLOPPINESS"'
    script(tmp_path / "bin/ccache", f'{settings} >> "{calls}"\nexec "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("CCACHE_SLOPPINESS", "mine")
    monkeypatch.delenv("CCACHE_BASEDIR", raising=False)
    for name in ("C", "CXX"):
        if chosen:
            monkeypatch.setenv(f"CMAKE_{name}_COMPILER_LAUNCHER", shutil.which("env"))
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(make_tree(tmp_path / "mine")))
    plain = key()
    Recipe().ensure()
    said = calls.read_text().splitlines() if calls.exists() else []
    assert said == ([] if chosen else [f"{tmp_path / 'cache'} mine"] * 2)
    (tmp_path / "bin/ccache").unlink()
    assert key() == plain  # what is built is the same


def test_objects_of_a_fetched_release_are_not_kept(debian_only, tmp_path):
    found = Recipe(pins=debian_only).ensure()
    assert not list((tmp_path / "cache/build").iterdir())
    assert found.source_dir.is_dir()


def test_a_half_written_prefix_is_not_taken_for_a_finished_one(monkeypatch, tmp_path):
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(make_tree(tmp_path / "mine")))
    recipe = Recipe()
    target = recipe.cache.prefix(recipe.key(recipe.preferred))
    make_prefix(target)
    (target / "left-over").write_text("")
    assert recipe.finished(recipe.preferred) is None
    recipe.cache.prefix_record(target.name).write_text('{"content": "')  # cut off
    assert recipe.finished(recipe.preferred) is None
    recipe.ensure()
    assert not (target / "left-over").exists()


def test_a_build_that_fails_shows_the_end_of_its_log(monkeypatch, tmp_path):
    tree = make_tree(tmp_path / "mine")
    (tree / "src/other.cpp").write_text("int other() { return missing_name; }")
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(tree))
    with pytest.raises(RecipeError) as caught:
        Recipe().ensure()
    log = next((tmp_path / "cache/log").iterdir())
    assert "missing_name" in str(caught.value)
    assert str(caught.value).endswith(f"Full log: {log}")
    assert not (tmp_path / "cache/prefix").exists()


def test_a_tree_that_does_not_configure_shows_cmakes_message(monkeypatch, tmp_path):
    tree = make_tree(tmp_path / "mine")
    with (tree / "CMakeLists.txt").open("a") as lists:
        lists.write('message(FATAL_ERROR "no such thing")\n')
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(tree))
    with pytest.raises(RecipeError, match=r"(?s)configuring oneDNN 3\.9\.1 failed.*no such thing"):
        Recipe().ensure()


def test_a_spoilt_build_directory_is_started_afresh(monkeypatch, tmp_path, capfd):
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(make_tree(tmp_path / "mine")))
    recipe = Recipe()
    build = recipe.cache.build(recipe.key(recipe.preferred))
    build.mkdir(parents=True)
    (build / "build.ninja").write_text("")
    (build / "CMakeCache.txt").write_text("CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\n")
    recipe.ensure()
    assert "starting it afresh" in capfd.readouterr().err


def test_a_silent_fall_back_to_one_thread_is_refused(monkeypatch, tmp_path):
    tree = make_tree(tmp_path / "mine", runtime="SEQ")
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(tree))
    with pytest.raises(RecipeError, match=r"would run on one thread \(SEQ\)"):
        Recipe().ensure()
    monkeypatch.setenv("ONEDNN_CMAKE_ARGS", "-DDNNL_CPU_RUNTIME=SEQ")
    assert prefix.cpu_runtime(Recipe().ensure().include_dir) == "SEQ"


# -- interruption, concurrency ---------------------------------------------------------------------


def slow_compiler(path: Path) -> Path:
    """A compiler that leaves a mark and hangs on other.cpp for as long as ``hang`` exists."""
    real = shutil.which("c++")
    return script(
        path / "slowcxx",
        f'case "$*" in *"/other.cpp"*) if [ -e "{path}/hang" ]; then\n'
        f'  echo $$ > "{path}/pid.partial"; mv "{path}/pid.partial" "{path}/pid"; exec sleep 300\n'
        f'fi ;; esac\nexec "{real}" "$@"',
    )


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_until(condition, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the awaited state did not come"
        time.sleep(0.05)


def listen_to_signals():
    """A test run under nohup, or in the background of a script, has some of these ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


MADE = "Building CXX object CMakeFiles/dnnl_ogp.dir/src/graph.cpp.o"


@pytest.fixture
def hanging_build(monkeypatch, tmp_path):
    """A build process that hangs in the middle of compiling, and the compiler's process id."""
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(make_tree(tmp_path / "mine")))
    monkeypatch.setenv("CXX", str(slow_compiler(tmp_path)))
    (tmp_path / "hang").touch()
    process = subprocess.Popen(
        [sys.executable, str(RECIPE)],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=listen_to_signals,
    )
    try:
        wait_until((tmp_path / "pid").exists)
        # The object is there before ninja knows that it is made, and the recipe that ninja does.
        logs = tmp_path / "cache" / "log"
        wait_until(lambda: any(MADE in log.read_text() for log in logs.iterdir()))
        yield process, int((tmp_path / "pid").read_text())
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGHUP, 129)],
)
def test_an_interrupted_build_leaves_no_process_and_resumes(
    tmp_path, hanging_build, number, status
):
    process, compiler = hanging_build
    process.send_signal(number)
    assert process.wait(timeout=30) == status
    wait_until(lambda: not alive(compiler), seconds=5)
    (tmp_path / "hang").unlink()
    done = run_recipe("build")
    assert done.returncode == 0, done.stderr
    assert "resuming 3.9.1" in done.stderr
    log = next((tmp_path / "cache/log").iterdir()).read_text()
    assert log.count(MADE) == 1


def test_a_second_build_waits_and_says_for_whom(tmp_path, hanging_build):
    process, _ = hanging_build
    second = subprocess.Popen(
        [sys.executable, str(RECIPE)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    line = second.stderr.readline()
    assert f"waiting for process {process.pid}" in line
    assert second.poll() is None
    (tmp_path / "hang").unlink()
    process.send_signal(signal.SIGTERM)
    out, err = second.communicate(timeout=60)
    assert second.returncode == 0, err
    assert "resuming" in err
    assert "3.9.1" in out


def test_compile_jobs_of_a_killed_build_still_hold_the_lock(tmp_path, hanging_build):
    process, compiler = hanging_build
    process.kill()
    process.wait()
    assert alive(compiler)
    second = subprocess.Popen([sys.executable, str(RECIPE)], stderr=subprocess.PIPE, text=True)
    try:
        assert "waiting for process" in second.stderr.readline()
        (tmp_path / "hang").unlink()
        os.kill(compiler, signal.SIGKILL)
        _, err = second.communicate(timeout=60)
        assert second.returncode == 0, err
    finally:
        second.kill()
        second.communicate()


def test_the_lock_is_free_again_after_its_holder(tmp_path):
    cache = Cache(tmp_path / "cache")
    for _ in range(2):
        with cache.lock() as descriptor:
            assert os.pread(descriptor, 32, 0).decode() == str(os.getpid())


# -- tools -----------------------------------------------------------------------------------------


def test_a_missing_compiler_gives_the_command_that_installs_one(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for manager, packages in {"apk": "build-base", "dnf": "gcc-c++", "apt-get": r"g\+\+"}.items():
        script(tmp_path / "bin" / manager, "exit 1")
        with pytest.raises(RecipeError, match=rf"none is on PATH(?s:.*){manager} .*{packages}"):
            toolchain.find_compiler(Settings.from_env())


def test_a_compiler_that_does_not_run_is_named(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(RecipeError, match="CXX='no-such-compiler' does not run"):
        toolchain.find_compiler(Settings.from_env())


def test_an_old_tool_on_path_counts_as_missing(monkeypatch, tmp_path):
    script(tmp_path / "bin/cmake", "echo cmake version 3.5.1")
    script(tmp_path / "bin/ninja", "echo 1.12.1.git.kitware")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert toolchain.missing_tools(PINS.tools) == ["cmake"]


def test_a_tool_comes_from_an_importable_wheel_where_the_system_has_none(monkeypatch, tmp_path):
    script(tmp_path / "wheel/bin/ninja", "echo 1.13.0")
    (tmp_path / "wheel/ninja.py").write_text(f"BIN_DIR = {str(tmp_path / 'wheel/bin')!r}\n")
    monkeypatch.syspath_prepend(tmp_path / "wheel")
    monkeypatch.delitem(sys.modules, "ninja", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    found = toolchain.find_tool("ninja", PINS.tools["ninja"], tmp_path / "private")
    assert found == str(tmp_path / "wheel/bin/ninja")
    sys.modules.pop("ninja", None)


# -- what people see -------------------------------------------------------------------------------


def test_a_pipe_gets_a_line_now_and_then():
    stream = io.StringIO()
    progress = Progress("oneDNN 3.9.1", stream)
    for step in range(1, 513):
        progress.feed(f"[{step}/512] Building CXX object x.o")
    lines = stream.getvalue().splitlines()
    assert 20 <= len(lines) <= 22
    assert lines[0].startswith("oneDNN 3.9.1: step 1 of 512, 0:00 elapsed")
    assert lines[-1] == "oneDNN 3.9.1: step 512 of 512, 0:00 elapsed"
    assert "left" in lines[1]


def test_a_terminal_gets_one_line_that_moves():
    stream = io.StringIO()
    stream.isatty = lambda: True
    progress = Progress("oneDNN 3.9.1", stream)
    progress.feed("-- Configuring done")
    for step in (1, 2):
        progress.feed(f"[{step}/2] Linking")
    progress.finish()
    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().count("\r") == 2


def test_stdout_holds_the_answer_and_nothing_else(tmp_path):
    tree = make_tree(tmp_path / "mine")
    done = run_recipe("prefix", ONEDNN_SOURCE_DIR=str(tree))
    assert done.returncode == 0, done.stderr
    (answer,) = done.stdout.splitlines()
    stamp = json.loads((Path(answer) / "finished.json").read_text())
    assert stamp["version"] == "3.9.1"
    assert "step 1 of" in done.stderr


def test_info_builds_nothing(tmp_path):
    tree = make_tree(tmp_path / "mine")
    done = run_recipe("info", ONEDNN_SOURCE_DIR=str(tree))
    assert done.returncode == 0, done.stderr
    assert re.search(r"^finished +no$", done.stdout, re.MULTILINE)
    assert not (tmp_path / "cache").exists()


def test_an_error_is_one_message_and_no_traceback():
    done = run_recipe("build", ONEDNN_VERSION="1.2.3")
    assert done.returncode == 1
    assert done.stderr.startswith("oneDNN: error: ONEDNN_VERSION asks for 1.2.3")
    assert "Traceback" not in done.stderr
