"""README.md and the pages of docs/: their code, headings and links; as a program it runs a page.

``python doc_pages.py PAGE`` runs the Python of a page from top to bottom in one namespace, as a
reader would. A block that imports a package which is not there, or SYCL's or OpenCL's where oneDNN
has none, is left out, and so told on stdout. Commands of ``console`` blocks run in between. A page
may say what an expression or a command prints, in comments below the one, in lines below the other.
``python doc_pages.py PAGE FILE`` writes what each block prints and shows into a file, as JSON,
which the site's extension ``outputs`` puts below the block.
"""

import ast
import doctest
import importlib.util
import io
import json
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PACKAGES = ("dpctl", "dpnp", "pyopencl", "torch", "onnx", "onnxruntime", "sklearn")
ALSO = {"onnx": ("onnx_ir",)}

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


def program(page: Path) -> str:
    """Return the Python of a page as one program, each line of which is where the page has it."""
    lines: list[str] = []
    for block in blocks(page):
        if block.language == "python":
            lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
    return "\n".join(lines) + "\n"


def prose(page: Path) -> str:
    """Return a page without its fenced blocks."""
    return _FENCE.sub("", page.read_text())


def anchor(title: str) -> str:
    """Return the anchor of a heading, as GitHub and MyST make it."""
    words = re.sub(r"[^\w\- ]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", title)).strip().lower()
    return words.replace(" ", "-")


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    return {anchor(title) for title in re.findall(r"^#+ +(.*)$", prose(page), re.M)}


def links(page: Path) -> list[str]:
    """Return the targets of a page's links, without those to other sites."""
    found = re.findall(r"\]\(\s*<?([^)\s>]+)>?\s*\)", re.sub(r"`[^`]*`", "", prose(page)))
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def lacking(block: Block) -> str | None:
    """Tell what a block needs that is not there; None if all is."""
    for name in PACKAGES:
        imported = rf"\s*(?:>>> )?(?:import|from) (?:onednn_graph_py\.)?{name}\b"
        command = rf"\$ python -m onednn_graph_py {name}\b"
        if not re.search(rf"^(?:{imported}|{command})", block.text, re.M):
            continue
        for needed in (name, *ALSO.get(name, ())):
            if importlib.util.find_spec(needed) is None:
                return f"{needed} is not installed"
        if name in ("dpctl", "dpnp", "pyopencl"):
            from onednn_graph_py import ocl_interop, sycl_interop

            reason: str | None = (
                ocl_interop.missing() if name == "pyopencl" else sycl_interop.missing()
            )
            if reason is not None:
                return reason
    return None


class LeftOut:
    """What blocks that need something that is not there would have made.

    Later blocks that use it are left out, too.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def reason(self, block: Block) -> str | None:
        """Tell why a block is left out; None if it is not."""
        found = lacking(block)
        if block.language != "python":
            return found
        nodes = list(ast.walk(ast.parse(block.text)))
        named = [n for n in nodes if isinstance(n, ast.Name)]
        imported = {n.asname or n.name for n in nodes if isinstance(n, ast.alias)}
        if found is None:
            read = [n.id for n in named if n.id not in imported]
            found = next((self._names[name] for name in read if name in self._names), None)
        for name in imported | {n.id for n in named if isinstance(n.ctx, ast.Store)}:
            if found is not None:
                self._names[name] = found
            else:
                self._names.pop(name, None)
        return found


def _agrees(said: str, printed: str, where: str) -> None:
    """Compare what a page says with what is printed, where ``...`` stands for anything."""
    same = doctest.OutputChecker().check_output(said, printed, doctest.ELLIPSIS)
    assert same, f"{where} prints\n{printed}and should print\n{said}"


def execute(block: Block, page: Path, names: dict[str, object]) -> object:
    """Run a block of Python, where comments below a line tell what it raises or shows.

    ``# TypeError: text`` is an error; below an expression other comments are what it prints, or its
    value.

    Returns
    -------
    object
        The value of the last line if it is an expression, as in a notebook; otherwise None.

    Raises
    ------
    AssertionError
        It raises nothing, or something else, or it shows something else.
    """
    lines = block.text.splitlines()
    # Empty lines above, so that a traceback shows the page's line.
    tree = ast.parse("\n" * (block.line - 1) + block.text, page.name)
    value = None
    for statement in tree.body:
        below = lines[(statement.end_lineno or 0) - block.line + 1 :]
        comments = list(takewhile(lambda line: line.startswith("# "), below))
        told = re.match(r"# (\w+Error): (.*)", comments[0]) if comments else None
        if told is None and isinstance(statement, ast.Expr):
            code = compile(ast.Expression(statement.value), page.name, "eval")
            with redirect_stdout(io.StringIO()) as printed:
                value = eval(code, names)
            print(printed.getvalue(), end="")
            if comments:
                said = "".join(line[2:] + "\n" for line in comments)
                result = printed.getvalue() or f"{value!r}\n"
                _agrees(said, result, f"line {statement.lineno}")
            continue
        value = None
        code = compile(ast.Module([statement], []), page.name, "exec")
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
    return value


def shown(value: Any) -> dict[str, str]:
    """Return what a notebook shows of a value: HTML, a diagram in Graphviz's language, or text."""
    if value is None:
        return {}
    if hasattr(value, "_repr_html_"):
        return {"html": value._repr_html_()}
    if hasattr(value, "_repr_mimebundle_"):
        drawn = value if hasattr(value, "dot") else value.diagram()
        return {"dot": drawn.dot(), "title": repr(drawn)}
    return {"text": f"{value!r}\n"}


def commands(block: Block) -> str:
    """Run the commands of a ``console`` block; return what they print.

    A command is a line such as ``$ python ...  # exit status 1``. The lines below it, if there are
    any, are what it prints.
    """
    made = []
    for text in re.split(r"^(?=\$ )", block.text, flags=re.M)[1:]:
        line, _, said = text.partition("\n")
        where = f"line {block.line}: {line}"
        assert line.startswith("$ python "), where
        words = shlex.split(line.removeprefix("$ "), comments=True)
        status = re.search(r"# exit status (\d)$", line)
        done = subprocess.run(
            [sys.executable if word == "python" else word for word in words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == int(status[1] if status else 0), f"{where}: {done.stdout}"
        if said:
            _agrees(said, done.stdout, where)
        made.append(done.stdout)
    return "".join(made)


def outputs(page: Path) -> list[dict[str, str]]:
    """Run a page; return what each block of Python and of commands prints and shows, in order."""
    names: dict[str, object] = {"__name__": "__main__"}
    made, left_out = [], LeftOut()
    for block in blocks(page):
        if block.language == "console":
            made.append({"printed": commands(block) if left_out.reason(block) is None else ""})
        if block.language != "python":
            continue
        printed, last = io.StringIO(), None
        if left_out.reason(block) is None:
            with redirect_stdout(printed):
                last = execute(block, page, names)
        made.append({"printed": printed.getvalue(), **shown(last)})
    return made


def run(page: Path) -> int:
    """Run a page's Python and commands; return the number of failed examples."""
    names: dict[str, object] = {"__name__": "__main__"}
    runner, left_out = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS), LeftOut()
    for block in blocks(page):
        if block.language not in ("python", "pycon", "console"):
            continue
        reason = left_out.reason(block)
        if reason is not None:
            print(f"line {block.line} left out: {reason}")
            continue
        if block.language == "console":
            commands(block)
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
    if sys.argv[2:]:
        Path(sys.argv[2]).write_text(json.dumps(outputs(Path(sys.argv[1]))), encoding="utf-8")
    else:
        sys.exit(run(Path(sys.argv[1])))
