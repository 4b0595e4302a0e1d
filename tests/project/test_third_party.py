"""The recipe that fetches and builds oneDNN, on a library of two files instead of oneDNN's 500."""

import dataclasses
import grp
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from types import SimpleNamespace

import interrupted_commands
import pytest
from interrupted_commands import alive

import onednn_graph_py as og
from onednn_recipe import pins as pins_module
from onednn_recipe import prefix, toolchain, trees
from onednn_recipe import recipe as recipe_module
from onednn_recipe.cache import Cache
from onednn_recipe.process import Progress
from onednn_recipe.recipe import Recipe
from onednn_recipe.report import RecipeError
from onednn_recipe.settings import Settings

# The recipe builds no oneDNN for SYCL, and does the same whatever the package is linked with.
pytestmark = pytest.mark.skipif(
    og.version()["cpu_runtime"] == "SYCL", reason="the recipe is tested with the oneDNN it builds"
)

RECIPE = Path(pins_module.DATA).with_name("onednn.py")
PINS = pins_module.load()
RELEASE = PINS.debian[-1]
GIT, DEBIAN = PINS.git.version, RELEASE.version
STEERING = re.compile(r"ONEDNN_|DNNL_|CMAKE_|CC$|CXX|CFLAGS|CPPFLAGS|LDFLAGS|XDG_CACHE_HOME")

LISTS = """\
cmake_minimum_required(VERSION 3.13)
set(PROJECT_VERSION "{version}")
project(oneDNN VERSION "${{PROJECT_VERSION}}" LANGUAGES CXX)
set(DNNL_CPU_THREADING_RUNTIME {runtime})
file(GLOB SOURCES ${{PROJECT_SOURCE_DIR}}/src/*.cpp)
add_library(${{DNNL_LIBRARY_NAME}} SHARED ${{SOURCES}})
set_target_properties(${{DNNL_LIBRARY_NAME}} PROPERTIES SOVERSION 3 VERSION 3.9)
set(HEADERS ${{PROJECT_BINARY_DIR}}/include/oneapi/dnnl)
file(MAKE_DIRECTORY ${{HEADERS}})
string(REPLACE "." ";" PARTS ${{PROJECT_VERSION}})
list(GET PARTS 0 MAJOR)
list(GET PARTS 1 MINOR)
list(GET PARTS 2 PATCH)
file(WRITE ${{HEADERS}}/dnnl_version.h
  "#define DNNL_VERSION_MAJOR ${{MAJOR}}\\n#define DNNL_VERSION_MINOR ${{MINOR}}\\n"
  "#define DNNL_VERSION_PATCH ${{PATCH}}\\n")
file(WRITE ${{HEADERS}}/dnnl_config.h
  "#define DNNL_CPU_THREADING_RUNTIME DNNL_RUNTIME_${{DNNL_CPU_THREADING_RUNTIME}}\\n")
if(ONEDNN_BUILD_GRAPH)
  file(APPEND ${{HEADERS}}/dnnl_config.h "#define ONEDNN_BUILD_GRAPH\\n")
endif()
file(WRITE ${{HEADERS}}/dnnl_graph.hpp "")
install(DIRECTORY ${{PROJECT_BINARY_DIR}}/include DESTINATION .)
install(TARGETS ${{DNNL_LIBRARY_NAME}} DESTINATION ${{CMAKE_INSTALL_LIBDIR}})
"""


def make_tree(path: Path, version: str = "3.9.1", runtime: str = "OMP") -> Path:
    """A source tree with the outward shape of oneDNN's."""
    (path / "src").mkdir(parents=True)
    (path / "CMakeLists.txt").write_text(LISTS.format(version=version, runtime=runtime))
    (path / "src/graph.cpp").write_text('extern "C" int dnnl_graph_graph_finalize() { return 0; }')
    (path / "src/other.cpp").write_text("int other() { return 1; }")
    return path


def make_prefix(path: Path, version: str = "3.9.1", graph: bool = True, lib: str = "lib") -> Path:
    """An installed oneDNN, as far as the recipe looks."""
    headers = path / "include/oneapi/dnnl"
    headers.mkdir(parents=True)
    parts = zip(("MAJOR", "MINOR", "PATCH"), version.split("."), strict=True)
    lines = [f"#define DNNL_VERSION_{name} {number}\n" for name, number in parts]
    (headers / "dnnl_version.h").write_text("".join(lines))
    (headers / "dnnl_graph.hpp").write_text("")
    config = "#define ONEDNN_BUILD_GRAPH\n" if graph else "/* #undef ONEDNN_BUILD_GRAPH */\n"
    (headers / "dnnl_config.h").write_text(config)
    (path / lib).mkdir(parents=True)
    (path / lib / "libdnnl.so").write_bytes(b"\x7fELF...dnnl_graph_graph_finalize...")
    return path


def script(path: Path, text: str) -> Path:
    """An executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch, tmp_path):
    """No setting of the machine or the caller reaches a test; the cache is a fresh one."""
    for name in os.environ:
        if STEERING.match(name):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ONEDNN_GRAPH_PY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CMAKE_BUILD_PARALLEL_LEVEL", "2")


@pytest.fixture
def nothing_reachable(monkeypatch, tmp_path):
    """A PATH with the compiler's tools and no way to a source: git and apt-get always fail."""
    calls = tmp_path / "calls"
    for name in ("git", "apt-get"):
        script(
            tmp_path / "bin" / name, f'echo {name} >> "{calls}"; echo "E: no network" >&2; exit 1'
        )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("ONEDNN_DEBIAN_MIRROR", "http://mirror.invalid/debian")
    return calls


def pinned_to(tarball: Path):
    digest = hashlib.sha256(tarball.read_bytes()).hexdigest()
    return dataclasses.replace(PINS, debian=(dataclasses.replace(RELEASE, sha256=digest),))


@pytest.fixture
def debian_only(monkeypatch, tmp_path, nothing_reachable):
    """An apt-get that serves a tarball of a fake 3.7.2; returns pins that expect it."""
    tree = make_tree(tmp_path / "upstream" / f"oneDNN-{DEBIAN}", DEBIAN)
    tarball = tmp_path / RELEASE.file
    with tarfile.open(tarball, "w:xz") as archive:
        archive.add(tree, tree.name)
    script(
        tmp_path / "bin/apt-get",
        f'echo apt-get >> "{nothing_reachable}"\n'
        f'case "$*" in *source*--download-only*) cp "{tarball}" . ;; esac',
    )
    return pinned_to(tarball)


