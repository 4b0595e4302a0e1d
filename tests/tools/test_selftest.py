"""The selftest finds what is wrong or crashes, counts it, and makes it small."""

import functools
import json

import pytest
import selftest_families

import onednn_graph_py as og
from onednn_graph_py import serialization
from onednn_graph_py.tools.command_line import main
from onednn_graph_py.tools.selftest import FAMILIES, search
from onednn_graph_py.tools.selftest.questions import SLOW, Answer
from onednn_graph_py.tools.selftest.report import Count
from onednn_graph_py.tools.selftest.run import reduce_findings

COUNTS = {
    "cases",
    "right",
    "wrong",
    "crashed",
    "refused",
    "avoided",
    "slow",
    "numpy",
    "seconds",
}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of the test's own; and no folder of modules, which helpers would not import."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONEDNN_GRAPH_PY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def named(*draws):
    return {draw.__name__: draw for draw in draws}


def searched(*draws, count=6, **options):
    return search(named(*draws), seconds=3600.0, most=count, **options)


def few(monkeypatch, families, most):
    """Let the command search a few cases of these families."""
    monkeypatch.setattr("onednn_graph_py.tools.selftest.command.FAMILIES", families)
    monkeypatch.setattr(
        "onednn_graph_py.tools.selftest.command.search", functools.partial(search, most=most)
    )


@pytest.fixture
def injected(monkeypatch):
    """Give the command a family whose graphs are wrong, in the place of all others."""
    few(monkeypatch, {"tanh": selftest_families.wrong_tanh}, 2)
    monkeypatch.setattr(
        "onednn_graph_py.tools.selftest.command.reduce_findings",
        functools.partial(reduce_findings, trial=selftest_families.wrong_tanh_trial),
    )


# -- the search


def test_what_is_right_is_counted_family_by_family():
    report = searched(selftest_families.right, selftest_families.has_no_kernel, seed=3)
    right, refused = report.counts.values()
    assert (right.cases, right.right, refused.cases, refused.refused) == (6, 6, 6, 6)
    assert report.ok and not report.findings
    assert report.total.cases == 12
    assert "nothing is wrong or crashes in models compiled by default" in str(report)


def test_a_worker_that_crashes_is_counted_and_the_others_go_on():
    report = searched(selftest_families.crashes_on_odd_seeds)
    (count,) = report.counts.values()
    assert (count.cases, count.crashed, count.right) == (6, 3, 3)
    assert [(f.seed, f.verdict) for f in report.findings] == [(n, "crashed") for n in (1, 3, 5)]
    assert all("SIGSEGV" in f.reason for f in report.findings)
    assert not report.ok


def test_what_is_wrong_or_crashes_only_behind_others_is_found():
    report = searched(selftest_families.wrong_behind_another, count=4)
    assert [f.seed for f in report.findings] == [1, 2, 3]
    assert report.findings[1].reason.startswith("behind [0, 1]: ")
    report = searched(selftest_families.ends_behind_another, count=4)
    (found,) = report.findings
    assert found.verdict == "crashed" and "[0, 1, 2, 3]: " in found.reason


def test_a_worker_that_hangs_is_ended_and_counted(monkeypatch):
    monkeypatch.setattr("onednn_graph_py.tools.selftest.run.STARTUP", 10.0)
    report = searched(selftest_families.hangs_on_seed_1, count=3, timeout=10.0)
    (count,) = report.counts.values()
    assert (count.cases, count.crashed, count.right) == (3, 1, 2)
    assert report.findings[0].verdict == "hung"
    assert "longer than 10 s" in report.findings[0].reason


def test_a_mistake_in_a_family_is_told_as_such():
    report = searched(selftest_families.raises, count=1)
    assert report.findings[0].verdict == "crashed"
    assert "RuntimeError: a family with a mistake" in report.findings[0].reason


def test_every_family_has_its_turn_however_short_the_time_is():
    draws = (selftest_families.right, selftest_families.has_no_kernel)
    report = search(named(*draws), seconds=1e-9)
    assert all(c.cases > 0 for c in report.counts.values())


def test_what_models_avoid_is_no_finding():
    count = Count()
    count.add(Answer("right"), Answer("wrong"))
    count.add(Answer("refused"), Answer("crashed"))
    count.add(Answer("right", ratio=2 * SLOW), Answer("right"))
    count.add(Answer("wrong"), None)
    assert (count.avoided, count.slow, count.wrong, count.crashed) == (2, 1, 1, 0)


