"""The gallery: no documented pattern is missing, each case becomes what is told of it."""

import dataclasses
import json
import re
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from graphs import LINKED

import onednn_graph_py as og
from gallery import PATTERNS, measure, page, pairs, report
from gallery.__main__ import main
from gallery._epilogue import BINARY, UNARY, chain, epilogue
from gallery.measure import VERDICTS, Result
from gallery.pattern import Case, Deviation, Pattern, patterns
from onednn_graph_py.model.checking import verify
from onednn_graph_py.safety import table

# What the project's inventory of the documents numbers.
INVENTORY = [
    "CAT-U", "CAT-B", "CAT-R", "FP-01", "FP-02", "FP-03", "FP-04", "FP-05", "FP-06", "FP-07",
    "FP-08", "FP-09", "FP-10", "FP-11", "FP-12", "FP-13", "FP-14", "FP-15", "Q-01", "Q-02",
    "Q-03", "Q-04", "Q-05", "Q-06", "Q-07", "Q-08", "Q-09", "Q-10", "T-01", "T-02", "Q-2A-u8-s8",
    "Q-2A-u8-f32", "Q-2A-s8-s8", "Q-2A-s8-f32", "Q-2B-f32", "Q-2B-bf16", "Q-2B-f16", "Q-2C-u8",
    "Q-2C-s8", "Q-2C-f32", "Q-2C-bf16", "Q-2C-f16", "Q-2D-bias", "Q-2E-0", "Q-2E-1", "Q-2E-2",
    "Q-2E-3", "Q-2E-4", "Q-2E-5", "Q-2F", "Q-2Z-per_channel", "Q-2Z-src/dst", "Q-2Z-weights-w",
    "Q-2G", "CT-shape", "CT-wf", "CT-groups", "CT-bias", "CT-outpad", "CT-autopad", "CT-dil",
    "CT-dt", "CTBW-form", "CTBW-groups", "CTBW-fmt", "CTBW-attrs", "CTBW-dt", "DT-undef",
    "DT-f16", "DT-bf16", "DT-f32", "DT-s32", "DT-s8", "DT-u8", "DT-boolean", "DT-f8_e5m2",
    "DT-f8_e4m3", "DT-s4", "DT-u4", "DT-s64", "LT-any", "LT-strided", "LT-opaque", "LT-undef",
    "DM-dim-unknown", "DM-ndims-unknown", "DM-scalar-/-zero-dims", "DM-strides",
    "DM-Quantize/Dequantize", "DM-TypeCast",
]  # fmt: skip


def case_of(pattern, name, dtypes="f32"):
    return next(c for c in PATTERNS[pattern].cases if (c.name, c.dtypes) == (name, dtypes))


def measured(pattern, case):
    return measure.measure(PATTERNS[pattern], case, timed=False)


def test_no_row_is_missing():
    assert [number for number in INVENTORY if number not in PATTERNS] == []


@pytest.mark.parametrize("number", PATTERNS)
def test_each_case_becomes_what_is_told(number, monkeypatch):
    pattern = PATTERNS[number]
    # Tolerances of one perturbed run are smaller than those of four, and take less time to find.
    with monkeypatch.context() as patch:
        patch.setattr(verify, "Expected", partial(verify.Expected, samples=1))
        strict = [measure.measure(pattern, case, timed=False) for case in pattern.cases]
    results = [
        measure.measure(pattern, case, timed=False) if result.failed else result
        for case, result in zip(pattern.cases, strict, strict=True)
    ]
    assert [f"{r.dtypes}, {r.case}: {r.verdict}: {r.note}" for r in results if r.failed] == []
    # Each run gives ops other ids.
    assert [r.note for r in results if re.search(r"\bop \d", r.note)] == []
    for case, result in zip(pattern.cases, results, strict=True):
        if result.verdict == "fused":
            assert result.partitions == len(result.fused) == case.partitions, case
        elif result.verdict == "runs in parts":
            assert result.partitions == len(result.fused), case
            # What is wrong on this CPU may be refused on others.
            assert case.expected(LINKED) in (None, result.partitions), case


@pytest.mark.parametrize("number", PATTERNS)
def test_each_pattern_says_what_the_documents_demand(number):
    pattern = PATTERNS[number]
    assert pattern.rule.endswith(".")
    assert pattern.title
    assert pattern.page.startswith("graph/")
    assert pattern.build.__doc__


# -- verdicts


def test_a_deviation_that_is_not_told_fails():
    case = case_of("FP-15", "auto_broadcast numpy")
    assert measured("FP-15", case).verdict == "deviates"
    untold = measured("FP-15", dataclasses.replace(case, deviations=()))
    assert untold.verdict == "unexpected partitions"
    assert untold.failed
    assert "expected 1, got 2" in untold.note