def git_repository(path: Path, tag: str = PINS.git.tag) -> str:
    """A repository with a fake release; returns its commit."""
    tree = make_tree(path, GIT)
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
    for command in (
        ["init", "--quiet"],
        ["add", "."],
        [*identity, "commit", "--quiet", "--message=release"],
        [*identity, "tag", "--annotate", "--message=release", tag],
    ):
        subprocess.run(["git", *command], cwd=tree, check=True)
    return subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=tree, text=True).strip()


def calls_of(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def run_recipe(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(RECIPE), *arguments],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=120,
    )


# -- sources: order, fallbacks, pins ---------------------------------------------------------------


def test_a_named_tree_is_built_where_it_stands(monkeypatch, tmp_path, nothing_reachable):
    tree = make_tree(tmp_path / "mine")
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(tree))
    found = Recipe().ensure()
    assert (found.version, found.source_dir, found.built) == ("3.9.1", tree, True)
    assert found.library.name == "libdnnl_ogp.so"
    assert (found.include_dir / "oneapi/dnnl/dnnl_graph.hpp").is_file()
    assert calls_of(nothing_reachable) == []


def test_git_comes_before_debian(monkeypatch, tmp_path, nothing_reachable):
    (tmp_path / "bin/git").unlink()
    commit = git_repository(tmp_path / "repository")
    monkeypatch.setenv("ONEDNN_GIT_URL", str(tmp_path / "repository"))
    pins = dataclasses.replace(PINS, git=dataclasses.replace(PINS.git, commit=commit))
    recipe = Recipe(pins=pins)
    tree = recipe.source()
    assert tree == tmp_path / f"cache/src/onednn-{GIT}"
    assert trees.version_of(tree) == GIT
    assert calls_of(nothing_reachable) == []


def test_a_tag_that_moved_is_refused(monkeypatch, tmp_path, capfd, nothing_reachable):
    (tmp_path / "bin/git").unlink()
    commit = git_repository(tmp_path / "repository")
    monkeypatch.setenv("ONEDNN_GIT_URL", str(tmp_path / "repository"))
    monkeypatch.setenv("ONEDNN_VERSION", GIT)
    with pytest.raises(RecipeError, match=rf"is commit {commit}, but {PINS.git.commit} is pinned"):
        Recipe().source()
    assert not list((tmp_path / "cache/src").iterdir())


def test_an_unreachable_source_costs_one_line_and_the_next_is_used(capfd, debian_only):
    recipe = Recipe(pins=debian_only)
    assert trees.version_of(recipe.source()) == DEBIAN
    lines = capfd.readouterr().err.splitlines()
    assert lines[0] == f"oneDNN: {GIT} from upstream git can't be had: E: no network"
    assert len([line for line in lines if "can't be had" in line]) == 1


def test_a_release_that_its_suite_lacks_costs_one_line_and_the_one_before_is_used(
    capfd, tmp_path, debian_only, nothing_reachable
):
    newer = dataclasses.replace(RELEASE, version="3.99.1", package_version="3.99.1+ds-1")
    pins = dataclasses.replace(debian_only, debian=(newer, *debian_only.debian))
    served = (tmp_path / "bin/apt-get").read_text()
    script(
        tmp_path / "bin/apt-get",
        'case "$*" in *3.99.1*) echo "Err:1 onednn 3.99.1 404"; exit 100 ;; esac\n' + served,
    )
    assert trees.version_of(Recipe(pins=pins).source()) == DEBIAN
    lines = [line for line in capfd.readouterr().err.splitlines() if "can't be had" in line]
    assert lines[1:] == [
        "oneDNN: 3.99.1 from Debian's source package can't be had: Err:1 onednn 3.99.1 404"
    ]
    # The release that was taken stays, and no other is asked for again.
    asked = calls_of(nothing_reachable)
    assert Recipe(pins=pins).preferred.version == DEBIAN
    assert Recipe(pins=pins).ensure().version == DEBIAN
    assert calls_of(nothing_reachable) == asked
    # Alone it is no version that becomes another.
    with pytest.raises(RecipeError, match=r"no source of oneDNN 3\.99\.1 can be had"):
        settings = dataclasses.replace(Settings.from_env(), version="3.99.1")
        Recipe(settings, pins).source()


def test_the_newest_release_of_the_list_that_can_be_had_is_taken(debian_only):
    older = dataclasses.replace(debian_only.debian[0], version="3.7.1")
    pins = dataclasses.replace(debian_only, debian=(*debian_only.debian, older))
    assert Recipe(pins=pins).source().name == f"onednn-{DEBIAN}"


def test_a_silent_source_is_given_up_within_seconds(monkeypatch, tmp_path, capfd, debian_only):
    script(tmp_path / "bin/git", "exec sleep 600")
    git = dataclasses.replace(debian_only.git, probe_seconds=0.3)
    start = time.monotonic()
    Recipe(pins=dataclasses.replace(debian_only, git=git)).source()
    assert time.monotonic() - start < 120
    assert f"no answer from {PINS.git.url} in 0.3 s" in capfd.readouterr().err


def test_no_source_at_all_names_each_reason_and_how_to_supply_one(nothing_reachable):
    with pytest.raises(RecipeError) as caught:
        Recipe().ensure()
    text = str(caught.value)
    for expected in (
        "upstream git: ",
        "Debian's source package: ",
        "ONEDNN_SOURCE_DIR=/",
        "ONEDNN_ROOT=/",
    ):
        assert expected in text


def test_a_pinned_version_never_becomes_another(monkeypatch, debian_only):
    monkeypatch.setenv("ONEDNN_VERSION", GIT)
    with pytest.raises(RecipeError) as caught:
        Recipe(pins=debian_only).source()
    assert f"no source of oneDNN {GIT} can be had" in str(caught.value)
    assert "Debian" not in str(caught.value).split("Supply one yourself")[0]


def test_a_pinned_version_that_nobody_offers_lists_what_is_offered(monkeypatch):
    monkeypatch.setenv("ONEDNN_VERSION", "3.9.9")
    expected = rf"3\.9\.9, which no source offers. Offered: {GIT} \(upstream git\), {DEBIAN} \(Deb"
    with pytest.raises(RecipeError, match=expected):
        Recipe().ensure()


