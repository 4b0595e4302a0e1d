"""The package as it is installed: versions, files, and which oneDNN it loads."""

import email
import importlib.metadata
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

import onednn_graph_py
from onednn_graph_py import _core

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(onednn_graph_py.__file__).resolve().parent
NOTICES = "THIRD-PARTY-NOTICES"
EXTENSION = Path(_core.__file__).resolve()
# Not distribution(): in the source tree, builds leave an egg-info that would be found first.
SITE_PACKAGES = sysconfig.get_path("purelib")
(DISTRIBUTION,) = importlib.metadata.distributions(name="onednn-graph-py", path=[SITE_PACKAGES])
LIBRARY_NAME = json.loads((ROOT / "third_party/onednn.json").read_text())["cmake_options"][
    "DNNL_LIBRARY_NAME"
]


def dynamic(path: Path) -> dict[str, list[str]]:
    """The dynamic section of an ELF file: the values of each tag."""
    output = subprocess.check_output(
        ["readelf", "-dW", str(path)], text=True, env={**os.environ, "LC_ALL": "C"}
    )
    found: dict[str, list[str]] = {}
    for tag, value in re.findall(r"\((\w+)\)\s+(.*)", output):
        inner = re.search(r"\[(.*)\]", value)
        found.setdefault(tag, []).append(inner.group(1) if inner else value)
    return found


FACTS = dynamic(EXTENSION)
(NEEDED,) = (name for name in FACTS["NEEDED"] if "dnnl" in name)
# The recipe's oneDNN has a name that no other has; otherwise ONEDNN_ROOT named one.
BUILT = NEEDED.startswith(f"lib{LIBRARY_NAME}.so")
only_built = pytest.mark.skipif(not BUILT, reason="linked to an installed oneDNN (ONEDNN_ROOT)")


def test_the_version_is_the_same_in_metadata_extension_and_project_file():
    match = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert match is not None
    assert DISTRIBUTION.version == onednn_graph_py.__version__ == match.group(1)


def test_the_package_under_test_is_the_installed_one():
    origin = json.loads(DISTRIBUTION.read_text("direct_url.json") or "{}")
    editable = origin.get("dir_info", {}).get("editable", False)
    assert PACKAGE.is_relative_to(ROOT / "onednn_graph_py" if editable else sys.prefix)


def test_the_package_is_typed():
    assert (PACKAGE / "py.typed").is_file()
    assert (PACKAGE / "_core.pyi").is_file()


@only_built
def test_our_own_onednn_lies_beside_the_extension_and_is_found_there():
    assert FACTS.get("RUNPATH") == ["$ORIGIN"]
    assert "RPATH" not in FACTS
    assert EXTENSION.with_name(NEEDED).is_file()


@only_built
def test_our_own_onednn_is_itself_and_stripped():
    library = EXTENSION.with_name(NEEDED)
    facts = dynamic(library)
    assert facts["SONAME"] == [NEEDED]
    # Its own symbols win over those of another oneDNN in the process.
    assert "SYMBOLIC" in facts or any("SYMBOLIC" in value for value in facts.get("FLAGS", []))
    sections = subprocess.check_output(["readelf", "-SW", str(library)], text=True)
    assert ".dynsym" in sections
    assert ".symtab" not in sections


@pytest.mark.skipif(BUILT, reason="linked to the oneDNN that the recipe built")
def test_an_installed_onednn_is_found_where_it_is_and_nothing_is_copied():
    (directory,) = FACTS["RPATH"]
    assert (Path(directory) / NEEDED).is_file()
    assert not list(PACKAGE.glob("libdnnl*"))


def test_the_loaded_onednn_is_the_one_that_was_linked():
    maps = Path("/proc/self/maps").read_text()
    loaded = {Path(path) for path in re.findall(r"(/\S*/libdnnl\S*\.so\S*)$", maps, re.MULTILINE)}
    directory = EXTENSION.parent if BUILT else Path(FACTS["RPATH"][0])
    assert (directory / NEEDED).resolve() in {path.resolve() for path in loaded}


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """An sdist of the source tree, made in a copy of it."""
    tree = tmp_path_factory.mktemp("sdist") / "tree"
    tree.mkdir()
    ignore = shutil.ignore_patterns("*.so*", "__pycache__", "*.egg-info")
    for name in ("bindings", "onednn_graph_py", "third_party"):
        shutil.copytree(ROOT / name, tree / name, ignore=ignore)
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", NOTICES):
        shutil.copy(ROOT / name, tree / name)
    # What else a source tree has.
    for name in ("tests/test_more.py", "docs/page.md", "benchmarks/run.py", "third_party/x.pyc"):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text("")
    code = "from setuptools import build_meta; print('made', build_meta.build_sdist('dist'))"
    made = subprocess.check_output([sys.executable, "-c", code], cwd=tree, text=True)
    return tree / "dist" / made.split()[-1]


