"""Exceptions: their classes, what they say, and that nothing is printed instead."""

import copy
import pickle

import pytest
from graphs import python

import onednn_graph_py as og

CLASSES = {
    "out_of_memory": og.OutOfMemoryError,
    "invalid_arguments": og.InvalidArgumentsError,
    "unimplemented": og.UnimplementedError,
    "last_impl_reached": og.UnimplementedError,
    "runtime_error": og.ExecutionError,
    "not_required": og.OneDNNError,
    "invalid_graph": og.InvalidGraphError,
    "invalid_graph_op": og.InvalidGraphOpError,
    "invalid_shape": og.InvalidShapeError,
    "invalid_data_type": og.InvalidDataTypeError,
}
BASES = {
    og.InvalidArgumentsError: (og.OneDNNError, ValueError),
    og.InvalidShapeError: (og.InvalidArgumentsError,),
    og.InvalidDataTypeError: (og.InvalidArgumentsError,),
    og.InvalidIndexError: (og.InvalidShapeError, IndexError),
    og.NoDeviceError: (og.InvalidArgumentsError,),
    og.GraphFormatError: (og.InvalidGraphError,),
    og.InvalidGraphError: (og.OneDNNError, ValueError),
    og.InvalidGraphOpError: (og.InvalidGraphError,),
    og.UnimplementedError: (og.OneDNNError,),
    og.KnownDefectError: (og.UnimplementedError,),
    og.MissingNameError: (og.UnimplementedError, AttributeError),
    og.OutOfMemoryError: (og.OneDNNError, MemoryError),
    og.ExecutionError: (og.OneDNNError,),
    og.OneDNNError: (RuntimeError,),
}
hooks = og._core._test


def test_every_status_but_success_has_a_class():
    assert set(CLASSES) == {s.name for s in og.status} - {"success"}


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("hook", [hooks.raise_status, hooks.call_status])
def test_a_status_becomes_the_exception_of_its_class(hook, name):
    with pytest.raises(CLASSES[name], match=name) as caught:
        hook(og.status[name].value)
    assert type(caught.value) is CLASSES[name]
    assert caught.value.status is og.status[name]


def test_a_call_names_its_context_and_says_that_onednn_told_no_more():
    with pytest.raises(og.ExecutionError) as caught:
        hooks.call_status(og.status.runtime_error.value)
    assert str(caught.value) == "a test failed: oneDNN returned only its status (runtime_error)"


def test_success_raises_nothing():
    assert hooks.call_status(0) is None


@pytest.mark.parametrize("number", [11, 99, 2**31 - 1])
def test_a_status_of_the_future_is_a_onednn_error(number):
    for hook in (hooks.raise_status, hooks.call_status):
        with pytest.raises(og.OneDNNError, match=rf"unknown\({number}\)"):
            hook(number)


def test_what_unchecked_sizes_throw_is_an_argument_error():
    with pytest.raises(og.InvalidArgumentsError, match="refused a size") as caught:
        hooks.throw_length_error()
    assert caught.value.status is og.status.invalid_arguments


def test_what_lack_of_memory_throws_is_a_memory_error():
    with pytest.raises(MemoryError) as caught:
        hooks.throw_bad_alloc()
    assert type(caught.value) is og.OutOfMemoryError
    assert caught.value.status is og.status.out_of_memory


@pytest.mark.parametrize("error", BASES)
def test_the_tree_of_exceptions(error):
    assert error.__bases__ == BASES[error]
    assert error.__module__ == "onednn_graph_py"
    assert getattr(og.errors, error.__name__) is getattr(og, error.__name__) is error


def test_the_tree_has_every_exception_of_the_package():
    classes = {value for value in vars(og.errors).values() if isinstance(value, type)}
    assert {c for c in classes if issubclass(c, og.OneDNNError)} == set(BASES)


def raised():
    try:
        og.engine("cpu", 2**20)
    except og.OneDNNError as error:
        return error


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickling_keeps_class_text_and_status(protocol):
    error = raised()
    again = pickle.loads(pickle.dumps(error, protocol))
    assert type(again) is type(error)
    assert again.args == error.args
    assert again.status is og.status.invalid_arguments


