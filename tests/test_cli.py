"""The command line, as a user calls it."""

import subprocess
import sys

import pytest

from onednn_graph_py import cli
from onednn_graph_py.ops import OPS


def test_the_module_runs():
    done = subprocess.run(
        [sys.executable, "-m", "onednn_graph_py", "ops", "relu"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ReLU(src)\n")
    assert "dev_guide_op_relu" in done.stdout


def test_all_ops_are_listed(capsys):
    assert cli.main(["ops"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line[0] != " "]
    assert listed == sorted(OPS)


def test_several_ops_are_shown(capsys):
    assert cli.main(["ops", "MatMul", "SOFTMAX"]) == 0
    shown = capsys.readouterr().out
    assert "transpose_b" in shown
    assert "\nSoftMax(" in shown


def test_an_unknown_op_is_told(capsys):
    assert cli.main(["ops", "MatMull"]) == 2
    assert "oneDNN has no op 'MatMull', did you mean MatMul?" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["nonsense"], ["ops", "--nonsense"]])
def test_a_wrong_command_is_told(words, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(words)
    assert end.value.code == 2
    assert "usage: python -m onednn_graph_py" in capsys.readouterr().err


def test_a_reader_that_stops_early_is_no_error():
    program = f"{sys.executable} -m onednn_graph_py ops | head -n 1"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Abs")
    assert done.stderr == ""


@pytest.mark.parametrize(("old", "new"), [("run", "replay"), ("reduce", "shrink")])
def test_an_old_name_of_a_command_still_works_and_says_the_new_one(old, new, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([old, "--help"])
    assert ended.value.code == 0
    told = capsys.readouterr()
    assert told.err == f"{old}: this command is now called {new}\n"
    assert told.out.startswith(f"usage: python -m onednn_graph_py {new} ")