def test_an_sdist_holds_all_that_a_build_needs_and_no_more(sdist):
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = [
        path.relative_to(ROOT).as_posix()
        for place in ("bindings", "third_party", "onednn_graph_py")
        for path in (ROOT / place).rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".so") and ".so." not in path.name
    ]
    wanted += ["LICENSE", NOTICES, "MANIFEST.in", "README.md", "pyproject.toml", "setup.py"]
    assert set(wanted) <= names
    # What setuptools writes, folders, and nothing of the tree's other parts.
    more = {name for name in names - set(wanted) if not re.search(r"\.egg-info(/|$)", name)}
    folders = {str(parent) for name in wanted for parent in Path(name).parents}
    assert more - folders == {"", "PKG-INFO", "setup.cfg"}


def test_the_metadata_names_people_and_licences_and_only_the_extras_of_users(sdist):
    with tarfile.open(sdist) as archive:
        (info,) = (n for n in archive.getnames() if n.count("/") == 1 and n.endswith("/PKG-INFO"))
        told = email.message_from_bytes(archive.extractfile(info).read())
    assert told["Author"] == "onednn_graph_py contributors"
    assert told.get_all("License-File") == ["LICENSE", NOTICES]
    assert told["License-Expression"] == "Apache-2.0"
    minors = [
        c.rpartition(".")[2] for c in told.get_all("Classifier") if re.search(r":: 3\.\d+$", c)
    ]
    assert minors == ["10", "11", "12", "13", "14"]
    table = (ROOT / "docs/install.md").read_text().partition("| extra |")[2].partition("\n\n")[0]
    assert set(told.get_all("Provides-Extra")) == set(re.findall(r"\n\| `(\w+)`", table))


def test_notices_name_all_that_is_compiled_in_or_carried():
    notices = (ROOT / NOTICES).read_text()
    assert all(name in notices for name in ("oneDNN", "pybind11", "libgomp"))
    assert "Copyright 2026 onednn_graph_py contributors" in (ROOT / "LICENSE").read_text()


def pythons() -> dict[str, str]:
    """The Pythons here that can have the package, by version: this one and those on PATH."""
    code = "from sysconfig import *; print(get_config_var('LDVERSION'), get_path('include'))"
    found = {sysconfig.get_config_var("LDVERSION"): sys.executable}
    for minor, threads in itertools.product(range(10, 30), ("", "t")):
        name = f"3.{minor}{threads}"  # with "t", a free-threaded one
        program = shutil.which(f"python{name}")
        if program is None or name in found:
            continue
        done = subprocess.run([program, "-c", code], capture_output=True, text=True)
        said = done.stdout.split()  # none where the program stands for a Python that isn't here
        if said[:1] == [name] and Path(said[1], "Python.h").is_file():
            found[name] = program
    return found


@only_built
@pytest.mark.slow
@pytest.mark.parametrize("python", pythons().values(), ids=pythons())
def test_a_wheel_of_the_sdist_works_in_a_clean_environment(sdist, tmp_path, python):
    subprocess.check_call([python, "-m", "venv", str(tmp_path / "clean")])
    clean = tmp_path / "clean/bin/python"
    pip = [str(clean), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.check_call([*pip, "wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(sdist)])
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    for name in (NEEDED, "py.typed", "_core.pyi"):
        assert f"onednn_graph_py/{name}" in names
    for name in ("LICENSE", "THIRD-PARTY-PROGRAMS"):
        assert f"onednn_graph_py/onednn_licenses/{name}" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"onednn_graph_py"}

    # Where there is no compiler, nor any other program.
    empty = tmp_path / "empty"
    empty.mkdir()
    subprocess.check_call([*pip, "install", str(wheel)], env={**os.environ, "PATH": str(empty)})
    code = (
        "import onednn_graph_py, re; print(onednn_graph_py.__version__)\n"
        "print(*set(re.findall(r' (/.*)', open('/proc/self/maps').read())), sep='\\n')"
    )
    # Neither the sources nor the cache is gone, but nothing of either is looked for or mapped.
    env = {"PATH": str(empty), "HOME": str(tmp_path)}
    output = subprocess.check_output([clean, "-c", code], cwd="/", env=env, text=True)
    version, *mapped = output.splitlines()
    assert version == DISTRIBUTION.version
    ours = [path for path in mapped if "dnnl" in path or "onednn" in path]
    assert len(ours) == 2
    assert all(Path(path).is_relative_to(clean.parents[1]) for path in ours), ours
    selftest = ["-m", "onednn_graph_py", "selftest", "--minutes", "0.2"]
    subprocess.check_call([clean, *selftest], cwd="/", env=env)
    subprocess.check_call([clean.with_name("onednn-graph")], cwd="/", env=env)

    tag = re.search(r"-(cp3\d+)-", wheel.name)
    assert tag is not None
    other = shutil.copy(wheel, tmp_path / wheel.name.replace(tag[1], "cp39"))
    refused = subprocess.run([*pip, "install", other], capture_output=True, text=True)
    assert refused.returncode == 1
    assert "is not a supported wheel on this platform" in refused.stderr
