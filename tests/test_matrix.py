"""What was measured of oneDNN, against the rows that guard models, and the page made of it."""

from dataclasses import replace

import memory_cases
import pytest
from matrix import kernels_page, page, reports
from matrix.programs import Program, programs, titles
from matrix.results import Result, load_all
from test_export import needs_compiler, needs_headers
from wrong_cases import ROWS, group, row_of

import onednn_graph_py as og
from onednn_graph_py import serialization
from onednn_graph_py.linked import version
from onednn_graph_py.machine import Conditions, current
from onednn_graph_py.safety.out_of_bounds import DEFECTS, defect_of
from onednn_graph_py.safety.wrong_results import wrong_result

RESULTS = list(load_all())


def conditions_of(result):
    major, minor, _ = map(int, result.version.split("."))
    return Conditions((major, minor), result.runtime, result.isa, result.threads)


def test_results_are_kept_as_they_were_measured(tmp_path, monkeypatch):
    monkeypatch.setattr("matrix.results.FOLDER", tmp_path)
    made = Result("3.13.1", "OpenMP", "avx2", "a CPU", "2026-11-23", 2)
    made.defects["row"] = ["right", "wrong: 1 of 2 elements are wrong"]
    made.patterns["FP-01"] = {"fused": 3}
    made.save()
    older = Result("3.7.2", "OpenMP", "avx512_core", "a CPU", "2026-11-23", 2)
    older.save()
    assert list(load_all()) == [older, made]


@pytest.mark.parametrize("made", [page, kernels_page], ids=lambda m: m.PAGE.stem)
def test_a_page_shows_what_was_measured(made):
    assert RESULTS
    assert made.PAGE.read_text(encoding="utf-8") == made.text(), "run: ./dev matrix --page"


@pytest.mark.parametrize("result", RESULTS, ids=lambda r: f"{r.version}-{r.isa}")
def test_the_mirror_refuses_what_was_measured_to_leave_its_buffers(result):
    where = conditions_of(result)
    seen = [row for row, o in result.memory.items() if o.startswith(("wrong", "crashed"))]
    assert [row for row in seen if not memory_cases.BY_NAME[row].is_in(where)] == []


NEVER_SEEN = {
    "attention_batches",
    "attention_condition",
    "attention_mask_and_select",
    "attention_select",
    "attention_strides",
    "attention_strides_of_five_dims",
    "binary_after_grouped_int8_convolution",
    "binary_after_int8_deconvolution",
    "elementwise_rank",
    "gaps",
    "grouped_attention_select",
    "one_element_strides",
    "operand_twice_in_attention",
    "pooling_backward_gaps",
    "strides_before_reshape",
    "widening",
    "windows_in_padding",
    "zero_points_of_columns",
}
"""Rows of memory whose programs show nothing on the measured CPUs. Some need a strided output,
which programs don't have; others read what may be read, beside memory of oneDNN's own."""


def test_each_row_of_memory_was_seen_somewhere():
    """One that no measurement shows any more is about to end."""
    seen = {row for r in RESULTS for row, o in r.memory.items() if o != "right" and o != "refused"}
    assert sorted(set(memory_cases.ROWS) - seen - NEVER_SEEN) == []
    assert sorted(seen & NEVER_SEEN) == []


@pytest.mark.parametrize("row", [row for row in titles() if ROWS[row].met])
def test_each_row_has_the_file_of_its_graph(row, tmp_path):
    b = og.GraphBuilder()
    ROWS[row].met[0](b)
    b.to_benchdnn(tmp_path / "graph.json")
    kept = page.graph_file(row).read_text(encoding="utf-8")
    # A file has the version of the oneDNN that wrote it.
    document = replace(serialization.parse(kept), version=version().release)
    assert document == serialization.parse(tmp_path / "graph.json"), "run: ./dev matrix --page"


def seen(row, number, outcome):
    """Whether an outcome tells whether the row holds."""
    # Programs have small integers as inputs; only larger ones saturate.
    small = row == "this CPU has no VNNI" and number == 2
    return not small and not ROWS[row].hidden and outcome != "refused"


NOT_SHOWN = {("behind a product of one column", "3.10.2"), ("weights of one row", "3.10.2")}
"""Rows out of bounds that a version between two that show them does not show with each instruction
set: what lies beside a buffer may hold the right numbers, so they stay avoided there."""


def test_reports_hold_the_programs_of_today():
    """Those whose graph the linked oneDNN takes."""
    for program in reports.reported():
        kept = reports.report_file(program.row).read_text(encoding="utf-8")
        assert program.source.rstrip() in kept, "run: ./dev matrix --reports"
        if page.benchdnn_that_fails(program.row, RESULTS):
            graph = page.graph_file(program.row).read_text(encoding="utf-8")
            assert graph.rstrip() in kept, "run: ./dev matrix --reports"
    assert sorted(reports.FOLDER.iterdir()) == sorted(map(reports.report_file, reports.WORST))


@pytest.mark.parametrize("result", RESULTS, ids=lambda r: f"{r.version}-{r.isa}")
def test_models_avoid_what_was_measured_to_be_wrong_and_nothing_else(result):
    where, unlike = conditions_of(result), []
    for row, outcomes in result.defects.items():
        # Some rows have graphs that the linked oneDNN does not take.
        for number, (build, outcome) in enumerate(zip(ROWS[row].met, outcomes, strict=False)):
            made = group(build)
            if outcome.startswith(("wrong", "crashed", "hung")):
                if wrong_result(made, where) is None and not defect_of(made, where, DEFECTS):
                    unlike.append(f"{row}: {outcome}, and models run it")
            elif (row, result.version) in NOT_SHOWN:
                assert row_of(row).out_of_bounds
            elif row_of(row).find(made, where) is not None and seen(row, number, outcome):
                unlike.append(f"{row}: {outcome}, and models do not run it")
    assert unlike == []


@pytest.fixture
def relu():
    b = og.GraphBuilder()
    b.output(b.input((4, 8)).relu())
    return b


@needs_compiler
@needs_headers
@pytest.mark.parametrize("broken", [False, True])
def test_a_program_tells_right_from_wrong(relu, broken, tmp_path):
    source = relu.to_cpp(check=True)
    if broken:
        source = source.replace("expected_1[] = {", "expected_1[] = {7 + ")
    program = Program("", 0, source)
    found = program.outcome(program.build(tmp_path))
    assert found.startswith("wrong: 1 of 32 elements are wrong") if broken else found == "right"


@needs_compiler
@needs_headers
@pytest.mark.slow
def test_what_was_measured_here_is_seen_again(tmp_path):
    here, unlike = current(), []
    for program in programs():
        found = program.outcome(program.build(tmp_path, "-Wall", "-Wextra", "-Werror"))
        made = group(ROWS[program.row].met[program.number])
        if found.startswith("wrong") and wrong_result(made, here) is None:
            unlike.append((program.row, program.number, found))
        met = row_of(program.row).find(made, here) is not None
        if met and found == "right" and seen(program.row, program.number, found):
            unlike.append((program.row, program.number, found))
    assert unlike == []