def test_a_pinned_version_and_a_named_tree_must_agree(monkeypatch, tmp_path):
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(make_tree(tmp_path / "mine", "3.9.1")))
    monkeypatch.setenv("ONEDNN_VERSION", "3.9.2")
    with pytest.raises(RecipeError, match=r"ONEDNN_VERSION asks for 3\.9\.2, but .* is 3\.9\.1"):
        Recipe().ensure()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: make_tree(path, "3.6.2"), r"is oneDNN 3\.6\.2, but 3\.7 or newer is needed"),
        (lambda path: path.mkdir(), r"there is no CMakeLists\.txt"),
        (lambda path: None, "should name an existing directory"),
    ],
    ids=["too old", "no tree", "no directory"],
)
def test_an_unusable_named_tree_is_refused(monkeypatch, tmp_path, make, message):
    make(tmp_path / "mine")
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(tmp_path / "mine"))
    with pytest.raises(RecipeError, match=message):
        Recipe().ensure()


def test_a_tarball_with_another_checksum_is_refused(monkeypatch, tmp_path, debian_only):
    monkeypatch.setenv("ONEDNN_VERSION", DEBIAN)
    with pytest.raises(RecipeError, match=rf"has SHA-256 \w+, but {RELEASE.sha256} is pinned"):
        Recipe(pins=PINS).source()
    assert not list((tmp_path / "cache/src").iterdir())


def test_an_interrupted_download_is_redone(debian_only, tmp_path):
    partial = tmp_path / f"cache/src/onednn-{DEBIAN}.partial"
    partial.mkdir(parents=True)
    (partial / "rubbish").write_text("")
    tree = tmp_path / f"cache/src/onednn-{DEBIAN}"
    tree.mkdir()  # a tree without the record that is written after it
    assert Recipe(pins=debian_only).source() == tree
    assert (tree / "CMakeLists.txt").is_file()
    assert not partial.exists()


def test_the_choice_is_remembered_and_no_source_is_asked_again(debian_only, nothing_reachable):
    first = Recipe(pins=debian_only).ensure()
    asked = calls_of(nothing_reachable)
    assert {"git", "apt-get"} == set(asked)
    second = Recipe(pins=debian_only).ensure()
    assert second == first
    assert calls_of(nothing_reachable) == asked


def test_a_pinned_build_does_not_become_the_choice(monkeypatch, debian_only):
    monkeypatch.setenv("ONEDNN_VERSION", DEBIAN)
    Recipe(pins=debian_only).source()
    monkeypatch.delenv("ONEDNN_VERSION")
    assert Recipe(pins=debian_only).preferred.version == GIT


def test_a_finished_build_outlives_its_source_tree(debian_only):
    recipe = Recipe(pins=debian_only)
    first = recipe.ensure()
    shutil.rmtree(first.source_dir)
    again = Recipe(pins=debian_only).ensure()
    assert (again.library, again.source_dir) == (first.library, None)


# -- what is verified before it runs ---------------------------------------------------------------


RAN = 'file(WRITE "{mark}" "it ran")\n'


def test_nothing_of_a_manipulated_archive_runs(monkeypatch, tmp_path, debian_only):
    tree = tmp_path / "upstream" / f"oneDNN-{DEBIAN}"
    with (tree / "CMakeLists.txt").open("a") as lists:
        lists.write(RAN.format(mark=tmp_path / "mark"))
    with tarfile.open(tmp_path / RELEASE.file, "w:xz") as archive:
        archive.add(tree, tree.name)
    monkeypatch.setenv("ONEDNN_VERSION", DEBIAN)
    with pytest.raises(RecipeError, match="has SHA-256"):
        Recipe(pins=debian_only).ensure()
    assert not (tmp_path / "mark").exists()
    assert not list((tmp_path / "cache/src").iterdir())
    assert not (tmp_path / "cache/build").exists()


def test_nothing_of_a_manipulated_tag_runs(monkeypatch, tmp_path, nothing_reachable):
    (tmp_path / "bin/git").unlink()
    commit = git_repository(tmp_path / "repository")
    tree = tmp_path / "repository"
    with (tree / "CMakeLists.txt").open("a") as lists:
        lists.write(RAN.format(mark=tmp_path / "mark"))
    (tree / ".gitattributes").write_text("* filter=evil\n")
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
    for command in (
        ["add", "."],
        [*identity, "commit", "--quiet", "--message=another"],
        [*identity, "tag", "--force", "--annotate", "--message=release", PINS.git.tag],
    ):
        subprocess.run(["git", *command], cwd=tree, check=True, capture_output=True)
    monkeypatch.setenv("ONEDNN_GIT_URL", str(tree))
    monkeypatch.setenv("ONEDNN_VERSION", GIT)
    pins = dataclasses.replace(PINS, git=dataclasses.replace(PINS.git, commit=commit))
    with pytest.raises(RecipeError, match=rf"is commit \w+, but {commit} is pinned"):
        Recipe(pins=pins).ensure()
    assert not (tmp_path / "mark").exists()
    assert not list((tmp_path / "cache/src").iterdir())
    # The tag that points where it should is taken.
    for command in (["tag", "--force", PINS.git.tag, commit],):
        subprocess.run(["git", *command], cwd=tree, check=True, capture_output=True)
    assert trees.version_of(Recipe(pins=pins).source()) == GIT


def appended(name, text):
    def change(tree):
        with (tree / name).open("a") as file:
            file.write(text)

    return change


def added(tree):
    (tree / "src" / "more.cpp").write_text("int more() { return 3; }")


def replaced_by_a_link(tree):
    elsewhere = tree.with_name("elsewhere")
    tree.rename(elsewhere)
    (elsewhere / "src" / "other.cpp").write_text("int other() { return 666; }")
    tree.symlink_to(elsewhere)


def linked(tree):
    file = tree / "src" / "other.cpp"
    shutil.move(file, tree.parent / "other.cpp")
    file.symlink_to(tree.parent / "other.cpp")


@pytest.mark.parametrize(
    "change",
    [
        appended("src/other.cpp", "int evil() { return 0; }"),
        appended("CMakeLists.txt", "message(FATAL_ERROR evil)\n"),
        added,
        lambda tree: (tree / "src" / "other.cpp").unlink(),
        lambda tree: (tree / "CMakeLists.txt").chmod(0o755),
        linked,
        replaced_by_a_link,
    ],
    ids=["edited", "recipe", "added", "removed", "mode", "link", "tree is a link"],
)
def test_a_kept_tree_that_was_manipulated_is_fetched_again(debian_only, capfd, tmp_path, change):
    recipe = Recipe(pins=debian_only)
    tree = recipe.source()
    before = trees.digest(tree)
    change(tree)
    capfd.readouterr()
    with recipe.cache.lock():
        assert Recipe(pins=debian_only).verified_source() == tree
    assert "is not as it was verified; fetching it again" in capfd.readouterr().err
    assert not tree.is_symlink()
    assert trees.digest(tree) == before


