"""The examples in the package's docstrings are right."""

import doctest
import importlib

import numpy as np
import pytest
from package_modules import module_names

import onednn_graph_py as og
from onednn_graph_py import _core


def examples(module) -> list[doctest.DocTest]:
    """The examples of a module, in the namespace that they may count on."""
    names = {name: getattr(og, name) for name in og.__all__} | {"og": og, "np": np}
    names |= vars(module)
    found = doctest.DocTestFinder().find(module, module.__name__, module, globs=names)
    return [test for test in found if test.examples]


MODULES = [importlib.import_module(name) for name in ["onednn_graph_py", *module_names()]]
TESTS = [test for module in MODULES for test in examples(module)]


@pytest.mark.parametrize("test", [pytest.param(test, id=test.name) for test in TESTS])
def test_the_examples_of_a_docstring_are_right(test):
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


@pytest.mark.parametrize("name", ["logical_tensor", "op"])
def test_the_examples_of_the_extension_are_right(name):
    # DocTestFinder passes over classes that are not written in Python.
    names = {name: getattr(og, name) for name in og.__all__}
    text = getattr(_core, name).__doc__
    test = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    assert test.examples
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def test_examples_are_found_in_many_places():
    assert len(TESTS) >= 10
