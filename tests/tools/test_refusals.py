"""Why oneDNN refused a call: `OneDNNError.reason` has another process make it again."""

import copy
import math
import pickle
import re
from importlib import import_module

import pytest
from graphs import Model, built, packed_weights, python, since
from wrong_cases import attention_gradients

import onednn_graph_py as og
from onednn_graph_py.base.errors import reworded
from onednn_graph_py.base.refusals import with_reason

LT = og.logical_tensor
asking = import_module("onednn_graph_py.base.refusals")


def lt(number, dtype="f32", shape=(4, 4)):
    return LT(number, dtype, shape, "strided")


def op(kind, inputs, outputs, **attrs):
    made = og.op(7, kind, inputs, outputs, "x")
    for name, value in attrs.items():
        made.set_attr(name, value)
    return made


def error_of(function, *arguments):
    with pytest.raises(og.OneDNNError) as caught:
        function(*arguments)
    return caught.value


def refused_op():
    """The error of an op without its output."""
    return error_of(og.graph("cpu").add_op, op("ReLU", [lt(0)], []))


def refused_compile(o, layout=None):
    """The error of compiling an op; its first input may have another layout."""
    g = og.graph("cpu")
    g.add_op(o)
    g.finalize()
    (part,) = g.get_partitions()
    inputs = o.get_inputs()
    if layout is not None:
        inputs = (layout, *inputs[1:])
    return error_of(part.compile, inputs, o.get_outputs(), og.engine("cpu", 0))


def clamp_backward():
    """An op whose bounds oneDNN does not take; it does not look at them before it compiles."""
    return op("ClampBackward", [lt(0), lt(1)], [lt(2)], min=math.nan, max=1.0)


def dequantize():
    """An op that oneDNN has no kernel for, though it takes it as a partition."""
    inputs = [lt(0, "u8"), lt(1, "f16", (4,))]
    return op("DynamicDequantize", inputs, [lt(2, "f16")], qtype="per_channel")


def place(file):
    return rf"\[{re.escape(file)}:\d+\]"


# -- oneDNN's words


def test_of_an_op_that_a_graph_refused():
    reason = refused_op().reason()
    assert re.fullmatch(
        rf"add_op,ReLU,given num outputs 0 .*expected .1. {place('op_schema.cpp')}", reason
    )


def test_of_an_op_that_makes_no_partition():
    error = error_of(og.partition, op("ReLU", [], [lt(1)]), "cpu")
    assert "given num inputs 0" in error.reason()


def test_of_a_failed_check_at_compile():
    error = refused_compile(clamp_backward())
    words = "eltwise,alpha and beta parameters are not properly set "
    assert re.fullmatch(words + place("eltwise.cpp"), error.reason())


def test_of_a_lack_of_kernels_each_implementation_says_why():
    error = refused_compile(dequantize())
    assert "could not create a primitive descriptor for the reorder primitive (" in str(error)
    lines = error.reason().splitlines()
    assert len(lines) == len(set(lines)) > 1
    for line in lines:
        assert re.fullmatch(r"reorder,.* \[[a-z0-9_]+\.[ch]pp:\d+\]", line), line


def test_of_what_the_planner_could_not_compile():
    b = og.GraphBuilder()
    x = b.input((4, 4), "f32", name="x")
    b.output(b.clamp_backward(x, b.input((4, 4), "f32", name="d"), min=math.nan, max=1.0))
    error = error_of(lambda: b.compile(fallback="error"))
    assert "ClampBackward" in str(error) and "made at" in str(error)
    assert "alpha and beta parameters are not properly set" in error.reason()


def test_of_an_op_in_a_file():
    error = refused_op()
    wrapped = reworded(error, f"graph[3]: {error}")
    assert type(wrapped) is type(error)
    assert wrapped.status is error.status
    assert "given num outputs 0" in wrapped.reason()


def test_floats_of_lower_precision_are_allowed_there_too():
    g = og.graph("cpu", "bf16")
    g.set_fpmath_mode("bf16", True)
    error = error_of(g.add_op, op("ReLU", [lt(0)], []))
    assert error.refused["fpmath"] == ("strict", False)  # an op alone does not depend on it
    g.add_op(clamp_backward())
    g.finalize()
    (part,) = g.get_partitions()
    inputs, outputs = [lt(0), lt(1)], [lt(2)]
    error = error_of(part.compile, inputs, outputs, og.engine("cpu", 0))
    assert error.refused["fpmath"] == ("bf16", True)
    assert "alpha and beta" in error.reason()


# -- no words


@since(3, 13)
def test_oneDNN_may_throw_without_a_reason():
    error = error_of(built(attention_gradients("q", "scaled")).graph.get_partitions)
    assert "range_check" in str(error)
    assert error.reason() == "oneDNN gives no reason"


def test_silence_is_told(monkeypatch):
    monkeypatch.setattr(asking.Isolated, "call", lambda *given, **options: ("returned", ("", "")))
    assert refused_op().reason() == "oneDNN gives no reason"