def test_a_kept_tree_that_was_manipulated_is_not_built_where_it_can_not_be_had(
    debian_only, nothing_reachable, tmp_path, capfd
):
    tree = Recipe(pins=debian_only).source()
    appended("CMakeLists.txt", RAN.format(mark=tmp_path / "mark"))(tree)
    script(tmp_path / "bin/apt-get", 'echo "E: no network" >&2; exit 1')
    with pytest.raises(RecipeError, match="no source of oneDNN can be had"):
        Recipe(pins=debian_only).ensure()
    assert not (tmp_path / "mark").exists()


def test_a_kept_tree_as_it_was_verified_is_built_without_asking_again(
    debian_only, nothing_reachable
):
    Recipe(pins=debian_only).source()
    asked = calls_of(nothing_reachable)
    assert Recipe(pins=debian_only).ensure().built
    assert calls_of(nothing_reachable) == asked


def test_gits_settings_are_verified_and_its_index_is_not(tmp_path):
    git_repository(tmp_path / "repository")
    before = trees.digest(tmp_path / "repository")
    (tmp_path / "repository/.git/index").write_bytes(b"rewritten")
    assert trees.digest(tmp_path / "repository") == before
    appended(".git/config", "[core]\n\tfsmonitor = evil\n")(tmp_path / "repository")
    assert trees.digest(tmp_path / "repository") != before


def member(name, text="text", **fields):
    made = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(made, field, value)
    made.size = len(text) if made.isfile() else 0
    return made, io.BytesIO(text.encode())


LISTS_OF_DEBIAN = LISTS.format(version=DEBIAN, runtime="OMP")
SYMLINK, HARDLINK = tarfile.SYMTYPE, tarfile.LNKTYPE


@pytest.mark.skipif(not hasattr(tarfile, "data_filter"), reason="this Python unpacks as it is told")
@pytest.mark.parametrize(
    "members",
    [
        [member("top/../../../../evil")],
        [member("{root}/evil")],
        [member("top/link", type=SYMLINK, linkname="{root}"), member("top/link/evil")],
        [member("top/link", type=SYMLINK, linkname="../../.."), member("top/link/evil")],
        [member("top/link", type=HARDLINK, linkname="../../../evil")],
        [member("top/device", type=tarfile.CHRTYPE)],
        [member("second/CMakeLists.txt", LISTS_OF_DEBIAN)],
        [member("second", type=SYMLINK, linkname="top")],
    ],
    ids=["parent", "absolute", "link", "near link", "hard link", "device", "two tops", "top link"],
)
def test_an_archive_that_reaches_outside_is_refused_though_it_is_the_pinned_one(
    monkeypatch, tmp_path, debian_only, members
):
    tarball = tmp_path / RELEASE.file
    with tarfile.open(tarball, "w:xz") as archive:
        archive.addfile(*member("top/CMakeLists.txt", LISTS_OF_DEBIAN))
        for made, content in members:
            made.name = made.name.format(root=tmp_path)
            made.linkname = made.linkname.format(root=tmp_path)
            content.seek(0)
            archive.addfile(made, content)
    monkeypatch.setenv("ONEDNN_VERSION", DEBIAN)
    try:
        tree = Recipe(pins=pinned_to(tarball)).source()
    except RecipeError as error:
        assert "can't be unpacked" in str(error)
        assert not list((tmp_path / "cache/src").iterdir())
    else:  # what the filter makes harmless: a name without its leading slash
        assert (tree / "CMakeLists.txt").is_file()
    assert not list(tmp_path.rglob("evil"))


def test_a_file_that_is_no_archive_is_refused(monkeypatch, tmp_path, debian_only):
    tarball = tmp_path / RELEASE.file
    for data in (b"", b"no archive", tarball.read_bytes()[:-200]):
        tarball.write_bytes(data)
        monkeypatch.setenv("ONEDNN_VERSION", DEBIAN)
        with pytest.raises(RecipeError, match="can't be unpacked"):
            Recipe(pins=pinned_to(tarball)).source()


def test_a_cache_that_all_users_may_write_to_is_refused(tmp_path, debian_only):
    recipe = Recipe(pins=debian_only)
    recipe.source()
    for path in (tmp_path / "cache/src", tmp_path / "cache"):
        path.chmod(0o777)
        for call in (recipe.ensure, recipe.source):
            with pytest.raises(RecipeError, match=r"not used as a cache: all users may write"):
                call()
        path.chmod(0o755)
    assert recipe.source()


def test_a_cache_of_another_user_is_refused(monkeypatch, tmp_path, debian_only):
    recipe = Recipe(pins=debian_only)
    recipe.source()
    owner = os.stat(tmp_path / "cache").st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    if owner == 0:  # root's files are trusted; those of others are not, by root either
        assert recipe.source()
        os.chown(tmp_path / "cache", 12345, -1)
        monkeypatch.undo()
        monkeypatch.setenv("ONEDNN_GRAPH_PY_CACHE", str(tmp_path / "cache"))
    with pytest.raises(RecipeError, match=r"not used as a cache: .* belongs to user \d+"):
        recipe.ensure()


@pytest.mark.parametrize("where", [".", "prefix", "prefix/KEY", "prefix/KEY/lib", "src/onednn-1"])
@pytest.mark.parametrize("how", ["is", "leads to", "lies in a folder that is"])
def test_nothing_that_others_may_write_to_is_used_as_a_cache(monkeypatch, tmp_path, where, how):
    root = tmp_path / "above/cache"
    for made in ("prefix/KEY/lib", "src/onednn-1"):
        (root / made).mkdir(parents=True)
    recipe = Recipe()
    recipe.cache.root = root
    recipe.cache.check_owner()
    place = root / where
    if how == "leads to":
        others = tmp_path / "others"
        others.mkdir()
        moved = others / "moved"
        place.rename(moved)
        place.symlink_to(moved)
        recipe.cache.check_owner()  # links of ours to what is ours
        others.chmod(0o777)
    else:
        (place if how == "is" else place.parent).chmod(0o777)
    with pytest.raises(RecipeError, match="not used as a cache: all users may write"):
        recipe.cache.check_owner()


def test_a_cache_may_lie_in_a_sticky_folder_but_not_be_one(monkeypatch, tmp_path):
    root = tmp_path / "above/cache"
    root.mkdir(parents=True)
    recipe = Recipe()
    recipe.cache.root = root
    root.parent.chmod(0o1777)
    recipe.cache.check_owner()
    root.chmod(0o1777)
    with pytest.raises(RecipeError, match="not used as a cache: all users may write"):
        recipe.cache.check_owner()