def test_a_deviation_that_is_none_fails():
    case = dataclasses.replace(
        case_of("FP-15", "auto_broadcast none"), deviations=(Deviation(None, "not so"),)
    )
    result = measured("FP-15", case)
    assert result.verdict == "unexpected partitions"
    assert "expected a refusal, got 1" in result.note


def test_what_must_be_refused_is():
    refused = dataclasses.replace(case_of("CAT-U", "Pow"), deviations=(), partitions=None)
    result = measured("CAT-U", refused)
    assert (result.verdict, result.partitions, result.failed) == ("refused", None, False)
    assert "Pow is not supported" in result.note
    taken = measured("CAT-U", dataclasses.replace(case_of("CAT-U", "Exp"), partitions=None))
    assert taken.verdict == "unexpected partitions"

    def build():
        og.GraphBuilder().input((2, -3))

    case = Case("negative dim", "f32", partitions=None)
    pattern = Pattern("X-1", "X", "data model", "None.", "graph/x", build, (case,))
    assert measure.measure(pattern, case).verdict == "refused"
    unexpected = measure.measure(pattern, dataclasses.replace(case, partitions=1))
    assert unexpected.verdict == "error"
    assert "InvalidShapeError" in unexpected.note


def test_a_refusal_is_told_with_its_reason():
    case = dataclasses.replace(case_of("CAT-U", "Pow"), deviations=())
    result = measured("CAT-U", case)
    assert result.partitions is None
    assert result.verdict == "unexpected partitions"
    assert "Pow is not supported" in result.note


def test_what_a_model_runs_in_parts_is_told():
    case = case_of("FP-12", "Add:residual + ReLU")
    result = measured("FP-12", case)
    assert result.verdict == "runs in parts"
    assert not result.failed
    assert result.partitions == 1
    assert "pooling" in result.note
    with pytest.warns(RuntimeWarning, match=r"MaxPool \+ Add \+ ReLU .* runs in parts"):
        PATTERNS["FP-12"].graph(case).compile()


def test_wrong_numbers_fail(monkeypatch):
    """A defect of oneDNN that is taken for unknown."""
    monkeypatch.setattr(table, "first", lambda *_: None)
    result = measured("FP-12", case_of("FP-12", "AvgPool + Add, NXC"))
    assert result.verdict == "wrong"
    assert result.failed
    assert "elements are wrong" in result.note
    assert result.share > 1


def test_what_needs_a_newer_version_is_not_built():
    def build():
        raise AssertionError

    case = Case("all of it", "f32", needs=(99, 1))
    pattern = Pattern("X-1", "X", "operation", "None.", "graph/x", build, (case,))
    result = measure.measure(pattern, case)
    assert result.verdict == "needs newer oneDNN"
    assert "99.1" in result.note
    assert not result.failed


def test_what_hardware_lacks_is_partitioned_and_not_run(monkeypatch):
    monkeypatch.setattr(measure, "lacks", lambda dtype: f"no {dtype} here")
    result = measured("FP-13", case_of("FP-13", "ReLU", "bf16"))
    assert (result.verdict, result.note) == ("lacks hardware", "no bf16 here")
    assert result.fused
    assert result.max_error is None
    assert measured("FP-13", case_of("FP-13", "ReLU", "f32")).verdict == "fused"


def test_an_error_is_a_verdict():
    def build(rank):
        return og.GraphBuilder().input(rank)

    case = Case("no shape", "f32", {"rank": 3})
    pattern = Pattern("X-1", "X", "operation", "None.", "graph/x", build, (case,))
    result = measure.measure(pattern, case)
    assert result.verdict == "error"
    assert "TypeError" in result.note


def test_calls_are_timed():
    result = measure.measure(PATTERNS["FP-13"], case_of("FP-13", "ReLU"))
    assert result.fused_ms > 0
    assert result.unfused_ms > 0
    alone = measure.measure(PATTERNS["FP-14"], case_of("FP-14", "first operand"))
    assert alone.fused_ms > 0
    assert alone.unfused_ms > 0  # without a kernel of its own, Reciprocal is written as a Divide


def test_what_runs_in_no_way_alone_has_no_time_apart():
    b = og.GraphBuilder()
    b.output(b.op("Pow", b.input((4, 6)).relu(), beta=1.7))
    assert measure._unfused(b, og.fill_inputs(b)) is None


def test_partitions_for_a_gpu_need_none():
    result = measured("FP-08", case_of("FP-08", "Multiply + Add + ReLU"))
    has_runtime = str(og.version()["gpu_runtime"]).lower() != "none"
    assert result.gpu_partitions == (1 if has_runtime else None)


# -- the collection


