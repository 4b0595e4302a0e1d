"""setup.py: what is compiled again, and what a build that fails says."""

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import setuptools

from onednn_recipe.report import RecipeError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def build(monkeypatch, tmp_path):
    """The functions of setup.py, for sources of our own."""
    monkeypatch.setattr(setuptools, "setup", lambda **_: None)
    monkeypatch.setattr(sys, "path", list(sys.path))
    found = runpy.run_path(str(ROOT / "setup.py"))
    scope = found["unite"].__globals__
    sources = [tmp_path / f"source{n:02}.cpp" for n in range(20)]
    for source in sources:
        source.write_text(f"// {source.name}\n")
    header = tmp_path / "all.hpp"
    header.write_text("// all\n")
    scope.update(SOURCES=sources, HEADERS=[header])
    return SimpleNamespace(**{**found, "SOURCES": sources, "HEADERS": [header]})


def tool(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def compiling(build, tmp_path):
    """Compile what needs it, by a stand-in that writes its last argument."""
    compiler = tool(tmp_path / "compiler", 'for last; do :; done; echo made > "$last"')

    def stale() -> list[str]:
        units = build.unite(tmp_path)
        found = [unit for unit in units if build.needs_recompile(f"{unit}.o", unit)]
        for unit in found:
            build.run_tool([compiler, "-c", unit, "-o", f"{unit}.o"])
        return found

    return stale


def test_every_source_is_compiled_in_one_unit(build, tmp_path):
    text = "".join(Path(unit).read_text() for unit in build.unite(tmp_path))
    assert sorted(text.split('"')[1::2]) == sorted(map(str, build.SOURCES))


def test_an_edit_of_a_source_compiles_its_unit_and_one_of_a_header_all(build, compiling):
    assert len(compiling()) == build.UNITS
    assert compiling() == []
    build.SOURCES[3].write_text("// edited\n")
    (unit,) = compiling()
    assert str(build.SOURCES[3]) in Path(unit).read_text()
    build.HEADERS[0].write_text("// edited\n")
    assert len(compiling()) == build.UNITS
    for path in (*build.SOURCES, *build.HEADERS):
        path.touch()  # times say nothing
    assert compiling() == []


def test_an_object_of_a_compiler_that_failed_does_not_count(build, compiling, tmp_path):
    compiling()
    (unit, *_) = build.unite(tmp_path)
    build.SOURCES[0].write_text("// edited\n")
    failing = tool(tmp_path / "failing", "echo half > $4; echo 'x.cpp:1: error: no' >&2; exit 1")
    with pytest.raises(RecipeError, match=r"failing ended with status 1$"):
        build.run_tool([failing, "-c", unit, "-o", f"{unit}.o"])
    assert compiling() == [unit]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("/tmp/x.s: Fatal error: can't write: No space left on device", "the disk is full"),
        ("g++: fatal error: Killed signal terminated program cc1plus", "for want of memory"),
    ],
)
def test_what_the_machine_lacks_is_said_in_one_line(build, tmp_path, said, told):
    failing = tool(tmp_path / "failing", f'echo "{said}" >&2; exit 1')
    (unit, *_) = build.unite(tmp_path)
    with pytest.raises(RecipeError, match=told) as caught:
        build.run_tool([failing, "-c", unit, "-o", f"{unit}.o"])
    assert "\n" not in str(caught.value)