def test_a_cache_that_a_group_may_write_to_is_refused_and_never_made(monkeypatch, tmp_path):
    recipe = Recipe()
    recipe.cache.root = tmp_path / "cache"
    monkeypatch.setattr(grp, "getgrgid", lambda _: SimpleNamespace(gr_name="team", gr_mem=[]))
    before = os.umask(0o002)
    try:
        with recipe.cache.lock():
            (recipe.cache.root / "prefix").mkdir()
        recipe.cache.check_owner()
        assert os.umask(0o002) == 0o002
    finally:
        os.umask(before)
    (recipe.cache.root / "prefix").chmod(0o775)
    with pytest.raises(RecipeError, match=r"not used as a cache: group team may write to .*"):
        recipe.cache.check_owner()


def test_a_record_is_written_to_no_link(tmp_path):
    from onednn_recipe import cache

    (tmp_path / "mine").write_text("kept")
    (tmp_path / "record.json").symlink_to("mine")
    cache.write_record(tmp_path / "record.json", {"a": 1})
    assert (tmp_path / "mine").read_text() == "kept"
    assert cache.read_record(tmp_path / "record.json") == {"a": 1}
    assert {p.name for p in tmp_path.iterdir()} == {"mine", "record.json"}


def test_a_record_that_is_no_json_is_as_if_missing(tmp_path):
    from onednn_recipe.cache import read_record

    for text in ("", "[]", "{", "[" * 100_000, '{"a":' * 100_000, "\0", "nan"):
        (tmp_path / "record.json").write_text(text)
        assert read_record(tmp_path / "record.json") is None


# -- ONEDNN_ROOT -----------------------------------------------------------------------------------


@pytest.mark.parametrize("lib", ["lib", "lib64", "lib/x86_64-linux-gnu"])
def test_an_installed_onednn_is_used_as_it_is(monkeypatch, tmp_path, lib):
    root = make_prefix(tmp_path / "root", lib=lib)
    monkeypatch.setenv("ONEDNN_ROOT", str(root))
    found = Recipe().ensure()
    assert (found.version, found.built, found.source_dir) == ("3.9.1", False, None)
    assert found.library == root / lib / "libdnnl.so"
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda root: shutil.rmtree(root / "include"), "should hold include/oneapi/dnnl"),
        (lambda root: shutil.rmtree(root / "lib"), "no shared library"),
        (
            lambda root: (shutil.rmtree(root), make_prefix(root, "3.6.0")),
            r"holds oneDNN 3\.6\.0, but 3\.7 or newer is needed",
        ),
        (
            lambda root: (shutil.rmtree(root), make_prefix(root, graph=False)),
            "without the graph component",
        ),
        (
            lambda root: (root / "lib/libdnnl.so").write_bytes(b"\x7fELF primitives only"),
            "without the graph component",
        ),
    ],
    ids=["no headers", "no library", "too old", "graph off", "graph missing in library"],
)
def test_an_unusable_installed_onednn_is_refused(monkeypatch, tmp_path, spoil, message):
    root = make_prefix(tmp_path / "root")
    spoil(root)
    monkeypatch.setenv("ONEDNN_ROOT", str(root))
    with pytest.raises(RecipeError, match=message) as caught:
        Recipe().ensure()
    assert "ONEDNN_ROOT should name" in str(caught.value)


def test_an_installed_onednn_must_agree_with_a_pinned_version(monkeypatch, tmp_path):
    monkeypatch.setenv("ONEDNN_ROOT", str(make_prefix(tmp_path / "root")))
    monkeypatch.setenv("ONEDNN_VERSION", "3.7.2")
    with pytest.raises(RecipeError, match=r"asks for 3\.7\.2, but ONEDNN_ROOT=.* is 3\.9\.1"):
        Recipe().ensure()


# -- cache key, options ----------------------------------------------------------------------------


def key(pins=PINS) -> str:
    recipe = Recipe(pins=pins)
    return recipe.key(recipe.preferred)


def test_the_key_is_readable_and_stable():
    assert re.fullmatch(rf"{re.escape(GIT)}-[0-9a-f]{{12}}", key())
    assert key() == key()


def test_the_key_changes_with_everything_that_changes_the_result(monkeypatch, tmp_path):
    keys = {key()}
    options = {**PINS.cmake_options, "CMAKE_BUILD_TYPE": "Debug"}
    keys.add(key(dataclasses.replace(PINS, cmake_options=options)))
    keys.add(key(dataclasses.replace(PINS, git=dataclasses.replace(PINS.git, commit="0" * 40))))
    for name, value in {
        "ONEDNN_VERSION": DEBIAN,
        "ONEDNN_CMAKE_ARGS": "-DDNNL_VERBOSE=OFF",
        "CXXFLAGS": "-O1",
        "CXX": str(script(tmp_path / "othercxx", "echo other 1.0")),
    }.items():
        monkeypatch.setenv(name, value)
        keys.add(key())
        monkeypatch.delenv(name)
    assert len(keys) == 7


def test_the_key_knows_what_the_build_file_says_and_not_where_it_lies(monkeypatch, tmp_path):
    plain, copy = key(), tmp_path / "copy.cmake"
    copy.write_bytes(recipe_module._BUILD_FILE.read_bytes())
    monkeypatch.setattr(recipe_module, "_BUILD_FILE", copy)
    assert key() == plain
    copy.write_text("# another\n")
    assert key() != plain


def test_extra_cmake_arguments_are_split_as_by_a_shell_and_win(monkeypatch, tmp_path):
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(make_tree(tmp_path / "mine")))
    monkeypatch.setenv("ONEDNN_CMAKE_ARGS", "-DDNNL_LIBRARY_NAME=dnnl_mine '-DX=a b'")
    assert Recipe().arguments[-2:] == ("-DDNNL_LIBRARY_NAME=dnnl_mine", "-DX=a b")
    assert Recipe().ensure().library.name == "libdnnl_mine.so"


def test_the_library_can_not_be_taken_for_another_onednn():
    options = PINS.cmake_options
    assert options["DNNL_LIBRARY_NAME"] not in ("dnnl", "mkldnn")
    assert options["CMAKE_SHARED_LINKER_FLAGS"] == "-Wl,-Bsymbolic"