def test_copying_keeps_the_status():
    assert copy.copy(raised()).status is og.status.invalid_arguments


def test_an_exception_of_a_user_has_no_status():
    assert og.OneDNNError("mine").status is None


def test_an_exception_travels_from_another_process():
    state = pickle.dumps(raised())
    done = python(f"import pickle; e = pickle.loads({state!r}); print(type(e).__name__, e.status)")
    assert done.stdout.split() == ["InvalidArgumentsError", "invalid_arguments"]


# -- what is printed

FAILURES = """
import onednn_graph_py as og
LT = og.logical_tensor
src, dst = (LT(i, "f32", [4, 8], "strided") for i in range(2))
engine = og.engine("cpu", 0)

def schema():
    og.graph("cpu").add_op(og.op(0, "Abs", [src], [dst], "x").set_attr("transpose_a", True))

def missing_attribute():
    og.graph("cpu").add_op(og.op(0, "Clamp", [src], [dst], "x").set_attr("min", 0))

def late():
    graph = og.graph("cpu")
    graph.finalize()
    graph.add_op(og.op(0, "ReLU", [src], [dst], "x"))

def early():
    og.graph("cpu").get_partitions()

def wrong_type():
    lts = [LT(0, "s32", [4, 8], "strided"), LT(1, "s32", [4, 8], "strided")]
    og.graph("cpu").add_op(og.op(0, "ReLU", lts[:1], lts[1:], "x"))

def no_engine():
    og.engine("cpu", 7)

def failures():
    return [schema, missing_attribute, late, early, wrong_type, no_engine]

def fail_all(times=1):
    for failure in failures() * times:
        try:
            failure()
        except og.OneDNNError as error:
            yield error
        else:
            raise SystemExit(f"{failure.__name__} did not fail")
"""


def test_a_failing_call_prints_nothing():
    done = python(FAILURES + "assert len(list(fail_all(3))) == 18")
    assert done.stdout == ""
    assert done.stderr == ""


WORK = """
src, dst = (og.logical_tensor(i, "f32", [4, 8], "strided") for i in range(2))
graph = og.graph("cpu")
graph.add_op(og.op(0, "ReLU", [src], [dst], "relu"))
graph.finalize()
engine = og.engine("cpu", 0)
stream = og.stream(engine)
(part,) = graph.get_partitions()
compiled = part.compile([src], [dst], engine)
for _ in range(2):
    compiled.execute(stream, [og.tensor(src, engine)], [og.tensor(dst, engine)])
    stream.wait()
"""


def lines_of(done, *words):
    lines = [line for line in done.stdout.splitlines() if line.startswith("onednn_verbose")]
    return [line for line in lines if all(word in line for word in words)]


def test_the_environment_variable_still_makes_onednn_print():
    done = python("import onednn_graph_py as og\n" + WORK, env={"ONEDNN_VERBOSE": "all"})
    assert lines_of(done, ",info,")
    assert len(lines_of(done, ",graph,exec,")) == 2
    assert lines_of(done, ",graph,compile")


@pytest.mark.parametrize("failing", ["", "list(fail_all(2))\n"], ids=["alone", "after failures"])
def test_set_verbose_prints_header_and_profile(failing):
    program = FAILURES + failing + "og.set_verbose(2)\n" + WORK + "og.set_verbose(0)\n" + WORK
    done = python(program)
    assert len(lines_of(done, ",info,oneDNN v")) == 1
    assert len(lines_of(done, ",info,cpu")) >= 1
    assert len(lines_of(done, ",graph,exec,")) == 2
    assert lines_of(done, ",graph,compile")
    assert not lines_of(done, ":check")


def test_set_verbose_one_prints_executions_only():
    done = python("import onednn_graph_py as og\nog.set_verbose(1)\n" + WORK)
    assert len(lines_of(done, ",graph,exec,")) == 2
    assert not lines_of(done, ",graph,compile")
