"""How the package is laid out: which layer may import which, and what stands in one place only."""

import ast
import importlib
import re
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

import pytest

import onednn_graph_py as og
from onednn_graph_py.ops import OPS
from onednn_graph_py.safety.defect import Where
from onednn_graph_py.safety.table import DEFECTS

ROOT = Path(__file__).parents[2]
PACKAGE = "onednn_graph_py"
FACE = "__init__"

LAYERS = {
    "base": "errors _enums loading linked text arguments dtypes _dpctl ocl_interop sycl_interop"
            " processes refusals",
    "ops": "",
    "machine": "hardware",
    "safety": "",
    "reference": "",
    "model": "building checking rewriting verdicts planning running checking.verify methods",
    "blocks": "",
    "serialization": "",
    "tools": "capture export replay shrinking inspect kernels selftest comparing explaining"
             " parallel tuning command_line",
    "frontends": "",
    "torch": "",
    "onnx": "tools",
    FACE: "",
    "__main__": "",
    "examples": "",
}  # fmt: skip
"""From the bottom up: a layer imports only layers before it, and so do the parts listed of one."""

PARTS = [
    ".".join(filter(None, (layer, part)))
    for layer, parts in LAYERS.items()
    for part in ("", *parts.split())
]


def name_of(path: Path) -> str:
    """A file's module, without the package's name; the face is called so."""
    parts = path.relative_to(ROOT / PACKAGE).with_suffix("").parts
    return ".".join(p for p in parts if p != FACE) or FACE


@cache
def files() -> dict[str, Path]:
    """All modules of the package."""
    return {name_of(p): p for p in sorted((ROOT / PACKAGE).rglob("*.py"))}


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(files()[module].read_text(encoding="utf-8"))


@cache
def nodes(module: str) -> list[ast.AST]:
    return list(ast.walk(tree(module)))


@cache
def imported(module: str) -> list[tuple[str, str]]:
    """What a module imports of the package: each a module, and a name in it or ``""``.

    Imports inside functions and those for type checkers count.
    """
    path = files()[module]
    full = PACKAGE if module == FACE else f"{PACKAGE}.{module}"
    package = full if path.stem == FACE else full.rpartition(".")[0]
    found = []
    for node in nodes(module):
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            source = resolve_name(relative, package) if node.level else relative
            found += [(source, alias.name) for alias in node.names]
    made = []
    for source, name in found:
        if source != PACKAGE and not source.startswith(f"{PACKAGE}."):
            continue
        inside = source[len(PACKAGE) + 1 :]
        whole = f"{inside}.{name}".strip(".")
        if whole.split(".")[0] == "_core":
            continue
        made.append((whole, "") if whole in files() else (inside or FACE, name))
    return made


@cache
def imports() -> dict[str, set[str]]:
    return {m: {source for source, _ in imported(m)} - {m} for m in files()}


def layer_of(module: str) -> str:
    return module.split(".")[0]


@cache
def part_of(module: str) -> str:
    """The longest of `PARTS` that holds a module."""
    return max((p for p in PARTS if f"{module}.".startswith(f"{p}.")), key=len)


def test_every_file_is_in_one_layer():
    assert {layer_of(m) for m in files()} == LAYERS.keys()
    assert {part_of(m) for m in files()} == set(PARTS)
    for layer in ("base", "model", "tools"):  # no file lies beside the parts
        assert [m for m in files() if part_of(m) == layer] == [layer]


