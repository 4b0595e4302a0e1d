"""What all tests share: a count of what was skipped, by reason, and fixtures."""

import gc
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# The same draws on every machine, however slow; `--hypothesis-profile=default` draws others.
settings.register_profile("landing", derandomize=True, deadline=None)
settings.load_profile("landing")

# For `gallery` and `matrix`. Last, so that an installed package comes before the source tree's.
sys.path.append(str(Path(__file__).parents[1]))


@pytest.fixture(scope="module", autouse=True)
def nothing_is_measured() -> Iterator[None]:
    """Take every way to run a group for as fast as others: on a busy machine times vary."""
    from onednn_graph_py.machine.pace import Pace
    from onednn_graph_py.model.planning import pace

    class Equal(dict):  # type: ignore[type-arg]
        def get(self, key: object, default: object = None) -> object:
            # Of forms nothing is known, so that the table decides.
            equal = Pace(1e-4, 1e-4) if key.way == pace.APART else None  # type: ignore[attr-defined]
            return self.setdefault(key, pace.Kept(equal))  # kept, as helper processes are told

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pace, "_known", Equal())
        yield


@pytest.fixture(autouse=True)
def the_package_compares_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """`==` between values computes: the package itself asks which they are by ``is`` or id."""
    from onednn_graph_py.model.building.value import Value

    package = str(Path(sys.modules["onednn_graph_py"].__file__ or "").parent)
    equal = Value.__eq__

    def asked(self: Value, other: object) -> object:
        caller = sys._getframe(1).f_code.co_filename
        assert not caller.startswith(package), f"{caller} compares {self!r}"
        return equal(self, other)

    monkeypatch.setattr(Value, "__eq__", asked)


@pytest.fixture(scope="session")
def peaks_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that holds only the machine's peaks."""
    from onednn_graph_py.tools.explaining import machine

    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONEDNN_GRAPH_PY_CACHE", str(folder))
        machine()
    return folder


@pytest.fixture(scope="module")
def own_cache(peaks_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A module's own cache, with the machine's peaks."""
    folder = tmp_path_factory.mktemp("cache")
    shutil.copytree(peaks_folder, folder, dirs_exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONEDNN_GRAPH_PY_CACHE", str(folder))
        yield


# Files about the project or about what knows nothing of oneDNN: one build of it is enough for them.
PROJECT = {
    "test_dev.py", "test_docstring_parameters.py", "test_house.py", "test_regions.py",
    "test_setup.py", "test_third_party.py",
}  # fmt: skip


@pytest.hookimpl(tryfirst=True)  # before pytest asks for marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is left out with -m "not slow and not project"."""
    for item in items:
        if item.path.name in PROJECT:
            item.add_marker("project")


def pytest_configure() -> None:
    """Hear the signals that a shell's background job and nohup ignore, as processes inherit that.

    A handler, not the default: processes that a test starts have the default then, and the tests
    themselves go on after a hangup if they were to.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.fixture(scope="module", autouse=True)
def older_objects_are_not_collected_again() -> None:
    """Keep collected tests, and what earlier files left, out of garbage collections.

    With 10,000 tests' objects each takes up to a second, and a test may collect 30 times.
    """
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Let plugins, of which Hypothesis' looks who refers to what, see all objects again."""
    gc.unfreeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count skipped tests apart from those that passed or failed."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    if reasons:
        terminalreporter.section(f"{reasons.total()} skipped, as they said")
    for reason, count in sorted(reasons.items(), key=lambda entry: (-entry[1], entry[0])):
        terminalreporter.write_line(f"{count:5}  {reason}")
