"""README.md and docs/: programs run, links lead somewhere, the reference is complete."""

import importlib.util
import inspect
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import doc_pages
import pytest
from doc_pages import PAGES, ROOT
from package_modules import absent

import onednn_graph_py as og
from onednn_graph_py.model.methods import METHODS

CODE = [p for p in PAGES if any(b.language in ("python", "pycon") for b in doc_pages.blocks(p))]


def page_name(page) -> str:
    return page.name


# What a page shows is the same wherever `compile` finds another form faster.
RUN = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(Path(doc_pages.__file__).parent)!r})
import doc_pages
from onednn_graph_py.machine.pace import Pace
from onednn_graph_py.model.planning import tuning
tuning._measured = lambda *_: Pace(3e-4, 1e-4)
sys.exit(doc_pages.run(Path(sys.argv[1])))
"""


@pytest.mark.parametrize("page", CODE, ids=page_name)
def test_the_programs_of_a_page_run(page, tmp_path):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "error", "-c", RUN, str(page)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
    assert done.stderr == ""
    if " ran\n" not in done.stdout:
        pytest.skip(done.stdout)


def test_a_page_that_is_wrong_fails(tmp_path):
    page = tmp_path / "page.md"
    for block, place in (
        ("```python\nx = 1\nassert x == 2\n```", "line 5"),
        ("```python\n\nprint(1 + 1)\n# 3\n```", "line 5 prints\n2\n"),
        ("```pycon\n>>> 1 + 1\n3\n```", "line 4"),
        ("```console\n$ python -c 'print(1)'\n2\n```", "line 4: $ python -c 'print(1)' prints"),
        ("```console\n$ python -c 'raise SystemExit(1)'\n```", "line 4: $ python"),
    ):
        page.write_text(f"# A page\n\n{block}\n")
        done = subprocess.run(
            [sys.executable, doc_pages.__file__, str(page)], capture_output=True, text=True
        )
        assert done.returncode == 1
        assert place in done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_relative_link_leads_to_a_file_and_a_heading(page):
    for target in doc_pages.links(page):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name}: {target}: there is no such file"
        if anchor:
            assert anchor in doc_pages.anchors(file), f"{page.name}: {target}: no such heading"


def test_every_page_is_in_the_table_of_contents():
    trees = "\n".join(
        block.text for block in doc_pages.blocks(ROOT / "docs" / "index.md") if not block.language
    )
    for page in (ROOT / "docs").glob("*.md"):
        if page.name != "index.md":
            assert re.search(rf"^{page.stem}$", trees, re.M), f"{page.name} is not in index.md"


def test_pages_have_titles_of_their_own():
    guides = [page.read_text() for page in (ROOT / "docs").glob("*.md")]
    titles = [re.findall(r"^# (.*)$", text, re.M)[0].lower() for text in guides]
    titles += [p.read_text().splitlines()[0].lower() for p in (ROOT / "docs").rglob("*.rst")]
    assert [title for title, count in Counter(titles).items() if count > 1] == []


# -- the API reference


def documented() -> list[str]:
    """Full names that the pages of docs/api/ ask autodoc for."""
    names = []
    for page in sorted((ROOT / "docs" / "api").glob("*.rst")):
        module = "onednn_graph_py"
        for directive, argument in re.findall(r"^\.\. (\w+):: (\S+)", page.read_text(), re.M):
            if directive == "currentmodule":
                module = argument
            elif directive == "automodule":
                names.append(argument)
                module = argument
            elif directive.startswith("auto"):
                full = argument.startswith("onednn_graph_py.")
                names.append(argument if full else f"{module}.{argument}")
    return names


def test_the_reference_has_every_public_name_once():
    found = documented()
    assert [name for name, count in Counter(found).items() if count > 1] == []
    public = {name: getattr(og, name) for name in og.__all__}
    expected = {
        value.__name__ if inspect.ismodule(value) else f"onednn_graph_py.{name}"
        for name, value in public.items()
    }
    assert expected - set(found) - only_newer() == set()


def only_newer() -> set[str]:
    """What the oneDNN of ./dev docs, 3.7.2, does not have."""
    return {"onednn_graph_py.graph_dump_mode"}


@pytest.mark.parametrize("full", documented())
def test_the_reference_has_nothing_that_is_not_there(full):
    module, _, name = full.rpartition(".")
    if module.startswith(absent()):
        pytest.skip(f"what {module} is for is not installed")
    importlib.import_module(module)
    assert hasattr(sys.modules[module], name) or importlib.util.find_spec(full)


def test_the_methods_that_layers_give_are_in_the_reference():
    """They stand in a class below, whose methods Sphinx does not list."""
    models = (ROOT / "docs" / "api" / "models.rst").read_text(encoding="utf-8")
    listed = set(re.findall(r"^   \.\. (?:auto)?method:: (\w+)", models, re.MULTILINE))
    given = {name for methods in METHODS.values() for name in methods if name[0] != "_"}
    assert listed == given
