"""benchdnn: its command, its output, its build; and a comparison, where one is built."""

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import onednn_graph_py as og
from matrix import benchdnn_build
from onednn_recipe.recipe import Recipe
from onednn_recipe.report import RecipeError
from onednn_recipe.settings import Settings

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def runs(monkeypatch):
    """benchmarks/_benchdnn.py, which is no part of the package."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("_benchdnn")


@pytest.fixture
def bench(monkeypatch):
    """benchmarks/benchdnn.py."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("benchdnn")


# -- the command and the output


def test_the_command_is_the_exported_one_on_the_cpu_for_any_number_of_partitions(runs, tmp_path):
    builder = og.GraphBuilder()
    builder.output(builder.input((2, 3)).relu())
    path = tmp_path / "relu.json"
    builder.save(path)
    words = runs.command("/b/benchdnn", path, "P", "--max-ms-per-prb=100")
    assert words[:3] == ["/b/benchdnn", "--graph", "--mode=P"]
    assert {"--engine=cpu", "-v3", "--expected-n-partitions=0", "--max-ms-per-prb=100"} == set(
        words[3:-1]
    )
    assert words[-1] == f"--case={path}"


def printed(line: str, *, failed: int = 0, partitions: str = "2; ops_in_partitions: {3} {1}"):
    """As benchdnn prints one case with -v3."""
    return (
        "run: --graph --case=a.json\n"
        f"[INFO]: n_partitions:{partitions}\n"
        "[INFO]: Start execution of partition #0.\n"
        f"{line}"
        f"tests:1 passed:{1 - failed} skipped:0 mistrusted:0 unimplemented:0 "
        f"invalid_arguments:0 failed:{failed} listed:0\n"
    )


def test_a_passed_case_tells_the_ops_of_each_partition(runs):
    answer = runs.parse_answer(printed("0:PASSED __REPRO: --graph --case=a.json\n"), 0)
    assert answer == runs.Answer("PASSED", "", (3, 1))
    assert answer.partitions == 2


def test_a_failed_comparison_tells_how_many_values_differ(runs):
    line = "0:FAILED (errors:12 total:3136) __REPRO: --graph --case=a.json\n"
    answer = runs.parse_answer(printed(line, failed=1), 1)
    assert str(answer) == "FAILED (errors:12 total:3136)"


def test_a_failure_without_a_reason_takes_that_of_the_error_before(runs):
    lines = "Error: partitions are empty\n 0:FAILED __REPRO: --graph --case=a.json\n"
    answer = runs.parse_answer(printed(lines, failed=1), 1)
    assert (answer.verdict, answer.reason) == ("FAILED", "partitions are empty")


def test_a_skipped_case_tells_why(runs):
    line = "0:SKIPPED (Data type not supported) __REPRO: --graph --case=a.json\n"
    answer = runs.parse_answer(printed(line), 0)
    assert (answer.verdict, answer.reason) == ("SKIPPED", "Data type not supported")


def test_a_timed_case_has_the_least_and_the_mean(runs):
    output = printed("perf,cpu,--mode=P --graph --case=a.json,0.105469,3.62097\n")
    answer = runs.parse_answer(output + "total perf: min(ms):0.105469 avg(ms):3.62097\n", 0)
    assert answer == runs.Answer("EXECUTED", "", (3, 1), 0.105469, 3.62097)


def test_what_was_not_executed_has_no_times(runs):
    line = "0:SKIPPED (Data type not supported) __REPRO: --mode=P --graph --case=a.json\n"
    answer = runs.parse_answer(printed(line) + "total perf: min(ms):0 avg(ms):0\n", 0)
    assert (answer.least_ms, answer.mean_ms) == (None, None)


def test_a_file_that_benchdnn_ends_at_is_refused_with_its_reason(runs):
    output = "Error: Graph a.json is empty.\nError: Function 'load' at (b.cpp:1) returned '1'\n"
    answer = runs.parse_answer(output, 1)
    assert answer == runs.Answer("REFUSED", "Graph a.json is empty.")


def test_a_signal_is_a_crash(runs):
    answer = runs.parse_answer("[INFO]: n_partitions:1; ops_in_partitions: {2}\n", -11)
    assert answer == runs.Answer("CRASHED", "signal 11", (2,))


@pytest.mark.parametrize(
    ("output", "status"),
    [
        ("", 0),
        ("tests:2 passed:2 skipped:0 failed:0 listed:0\n", 0),
        (printed("", failed=1), 1),
        (printed("0:PASSED __REPRO: a\n", partitions="2; ops_in_partitions: {3}"), 0),
    ],
    ids=["nothing", "two cases", "a failure that is not named", "partitions that do not add up"],
)
def test_output_that_is_not_of_one_case_is_an_error(runs, output, status):
    with pytest.raises(ValueError, match="benchdnn"):
        runs.parse_answer(output, status)


def test_a_process_that_goes_on_too_long_is_stopped(runs, tmp_path):
    program = tmp_path / "benchdnn"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    builder = og.GraphBuilder()
    builder.output(builder.input((2,)).relu())
    builder.save(tmp_path / "relu.json")
    answer = runs.run(program, tmp_path / "relu.json", "C", threads=1, timeout=0.2)
    assert answer.verdict == "TIMED_OUT"


