"""What was measured of oneDNN, against the rows that guard models, and the page made of it."""

import re
from collections import Counter

import memory_cases
import pytest
from cpp import needs_compiler, needs_headers
from wrong_cases import ROWS, group

import onednn_graph_py as og
from matrix import kernels_page, page, reports
from matrix.page import cause, is_bad
from matrix.programs import Program, memory_programs, programs, titles
from matrix.results import Result, Source, load_all
from matrix.where import measured, proposed
from onednn_graph_py import serialization
from onednn_graph_py.machine import current
from onednn_graph_py.safety.defect import OUT_OF_BOUNDS
from onednn_graph_py.safety.table import DEFECTS, refusal, wrong_result

RESULTS = list(load_all())


def test_results_are_kept_as_they_were_measured(tmp_path, monkeypatch):
    monkeypatch.setattr("matrix.results.FOLDER", tmp_path)
    made = Result("3.13.1", "OpenMP", "avx2", {"defects": Source("a CPU", "2026-11-23", 2)})
    made.defects["row"] = ["right", "wrong: 1 of 2 elements are wrong"]
    made.patterns["FP-01"] = {"fused": 3}
    made.save()
    older = Result("3.7.2", "OpenMP", "avx512_core")
    older.save()
    assert list(load_all()) == [older, made]


@pytest.mark.parametrize("made", [page, kernels_page], ids=lambda m: m.PAGE.stem)
def test_a_page_shows_what_was_measured(made):
    assert RESULTS
    assert made.PAGE.read_text(encoding="utf-8") == made.text(), "run: ./dev matrix --page"


def test_the_page_has_no_table_without_an_outcome():
    tables = re.findall(r"(?:^\|.*\n)+", page.PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(tables) > len(DEFECTS) / 2
    for table in tables:
        _, _, *rows = table.splitlines()
        assert any(re.search(r"\w", row.split("|", 2)[2]) for row in rows), table


@pytest.mark.parametrize("result", RESULTS, ids=lambda r: f"{r.version}-{r.isa}")
def test_the_mirror_refuses_what_was_measured_to_leave_its_buffers(result):
    where = result.conditions
    seen = [row for row, o in result.memory.items() if is_bad(o)]
    assert [row for row in seen if not DEFECTS[row].is_in(where)] == []


def test_each_row_of_memory_was_seen_or_is_known_otherwise():
    """One that no measurement shows any more is about to end."""
    seen = {row for r in RESULTS for row, o in r.memory.items() if is_bad(o)}
    known = {name for name, row in memory_cases.ROWS.items() if row.known}
    assert sorted(set(memory_cases.ROWS) - seen) == sorted(known)


def test_the_first_graph_of_a_row_shows_it_most_often():
    """It is the one that the page links, and that reports have."""
    for row in ROWS:
        times = Counter(
            number
            for r in RESULTS
            for number, outcome in enumerate(r.defects.get(row, ()))
            if is_bad(outcome) and cause(row, number, r) == row
        )
        assert times[0] == max(times.values(), default=0), (row, times)


def test_a_bad_outcome_is_told_of_the_row_that_explains_it():
    """A graph of one row may be wrong by another."""
    result = next(r for r in RESULTS if (r.version, r.isa) == ("3.13.1", "avx2"))
    assert is_bad(result.defects["int8_product_in_chunks"][2])
    assert cause("int8_product_in_chunks", 2, result) == "int8_products_without_vnni"
    assert cause("int8_products_without_vnni", 0, result) == "int8_products_without_vnni"
    assert "(int8_products_without_vnni)" in page.PAGE.read_text()


@pytest.mark.parametrize("row", [row for row in titles() if ROWS[row].met])
def test_each_row_has_the_file_of_its_graph(row, tmp_path):
    b = og.GraphBuilder()
    ROWS[row].met[0](b)
    b.to_benchdnn(tmp_path / "graph.json")
    written = serialization.parse(tmp_path / "graph.json")
    assert page.is_kept(row, written), "run: ./dev matrix --page"


def seen(row, number, outcome):
    """Whether an outcome tells whether the row holds."""
    # Programs have small integers as inputs; only larger ones saturate.
    small = row == "int8_products_without_vnni" and number == 2
    return not small and not ROWS[row].hidden and outcome != "refused"


NOT_SHOWN = {
    *(("operand_of_one_column", version) for version in ("3.8.1", "3.9.1", "3.10.2", "3.11.4")),
    *(("strided_weights_of_one_row", version) for version in ("3.9.1", "3.10.2")),
}
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
    by_hand = reports.FOLDER / "heap_of_matmul_descriptors.md"  # no graph that computes wrong
    files = [by_hand, *map(reports.report_file, reports.WORST)]
    assert sorted(reports.FOLDER.iterdir()) == sorted(files)


@pytest.mark.parametrize("result", RESULTS, ids=lambda r: f"{r.version}-{r.isa}")
def test_models_avoid_what_was_measured_to_be_wrong_and_nothing_else(result):
    where, unlike = result.conditions, []
    for row, outcomes in result.defects.items():
        # Some rows have graphs that the linked oneDNN does not take.
        for number, (build, outcome) in enumerate(zip(ROWS[row].met, outcomes, strict=False)):
            made = group(build)
            if is_bad(outcome):
                if wrong_result(made, where) is None and not refusal(made, where):
                    unlike.append(f"{row}: {outcome}, and models run it")
            elif (row, result.version) in NOT_SHOWN:
                assert OUT_OF_BOUNDS in DEFECTS[row].effect
            elif DEFECTS[row].find(made, where) is not None and seen(row, number, outcome):
                unlike.append(f"{row}: {outcome}, and models do not run it")
    assert unlike == []


@pytest.mark.parametrize(
    "name",
    ["attention_condition", "attention_on_strided_inputs", "few_rows_transposed",
     "last_dim_operand_of_strided"],
)  # fmt: skip
def test_measurements_propose_the_conditions_of_a_row(name):
    """Of one that shows wherever its kernel runs."""
    assert set(proposed(measured(name))) == set(DEFECTS[name].where)


def test_no_proposal_holds_where_a_row_was_right():
    cells = measured("strided_weights_of_one_row")
    found = proposed(cells)
    assert found
    assert not any(w.holds(c) for w in found for c, shown in cells.items() if not shown)


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
    for program in memory_programs():
        found = program.outcome(program.build(tmp_path, "-Wall", "-Wextra", "-Werror"))
        if is_bad(found) and not DEFECTS[program.row].is_in(here):
            unlike.append((program.row, found))
    for program in programs():
        found = program.outcome(program.build(tmp_path, "-Wall", "-Wextra", "-Werror"))
        made = group(ROWS[program.row].met[program.number])
        explained = wrong_result(made, here) is not None or refusal(made, here)
        if is_bad(found) and not explained:
            unlike.append((program.row, program.number, found))
        met = DEFECTS[program.row].find(made, here) is not None
        if met and found == "right" and seen(program.row, program.number, found):
            unlike.append((program.row, program.number, found))
    assert unlike == []
