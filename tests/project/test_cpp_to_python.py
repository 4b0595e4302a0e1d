"""docs/cpp_to_python.md: its C++ compiles and runs as its Python does (see test_docs.py)."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import doc_pages
import pytest

PAGE = doc_pages.ROOT / "docs" / "cpp_to_python.md"
CPP = [block for block in doc_pages.blocks(PAGE) if block.language == "cpp"]
# The last lines of the program: what the page computed must be right.
ENDING = "return complete && runs && plain && right && megabytes == 64 ? 0 : 1;"


def headings(language: str) -> list[str]:
    """The heading above each block of a language."""
    lines = PAGE.read_text().splitlines()
    return [
        next(line for line in reversed(lines[: block.line - 1]) if line.startswith("## "))
        for block in doc_pages.blocks(PAGE)
        if block.language == language
    ]


def program() -> str:
    """All C++ of the page: includes and using-directives on top, the rest in main."""
    top, body = [], []
    for block in CPP:
        for number, line in enumerate(block.text.splitlines(), block.line):
            place = top if re.match(r"#include|using namespace", line) else body
            place += [f'#line {number} "{PAGE}"', line]
            if re.match(r"#(if|endif)", line):  # around includes and around code
                top.append(line)
    return "\n".join([*top, "int main() {", *body, ENDING, "}", ""])


def prefix() -> Path | None:
    """Where a oneDNN with headers is: of this environment, or the recipe's."""
    if (Path(sys.prefix) / "include" / "oneapi" / "dnnl" / "dnnl_graph.hpp").is_file():
        return Path(sys.prefix)
    for root in sorted((Path.home() / ".cache" / "onednn_graph_py" / "prefix").glob("*")):
        if (root / "include" / "oneapi" / "dnnl" / "dnnl_graph.hpp").is_file():
            return root
    return None


def test_each_heading_has_both_languages():
    assert headings("cpp") == headings("python")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    if prefix() is None:
        pytest.skip("no oneDNN with headers is cached or in this environment")
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    file = tmp_path_factory.mktemp("cpp") / "page.cpp"
    file.write_text(program())
    return file


def compiler(*words: object) -> subprocess.CompletedProcess[str]:
    include = f"-I{prefix() / 'include'}"
    return subprocess.run(
        ["g++", "-std=c++17", "-Wno-deprecated-declarations", include, *map(str, words)],
        capture_output=True,
        text=True,
    )


def test_all_of_the_cpp_compiles_but_what_is_made_wrong(source, tmp_path):
    wrong = tmp_path / "wrong.cpp"
    wrong.write_text(source.read_text().replace("matmul.add_output(", "matmul.add_no_output(", 1))
    done = compiler("-fsyntax-only", wrong)
    (error,) = [line for line in done.stderr.splitlines() if " error: " in line]
    assert "add_no_output" in error


@pytest.mark.slow
def test_the_cpp_runs_and_is_right(source, tmp_path):
    library = next((p for d in ("lib", "lib64") for p in (prefix() / d).glob("libdnnl*.so")), None)
    if library is None:
        pytest.skip("the oneDNN with headers has no library to link")
    made = tmp_path / "page"
    rpath = f"-Wl,-rpath,{library.parent}"
    done = compiler(source, "-o", made, library, rpath, *sycl_libraries(library))
    assert done.returncode == 0, done.stderr
    # What the library needs itself lies beside it.
    settings = {**os.environ, "LD_LIBRARY_PATH": str(library.parent)}
    ran = subprocess.run([made], capture_output=True, text=True, timeout=120, env=settings)
    assert ran.returncode == 0, ran.stderr


def sycl_libraries(library: Path) -> list[Path]:
    """The SYCL runtime beside a oneDNN that uses it."""
    return sorted(library.parent.glob("libsycl.so"))