def test_there_is_none_where_this_package_refused():
    assert error_of(og.engine, "cpu", 2**20).reason() is None
    assert og.OneDNNError("mine").reason() is None
    assert error_of(og.graph("cpu").get_partitions).reason() is None
    x = lt(0)
    assert error_of(og.graph("cpu").add_op, op("ReLU", [x], [x])).reason() is None


def test_a_call_that_is_taken_there_is_told():
    error = refused_op()
    error.refused["ops"] = refused_compile(clamp_backward()).refused["ops"]
    assert error.reason() == "not known: oneDNN took the same call in another process"


def test_a_process_that_fails_is_told():
    error = refused_compile(clamp_backward())
    error.refused["partition"] = [1]
    assert error.reason() == "not known: oneDNN made no partition of these ops"


def test_time_is_limited_and_more_of_it_may_be_given():
    error = refused_op()
    assert error.reason(timeout=0.01) == (
        "not known: the process that made the call again took longer than 0.01 s"
    )
    assert "given num outputs 0" in error.reason()


@packed_weights
def test_opaque_layouts_stay_in_their_process():
    src, dst = lt(0, shape=(64, 1024)), lt(2, shape=(64, 512))
    weights = LT(1, "f32", (1024, 512), "any", "constant")
    product = Model([og.op(0, "MatMul", [src, weights], [dst])], [src, weights], [dst])
    packed = product.compiled.query_logical_tensor(1)
    assert packed.get_layout_type() is LT.opaque
    inputs, outputs = [weights, lt(5, shape=(1024, 512))], [lt(6, shape=(1024, 512))]
    clamp = op("ClampBackward", inputs, outputs, min=math.nan, max=1.0)
    error = refused_compile(clamp, packed)
    assert "the layout of an input is opaque" in error.reason()
    assert type(pickle.loads(pickle.dumps(error))) is type(error)


# -- the error keeps it


def test_oneDNN_is_asked_once(monkeypatch):
    error = refused_op()
    reason = error.reason()
    monkeypatch.setattr(asking, "Isolated", None)
    assert error.reason() == reason
    assert copy.copy(error).reason() == reason


def test_an_error_from_another_process_can_be_asked():
    again = pickle.loads(pickle.dumps(refused_compile(clamp_backward())))
    assert "alpha and beta" in again.reason()


def test_a_message_with_its_reason():
    error = refused_op()
    assert with_reason(error) == f"{error}; oneDNN's reason: {error.reason()}"
    assert with_reason(og.OneDNNError("mine")) == "mine"


def test_python_shows_how_to_ask_below_the_message():
    done = python(REFUSED + "refuse()\n", check=False)
    assert done.stderr.endswith("error.reason() asks oneDNN why, in another process\n") or (
        not hasattr(Exception, "add_note")
    )


# -- nothing changes in this process

REFUSED = """
import onednn_graph_py as og
x = og.logical_tensor(0, "f32", [4], "strided")
def refuse():
    og.graph("cpu").add_op(og.op(0, "ReLU", [x], [], "x"))
"""

STATE = """
import ctypes, os
c = ctypes.CDLL(None)
c.getenv.restype = ctypes.c_char_p
def state():
    with open("/proc/self/maps") as maps:
        files = {line.split(None, 5)[5].strip() for line in maps if line.count("/")}
    libraries = sorted(f for f in files if "libdnnl" in f or "memfd" in f)
    stdout = ctypes.c_void_p.in_dll(c, "stdout").value
    return libraries, stdout, c.getenv(b"ONEDNN_VERBOSE"), sorted(os.environ.items())
"""


def test_a_refusal_leaves_the_process_as_it_is():
    program = """
before = state()
for ask in (False, True):
    try:
        refuse()
    except og.InvalidGraphOpError as e:
        if ask:
            assert "given num outputs" in e.reason()
    assert state() == before
print(len(before[0]), before[2])
"""
    assert python(REFUSED + STATE + program).stdout == "1 None\n"


def test_a_program_needs_no_main_guard(tmp_path):
    path = tmp_path / "script.py"
    asks = "try:\n    refuse()\nexcept og.OneDNNError as e:\n    print(e.reason())\n"
    path.write_text(f"print('once')\n{REFUSED}\n{asks}")
    lines = python(f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')").stdout
    assert lines.splitlines()[0] == "once"
    assert len(lines.splitlines()) == 2


def test_instructions_can_still_be_chosen_after_asking():
    program = """
try:
    refuse()
except og.OneDNNError as e:
    e.reason()
og.set_max_cpu_isa("sse41")
print(og.get_effective_cpu_isa().name)
"""
    assert python(REFUSED + program).stdout == "sse41\n"


def test_what_oneDNN_prints_of_a_refusal_is_printed():
    program = "try:\n    refuse()\nexcept og.OneDNNError:\n    pass\n"
    printed = python(REFUSED + program, env={"ONEDNN_VERBOSE": "check"}).stdout.splitlines()
    assert [line for line in printed if ":check,add_op,ReLU,given num outputs 0" in line]
    assert python(REFUSED + program).stdout == ""