# -- the comparison


def setting_of(bench, **given):
    """A short one."""
    defaults = {"program": Path("none"), "threads": 1, "timeout": 300, "rounds": 1, "seconds": 0.01}
    return bench.Setting(**{**defaults, **given})


def test_within_noise_is_what_rounds_of_the_same_differ(bench):
    timing = bench.Timing("a", benchdnn_ms=[1.0, 1.2, 1.1], ours_ms=[1.05, 1.06, 1.3])
    assert timing.ratio == pytest.approx(1.05)
    assert timing.noise == pytest.approx(0.1)
    assert timing.within_noise
    assert not bench.Timing("a", [1.0, 1.01, 1.02], [1.3, 1.3, 1.31]).within_noise


def test_a_replay_is_timed_round_by_round_in_a_process_of_its_own(bench, tmp_path):
    builder = og.GraphBuilder()
    builder.output(builder.input((2, 3)).relu())
    builder.save(tmp_path / "relu.json")
    with bench.Replay(tmp_path / "relu.json", setting_of(bench)) as replay:
        assert replay.told() == {"steps": 1, "warnings": []}
        assert all(replay.least_ms() > 0 for _ in range(2))


def test_a_replay_that_fails_tells_the_error(bench, tmp_path):
    (tmp_path / "no.json").write_text("{}")
    with (
        bench.Replay(tmp_path / "no.json", setting_of(bench)) as replay,
        pytest.raises(bench.ReplayError, match="GraphFormatError"),
    ):
        replay.told()


def test_an_unknown_section_is_named_before_anything_is_built(tmp_path):
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "benchdnn.py", "speed"],
        capture_output=True,
        text=True,
        env={**os.environ, "ONEDNN_GRAPH_PY_CACHE": str(tmp_path / "cache")},
        timeout=60,
    )
    assert done.returncode == 2
    assert "sections are read, time; given was speed" in done.stderr
    assert not (tmp_path / "cache").exists()


# -- the build


LINK = (
    ": && /usr/bin/c++ -O1 -fopenmp tests/benchdnn/CMakeFiles/benchdnn.dir/benchdnn.cpp.o "
    "tests/benchdnn/CMakeFiles/benchdnn.dir/__/test_thread.cpp.o -o tests/benchdnn/benchdnn "
    "-Wl,-rpath,/build/src:  src/libdnnl_ogp.so.3.7  /usr/lib/librt.a && :"
)


def test_the_link_command_takes_the_installed_library():
    made = benchdnn_build.link_command(
        LINK, Path("/build"), Path("/prefix/lib/libdnnl_ogp.so"), Path("/done/benchdnn")
    )
    folder = "/build/tests/benchdnn/CMakeFiles/benchdnn.dir"
    assert made == [
        "/usr/bin/c++", "-O1", "-fopenmp", f"{folder}/benchdnn.cpp.o",
        f"{folder}/__/test_thread.cpp.o", "-o", "/done/benchdnn", "/prefix/lib/libdnnl_ogp.so",
        "-Wl,-rpath,/prefix/lib", "/usr/lib/librt.a",
    ]  # fmt: skip


def test_a_link_command_without_the_library_is_refused():
    with pytest.raises(RecipeError, match="no command that links benchdnn"):
        benchdnn_build.link_command(": && c++ a.o -o a && :", Path("/b"), Path("/l"), Path("/p"))


def recipe_with(tmp_path: Path, **env: str) -> Recipe:
    """A recipe whose cache is empty."""
    given = {"ONEDNN_GRAPH_PY_CACHE": str(tmp_path / "cache"), "PATH": os.environ["PATH"]}
    return Recipe(Settings.from_env({**given, **env}))


def test_a_library_that_the_recipe_did_not_build_has_no_benchdnn(tmp_path):
    recipe = recipe_with(tmp_path, ONEDNN_ROOT=str(tmp_path))
    assert benchdnn_build.finished(recipe) is None
    with pytest.raises(RecipeError, match=r"ONEDNN_ROOT=.* names another"):
        benchdnn_build.ensure(recipe)


LISTS = """\
cmake_minimum_required(VERSION 3.13)
set(PROJECT_VERSION "3.9.1")
project(oneDNN VERSION "${PROJECT_VERSION}" LANGUAGES CXX)
file(WRITE ${PROJECT_BINARY_DIR}/made.cpp
  "extern \\"C\\" int dnnl_graph_graph_finalize() { return 7; }")
add_library(${DNNL_LIBRARY_NAME} SHARED ${PROJECT_BINARY_DIR}/made.cpp)
set_target_properties(${DNNL_LIBRARY_NAME} PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/src)
set(HEADERS ${PROJECT_BINARY_DIR}/include/oneapi/dnnl)
file(WRITE ${HEADERS}/dnnl_version.h "#define DNNL_VERSION_MAJOR 3\\n"
  "#define DNNL_VERSION_MINOR 9\\n#define DNNL_VERSION_PATCH 1\\n")
file(WRITE ${HEADERS}/dnnl_config.h "#define ONEDNN_BUILD_GRAPH\\n")
file(WRITE ${HEADERS}/dnnl_graph.hpp "")
install(DIRECTORY ${PROJECT_BINARY_DIR}/include DESTINATION .)
install(TARGETS ${DNNL_LIBRARY_NAME} DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(DNNL_BUILD_TESTS)
  add_subdirectory(tests)
endif()
"""
BROKEN, RIGHT = (
    "int main() { return }\n",
    (
        'extern "C" int dnnl_graph_graph_finalize();\n'
        "int main() { return dnnl_graph_graph_finalize(); }\n"
    ),
)


