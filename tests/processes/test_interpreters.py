"""Subinterpreters are refused, and so is a Python that keeps the GIL disabled."""

import importlib
import sys
import sysconfig

import pytest
from graphs import python

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
free_threaded = pytest.mark.skipif(not FREE_THREADED, reason="this Python always has the GIL")
# Free-threaded Pythons warn of an extension that needs the GIL.
QUIET = {"PYTHONWARNINGS": "ignore::RuntimeWarning"}
# Before Python 3.13 there is one kind of subinterpreter to be had from Python.
KINDS = ["legacy", "isolated"] if sys.version_info >= (3, 13) else [""]

IN_A_SUBINTERPRETER = """
import faulthandler, {module} as interpreters
faulthandler.dump_traceback_later(60, exit=True)  # an import that hangs
other = interpreters.create({kind})
run = getattr(interpreters, "exec", None) or interpreters.run_string
failed = run(other, '''
try:
    import onednn_graph_py
except ImportError as error:
    assert "subinterpreter" in str(error), error
else:
    raise SystemExit("it was imported")
''')
assert failed is None, failed
interpreters.destroy(other)
"""


def subinterpreter_program(kind: str) -> str:
    module = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    importlib.import_module(module)
    return IN_A_SUBINTERPRETER.format(module=module, kind=repr(kind) if kind else "")


@pytest.mark.parametrize("kind", KINDS)
def test_a_subinterpreter_is_refused_before_the_extension_is_loaded(kind):
    python(subinterpreter_program(kind), env=QUIET)


@pytest.mark.parametrize("kind", KINDS)
def test_the_main_interpreter_goes_on_after_a_subinterpreter_was_refused(kind):
    use = """
import numpy as np, onednn_graph_py as og
b = og.GraphBuilder()
x = b.input((2, 3), name="x")
b.output(x.relu())
model = b.compile()
def right():
    return (model(-np.ones((2, 3), np.float32)) == 0).all()
assert right()
"""
    python(use + subinterpreter_program(kind) + "assert right()\n", env=QUIET)


@free_threaded
def test_a_free_threaded_python_gets_the_gil_with_this_package():
    done = python(
        """
import sys, warnings
assert not sys._is_gil_enabled()
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    import onednn_graph_py
assert sys._is_gil_enabled()
assert any("onednn_graph_py._core" in str(w.message) for w in seen), seen
"""
    )
    assert done.stderr == ""


@free_threaded
def test_a_python_that_keeps_the_gil_disabled_is_refused():
    program = """
try:
    import onednn_graph_py
except ImportError as error:
    assert "needs the GIL" in str(error), error
else:
    raise SystemExit("it was imported")
"""
    python(program, env={"PYTHON_GIL": "0"})