def test_names_must_be_free():
    case = Case("one", "f32")
    one = Pattern("X-1", "X", "operation", "None.", "graph/x", epilogue, (case,))
    with pytest.raises(ValueError, match="two patterns have the name X-1"):
        patterns([one], [one])
    twice = dataclasses.replace(one, cases=(case, case))
    with pytest.raises(ValueError, match=r"X-1: .*one"):
        patterns([twice])
    with pytest.raises(ValueError, match="X-1: it must have cases"):
        patterns([dataclasses.replace(one, cases=())])


# -- epilogues


def test_an_epilogue_makes_its_ops_in_order():
    b = og.GraphBuilder()
    x = b.input((2, 3, 4), "bf16")
    y = epilogue(x, ["ReLU", "Add", "Multiply:scalar", "Subtract:full", "Add:residual"], axis=1)
    assert [n.kind for n in b.nodes] == ["ReLU", "Add", "Multiply", "Subtract", "Add"]
    assert [v.shape for v in b.constants] == [(1, 3, 1), (1,), (2, 3, 4)]
    assert [v.shape for v in b.inputs] == [(2, 3, 4), (2, 3, 4)]
    assert (y.shape, y.dtype) == ((2, 3, 4), "bf16")
    assert epilogue(x, ()) is x
    again = og.GraphBuilder()
    z = again.input((2, 3, 4), "bf16")
    epilogue(z, ["ReLU", "Add"], axis=1)
    assert np.array_equal(again.constants[0].data, b.constants[0].data)


@pytest.mark.parametrize("op", ["MatMul", "ReLU:full", "Add:half", ""])
def test_an_epilogue_takes_unary_and_binary_ops_only(op):
    with pytest.raises(og.InvalidArgumentsError, match=r"Unary .* or Binary .* got"):
        epilogue(og.GraphBuilder().input((2, 3)), [op])


def test_chains_are_of_both_categories():
    assert len(chain(19)) == 19
    assert {op in UNARY for op in chain(4)} == {True, False}
    assert set(chain(19)) <= {*UNARY, *BINARY}


# -- reports

RESULTS = [
    Result(
        "FP-08", "matmul", "ReLU | <a>", "f32", "f32", 1, 1, (("MatMul", "ReLU"),), 1, 1e-6, 0.25,
        0.5, 1.25, "fused",
    ),
    Result(
        "FP-08", "matmul", "long", "bf16", "bf16", 2, 1,
        (("MatMul", "Add", "ReLU", "Add", "ReLU", "Tanh"), ("Exp",)), None, 0.125, 0.5,
        verdict="deviates", note="it fuses 4",
    ),
    Result("FP-08", "matmul", "wide", "f16", "f16", verdict="lacks hardware", note="no f16"),
    Result(
        "FP-08", "matmul", "bad", "f32", "f32", 1, 1, (("MatMul",),), None, float("inf"),
        float("inf"), verdict="wrong", note="1 of 2",
    ),
]  # fmt: skip


def test_text_has_a_row_for_each_case_and_a_footer():
    shown = report.as_text(RESULTS, PATTERNS)
    lines = shown.splitlines()
    assert lines[0] == report.machine()
    first = next(line for line in lines if "ReLU | <a>" in line)
    cells = ["FP-08 matmul", "f32", "MatMul + ReLU", "1e-06", "500 µs", "1.25 ms", "fused"]
    assert [c for c in cells if c not in first] == []
    assert "2 (1 documented)  MatMul + Add + ReLU + 3 more, Exp" in shown
    assert "deviates: it fuses 4" in shown
    assert "3 cases ran: 1 fused, 1 deviates, 1 wrong" in shown
    assert "1 more, lacks hardware: no f16" in shown
    assert "bf16: 0.12 (FP-08 bf16, long); at most 50% of its tolerance" in shown
    assert lines[-1] == "wrong: FP-08 matmul, f32, bad: 1 of 2"


def test_many_partitions_are_shortened():
    one = dataclasses.replace(RESULTS[0], fused=(("Add",), ("Add",), ("Exp",), ("Log",), ("Abs",)))
    assert "2 x (Add), Exp, 2 more" in report.as_text([one], PATTERNS)


def test_json_has_all_that_was_measured():
    told = json.loads(report.as_json(RESULTS, PATTERNS))
    assert told["machine"] == report.machine()
    assert told["verdicts"]["fused"] == 1
    assert set(told["verdicts"]) == set(VERDICTS)
    assert told["patterns"]["FP-08"]["rule"] == PATTERNS["FP-08"].rule
    first, second, _, bad = told["cases"]
    assert first["fused"] == [["MatMul", "ReLU"]]
    assert (first["fused_ms"], first["unfused_ms"], first["share"]) == (0.5, 1.25, 0.25)
    assert len(second["fused"][0]) == 6
    assert bad["max_error"] is None