@pytest.mark.parametrize("value", ["0", "-1", "many"])
def test_a_bad_number_of_jobs_is_refused(monkeypatch, value):
    monkeypatch.setenv("CMAKE_BUILD_PARALLEL_LEVEL", value)
    with pytest.raises(RecipeError, match=f"CMAKE_BUILD_PARALLEL_LEVEL .* it is '{value}'"):
        Settings.from_env()


# -- building --------------------------------------------------------------------------------------


def test_an_edited_tree_is_built_again_and_only_what_changed(monkeypatch, tmp_path):
    tree = make_tree(tmp_path / "mine")
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(tree))
    Recipe().ensure()
    (tree / "src/other.cpp").write_text("int other() { return 2222; }")
    recipe = Recipe()
    assert recipe.finished(recipe.preferred) is None
    found = recipe.ensure()
    log = recipe.cache.log(recipe.key(recipe.preferred)).read_text()
    assert log.count("other.cpp.o") == 2 * log.count("graph.cpp.o") == 2
    assert Recipe().ensure() == found


def make_tree_with_cpu_targets(path: Path) -> Path:
    """A tree whose library is made of two targets that oneDNN has, with kernels and a generator."""
    tree = make_tree(path)
    sources = {
        "common/primitive.hpp": "#include <vector>\n",
        "common/type_helpers.hpp": "#include <map>\n",
        "cpu/ref_relu.cpp": "int relu() { return std::vector<int>(1).size(); }",
        "cpu/cpu_relu_list.cpp": "int list() { return std::map<int, int>().size(); }",
        "cpu/x64/jit_relu.cpp": "int drives() { return std::vector<int>(2).size(); }",
        "cpu/x64/jit_relu_kernel.cpp": "int generates() { return std::vector<int>(3).size(); }",
    }
    for name, text in sources.items():
        (tree / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / "src" / name).write_text(text)
    lists = (
        (tree / "CMakeLists.txt")
        .read_text()
        .replace(
            "file(GLOB SOURCES ${PROJECT_SOURCE_DIR}/src/*.cpp)",
            "file(GLOB SOURCES ${PROJECT_SOURCE_DIR}/src/*.cpp)\n"
            "set(CMAKE_EXPORT_COMPILE_COMMANDS ON)\n"
            "include_directories(${PROJECT_SOURCE_DIR}/src)\n"
            "add_subdirectory(src/cpu)\n"
            "list(APPEND SOURCES $<TARGET_OBJECTS:dnnl_cpu> $<TARGET_OBJECTS:dnnl_cpu_x64>)",
        )
    )
    (tree / "CMakeLists.txt").write_text(lists)
    for place, target, more in (
        ("cpu", "dnnl_cpu", "add_subdirectory(x64)\n"),
        ("cpu/x64", "dnnl_cpu_x64", ""),
    ):
        (tree / "src" / place / "CMakeLists.txt").write_text(
            f"file(GLOB SOURCES ${{CMAKE_CURRENT_SOURCE_DIR}}/*.cpp)\n{more}"
            f"add_library({target} OBJECT ${{SOURCES}})\n"
            f"set_target_properties({target} PROPERTIES POSITION_INDEPENDENT_CODE ON)\n"
        )
    return tree


def compile_commands() -> dict[str, tuple[Path, str]]:
    """For each source of the build that the cache keeps: the file that it is compiled in, how."""
    recipe = Recipe()
    build = recipe.cache.build(recipe.key(recipe.preferred))
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = Path(entry["file"])
        united = re.findall(r'^#include ".*/(\w+\.cpp)"$', file.read_text(), re.MULTILINE)
        found.update({name: (file, entry["command"]) for name in united or [file.name]})
    return found


needs_gcc = pytest.mark.skipif(
    shutil.which("g++") is None, reason="only GCC's builds are made faster, and there is no g++"
)


@needs_gcc
def test_kernels_keep_their_optimisation_and_generators_of_code_are_compiled_in_less_time(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("CXX", "g++")
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(make_tree_with_cpu_targets(tmp_path / "mine")))
    Recipe().ensure()
    commands = compile_commands()
    # The last one on a command line counts.
    last = {name: re.findall(r" (-O\w)", command)[-1] for name, (_, command) in commands.items()}
    assert last["ref_relu.cpp"] == "-O3"
    assert last["cpu_relu_list.cpp"] == "-O2"
    assert last["jit_relu.cpp"] == last["jit_relu_kernel.cpp"] == "-O2"
    # The sources above include nothing: without precompiled headers they would not compile.
    assert "cmake_pch.hxx" in commands["ref_relu.cpp"][1]
    # A compiler says so where it can't use what is precompiled.
    assert "invalid-pch" not in Recipe().cache.log(key()).read_text().replace("-Winvalid-pch", "")


@needs_gcc
def test_sources_that_cannot_be_compiled_together_are_found_and_compiled_alone(
    monkeypatch, tmp_path, capfd
):
    tree = make_tree_with_cpu_targets(tmp_path / "mine")
    kernels = tree / "src/cpu/x64"
    # More than there are united files. The last but one names what the first does, in a header of
    # its own, and another's macro does not reach it.
    for number in range(40):
        (kernels / f"jit_{number:02}.cpp").write_text(
            f"#define SIZE {number}\nstatic int own_{number}() {{ return SIZE; }}\n"
            f"int made_{number}() {{ return own_{number}(); }}\n"
        )
    (kernels / "named.hpp").write_text("static int own_0() { return 7; }\n")
    (kernels / "jit_36.cpp").write_text(
        '#include "cpu/x64/named.hpp"\nint made_36() { return own_0(); }\n'
    )
    monkeypatch.setenv("CXX", "g++")
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(tree))
    Recipe().ensure()
    said = "some sources can't be compiled together"
    assert capfd.readouterr().err.count(said) == 1
    commands = compile_commands()
    assert commands["jit_36.cpp"][0] == kernels / "jit_36.cpp"
    united = [
        f for name, (f, _) in commands.items() if name.startswith("jit_") and "36" not in name
    ]
    assert all(file.parent.name == "united" for file in united)
    assert len(set(united)) < len(united)
    # An edit later does not try again what is known.
    (kernels / "jit_07.cpp").write_text("int made_7() { return 8; }")
    Recipe().ensure()
    assert said not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("cc1plus: error: error writing to x.s: No space left on device", "the disk is full"),
        ("g++: fatal error: Killed signal terminated program cc1plus", "for want of memory"),
        ("cc1plus: out of memory allocating 65536 bytes", "for want of memory"),
    ],
)
def test_a_machine_that_has_too_little_is_told_so_in_one_line(monkeypatch, tmp_path, message, told):
    compiler = script(
        tmp_path / "bin/compiler",
        f'case "$*" in *other.cpp*) echo "{message}" >&2; exit 1 ;; esac\nexec c++ "$@"',
    )
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(make_tree(tmp_path / "mine")))
    with pytest.raises(RecipeError) as caught:
        Recipe().ensure()
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_jobs_are_as_many_as_memory_allows(monkeypatch):
    monkeypatch.delenv("CMAKE_BUILD_PARALLEL_LEVEL")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": (8 << 30) // 4096}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
    assert 2 <= Settings.from_env().jobs <= 6
    sizes["SC_PHYS_PAGES"] = 1
    assert Settings.from_env().jobs == 1
    sizes["SC_PHYS_PAGES"] = 1 << 40
    assert Settings.from_env().jobs == 64


