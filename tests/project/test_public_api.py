"""What the package promises: names and documentation."""

import importlib
import inspect
import pydoc
import re
import sys
import warnings
from pathlib import Path

import pytest
from graphs import python
from package_modules import absent

import onednn_graph_py as og
from onednn_graph_py.base.loading.old_paths import MOVED

ROOT = Path(__file__).parents[2]
MODULES = [og, og.dtypes, og.errors]
"""Public modules; only they list their names in `__all__`, and packages do."""
ABSENT = {name.rpartition(".")[2] for name in absent()}


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_every_name_in_all_exists_once(module):
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert hasattr(module, name)
        assert not name.startswith("_")


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_every_public_name_is_in_all(module):
    # The package gathers names; a submodule owns those that it defines.
    home = module.__name__ if module is not og else "onednn_graph_py"
    found = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not inspect.ismodule(value)
        and getattr(value, "__module__", "").startswith(home)
    }
    assert found <= set(module.__all__)


def test_everything_public_of_the_extension_is_exported():
    extension = {name for name in vars(og._core) if not name.startswith("_")}
    elsewhere = {"numpy_dtype", "data_type_of"}
    assert elsewhere <= set(og.dtypes.__all__)
    assert extension - elsewhere <= set(og.__all__)


def test_a_star_import_brings_all_and_hides_no_builtin():
    done = python("""
        import builtins
        before = set(globals())
        from onednn_graph_py import *
        import onednn_graph_py
        new = set(globals()) - before - {"onednn_graph_py", "before"}
        assert new == set(onednn_graph_py.__all__), new ^ set(onednn_graph_py.__all__)
        assert not new & set(vars(builtins)), new & set(vars(builtins))
    """)
    assert done.stdout == ""


def test_the_version_is_the_extensions_and_the_metadatas():
    assert og.__version__ == og._core.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", og.__version__)
    pyproject = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{og.__version__}"' in pyproject


def public_members():
    for module in MODULES:
        for name in module.__all__:
            value = getattr(module, name)
            yield f"{module.__name__}.{name}", value
            if inspect.isclass(value):
                for member, inner in vars(value).items():
                    if not member.startswith("_") and (callable(inner) or inspect.isclass(inner)):
                        yield f"{module.__name__}.{name}.{member}", getattr(value, member)


@pytest.mark.parametrize(("name", "value"), [pytest.param(n, v, id=n) for n, v in public_members()])
def test_every_public_name_has_a_docstring(name, value):
    if isinstance(value, int) and not inspect.isclass(value):
        return  # UNKNOWN_DIM and its like are plain numbers
    text = inspect.getdoc(value)
    assert text
    # pybind11 puts the signature first: something has to follow it.
    lines = [
        line for line in text.splitlines() if line and "(self" not in line and "->" not in line
    ]
    assert lines, f"{name} has a signature but no words"


def help_of(thing):
    return pydoc.plain(pydoc.render_doc(thing))


def test_help_of_the_package_fits_on_three_screens():
    lines = help_of(og).splitlines()
    assert len(lines) <= 3 * 40
    assert all(
        name in "\n".join(lines) for name in ("GraphBuilder", "onnx", "explain", "OneDNNError")
    )


def test_help_of_the_package_names_only_what_there_is():
    rows = re.findall(r"^\w[\w ]*?  +.*(?:\n {15}.*)*", og.__doc__, re.MULTILINE)
    names = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert len(names) > 30
    assert names <= set(dir(og))


def test_dir_lists_what_is_public_and_nothing_else():
    listed = {name for name in dir(og) if not name.startswith("_")}
    assert set(og.__all__) | {"onnx", "torch", "parallel", "frontends"} <= listed
    assert not listed & {"Any", "TYPE_CHECKING", "import_module", "sys", "methods", "loading"}
    modules = listed - set(og.__all__)
    assert all(inspect.ismodule(getattr(og, name)) for name in modules - ABSENT)


def test_public_modules_keep_their_old_paths_for_a_version():
    for old, new in MOVED.items():
        with pytest.warns(DeprecationWarning, match=rf"^onednn_graph_py\.{old} is now .*\.{new}; "):
            sys.modules.pop(f"onednn_graph_py.{old}", None)
            module = importlib.import_module(f"onednn_graph_py.{old}")
        assert module is importlib.import_module(f"onednn_graph_py.{new}")
        assert module.__spec__.name == module.__name__ == f"onednn_graph_py.{new}"
    with pytest.warns(
        DeprecationWarning, match=r"capture\.folder is now .*tools\.capture\.folder; "
    ):
        folder = importlib.import_module("onednn_graph_py.capture.folder")
    assert folder is importlib.import_module("onednn_graph_py.tools.capture.folder")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert og.errors.InvalidShapeError is og.InvalidShapeError
        assert og.capture is importlib.import_module("onednn_graph_py.tools.capture")


def test_the_changelog_lists_the_old_paths_with_the_new_ones():
    row = r"^  \| `onednn_graph_py\.(\S+)` \| `onednn_graph_py\.(\S+)` \|$"
    assert dict(re.findall(row, (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)) == MOVED


def test_help_of_compile_is_about_compiling():
    told = help_of(og.GraphBuilder().compile)
    assert "method compile" in told.splitlines()[0]
    signature = "".join(told.split())  # from 3.13 on it has a line for each parameter
    assert "compile(*,layout:" in signature and "->'CompiledGraph'" in signature
    assert "Compile the graph into a model" in told
    options = list(inspect.signature(og.CompiledGraph).parameters)
    assert list(inspect.signature(og.GraphBuilder.compile).parameters) == options
    assert all(f"\n    {option} : " in told for option in options)


@pytest.mark.parametrize(
    ("module", "use", "extra"),
    [
        ("onnx", "og.onnx.load", "onnx"),
        ("onnx_ir", "og.onnx.load", "onnx"),
        ("torch", "og.torch", "torch"),
        ("torch", "import onednn_graph_py.torch", "torch"),
    ],
)
def test_an_extra_that_is_missing_is_named_with_its_install_line(module, use, extra):
    done = python(f"""
        import sys
        import onednn_graph_py as og
        sys.modules[{module!r}] = None
        try:
            {use}
        except ModuleNotFoundError as e:
            print(e, e.name)
    """)
    assert f"pip install '.[{extra}]' in a clone of onednn_graph_py" in done.stdout