class Cells(HTMLParser):
    """Collects what is in the cells of a table."""

    def __init__(self):
        super().__init__()
        self.rows = []

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data):
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def test_html_is_escaped_and_complete():
    made = report.as_html(RESULTS, PATTERNS)
    assert "<a>" not in made
    cells = Cells()
    cells.feed(made)
    assert [len(row) for row in cells.rows] == [10] * 5
    assert cells.rows[1][2] == "ReLU | <a>"
    assert cells.rows[2][9] == "deviates: it fuses 4"


class Elements(HTMLParser):
    """Collects elements with their attributes, and links to places on the page."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def attributes(self, name):
        return [attributes[name] for _, attributes in self.found if name in attributes]


def test_markdown_folds_the_cases_of_each_pattern():
    text = page.as_markdown(RESULTS, PATTERNS)
    assert report.machine() in text
    assert (
        "<summary><b>FP-08 matmul</b>, 4 cases: 1 fused, 1 deviates, 1 lacks hardware, 1 wrong"
        in text
    )
    assert text.count("<details>") == text.count("</details>") == 1
    assert PATTERNS["FP-08"].rule in text
    rows = [line for line in text.splitlines() if line.startswith('| <a id="FP-08-f32"></a>f32 |')]
    (row,) = rows
    assert "ReLU \\| &lt;a>" in row
    assert "| 500 µs | 1.25 ms |" in row
    assert "lacks an op" not in text  # only verdicts that there are have a line in the legend
    assert "this CPU has no instructions for a data type: no f16" in text
    assert "- FP-08 f32, bad: 1 of 2" in text


def test_the_heat_map_has_a_cell_for_each_data_type_with_the_first_verdict():
    text = page.as_markdown(RESULTS, PATTERNS)
    (row,) = (line for line in text.splitlines() if 'scope="row"' in line)
    cells = Cells()
    cells.feed(row)
    assert cells.rows == [["FP-08 matmul", "✗ 1/2", "≠ 1", "□ 1", "", "", ""]]
    titles = ["FP-08 matmul, f32: 1 fused, 1 wrong", "FP-08 matmul, bf16: 1 deviates"]
    titles.append("FP-08 matmul, f16: 1 lacks hardware")
    assert Elements(row).attributes("title") == Elements(row).attributes("aria-label") == titles
    assert Elements(row).attributes("class") == ["wrong", "deviates", "lacks-hardware"]


@pytest.mark.parametrize("which", ["made", "kept"])
def test_every_cell_of_the_heat_map_leads_to_a_case(which):
    kept = Path(__file__).parents[2] / "docs" / "patterns.md"
    text = page.as_markdown(RESULTS, PATTERNS) if which == "made" else kept.read_text("utf-8")
    elements = Elements(text)
    places = elements.attributes("id")
    links = set(elements.attributes("href"))
    assert len(set(places)) == len(places)
    assert {f"#{place}" for place in places} == links


# -- the command line


def test_the_command_line_runs_a_pattern(capsys):
    assert main(["fp-15", "batch_norm_relu", "--no-time", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told["patterns"]) == {"FP-13", "FP-15"}
    assert len(told["cases"]) == len(PATTERNS["FP-13"].cases) + len(PATTERNS["FP-15"].cases)
    assert {c["fused_ms"] for c in told["cases"]} == {None}


def test_the_command_line_fails_where_a_case_does(monkeypatch, capsys):
    cases = tuple(
        dataclasses.replace(c, deviations=()) for c in PATTERNS["FP-15"].cases if c.dtypes == "f32"
    )
    monkeypatch.setitem(PATTERNS, "FP-15", dataclasses.replace(PATTERNS["FP-15"], cases=cases))
    assert main(["FP-15", "--no-time"]) == 1
    assert "1 unexpected partitions" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("matmull", "there is no pattern 'matmull', did you mean matmul?"),
        ("fp-8", "there is no pattern 'fp-8', did you mean FP-08?"),
        ("zzz", "there is no pattern 'zzz'; without a name all are run"),
    ],
)
def test_a_misspelt_pattern_gets_a_suggestion(name, hint, capsys):
    with pytest.raises(SystemExit, match="2"):
        main([name])
    assert hint in capsys.readouterr().err


def test_explain_has_the_pairs_of_the_gallery():
    rows = json.loads(pairs.FILE.read_text("utf-8"))
    kept = {
        tuple(pair.split(">")): (version, row["pattern"])
        for row in rows
        if (version := tuple(map(int, row["since"].split(".")))) <= LINKED
        for pair in row["pairs"].split()
    }
    assert pairs.documented_pairs() == kept, "run: ./dev patterns --pairs --onednn=pypi"