@pytest.mark.parametrize("chosen", [True, False])
def test_ccache_is_used_where_it_is_installed_and_no_launcher_is_chosen(
    monkeypatch, tmp_path, chosen
):
    calls = tmp_path / "calls"
    settings = 'echo "$CCACHE_BASEDIR $CCACHE_SLOPPINESS"'
    script(tmp_path / "bin/ccache", f'{settings} >> "{calls}"\nexec "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("CCACHE_SLOPPINESS", "mine")
    monkeypatch.delenv("CCACHE_BASEDIR", raising=False)
    for name in ("C", "CXX"):
        if chosen:
            monkeypatch.setenv(f"CMAKE_{name}_COMPILER_LAUNCHER", shutil.which("env"))
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(make_tree(tmp_path / "mine")))
    plain = key()
    Recipe().ensure()
    said = calls.read_text().splitlines() if calls.exists() else []
    assert said == ([] if chosen else [f"{tmp_path / 'cache'} mine"] * 2)
    (tmp_path / "bin/ccache").unlink()
    assert key() == plain  # what is built is the same


def test_objects_of_a_fetched_release_are_not_kept(debian_only, tmp_path):
    found = Recipe(pins=debian_only).ensure()
    assert not list((tmp_path / "cache/build").iterdir())
    assert found.source_dir.is_dir()


def test_a_half_written_prefix_is_not_taken_for_a_finished_one(monkeypatch, tmp_path):
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(make_tree(tmp_path / "mine")))
    recipe = Recipe()
    target = recipe.cache.prefix(recipe.key(recipe.preferred))
    make_prefix(target)
    (target / "left-over").write_text("")
    assert recipe.finished(recipe.preferred) is None
    recipe.cache.prefix_record(target.name).write_text('{"content": "')  # cut off
    assert recipe.finished(recipe.preferred) is None
    recipe.ensure()
    assert not (target / "left-over").exists()


def test_a_build_that_fails_shows_the_end_of_its_log(monkeypatch, tmp_path):
    tree = make_tree(tmp_path / "mine")
    (tree / "src/other.cpp").write_text("int other() { return missing_name; }")
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(tree))
    with pytest.raises(RecipeError) as caught:
        Recipe().ensure()
    log = next((tmp_path / "cache/log").iterdir())
    assert "missing_name" in str(caught.value)
    assert str(caught.value).endswith(f"Full log: {log}")
    assert not (tmp_path / "cache/prefix").exists()


def test_a_tree_that_does_not_configure_shows_cmakes_message(monkeypatch, tmp_path):
    tree = make_tree(tmp_path / "mine")
    with (tree / "CMakeLists.txt").open("a") as lists:
        lists.write('message(FATAL_ERROR "no such thing")\n')
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(tree))
    with pytest.raises(RecipeError, match=r"(?s)configuring oneDNN 3\.9\.1 failed.*no such thing"):
        Recipe().ensure()


def test_a_spoilt_build_directory_is_started_afresh(monkeypatch, tmp_path, capfd):
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(make_tree(tmp_path / "mine")))
    recipe = Recipe()
    build = recipe.cache.build(recipe.key(recipe.preferred))
    build.mkdir(parents=True)
    (build / "build.ninja").write_text("")
    (build / "CMakeCache.txt").write_text("CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\n")
    recipe.ensure()
    assert "starting it afresh" in capfd.readouterr().err


def test_a_silent_fall_back_to_one_thread_is_refused(monkeypatch, tmp_path):
    tree = make_tree(tmp_path / "mine", runtime="SEQ")
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(tree))
    with pytest.raises(RecipeError, match=r"would run on one thread \(SEQ\)"):
        Recipe().ensure()
    monkeypatch.setenv("ONEDNN_CMAKE_ARGS", "-DDNNL_CPU_RUNTIME=SEQ")
    assert prefix.cpu_runtime(Recipe().ensure().include_dir) == "SEQ"


# -- interruption, concurrency ---------------------------------------------------------------------


def slow_compiler(path: Path) -> Path:
    """A compiler that leaves a mark and hangs on other.cpp for as long as ``hang`` exists."""
    real = shutil.which("c++")
    return script(
        path / "slowcxx",
        f'case "$*" in *"/other.cpp"*) if [ -e "{path}/hang" ]; then\n'
        f'  echo $$ > "{path}/pid.partial"; mv "{path}/pid.partial" "{path}/pid"; exec sleep 300\n'
        f'fi ;; esac\nexec "{real}" "$@"',
    )


def wait_until(condition, seconds: float = 60.0) -> None:
    assert interrupted_commands.wait_until(condition, seconds), "the awaited state did not come"


MADE = "Building CXX object CMakeFiles/dnnl_ogp.dir/src/graph.cpp.o"


@pytest.fixture
def hanging_build(monkeypatch, tmp_path):
    """A build process that hangs in the middle of compiling, and the compiler's process id."""
    monkeypatch.setenv("ONEDNN_SOURCE_DIR", str(make_tree(tmp_path / "mine")))
    monkeypatch.setenv("CXX", str(slow_compiler(tmp_path)))
    (tmp_path / "hang").touch()
    process = subprocess.Popen(
        [sys.executable, str(RECIPE)],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until((tmp_path / "pid").exists)
        # The object is there before ninja knows that it is made, and the recipe that ninja does.
        logs = tmp_path / "cache" / "log"
        wait_until(lambda: any(MADE in log.read_text() for log in logs.iterdir()))
        yield process, int((tmp_path / "pid").read_text())
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGHUP, 129)],
)
def test_an_interrupted_build_leaves_no_process_and_resumes(
    tmp_path, hanging_build, number, status
):
    process, compiler = hanging_build
    process.send_signal(number)
    assert process.wait(timeout=120) == status
    wait_until(lambda: not alive(compiler), seconds=60)
    (tmp_path / "hang").unlink()
    done = run_recipe("build")
    assert done.returncode == 0, done.stderr
    assert "resuming 3.9.1" in done.stderr
    log = next((tmp_path / "cache/log").iterdir()).read_text()
    assert log.count(MADE) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_fetch_leaves_neither_a_process_nor_half_a_tree(
    tmp_path, debian_only, number
):
    script(
        tmp_path / "bin/apt-get",
        f'case "$*" in *source*) echo half > {RELEASE.file}; cd "{tmp_path}"; '
        "echo $$ > pid.partial; mv pid.partial pid; exec sleep 600 ;; esac",
    )
    process = subprocess.Popen(
        [sys.executable, str(RECIPE), "source"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "ONEDNN_VERSION": DEBIAN},
    )
    try:
        wait_until((tmp_path / "pid").exists)
        process.send_signal(number)
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 128 + number
    assert "Traceback" not in said
    wait_until(lambda: not alive(int((tmp_path / "pid").read_text())), seconds=60)
    assert not list((tmp_path / "cache/src").iterdir())


