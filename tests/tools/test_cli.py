"""The command line, as a user calls it."""

import argparse
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import onednn_graph_py as og
from onednn_graph_py.ops import OPS
from onednn_graph_py.tools import command_line as cli


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


@pytest.mark.parametrize("words", [["nonsense"], ["ops", "--nonsense"]])
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


# -- the screen, help, versions

COMMANDS = cli._commands(cli._parser())


def test_without_a_command_one_screen_says_what_there_is(capsys):
    assert cli.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 100
    assert f"oneDNN {og.version().release}" in lines[0]
    assert og.get_effective_cpu_isa().name in lines[1]
    assert next(iter(og.devices())).data_types == tuple(
        lines[1].partition("data types ")[2].split()
    )
    listed = {line.split()[0] for line in lines if line.startswith("  ")}
    assert listed == {*COMMANDS, "torch", "onnx", "ray"}


def test_the_version_is_told_with_that_of_onednn(capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["--version"])
    assert end.value.code == 0
    told = capsys.readouterr().out
    assert told.startswith(f"onednn_graph_py {og.__version__}, oneDNN {og.version().release} (")


def help_of(name, capsys):
    with pytest.raises(SystemExit):
        cli.main([name, "--help"])
    return capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("columns", ["80", "300"])
def test_help_describes_a_command_in_two_lines_with_an_example(name, columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    told = help_of(name, capsys)
    assert max(map(len, told.splitlines())) <= 100
    description = told.split("\n\n")[1].splitlines()
    assert len(description) <= (2 if columns == "300" else 3)
    (example,) = re.findall(r"^example:\n  (.+)$", told, re.MULTILINE)
    words = example.partition("onednn_graph_py ")[2].split()
    assert cli._parser().parse_args(words).command == name


def options_of(name):
    (commands,) = (a for a in cli._parser()._actions if isinstance(a, argparse._SubParsersAction))
    return {
        word: action for action in commands.choices[name]._actions for word in action.option_strings
    }


def test_options_mean_the_same_everywhere():
    for name in COMMANDS:
        options = options_of(name)
        assert options["-o"] is options["--output"]
        if "--json" in options:  # short for --format json
            assert options["--json"].nargs == 0
            assert "json" in options["--format"].choices
        for form in {"html", "markdown"} & {word.strip("-") for word in options}:
            assert form in options["--format"].choices


# A folder, a list of numbers, sizes, and the old name of --graph.
OTHER_VALUES = {
    ("capture", "-o"), ("capture", "--output"), ("compare", "--threads"), ("onnx", "--set"),
    ("onnx", "--to"),
}  # fmt: skip


def test_an_option_of_several_commands_takes_the_same_values_in_all():
    taken = {}
    for name in COMMANDS:
        for word, action in options_of(name).items():
            if (name, word) not in OTHER_VALUES:
                kind = getattr(action.type, "__qualname__", None)
                taken.setdefault(word, set()).add((action.nargs, action.metavar, kind))
    assert {word: kinds for word, kinds in taken.items() if len(kinds) > 1} == {}


def test_output_goes_into_a_file(tmp_path, capsys):
    path = tmp_path / "devices.json"
    assert cli.main(["devices", "--format", "json", "-o", str(path)]) == 0
    assert capsys.readouterr().out == ""
    assert cli.main(["devices", "--json"]) == 0
    assert json.loads(path.read_text()) == json.loads(capsys.readouterr().out)


def test_a_command_that_fails_leaves_the_output_file_as_it_was(tmp_path):
    path = tmp_path / "ops.txt"
    path.write_text("before")
    assert cli.main(["ops", "NoSuch", "-o", str(path)]) == 2
    assert path.read_text() == "before"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["replya"], "there is no command 'replya', did you mean replay?"),
        (["zzz"], "there is no command 'zzz'; there are: ops, "),
        (["ops", "zzz"], "oneDNN has no op 'zzz'; ops lists all"),
    ],
)
def test_a_misspelt_name_gets_a_suggestion(words, hint, capsys):
    try:
        status = cli.main(words)
    except SystemExit as end:
        status = end.code
    assert status == 2
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        "replay FILE",
        "compare FILE",
        "explain FILE",
        "export FILE",
        "export FILE --format benchdnn",
        "onnx FILE",
        "tune FILE",
        "shrink FILE --while crash",
        "ops -o FILE/nowhere",
        "capture -o graphs FILE",
    ],
)
def test_an_error_of_a_file_is_one_line(words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)  # capture makes its folder first
    missing = tmp_path / "missing"
    assert cli.main(words.replace("FILE", str(missing)).split()) != 0
    told = capsys.readouterr()
    if words.startswith("onnx") and importlib.util.find_spec("onnx_ir") is None:
        assert "pip install '.[onnx]'" in told.err
        return
    lines = [line for line in (told.out + told.err).splitlines() if "missing" in line]
    assert len(lines) == 1 + words.startswith("replay")  # the line of the verdict, and the reason
    assert "No such file or directory" in told.out + told.err
    assert "Errno" not in told.out + told.err
    assert lines[0].count("missing") == 1


def test_the_console_script_runs_the_same():
    pyproject = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    module, name = re.search(r'^onednn-graph = "([\w.]+):(\w+)"$', pyproject, re.MULTILINE).groups()
    program = f"import sys; from {module} import {name}; sys.exit({name}())"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.argv[0] = '/bin/onednn-graph'; {program}", "zzz"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("usage: onednn-graph ")


@pytest.mark.parametrize("words", [["onnx", "a.onnx"], ["tune", "a.onnx"]])
def test_without_the_packages_of_onnx_only_its_commands_say_what_to_install(words):
    program = f"""if True:
        import sys
        for name in ("onnx", "onnx_ir"):
            sys.modules[name] = None
        import importlib.util
        importlib.util.find_spec = lambda name, package=None: None
        from onednn_graph_py.tools import command_line as cli
        assert cli.main([]) == 0
        assert cli.main({words!r}) == 2
    """
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    (line,) = done.stderr.splitlines()
    assert "onnx, onnx_ir; pip install '.[onnx]' in a clone" in line
