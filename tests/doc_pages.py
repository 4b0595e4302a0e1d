"""README.md and the pages of docs/: their code, headings and links; as a program it runs a page.

``python doc_pages.py PAGE`` runs the Python of a page from top to bottom in one namespace, as a
reader would. A block that imports a package which is not there, or SYCL's or OpenCL's where oneDNN
has none, is left out, and so told on stdout.
"""

from __future__ import annotations

import ast
import doctest
import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PACKAGES = ("dpctl", "dpnp", "pyopencl", "torch", "sklearn")

_FENCE = re.compile(r"^```+(\w*)[^\n]*\n(.*?)^```+$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """Code between fences, and the number of its first line."""

    language: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    """Return all fenced blocks of a page, in order."""
    text = page.read_text()
    return [
        Block(found[1], found[2], text.count("\n", 0, found.start(2)) + 1)
        for found in _FENCE.finditer(text)
    ]


def prose(page: Path) -> str:
    """Return a page without its fenced blocks."""
    return _FENCE.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MyST make them."""
    made = set()
    for title in re.findall(r"^#+ +(.*)$", prose(page), re.M):
        words = re.sub(r"[^\w\- ]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", title)).strip().lower()
        made.add(words.replace(" ", "-"))
    return made


def links(page: Path) -> list[str]:
    """Return the targets of a page's links, without those to other sites."""
    found = re.findall(r"\]\(\s*<?([^)\s>]+)>?\s*\)", re.sub(r"`[^`]*`", "", prose(page)))
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def lacking(block: Block) -> str | None:
    """Tell what a block imports that is not there; None if all is."""
    for name in PACKAGES:
        if not re.search(rf"^\s*(?:>>> )?(?:import|from) {name}\b", block.text, re.M):
            continue
        if importlib.util.find_spec(name) is None:
            return f"{name} is not installed"
        if name in ("dpctl", "dpnp", "pyopencl"):
            from onednn_graph_py import ocl_interop, sycl_interop

            reason = (ocl_interop if name == "pyopencl" else sycl_interop).missing()
            if reason is not None:
                return reason
    return None


def execute(block: Block, page: Path, names: dict[str, object]) -> None:
    """Run a block of Python, where comments such as ``# TypeError: text`` tell what a line raises.

    Raises
    ------
    AssertionError
        It raises nothing, or something else.
    """
    lines = block.text.splitlines()
    # Empty lines above, so that a traceback shows the page's line.
    tree = ast.parse("\n" * (block.line - 1) + block.text, str(page))
    for statement in tree.body:
        code = compile(ast.Module([statement], []), str(page), "exec")
        below = lines[(statement.end_lineno or 0) - block.line + 1 :][:1]
        told = re.match(r"# (\w+Error): (.*)", below[0]) if below else None
        if told is None:
            exec(code, names)
            continue
        try:
            exec(code, names)
        except Exception as error:
            raised = (type(error).__name__, str(error))
            assert raised == told.groups(), f"line {statement.lineno} raises {raised}"
        else:
            raise AssertionError(f"line {statement.lineno} raises nothing")


def run(page: Path) -> int:
    """Run a page's Python; return the number of failed examples."""
    names: dict[str, object] = {"__name__": "__main__"}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for block in blocks(page):
        if block.language not in ("python", "pycon"):
            continue
        reason = lacking(block)
        if reason is not None:
            print(f"line {block.line} left out: {reason}")
            continue
        if block.language == "pycon":
            parser = doctest.DocTestParser()
            test = parser.get_doctest(block.text, names, page.name, str(page), block.line - 1)
            runner.run(test, clear_globs=False)
            names.update(test.globs)  # the test has a copy
        else:
            execute(block, page, names)
        print(f"line {block.line} ran")
    return runner.failures


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1])))
