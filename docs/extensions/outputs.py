"""What a page's Python and commands print and show, below each block, as a notebook has it.

A page runs when the page is read, in a process and a folder of its own and with one
thread, since a build shares its machine; so all figures are of the machine that builds the site.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

from gallery.report import machine

_ROOT = Path(__file__).resolve().parents[2]
_PROGRAM = _ROOT / "tests" / "helpers" / "doc_pages.py"
_PACKAGE = _ROOT / "onednn_graph_py"
_log = logging.getLogger(__name__)


def _run(page: Path) -> list[dict[str, str]]:
    """Run a page; return what each of its blocks prints and shows."""
    path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH", "")]))
    settings = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "outputs.json"
        done = subprocess.run(
            [sys.executable, str(_PROGRAM), str(page), str(results)],
            cwd=folder,
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            _log.warning("%s: its program fails:\n%s", page.name, done.stderr)
            return []
        made: list[dict[str, str]] = json.loads(results.read_text(encoding="utf-8"))
        return made


def _svg(dot: str, title: str) -> str:
    """Draw a diagram; names of its elements go, since pages have several."""
    program = shutil.which("dot")
    if program is None:
        raise RuntimeError("the diagrams of the pages need Graphviz's program dot")
    svg = subprocess.run(
        [program, "-Tsvg"], input=dot, check=True, capture_output=True, text=True
    ).stdout
    svg = re.sub(r' id="[^"]*"', "", svg[svg.index("<svg") :])
    # On a narrow screen it shrinks as long as letters can be read, then it scrolls.
    least = 0.65 * float(re.findall(r'width="([\d.]+)pt"', svg)[0])
    shown = f'<svg role="img" aria-label="{escape(title)}" style="min-width: {least:.0f}pt"'
    return svg.replace("<svg", shown, 1)


def _box(html: str) -> nodes.raw:
    # What is wider than the page scrolls, so it can be reached by keyboard.
    return nodes.raw("", f'<div class="output" tabindex="0">{html}</div>', format="html")


def _nodes(output: dict[str, str]) -> list[nodes.Node]:
    made: list[nodes.Node] = []
    text = output["printed"] + output.get("text", "")
    if text:
        made.append(nodes.literal_block(text, text, language="text", classes=["output"]))
    if "html" in output:
        made.append(_box(output["html"]))
    if "dot" in output:
        made.append(_box(_svg(output["dot"], output["title"])))
    return made


def _add_outputs(app: Sphinx, doctree: nodes.document) -> None:
    """Put outputs below the blocks, and the machine below the first of them."""
    page = Path(doctree["source"])
    found = doctree.findall(nodes.literal_block)
    blocks = [block for block in found if block.get("language") in ("python", "console")]
    if page.suffix != ".md" or not blocks:
        return
    for file in [_PROGRAM, *_PACKAGE.rglob("*.py"), *_PACKAGE.glob("*.so")]:
        app.env.note_dependency(file)
    first = True
    for block, output in zip(blocks, _run(page), strict=False):
        made = _nodes(output)
        if made and first:
            first = False
            where = f"Made when this page was built, as all outputs on it: {machine()}, 1 thread."
            made.append(nodes.paragraph("", where, classes=["machine"]))
        place = block.parent.index(block) + 1
        block.parent[place:place] = made


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect to the pages as they are read."""
    app.connect("doctree-read", _add_outputs)
    return {"parallel_read_safe": True}