# -- the smallest graph


def test_an_injected_wrong_result_is_found_and_reduced():
    tanh = named(selftest_families.wrong_tanh)
    report = search(tanh, seconds=3600.0, most=2)
    assert [f.verdict for f in report.findings] == ["wrong", "wrong"]
    assert "elements are wrong" in report.findings[0].reason
    seen = []
    reduce_findings(
        report.findings,
        tanh,
        120.0,
        trial=selftest_families.wrong_tanh_trial,
        progress=seen.append,
    )
    found = report.findings[0]
    assert seen and found.summary == "Tanh"
    (op,) = serialization.parse(json.loads(found.graph)).graph
    assert op.kind == "Tanh" and op.inputs[0].shape == (1, 1)
    assert "wrong: wrong_tanh 0: Tanh" in str(report)
    assert len(found.program.splitlines()) < 15 and "b.op('Tanh', " in found.program


def test_what_its_file_does_not_show_is_told_so():
    # The default trial is not injured, as a defect that comes and goes.
    tanh = named(selftest_families.wrong_tanh)
    report = search(tanh, seconds=3600.0, most=1)
    reduce_findings(report.findings, tanh, 60.0)
    assert report.findings[0].summary == "its file alone does not show it: passed"


# -- the command


def test_the_command_finds_nothing_wrong_on_two_families(tmp_path, capsys, monkeypatch):
    chosen = named(selftest_families.right, selftest_families.has_no_kernel)
    few(monkeypatch, chosen, 5)
    path = tmp_path / "found.json"
    assert main(["selftest", "--minutes", "0.1", "--seed", "7", "--json", "-o", str(path)]) == 0
    assert capsys.readouterr().out == ""
    made = json.loads(path.read_text())
    assert made["ok"] is True and made["findings"] == [] and made["seed"] == 7
    assert made["isa"] == og.get_effective_cpu_isa().name
    assert made["runtime"] == og.version()["cpu_runtime"]
    assert made["version"].startswith(f"{og.version()['major']}.{og.version()['minor']}.")
    assert set(made["families"]) == set(chosen)
    assert all(set(c) == COUNTS for c in made["families"].values())


def test_the_command_tells_what_is_wrong_and_writes_it(injected, tmp_path, capsys):
    words = ["selftest", "--minutes", "5", "--json", "--findings", str(tmp_path)]
    assert main(words) == 1
    printed = capsys.readouterr()
    made = json.loads(printed.out)
    assert made["ok"] is False and made["families"]["tanh"]["wrong"] == 2
    first = made["findings"][0]
    assert (first["family"], first["seed"], first["verdict"]) == ("tanh", 0, "wrong")
    assert [op["kind"] for op in first["graph"]["graph"]] == ["Tanh"]
    assert "selftest: wrong: tanh 0: Tanh" in printed.err
    written = serialization.parse(tmp_path / "wrong_tanh_0.json")
    assert [op.kind for op in written.graph] == ["Tanh"]
    assert "b.op('Tanh', " in (tmp_path / "wrong_tanh_0.py").read_text()
    assert "op::kind::Tanh" in (tmp_path / "wrong_tanh_0.cpp").read_text()


def test_an_unknown_family_is_refused_with_the_list(capsys):
    assert main(["selftest", "--only", "product"]) == 2
    told = capsys.readouterr().err
    assert "there is no family 'product'" in told
    assert all(name in told for name in FAMILIES)


@pytest.mark.parametrize("words", [["--minutes", "0"], ["--seed", "-1"]])
def test_wrong_options_are_refused(words, capsys):
    with pytest.raises(SystemExit) as end:
        main(["selftest", *words])
    assert end.value.code == 2
    assert "usage: python -m onednn_graph_py selftest" in capsys.readouterr().err


def test_a_file_that_can_not_be_written_is_told(injected, tmp_path, capsys):
    missing = tmp_path / "nowhere" / "found.json"
    assert main(["selftest", "--minutes", "0.01", "--json", "-o", str(missing)]) == 2
    told = capsys.readouterr()
    assert told.err.splitlines()[-1] == f"selftest: {missing}: No such file or directory"
    assert json.loads(told.out)["findings"], "what was found is not lost"