def tiny_tree(path: Path, main: str) -> Path:
    """A oneDNN of one function, whose googletest is missing as in Debian's package."""
    benchdnn = path / "tests" / "benchdnn"
    benchdnn.mkdir(parents=True)
    (path / "tests" / "gtests").mkdir()
    (path / "CMakeLists.txt").write_text(LISTS)
    lists = "add_subdirectory(gtests)\nadd_subdirectory(benchdnn)\n"
    (path / "tests" / "CMakeLists.txt").write_text(lists)
    (path / "tests" / "gtests" / "CMakeLists.txt").write_text("add_subdirectory(gtest)\n")
    (benchdnn / "CMakeLists.txt").write_text(
        "add_executable(benchdnn one.cpp two.cpp)\n"
        "target_link_libraries(benchdnn ${DNNL_LIBRARY_NAME})\n"
    )
    (benchdnn / "one.cpp").write_text("int one() { return 1; }\n")
    (benchdnn / "two.cpp").write_text(main)
    return path


@pytest.mark.slow
def test_benchdnn_is_built_once_against_the_installed_library_and_a_broken_build_resumes(
    tmp_path, capfd
):
    tree = tiny_tree(tmp_path / "tree", BROKEN)
    recipe = recipe_with(tmp_path, ONEDNN_SOURCE_DIR=str(tree))
    library = recipe.ensure()
    objects = recipe.cache.build(library.prefix.name)
    shutil.rmtree(objects)  # as if the library's own build had left nothing
    assert benchdnn_build.finished(recipe) is None

    with pytest.raises(RecipeError, match=r"compiling benchdnn 3\.9\.1 failed"):
        benchdnn_build.ensure(recipe)
    assert benchdnn_build.finished(recipe) is None
    (tree / "tests" / "benchdnn" / "two.cpp").write_text(RIGHT)
    capfd.readouterr()
    built = benchdnn_build.ensure(recipe)
    said = capfd.readouterr().err
    assert "resuming benchdnn 3.9.1" in said
    assert "step 1 of 1," in said  # one.cpp was compiled the first time
    assert subprocess.run([built.program]).returncode == 7
    # No other library was made, and nothing is left but the program and its stamp.
    assert not objects.exists()
    assert sorted(p.name for p in built.program.parent.iterdir()) == ["benchdnn", "finished.json"]

    assert benchdnn_build.ensure(recipe) == built == benchdnn_build.finished(recipe)
    assert capfd.readouterr().err == ""
    os.utime(library.library, (1, 1))  # a library that was built anew
    assert benchdnn_build.finished(recipe) is None


# -- with a built benchdnn


def built_benchdnn():
    """The one of the linked oneDNN; skip where there is none."""
    try:
        built = benchdnn_build.finished(Recipe())
    except RecipeError as error:
        pytest.skip(f"the recipe has no oneDNN here: {error}")
    if built is None:
        pytest.skip("benchdnn is not built; ./dev bench benchdnn builds it")
    linked = "{major}.{minor}.{patch}".format(**og.version())
    if built.onednn.version != linked:
        pytest.skip(f"benchdnn is of {built.onednn.version}, the linked oneDNN is {linked}")
    return built


@pytest.mark.slow
def test_benchdnn_reads_what_we_save_and_makes_the_same_partitions(bench):
    built = built_benchdnn()
    folder = bench.corpus(built.onednn.source_dir) / "complex_fusion"
    files = [
        folder / "mha" / "MHA-GPT-inf-int8-bs1.json",
        folder / "mha" / "MHA-LLaMa-inf-fp32-bs1.json",
        folder / "mha" / "MHA-stable_diffusion-inf-fp32-bs1.json",  # dumped from a GPU's graph
        folder / "mlp" / "gated-mlp-int4.json",
    ]
    setting = setting_of(bench, program=built.program, rounds=2)
    readings = list(bench.readings(files, setting))
    assert len(readings) == len(bench.GRAPHS) + len(files)
    assert [r for r in readings if not r.agrees] == []
    assert sum(r.verdict == "PASSED" for r in readings) >= len(bench.GRAPHS) + 3

    timing = bench.time_case(files[0], setting)
    assert timing.measured, timing.note
    assert (len(timing.benchdnn_ms), len(timing.ours_ms)) == (2, 2)
    assert (timing.partitions, timing.steps) == (1, 1)