def test_the_top_holds_17_entries_at_most():
    entries = subprocess.run(
        ["git", "ls-files", PACKAGE], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert len({e.split("/")[1] for e in entries}) <= 17


def test_layers_and_parts_import_only_what_stands_below_them():
    height = {part: i for i, part in enumerate(PARTS)}
    upwards = [
        f"{module} imports {other}"
        for module, others in imports().items()
        for other in others
        if height[part_of(other)] > height[part_of(module)]
    ]
    assert upwards == []


def test_no_files_import_each_other_in_a_circle():
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as e:
        pytest.fail(f"a circle: {' <- '.join(e.args[1])}")


def test_only_examples_import_from_the_face():
    assert [
        m for m, o in imports().items() if FACE in o and layer_of(m) not in ("examples", "__main__")
    ] == []


def given() -> dict[str, tuple[str, ...]]:
    """Names that the package gives away, by the module that they are imported from."""
    names: dict[str, tuple[str, ...]] = {}
    for statement in tree(FACE).body:
        for node in statement.body if isinstance(statement, ast.If) else [statement]:
            if isinstance(node, ast.ImportFrom):
                module = node.module or ""
                names[module] = (*names.get(module, ()), *(alias.name for alias in node.names))
    return names


def test_no_public_name_hides_a_module():
    """A name that the package gives away must not be a module of it, unless it is that one."""
    names = {name for module, names in given().items() if module for name in names}
    assert names & {m for m in files() if "." not in m} == set()


def test_what_is_imported_late_is_what_type_checkers_see():
    late = og._LATE
    assert {m: names for m, names in given().items() if m in late} == late
    # In `base` there are also those that are imported at once.
    assert all(set(names) <= set(given()[layer]) for layer, names in og._MODULES.items())
    for module, names in late.items():
        home = importlib.import_module(f"{PACKAGE}.{module}")
        assert all(getattr(og, name) is getattr(home, name) for name in names)
    assert set(og.__all__) <= set(dir(og))
    assert all(hasattr(og, name) for name in og.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        og.no_such_name  # noqa: B018


AT_ONCE = {"base", "model", "model.building", "model.methods"}


def test_importing_the_package_imports_no_tools():
    """Each is imported when it is first used; so the package starts about as fast as NumPy."""
    program = f"import sys, {PACKAGE}; print(*sys.modules)"
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    ours = {m.partition(".")[2] for m in done.stdout.split() if m.startswith(f"{PACKAGE}.")}
    parts = {part_of(m) for m in ours - {"_core"}}
    assert {p for p in parts if layer_of(p) != "base"} <= AT_ONCE


def test_known_defects_have_one_row_shape():
    """A row stands on its predicate; its conditions are data, and no other code makes one."""
    modules = [m for m in files() if layer_of(m) == "safety"]
    predicates = [
        node.name
        for module in modules
        for node in nodes(module)
        if isinstance(node, ast.FunctionDef)
        for d in node.decorator_list
        if isinstance(d, ast.Call) and ast.unparse(d.func) == "defect"
    ]
    assert sorted(predicates) == sorted(DEFECTS)
    calls = [(m, n) for m in modules for n in nodes(m) if isinstance(n, ast.Call)]
    assert [m for m, n in calls if ast.unparse(n.func) == "Defect"] == ["safety.defect"]
    assert {type(where) for row in DEFECTS.values() for where in row.where} == {Where}
    assert {m for m in modules if len(files()[m].read_text().splitlines()) > 700} == set()


def test_no_file_imports_private_names():
    assert [
        f"{module}: {source}.{name}"
        for module in files()
        for source, name in imported(module)
        if name.startswith("_") and not name.startswith("__")
    ] == []


@cache
def private_names() -> dict[str, set[str]]:
    """The private names that each part defines: functions, classes, variables, attributes."""
    found: dict[str, set[str]] = {part: set() for part in PARTS}
    for module in files():
        for node in nodes(module):
            match node:
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    found[part_of(module)].add(name)
                case ast.Name(id=name, ctx=ast.Store()):
                    found[part_of(module)].add(name)
                case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                    found[part_of(module)].add(name)
    return {r: {n for n in names if re.match("_[^_]", n)} for r, names in found.items()}


def test_no_part_reaches_for_private_attributes_of_another():
    everywhere = set().union(*private_names().values())
    assert [
        f"{module}:{node.lineno}: {ast.unparse(node)}"
        for module in files()
        for node in nodes(module)
        if isinstance(node, ast.Attribute)
        and node.attr in everywhere - private_names()[part_of(module)]
        and ast.unparse(node.value) != "_core"
    ] == []


SPELLS_KINDS = (
    *("ops", "reference", "safety", "model.rewriting", "blocks", "examples", "tools.selftest"),
)


def test_only_some_parts_list_kinds_by_hand():
    """Rows of the table have traits instead, which `onednn_graph_py.ops.lookup` is asked for."""
    assert [
        f"{module}:{node.lineno}: {ast.unparse(node)}"
        for module in files()
        if part_of(module) not in SPELLS_KINDS
        for node in nodes(module)
        if isinstance(node, ast.Tuple | ast.List | ast.Set)
        for words in [[e.value for e in node.elts if isinstance(e, ast.Constant)]]
        if len(words) > 1 and all(w in OPS for w in words)
    ] == []


def test_only_the_table_says_what_an_attribute_is_where_it_is_not_set():
    defaults = {a.name for row in OPS.values() for a in row.attributes if a.default is not None}
    assert [
        f"{module}:{node.lineno}: {ast.unparse(node)}"
        for module in files()
        if layer_of(module) not in ("ops", "reference")
        for node in nodes(module)
        if isinstance(node, ast.Call) and len(node.args) == 2
        and isinstance(node.func, ast.Attribute) and node.func.attr == "get"
        and isinstance(node.args[0], ast.Constant) and node.args[0].value in defaults
    ] == []  # fmt: skip


def test_planning_has_no_large_file_or_class():
    """Each file answers one question, so a reader holds it in the head."""
    planning = [m for m in files() if part_of(m) in ("model.planning", "model.rewriting")]
    lines = {m: len(files()[m].read_text(encoding="utf-8").splitlines()) for m in planning}
    assert {m: n for m, n in lines.items() if n > 350} == {}
    classes = [(m, n) for m in planning for n in nodes(m) if isinstance(n, ast.ClassDef)]
    assert [f"{m}: {c.name}" for m, c in classes if (c.end_lineno or 0) - c.lineno >= 250] == []


def test_front_ends_know_no_version_of_onednn():
    """A lowering translates names and attributes; rules of `model.rewriting` ask for versions."""
    front_ends = [m for m in files() if layer_of(m) in ("frontends", "torch", "onnx")]
    assert len(front_ends) > 50
    assert [
        f"{module}: {source}.{name}"
        for module in front_ends
        for source, name in imported(module)
        if "base.linked" in source or name in ("linked_version", "linked", "version")
    ] == []


def test_one_module_writes_a_whole_graph_by_rules():
    """What plans read is written by one pass."""
    passes = [
        module
        for module in files()
        for node in nodes(module)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "rewritten"
    ]
    assert [m for m in passes if layer_of(m) == "model"] == ["model.planning.shared"]


STARTS_PROCESSES = {"base.processes", "tools.capture"}


def test_processes_are_started_in_two_parts_only():
    found = {
        module
        for module in files()
        for node in nodes(module)
        if (isinstance(node, ast.Import) and any(a.name == "subprocess" for a in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module == "subprocess")
    }
    assert {part_of(m) for m in found} == STARTS_PROCESSES


READS_THE_CLOCK = {
    "machine.timing": "times calls for all",
    "model.running.on_queue": "adds up the seconds that a model takes to submit and to wait",
}


def test_one_module_times_calls():
    """How long a whole task takes, and when one must end, is `time.monotonic`'s."""
    found = {
        module
        for module in files()
        for node in nodes(module)
        if isinstance(node, ast.Attribute | ast.alias)
        and re.fullmatch("perf_counter(_ns)?", getattr(node, "attr", getattr(node, "name", "")))
    }
    assert found == READS_THE_CLOCK.keys()


def test_one_file_of_the_extension_asks_the_package():
    found = {
        path.name
        for path in (ROOT / "bindings").glob("*.[ch]pp")
        if f'import("{PACKAGE}' in path.read_text(encoding="utf-8")
    }
    assert found == {"python_hooks.cpp"}


def test_the_table_of_the_layout_names_each_layer_in_order():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `([a-z_]+)/` \|", text, re.MULTILINE)
    assert [n for n in named if n in LAYERS] == [x for x in LAYERS if (ROOT / PACKAGE / x).is_dir()]


def test_docstrings_name_their_thing():
    """Strings that stand alone: docstrings of modules, classes and functions, and of names."""
    found = [
        f"{module}: {node.value.value[:60]!r}"
        for module in files()
        for node in nodes(module)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and re.match(r"\s*(What|How)\b", str(node.value.value))
    ]
    assert found == []