STARTING = """
import os, signal, subprocess, sys
sys.path.insert(0, sys.argv[1])
from onednn_recipe.process import signals_raise, started
start = subprocess.Popen.__init__
def interrupted(self, *arguments, **options):
    start(self, *arguments, **options)
    print(self.pid, flush=True)
    os.kill(os.getpid(), int(sys.argv[2]))
subprocess.Popen.__init__ = interrupted
with signals_raise(), started([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
    process.wait()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_a_process_starts_leaves_none(number):
    command = [sys.executable, "-c", STARTING, str(RECIPE.parent), str(int(number))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode in (128 + number, -number)
    assert not alive(int(done.stdout))


def test_a_second_build_waits_and_says_for_whom(tmp_path, hanging_build):
    process, _ = hanging_build
    second = subprocess.Popen(
        [sys.executable, str(RECIPE)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    line = second.stderr.readline()
    assert f"waiting for process {process.pid}" in line
    assert second.poll() is None
    (tmp_path / "hang").unlink()
    process.send_signal(signal.SIGTERM)
    out, err = second.communicate(timeout=60)
    assert second.returncode == 0, err
    assert "resuming" in err
    assert "3.9.1" in out


def test_compile_jobs_of_a_killed_build_still_hold_the_lock(tmp_path, hanging_build):
    process, compiler = hanging_build
    process.kill()
    process.wait()
    assert alive(compiler)
    second = subprocess.Popen([sys.executable, str(RECIPE)], stderr=subprocess.PIPE, text=True)
    try:
        assert "waiting for process" in second.stderr.readline()
        (tmp_path / "hang").unlink()
        os.kill(compiler, signal.SIGKILL)
        _, err = second.communicate(timeout=60)
        assert second.returncode == 0, err
    finally:
        second.kill()
        second.communicate()


def test_the_lock_is_free_again_after_its_holder(tmp_path):
    cache = Cache(tmp_path / "cache")
    for _ in range(2):
        with cache.lock() as descriptor:
            assert os.pread(descriptor, 32, 0).decode() == str(os.getpid())


# -- tools -----------------------------------------------------------------------------------------


def test_a_missing_compiler_gives_the_command_that_installs_one(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for manager, packages in {"apk": "build-base", "dnf": "gcc-c++", "apt-get": r"g\+\+"}.items():
        script(tmp_path / "bin" / manager, "exit 1")
        with pytest.raises(RecipeError, match=rf"none is on PATH(?s:.*){manager} .*{packages}"):
            toolchain.find_compiler(Settings.from_env())


def test_a_compiler_that_does_not_run_is_named(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(RecipeError, match="CXX='no-such-compiler' does not run"):
        toolchain.find_compiler(Settings.from_env())


def test_an_old_tool_on_path_counts_as_missing(monkeypatch, tmp_path):
    script(tmp_path / "bin/cmake", "echo cmake version 3.5.1")
    script(tmp_path / "bin/ninja", "echo 1.12.1.git.kitware")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert toolchain.missing_tools(PINS.tools) == ["cmake"]


def test_a_tool_comes_from_an_importable_wheel_where_the_system_has_none(monkeypatch, tmp_path):
    script(tmp_path / "wheel/bin/ninja", "echo 1.13.0")
    (tmp_path / "wheel/ninja.py").write_text(f"BIN_DIR = {str(tmp_path / 'wheel/bin')!r}\n")
    monkeypatch.syspath_prepend(tmp_path / "wheel")
    monkeypatch.delitem(sys.modules, "ninja", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    found = toolchain.find_tool("ninja", PINS.tools["ninja"], tmp_path / "private")
    assert found == str(tmp_path / "wheel/bin/ninja")
    sys.modules.pop("ninja", None)


# -- what people see -------------------------------------------------------------------------------


def test_a_build_says_twenty_times_how_far_it_is():
    stream = io.StringIO()
    progress = Progress("oneDNN 3.9.1", stream)
    progress.feed("-- Configuring done")
    for step in range(1, 513):
        progress.feed(f"[{step}/512] Building CXX object x.o")
    lines = stream.getvalue().splitlines()
    assert 20 <= len(lines) <= 22
    assert lines[0] == "oneDNN 3.9.1: step 1 of 512, 0:00 elapsed"
    assert lines[-1] == "oneDNN 3.9.1: step 512 of 512, 0:00 elapsed"
    assert "left" in lines[1]


def test_stdout_holds_the_answer_and_nothing_else(tmp_path):
    tree = make_tree(tmp_path / "mine")
    done = run_recipe("prefix", ONEDNN_SOURCE_DIR=str(tree))
    assert done.returncode == 0, done.stderr
    (answer,) = done.stdout.splitlines()
    stamp = json.loads((Path(answer) / "finished.json").read_text())
    assert stamp["version"] == "3.9.1"
    assert "step 1 of" in done.stderr


def test_info_builds_nothing(tmp_path):
    tree = make_tree(tmp_path / "mine")
    done = run_recipe("info", ONEDNN_SOURCE_DIR=str(tree))
    assert done.returncode == 0, done.stderr
    assert re.search(r"^finished +no$", done.stdout, re.MULTILINE)
    assert not (tmp_path / "cache").exists()


def test_an_error_is_one_message_and_no_traceback():
    done = run_recipe("build", ONEDNN_VERSION="1.2.3")
    assert done.returncode == 1
    assert done.stderr.startswith("oneDNN: error: ONEDNN_VERSION asks for 1.2.3")
    assert "Traceback" not in done.stderr
