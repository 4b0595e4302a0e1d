"""The notebooks as files, and what executes them; ``./dev notebooks`` executes all."""

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
OF_THIS_MACHINE = ("/home/", "/root/", "/tmp/", "ipykernel_", str(Path.home()), str(FOLDER.parent))
LARGEST_OUTPUT = 50_000  # bytes, of a diagram
LARGEST_TEXT = 3_000

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def code_cells(path):
    return [cell for cell in read(path)["cells"] if cell["cell_type"] == "code"]


def outputs(path):
    return [output for cell in code_cells(path) for output in cell["outputs"]]


def sources(path):
    return ["".join(cell["source"]) for cell in read(path)["cells"]]


def texts(output):
    """What an output says, in each of its forms."""
    forms = {"text/plain": output.get("text", ""), **output.get("data", {})}
    return {form: "".join(said) for form, said in forms.items()}


# -- the files


def test_the_list_names_every_notebook_once():
    listed = re.findall(r"\]\((\w+\.ipynb)\)", (FOLDER / "README.md").read_text())
    assert listed == [path.name for path in NOTEBOOKS]
    assert len(listed) >= 6


@each
def test_it_is_a_notebook_of_format_4_5(path):
    notebook = read(path)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in notebook["cells"]:
        wanted = {"cell_type", "id", "metadata", "source"}
        if cell["cell_type"] == "code":
            wanted |= {"execution_count", "outputs"}
        assert set(cell) == wanted
        assert cell["cell_type"] in ("code", "markdown")
        assert "".join(cell["source"]).strip()


@each
def test_it_begins_with_a_title(path):
    first = read(path)["cells"][0]
    assert first["cell_type"] == "markdown"
    assert re.match(r"# \S", "".join(first["source"]))


@each
def test_every_cell_has_run_from_top_to_bottom(path):
    counts = [cell["execution_count"] for cell in code_cells(path)]
    assert counts == list(range(1, len(counts) + 1))


@each
def test_no_cell_failed_or_complained(path):
    assert {o["output_type"] for o in outputs(path)} <= {"stream", "execute_result", "display_data"}
    assert {o["name"] for o in outputs(path) if o["output_type"] == "stream"} <= {"stdout"}


@each
def test_outputs_are_small(path):
    for output in outputs(path):
        for form, said in texts(output).items():
            limit = LARGEST_TEXT if form == "text/plain" else LARGEST_OUTPUT
            assert len(said.encode()) <= limit, (form, said[:200])
    assert path.stat().st_size < 150_000


@each
def test_diagrams_are_pictures(path):
    drawn = [output["data"] for output in outputs(path) if "data" in output]
    diagrams = [
        d for d in drawn if re.match("<(Diagram|GraphBuilder)", texts({"data": d})["text/plain"])
    ]
    assert all("".join(d["image/svg+xml"]).startswith("<svg") for d in diagrams)


@each
def test_nothing_tells_which_machine_it_ran_on(path):
    notebook = read(path)
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert notebook["metadata"]["language_info"] == {"name": "python"}  # no version
    assert not any(cell["metadata"] for cell in notebook["cells"])  # no times
    said = "\n".join(text for output in outputs(path) for text in texts(output).values())
    assert not [place for place in OF_THIS_MACHINE if place in said]


@each
def test_what_it_claims_is_asserted(path):
    asserting = [cell for cell in code_cells(path) if "assert" in "".join(cell["source"])]
    assert len(asserting) >= len(code_cells(path)) / 2


@each
def test_it_uses_public_names_only(path):
    assert not re.findall(
        r"\b\w+\._\w+|import _\w+|from onednn_graph_py\._", "\n".join(sources(path))
    )


@each
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", "\n".join(sources(path))):
        assert (FOLDER / target).is_file(), target


# -- what executes them


@pytest.fixture(scope="module")
def runner():
    """The module ``notebooks/run.py``."""
    for module in ("nbformat", "nbclient", "ipykernel"):
        pytest.importorskip(module, reason="the extra notebooks is not installed")
    spec = importlib.util.spec_from_file_location("notebooks_run", FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def jupyter(runner, tmp_path, monkeypatch):
    """Kernels of this Python, their files in a folder of the test's; variables as before after."""
    for name in ("JUPYTER_PATH", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "")
    runner.use_this_python(tmp_path / "jupyter")


def written(runner, path, *cells):
    v4 = runner.nbformat.v4
    runner.nbformat.write(v4.new_notebook(cells=[v4.new_code_cell(c) for c in cells]), path)
    return path


@each
def test_jupyter_takes_it(path, runner):
    runner.nbformat.validate(runner.nbformat.read(path, as_version=4))


def test_notebooks_are_chosen_by_number_name_or_file(runner):
    assert runner.chosen([]) == NOTEBOOKS
    for name in ("2", "2_attention", "2_att", "notebooks/2_attention.ipynb"):
        assert runner.chosen([name]) == [FOLDER / "2_attention.ipynb"]
    assert runner.chosen(["3", "1", "3"]) == [NOTEBOOKS[2], NOTEBOOKS[0]]


def test_a_notebook_that_is_not_there_is_refused_with_those_that_are(runner, capsys):
    assert runner.main(["99"]) == 2
    said = capsys.readouterr().err
    assert "there is no notebook '99'; there are: 1_first_graph, 2_attention" in said


def test_cells_run_in_this_python_and_files_stay_as_they_are(runner, jupyter, tmp_path, capsys):
    code = f"import sys\nassert sys.executable == {sys.executable!r}\nprint('left out: x, as y')"
    path = written(runner, tmp_path / "a.ipynb", code)
    before = path.read_bytes()
    assert runner.run(path, save=False)
    assert path.read_bytes() == before
    assert re.match(r"a +\d+\.\d s  ok\n    left out: x, as y\n$", capsys.readouterr().out)


def test_saved_outputs_are_the_same_each_time(runner, jupyter, tmp_path):
    path = written(
        runner, tmp_path / "a.ipynb", "for i in range(3):\n    print(i, flush=True)", "7"
    )
    assert runner.run(path, save=True)
    once = path.read_bytes()
    first, second = code_cells(path)
    assert texts(first["outputs"][0])["text/plain"] == "0\n1\n2\n"
    assert (len(first["outputs"]), second["execution_count"]) == (1, 2)
    assert not first["metadata"]
    assert runner.run(path, save=True)
    assert path.read_bytes() == once


def test_a_failing_cell_fails_the_notebook_and_nothing_is_saved(runner, jupyter, tmp_path, capsys):
    path = written(runner, tmp_path / "a.ipynb", "x = 1", "assert x == 2, 'not two'")
    before = path.read_bytes()
    assert not runner.run(path, save=True)
    assert path.read_bytes() == before
    said = capsys.readouterr().out
    assert "FAILED" in said
    assert "AssertionError: not two" in said
    assert "\x1b" not in said


def test_a_kernel_that_dies_fails_the_notebook(runner, jupyter, tmp_path, capsys):
    path = written(runner, tmp_path / "a.ipynb", "import os\nos._exit(3)")
    assert not runner.run(path, save=False)
    assert "died" in capsys.readouterr().out


def test_an_op_made_in_a_cell_says_in_which(runner, jupyter, tmp_path):
    code = "b = og.GraphBuilder()\ny = b.input((2,)).relu()\nprint(y.producer.where)"
    path = written(runner, tmp_path / "a.ipynb", "import onednn_graph_py as og", code)
    assert runner.run(path, save=True)
    assert texts(outputs(path)[0])["text/plain"] == "In[2]:2\n"
