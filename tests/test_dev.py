"""./dev: which oneDNN a command runs with, and the instruction set that it is held to."""

import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

import onednn_graph_py as og

DEV = Path(__file__).parent.parent / "dev"


@pytest.fixture(scope="module")
def dev():
    loader = SourceFileLoader("dev", str(DEV))
    spec = importlib.util.spec_from_loader("dev", loader)
    module = importlib.util.module_from_spec(spec)
    path, sys.dont_write_bytecode = list(sys.path), True
    try:
        loader.exec_module(module)
    finally:
        sys.path[:], sys.dont_write_bytecode = path, False
    return module


class Machine:
    """Stands for an environment on a CPU with AVX-512, but without VNNI."""

    names = ("sse41", "avx", "avx2", "avx2_vnni", "avx512_core", "avx512_core_vnni")
    lacking = ("avx2_vnni", "avx512_core_vnni")

    def ask(self, code, env):
        wanted = env["ONEDNN_MAX_CPU_ISA"].lower()
        known = [name for name in self.names if name not in self.lacking]
        own = wanted if wanted in known else "avx512_core"
        values = {name: i for i, name in enumerate(("isa_default", *self.names))}
        return " ".join([own, str(values[own]), *(f"{n}={v}" for n, v in values.items())])


def test_options_say_where_a_command_runs(dev):
    assert dev._where(["-q", "tests"]) == ((False, None), ["-q", "tests"])
    assert dev._where(["--isa=AVX2", "-x", "--onednn=pypi"]) == ((True, "avx2"), ["-x"])
    with pytest.raises(dev.WrongOptionError, match="the only other oneDNN is --onednn=pypi"):
        dev._where(["--onednn=debian"])


def test_onednn_is_held_to_what_the_cpu_has(dev):
    assert dev._isas(Machine()) == ["sse41", "avx", "avx2", "avx512_core"]
    assert dev._held_to(Machine(), "avx2") == {"ONEDNN_MAX_CPU_ISA": "AVX2"}
    with pytest.raises(dev.LackingError, match=r"can't be held to avx2_vnni; .*: sse41, avx, avx2"):
        dev._held_to(Machine(), "avx2_vnni")
    with pytest.raises(dev.WrongOptionError, match=r"knows no 'avx3'; there are: sse41, .*_vnni$"):
        dev._held_to(Machine(), "avx3")
    # Neither is a status of pytest's, and CI tells one from the other.
    assert {dev.DevError.status, dev.WrongOptionError.status, dev.LackingError.status} == {1, 2, 77}


def test_an_instruction_set_is_asked_of_onednn(dev):
    environment = dev.Environment("none", [])
    environment.path, environment.python = Path.cwd(), Path(sys.executable)
    name, held, names = dev._effective(environment, "sse41")
    assert (name, held) == ("sse41", True)
    assert names == [n for n in og.cpu_isa.__members__ if n != "isa_default"]


def test_pytest_gets_paths_that_hold_anywhere(dev):
    named = dev._from_elsewhere(["-q", "tests/test_dev.py::test_x"], [dev.ROOT / "tests"])
    assert named[-2:] == ["-q", str(dev.ROOT / "tests/test_dev.py::test_x")]
    assert dev._from_elsewhere(["-q"], [dev.ROOT / "tests"])[-1] == str(dev.ROOT / "tests")


def test_a_copy_of_the_tree_keeps_what_was_compiled_in_it(dev, tmp_path, monkeypatch):
    root, tree = tmp_path / "root", tmp_path / "tree"
    for path in (root / "package/a.py", tree / "package/_core.so", tree / "package/gone.py"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.setattr(dev, "ROOT", root)
    dev._mirror(["package"], tree)
    assert sorted(p.name for p in (tree / "package").iterdir()) == ["_core.so", "a.py"]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["isa", "--onednn=debian"], 2),
        (["test", "--sanitize=memory"], 2),
        (["test", "--sanitize=thread", "--onednn=pypi"], 2),
        (["test", "--sanitize=thread", "--isa=avx2"], 2),
        (["nonsense"], 2),
        (["help"], 0),
    ],
)
def test_wrong_commands_and_options_end_with_status_2(dev, arguments, status, capsys):
    assert dev.main(arguments) == status
    told = capsys.readouterr()
    assert "Traceback" not in told.err
