"""What a docstring lists as parameters are parameters, so that the API reference reads right."""

import importlib
import inspect
import re
from collections.abc import Iterator

import pytest
from package_modules import module_names

_LINE = re.compile(r"^- ((?:`[\w*]+`(?:, )?)+): ", re.M)
"""As internal code lists parameters: a line for each that says more than its name and type."""
_SECTION = re.compile(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-+$|\Z)", re.M | re.S)


def listed(docstring: str) -> list[str]:
    """Names under Parameters, or of the lines of internal code, without stars."""
    section = _SECTION.search(docstring)
    heads = re.findall(r"^(\S[^\n]*)$", section[1] if section else "", re.M)
    heads += _LINE.findall(docstring)
    return [name.strip(" *`") for head in heads for name in head.split(" : ")[0].split(",")]


def documented() -> Iterator[tuple[str, object]]:
    """Functions, methods and classes of all modules that have their docstrings in Python."""
    for module in module_names():
        if module.endswith("._core") or ".examples" in module:
            continue  # the extension's docstrings are of all overloads together
        for name, value in vars(importlib.import_module(module)).items():
            if getattr(value, "__module__", None) != module:
                continue
            if inspect.isfunction(value) or inspect.isclass(value):
                yield f"{module}.{name}", value
            if inspect.isclass(value):
                for member, inner in vars(value).items():
                    if inspect.isfunction(inner):
                        yield f"{module}.{name}.{member}", inner


CASES = [
    pytest.param(value, id=name)
    for name, value in documented()
    if isinstance(value.__doc__, str) and listed(inspect.cleandoc(value.__doc__))
]


@pytest.mark.parametrize("value", CASES)
def test_documented_parameters_are_parameters(value):
    known = set(inspect.signature(value).parameters)
    assert set(listed(inspect.cleandoc(value.__doc__))) <= known


def test_those_of_either_form_are_found():
    """Of functions, classes and methods; of the sections of public code and the lines of others."""
    names = {case.id.removeprefix("onednn_graph_py.") for case in CASES}
    assert {
        "base.dtypes.pack_int4",
        "blocks.attention.sdpa",
        "model.running.model.CompiledGraph",
        "model.running.model.CompiledGraph.prepare",
        "model.checking.expected.reference_values",
    } <= names


def test_prose_below_the_parameters_is_taken_for_one():
    assert listed("Sum.\n\nParameters\n----------\na, *b : int\n    One.\n\nIt is quick.\n") == [
        "a",
        "b",
        "It is quick.",
    ]
